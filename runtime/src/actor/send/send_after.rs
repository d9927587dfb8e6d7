//! Delayed and periodic sends, and the handle that cancels them.

use super::call::{Call, send};
use crate::call::dead_letter::{DeadLetter, DeadLetterReason, bring};
use crate::call::package::{Package, Undeliverable};
use crate::engine::backpressure::congestion::{SendMode, with_mode};
use crate::env::clock::{Moment, TimeKeeper, TimerKey};
use crate::observe::spans::{Origin, on_behalf_of};
use crate::sync::{Arc, Mutex, MutexGuard, current_thread, lock, yield_now};
use crate::util::dispose::dispose_here;
use crate::util::panics::Site;
use crate::{
    Payload, Pid, SendError, actor::tasks::time_source::time_keeper, errors::SendFailure, routing::router::gone,
    routing::router::route, util::defer::defer,
};
use std::{cell::Cell, thread::ThreadId, time::Duration};

/// The shortest period: a shorter one would keep a worker busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// A message that will be sent later. Dropping the handle does not cancel it.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::test::{Clock, Probe};
/// use std::time::Duration;
///
/// let clock = Clock::manual();
/// let runtime = Runtime::builder().clock(clock.clone()).build()?;
/// let mut probe = Probe::<&str>::new(runtime.host())?;
/// let late = probe.recipient().call("too late").send_after(Duration::from_secs(5))?;
/// let soon = probe.recipient().call("in time").send_after(Duration::from_secs(60))?;
/// assert!(soon.reset(Duration::from_secs(3)));
/// assert_eq!(probe.expect_within(Duration::from_secs(3)), "in time");
/// assert!(late.cancel());
/// probe.expect_nothing_for(Duration::from_secs(3600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Timer(Repetition);

#[derive(Clone)]
enum Repetition {
    Over,
    Once(&'static dyn TimeKeeper, TimerKey),
    Again(Arc<Every>),
}

impl Timer {
    /// Cancels the message, even if it is due. Returns whether it was pending; if it was, no further copy is sent.
    pub fn cancel(&self) -> bool {
        match &self.0 {
            Repetition::Over => false,
            Repetition::Once(time_keeper, key) => time_keeper.forget(*key),
            Repetition::Again(again) => again.cancel(),
        }
    }

    /// Moves the send, or the next copy of a periodic message, to `delay` from now. Returns whether the message was
    /// pending; a message that has been sent or cancelled cannot be moved any more.
    pub fn reset(&self, delay: Duration) -> bool {
        match &self.0 {
            Repetition::Over => false,
            Repetition::Once(time_keeper, key) => {
                time_keeper.reset(*key, Moment::now_by(time_keeper.clock_override()).after(delay))
            }
            Repetition::Again(again) => again.reset(delay),
        }
    }

