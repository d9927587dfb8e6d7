//! Awaiting time, commands, and the request to end.

use super::current;
use super::ending::CancelWait;
use super::outside::OutsideWait;
use super::pending::{RowState, WaitKey, Waits};
use super::time_source::OwnedTimer;
use super::waker::{self, foreign_waker};
use crate::call::{answer::AnswerNode, caller::Caller};
use crate::engine::{context::thread::with_current, lifecycle::spawn::current_host, sched::launch::host_of_thread};
use crate::env::clock::{Moment, TimeKeeper, has_virtual_clock};
use crate::{
    CallError, Command, CommandError, ExitReason, Payload,
    errors::Elapsed,
    sync::Arc,
    time::timekeeper::timekeeper,
    util::{defer::defer, oneshot::Oneshot},
};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};
use std::{ops::DerefMut, time::Duration};

/// A future's row in the table of the process that polled it first.
struct Row {
    key: WaitKey,
    incarnation: u64,
}

impl Row {
    /// Polls the row. Returns `None` if the row does not belong to the process that polls.
    fn poll(&self, context: &TaskContext<'_>) -> Option<Poll<Option<AnswerNode>>> {
        let mut waker = foreign_waker(context, self.incarnation);
        self.with(|waits, key| waits.poll(key, &mut waker))
    }

    /// Calls `look` with the table that the row belongs to, if the current process owns that table.
    fn with<R>(&self, look: impl FnOnce(&mut Waits, WaitKey) -> R) -> Option<R> {
        current::with(|waits| (waits.incarnation == self.incarnation).then(|| look(waits, self.key))).flatten()
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let _unseen = self.with(Waits::forget);
    }
}

/// Adds a row to the table of the polling process; `begin` fills it in. Returns `None` outside of processes, or if the
/// poll comes from another executor that the process runs.
fn row(context: &TaskContext<'_>, begin: impl FnOnce(&mut Waits, WaitKey)) -> Option<Row> {
    let made = current::with(|waits| {
        current::is_polled(waits.incarnation, context).then(|| {
            let key = waits.add(RowState::Future(None));
            begin(waits, key);
            Row { key, incarnation: waits.incarnation }
        })
    });
    made.flatten()
}

pub(crate) async fn sleep(duration: Duration) {
    if !duration.is_zero() {
        fired(Moment::now().after(duration)).await;
    }
}

pub(crate) async fn sleep_until(due: Moment) {
    if due > Moment::now() {
        fired(due).await;
    }
}

async fn fired(due: Moment) {
    let mut timer = TimerFuture::new(due);
    poll_fn(|context| timer.poll(context)).await;
}

/// A timer that is set by its first poll: as a row of the polling process, or outside of processes.
pub(crate) struct TimerFuture {
    due: Moment,
    set: Option<Set>,
}

enum Set {
    Row(Row),
    /// Awaited on another executor, possibly one that a method of the process runs.
    Elsewhere(Arc<Oneshot<()>>, #[expect(dead_code, reason = "held for its drop")] Option<OwnedTimer>),
}

impl TimerFuture {
    pub(crate) fn new(due: Moment) -> Self {
        Self { due, set: None }
    }

    /// Polls the timer. It must not be polled again after it has fired.
    pub(crate) fn poll(&mut self, context: &TaskContext<'_>) -> Poll<()> {
        if let Some(Set::Row(row)) = &self.set {
            if let Some(polled) = row.poll(context) {
                return polled.map(|_| ());
            }
            // The timer is now awaited outside of the process that set it.
            self.set = None;
        }
        let due = self.due;
        let set = self.set.get_or_insert_with(|| {
            row(context, |waits, key| waits.set_timer(key, due)).map_or_else(|| Set::elsewhere(due), Set::Row)
        });
        match set {
            Set::Row(row) => row.poll(context).map_or(Poll::Pending, |polled| polled.map(|_| ())),
            Set::Elsewhere(fired, _) => fired.poll(context.waker()),
        }
    }
}

impl Set {
    fn elsewhere(due: Moment) -> Self {
        // In system time, except on a thread with a virtual clock.
        let virtual_host = current_host().filter(|_| has_virtual_clock());
        let time_keeper = virtual_host.map_or(timekeeper() as &'static dyn TimeKeeper, |host| host);
        let fired = Arc::new(Oneshot::new());
        let fire = fired.clone();
        Self::Elsewhere(fired, OwnedTimer::set(time_keeper, due, move || _ = fire.put(())))
    }
}

crate::util::debug::impl_debug!([] TimerFuture, self => "Timer" { due: self.due, .. });

pub(crate) async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, mut limit) = (pin!(future), pin!(sleep(duration)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| Err(Elapsed(duration))),
    })
    .await
}

/// The time limit of a wait for a message. Messages that are in the mailbox when the limit passes still count.
pub(crate) struct Patience<S>(Option<Pin<S>>);

impl<S: DerefMut<Target: Future<Output = ()>>> Patience<S> {
    pub(crate) fn new(limit: Pin<S>) -> Self {
        Self(Some(limit))
    }

    /// Returns whether the limit has passed. Called after a check that found no message.
    pub(crate) fn is_over(&mut self, context: &mut TaskContext<'_>) -> bool {
        if let Some(limit) = &mut self.0 {
            if limit.as_mut().poll(context).is_pending() {
                return false;
            }
            self.0 = None;
            // Cleared only now: the machine must check the mailbox once more after the limit.
            current::peek(|waits| waits.inbox.seen_empty = false);
        } else if current::peek(|waits| waits.inbox.seen_empty) == Some(true) {
            return true;
        }
        // Polled again until the machine finds a message or an empty mailbox.
        context.waker().wake_by_ref();
        false
    }
}