    /// Returns whether a send is pending.
    pub fn is_pending(&self) -> bool {
        match &self.0 {
            Repetition::Over => false,
            Repetition::Once(time_keeper, key) => time_keeper.is_pending(*key),
            Repetition::Again(again) => again.is_pending(),
        }
    }
}

crate::util::debug::impl_debug!([] Timer, self => "Timer" { pending: self.is_pending(), .. });

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Call<M, T, E> {
    /// Sends the message after `delay`, and expects no answer. A delay of zero sends it at once, one of `Duration::MAX`
    /// never. Time is measured by the clock of the receiver's runtime. If the process has ended by the time of the
    /// send, or its mailbox is full, the message becomes a dead letter. Until then the message is kept, unless it is
    /// cancelled or the runtime is shut down.
    ///
    /// # Errors
    /// Those errors of [`Call::send`] that can be detected now, and [`NoTimer`](SendFailure::NoTimer) if no runtime
    /// could keep the message.
    pub fn send_after(self, delay: Duration) -> Result<Timer, SendError<M>> {
        let (pid, message) = (self.pid(), self.into_message());
        if delay.is_zero() {
            return send(pid, message).map(|()| Timer(Repetition::Over));
        }
        let Some(time_keeper) = time_keeper(pid) else {
            return Err(SendError { message, reason: gone(pid) });
        };
        let due = Moment::now_by(time_keeper.clock_override()).after(delay);
        // In a cell, so that the message can be returned if no timer can be set.
        let cell = Arc::new(Mutex::new(Some(message)));
        let inside = cell.clone();
        let send_now = move || {
            let message = lock(&inside).take();
            // When the timer fires, a refused message can no longer be returned to the caller.
            if let Some(Err(refused)) = message.map(|message| with_mode(SendMode::Delayed, || send(pid, message))) {
                bury(pid, refused);
            }
        };
        let origin = Origin::of_thread();
        let fire = Box::new(move || on_behalf_of(origin, send_now));
        if let Some(key) = time_keeper.later_in_line(pid.incarnation(), due, fire) {
            return Ok(Timer(Repetition::Once(time_keeper, key)));
        }
        match lock(&cell).take() {
            Some(message) => Err(SendError { message, reason: SendFailure::NoTimer(pid) }),
            None => unreachable!("a timer that was refused does nothing"),
        }
    }

    /// Sends a copy of the message once every `period`, first after one period, until the process has ended. A copy
    /// in the mailbox of a child that ends is not [kept](crate::supervision::Child::keep_messages) for its successor,
    /// unless it was sent to the child's address. Copies that were due while all workers were busy are skipped, and a
    /// copy that finds the mailbox full is a dead letter; later copies keep their schedule. Periods below one
    /// millisecond count as one.
    ///
    /// # Errors
    /// Those of [`Call::send_after`].
    pub fn send_every(self, period: Duration) -> Result<Timer, SendError<M>>
    where
        M: Clone,
    {
        let (pid, message) = (self.pid(), self.into_message());
        let Some(time_keeper) = time_keeper(pid) else {
            return Err(SendError { message, reason: gone(pid) });
        };
        let period = period.max(SHORTEST);
        let due = Moment::now_by(time_keeper.clock_override()).after(period);
        let state = Mutex::new(RepetitionState::Sending(current_thread().id()));
        let every = Arc::new(Every { pid, period, time_keeper, state });
        let copy = message.clone();
        if every.arm(due, copy, Origin::of_thread()) {
            return Ok(Timer(Repetition::Again(every)));
        }
        Err(SendError { message, reason: SendFailure::NoTimer(pid) })
    }
}

/// Disposes of a message that cannot be returned.
fn bury<M: Send + 'static>(to: Pid, SendError { message, reason }: SendError<M>) {
    let reason = match reason {
        SendFailure::Full(_) => DeadLetterReason::Overflow,
        _ => DeadLetterReason::Ended,
    };
    bring(DeadLetter::new(to, Payload::new(message), reason, None));
}

/// A periodic message. Only the closures of its timers know its type.
struct Every {
    pid: Pid,
    period: Duration,
    time_keeper: &'static dyn TimeKeeper,
    state: Mutex<RepetitionState>,
}

enum RepetitionState {
    Armed(TimerKey, Moment),
    /// The thread with this ID is sending a copy, and sets the timer for the next one.
    Sending(ThreadId),
    /// The process has ended, or the message was cancelled.
    Over,
}