pub(crate) async fn perform<C: Command>(command: C) -> Result<C::Output, CommandError> {
    let unregistered = || CommandError::Unregistered { command: std::any::type_name::<C>() };
    let mut caller = None;
    let row = poll_fn(|context| Poll::Ready(row(context, |waits, key| caller = waits.caller(key, None)))).await;
    let result = if let Some(row) = row {
        let caller = caller.ok_or_else(unregistered)?;
        // Dispatched outside the borrow of the thread's context, because a handler may block, and blocking lends the
        // context out.
        if let Some(host) = with_current(|context| context.map(|context| context.host)) {
            host.dispatch(Payload::new(command), caller);
        }
        // If another process polls, or no process does, the row is out of reach and the command counts as dropped.
        let answer = poll_fn(|context| row.poll(context).unwrap_or(Poll::Ready(None))).await;
        answer.map_or(Err(CommandError::Dropped), AnswerNode::into_result)
    } else {
        // Another executor polls. If there is a table, that executor runs inside a process.
        let host = current::with(|_| host_of_thread()).flatten().ok_or_else(unregistered)?;
        let mut call = OutsideWait::new(None);
        host.dispatch(Payload::new(command), Caller::outside(call.call().clone(), None).0);
        poll_fn(|context| call.poll(context.waker())).await
    };
    match result {
        Ok(value) => value.take::<C::Output>().map_err(|_| CommandError::Dropped),
        Err(CommandError::Call(CallError::Dropped)) => Err(CommandError::Dropped),
        Err(error) => Err(error),
    }
}

/// Waits for the next request to end. The process's table shares the state of the wait, so the future may be dropped
/// anywhere.
pub(crate) fn cancelled() -> impl Future<Output = ExitReason> + Send {
    let mut wait: Option<CancelFuture> = None;
    poll_fn(move |context| {
        if let Some(wait) = &wait {
            return wait.0.poll(context.waker());
        }
        let (left, _end) = current::peek(|waits| waits.ending.take_left_requests()).unwrap_or_default();
        if let Some(latest) = left.last() {
            return latest.poll(context.waker());
        }
        let CancelFuture(new) = wait.insert(CancelFuture::default());
        current::with(|waits| waits.ending.add_wait(new));
        new.poll(context.waker())
    })
}

#[derive(Default)]
struct CancelFuture(Arc<CancelWait>);

impl Drop for CancelFuture {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Awaits `future`; a request to end the process takes effect only when `future` is ready or dropped.
pub(crate) async fn shield<F: Future>(future: F) -> F::Output {
    // The table counts the references to the shield.
    let mut raised = current::with(|waits| (waits.ending.shield(), waits.incarnation));
    let shield = defer(move || {
        if let Some((held, incarnation)) = raised.take() {
            // Released before the wake-up: the woken process must no longer find the shield.
            drop(held);
            waker::wake(incarnation);
        }
    });
    let output = future.await;
    drop(shield);
    // Ends the process here if it was asked to end in the meantime.
    poll_fn(|_| if current::is_ending() { Poll::Pending } else { Poll::Ready(()) }).await;
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as postroom;
    use crate::prelude::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    type Awaited<T> = Pin<Box<dyn Future<Output = T> + Send>>;

    struct Ask;

    impl Command for Ask {
        type Output = u32;
    }

    #[postroom::process(crate = crate)]
    struct Lends {}

    #[postroom::process(crate = crate)]
    impl Lends {
        #[entry]
        fn serve(&mut self) {}
        /// Starts a sleep and a command, and passes both futures on.
        #[message]
        async fn lend(&mut self, ctx: &mut Context<Self>, to: Sender<(Awaited<()>, Awaited<bool>)>) {
            let mut sleeps: Awaited<()> = Box::pin(ctx.sleep(Duration::from_millis(1)));
            let performs = ctx.perform(Ask);
            let mut performs: Awaited<bool> =
                Box::pin(async move { matches!(performs.await, Err(CommandError::Dropped)) });
            poll_fn(|context| {
                let _one_does =
                    sleeps.as_mut().poll(context).is_pending() && performs.as_mut().poll(context).is_pending();
                Poll::Ready(())
            })
            .await;
            to.send((sleeps, performs)).expect("it is waited for");
        }
        #[message]
        async fn take_up(&mut self, from: Receiver<(Awaited<()>, Awaited<bool>)>) -> bool {
            let (sleeps, performs) = from.recv().expect("there are some");
            sleeps.await;
            performs.await
        }
    }

    /// Catches: a sleep or a command that is started in one process and awaited elsewhere never becomes ready.
    #[test]
    fn what_was_begun_in_a_process_may_be_awaited_elsewhere() {
        let builder = Runtime::builder().workers(1).handler(|_: Ask, done| std::mem::forget(done));
        let runtime = builder.build().expect("one worker");
        let spawn = || runtime.spawn(Lends {}).serve().expect("it starts");
        let (first, second) = (spawn(), spawn());
        let (to, from) = channel();
        for _ in 0..2 {
            first.lend(to.clone()).wait().expect("it lends");
        }
        let (sleeps, performs) = from.recv().expect("there are some");
        let (say, said) = channel();
        std::thread::spawn(move || {
            say.send(crate::util::block_on::block_on(async {
                sleeps.await;
                performs.await
            }))
        });
        // The timeout only guards against a hang.
        assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok(true));
        assert_eq!(second.take_up(from).timeout(Duration::from_secs(60)).wait(), Ok(true));
    }
}