impl Every {
    /// Sets the timer that sends `message`. Returns false if the host no longer keeps timers.
    fn arm<M: Clone + Send + 'static>(self: &Arc<Self>, due: Moment, message: M, origin: Option<Origin>) -> bool {
        let this = self.clone();
        let fire = move || this.send(message, origin);
        // Locked before the timer is set, so that a timer that fires at once waits until its key is stored.
        let mut state = lock(&self.state);
        if matches!(*state, RepetitionState::Over) {
            drop(state);
            return true;
        }
        let key = self.time_keeper.later_in_line(self.pid.incarnation(), due, Box::new(fire));
        *state = key.map_or(RepetitionState::Over, |key| RepetitionState::Armed(key, due));
        key.is_some()
    }

    fn send<M: Clone + Send + 'static>(self: Arc<Self>, message: M, origin: Option<Origin>) {
        let refused = {
            let goes_on = Cell::new(false);
            // A panic in the clone or in a drop ends the repetition, too: threads that cancel it would otherwise wait
            // forever.
            let _over = defer(|| {
                if !goes_on.get() {
                    *lock(&self.state) = RepetitionState::Over;
                }
            });
            let next = message.clone();
            let due = {
                let mut state = lock(&self.state);
                let RepetitionState::Armed(_, due) = *state else { return };
                *state = RepetitionState::Sending(current_thread().id());
                due
            };
            // A copy that finds no room is a dead letter, and another copy follows. A copy that finds no process is the
            // last. Only the first copy follows from the span that set the timer: later copies would keep that span
            // open for as long as they are sent.
            let later = origin.as_ref().and_then(Origin::without_span);
            let send_now = || with_mode(SendMode::Delayed, || self.send_copy(message));
            let refused = on_behalf_of(origin, send_now).err();
            let is_last = refused.as_ref().is_some_and(|refused| !matches!(refused.reason, SendFailure::Full(_)));
            // Counted from the due time of this copy, to keep the rate.
            let regular = due.after(self.period);
            let now = Moment::now_by(self.time_keeper.clock_override());
            let due = if regular >= now { regular } else { now.next_of(due, self.period) };
            let unused = if is_last {
                Some(next)
            } else {
                goes_on.set(self.arm(due, next, later));
                None
            };
            (refused, unused)
        };
        // The rest runs user code, which may take a long time. Threads that cancel or reset the timer do not wait for
        // it.
        match refused {
            (Some(refused), None) => refused.package.discard(DeadLetterReason::Overflow),
            (Some(refused), unused) => {
                dispose_here(Site::TimerDrop, unused);
                drop(refused.package.into_parts());
            }
            (None, _) => {}
        }
    }

    /// Sends a copy. A copy to an alias goes to its current target, and can be kept for that process's successor; a
    /// copy to a process is for that process alone.
    fn send_copy<M: Send + 'static>(&self, message: M) -> Result<(), Undeliverable> {
        let payload = if self.pid.is_alias() { Payload::sent(message) } else { Payload::tick(message) };
        route(Package::from_parts(self.pid, payload, None))
    }

    /// Waits until no other thread is sending a copy.
    fn settled(&self) -> MutexGuard<'_, RepetitionState> {
        loop {
            let state = lock(&self.state);
            match *state {
                RepetitionState::Sending(thread) if thread != current_thread().id() => {}
                _ => return state,
            }
            drop(state);
            yield_now();
        }
    }

    fn cancel(&self) -> bool {
        let state = std::mem::replace(&mut *self.settled(), RepetitionState::Over);
        match state {
            // The timer is removed outside the lock, because that drops the message.
            RepetitionState::Armed(key, _) => {
                // Fails if the timer has fired; the copy then finds the state `Over`.
                self.time_keeper.forget(key);
                true
            }
            // Cancelled by a waker from inside its own send: no further copy is sent.
            RepetitionState::Sending(_) => true,
            RepetitionState::Over => false,
        }
    }

    fn reset(&self, delay: Duration) -> bool {
        let due = Moment::now_by(self.time_keeper.clock_override()).after(delay);
        match &mut *self.settled() {
            RepetitionState::Armed(key, at) if self.time_keeper.reset(*key, due) => {
                *at = due;
                true
            }
            _ => false,
        }
    }

    fn is_pending(&self) -> bool {
        !matches!(*lock(&self.state), RepetitionState::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mailbox;
    use crate::env::clock::{ClockOverride, SharedMoment};
    use crate::sync::OnceLock;

    /// The due time of a timer, its line, and its action.
    type Alarm = (Moment, u64, Box<dyn FnOnce() + Send>);

    /// A timekeeper for tests. The test sets its clock and fires its timers.
    struct Keeper {
        now: &'static SharedMoment,
        set: Mutex<Vec<Alarm>>,
    }

    static NOW: OnceLock<SharedMoment> = OnceLock::new();
    static KEEPER: OnceLock<Keeper> = OnceLock::new();

    impl TimeKeeper for Keeper {
        fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
            self.later_in_line(0, due, action)
        }

        fn later_in_line(&'static self, line: u64, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
            lock(&self.set).push((due, line, action));
            Some(TimerKey { place: 0, serial: 1 })
        }

        fn forget(&'static self, _: TimerKey) -> bool {
            false
        }

        fn reset(&'static self, _: TimerKey, _: Moment) -> bool {
            false
        }

        fn is_pending(&'static self, _: TimerKey) -> bool {
            true
        }

        fn clock_override(&self) -> ClockOverride {
            Some(self.now)
        }
    }

    /// A message whose drop starts a thread that cancels the timer, and waits for that thread.
    #[derive(Clone)]
    struct Cancels(Arc<OnceLock<Arc<Every>>>, std::sync::mpsc::Sender<bool>);

    impl Drop for Cancels {
        fn drop(&mut self) {
            let Some(every) = self.0.get().cloned() else { return };
            let (say, said) = std::sync::mpsc::channel();
            std::thread::spawn(move || say.send(every.cancel()));
            // The timeout only guards against a hang.
            let _is_read = self.1.send(said.recv_timeout(Duration::from_secs(60)).is_ok());
        }
    }

    /// Catches: a thread that cancels a periodic message waits for the drop of a copy, or for the hook that receives
    /// the copy. Either may be waiting for that thread.
    #[test]
    fn a_periodic_message_can_be_cancelled_while_a_copy_is_disposed_of() {
        let mailbox = Mailbox::new().unwrap();
        let began = Moment::now();
        let now = Box::leak(Box::new(SharedMoment::new(began)));
        let time_keeper: &'static Keeper = Box::leak(Box::new(Keeper { now, set: Mutex::default() }));
        let state = Mutex::new(RepetitionState::Sending(current_thread().id()));
        let period = Duration::from_millis(10);
        let every = Arc::new(Every { pid: mailbox.pid(), period, time_keeper, state });
        drop(mailbox);
        let (tell, told) = std::sync::mpsc::channel();
        let known = Arc::new(OnceLock::new());
        assert!(every.arm(began.after(period), Cancels(known.clone(), tell), None));
        let (due, _, fire) = lock(&time_keeper.set).pop().expect("it is set");
        assert!(known.set(every).is_ok());
        time_keeper.now.store(due);
        fire();
        assert_eq!(told.iter().collect::<Vec<_>>(), [true, true]);
    }

    /// Catches: a late copy delays all later ones, or missed copies are made up for. (Mutations: in `Every::send`,
    /// the next copy is due one period from now, or at once, or one period after this one was due.) Also catches a
    /// copy that another message for the receiver may overtake.
    #[test]
    fn a_copy_that_is_sent_late_leaves_the_others_where_they_were() {
        let mut mailbox = Mailbox::new().unwrap();
        let millis = Duration::from_millis;
        let began = Moment::now();
        let now = NOW.get_or_init(|| SharedMoment::new(began));
        let time_keeper = KEEPER.get_or_init(|| Keeper { now, set: Mutex::default() });
        let state = Mutex::new(RepetitionState::Sending(current_thread().id()));
        let every = Arc::new(Every { pid: mailbox.pid(), period: millis(10), time_keeper, state });
        assert!(every.arm(began.after(millis(10)), 7_u64, None));
        // The delay of each copy and the due time of the next one, in milliseconds.
        for (late, next) in [(0, 20), (3, 30), (9, 40), (10, 50), (11, 70), (0, 80), (35, 120), (1, 130)] {
            let (due, line, fire) = lock(&time_keeper.set).pop().expect("one is always set");
            assert_eq!(line, mailbox.pid().incarnation());
            time_keeper.now.store(due.after(millis(late)));
            fire();
            assert_eq!(mailbox.receive().take::<u64>().unwrap(), 7);
            let set: Vec<_> = lock(&time_keeper.set).iter().map(|(due, ..)| due.since(began)).collect();
            assert_eq!(set, [millis(next)], "after one that was {late} ms late");
        }
        assert!(every.is_pending());
    }
}
