//! The vacant slots that a thread keeps for its next processes: see
//! [`vacant_slots`](crate::thread_cache::vacant_slots).

use super::thread::ThreadContext;
use crate::slots::{TABLE, Token};
use crate::thread_cache;

/// Takes the token of a free slot: one that the calling thread keeps or, if there is none, a listed one. Returns `None`
/// if all slots are in use. A kept slot with late messages is given back, and the messages are disposed of. Otherwise
/// they would wait for the first step of the process that is spawned, and that step may be long and may itself wait for
/// their sender.
#[inline]
pub(crate) fn take_slot() -> Option<Token> {
    if let Some(local) = thread_cache::current() {
        while let Some(token) = local.take_vacant() {
            let mut token = token.acquire();
            if !token.lanes().has_control() && token.lanes().is_data_empty() {
                return Some(token);
            }
            take_back_late(token);
        }
    }
    TABLE.take()
}

#[cold]
#[inline(never)]
fn take_back_late(token: Token) {
    TABLE.take_back(token);
}

impl ThreadContext {
    /// Keeps the vacant slot of `token` for the next process that this thread spawns, if possible; otherwise gives it
    /// back.
    #[inline]
    pub(crate) fn keep_vacant(&self, token: Token) {
        if let Err(token) = self.thread.local.keep_vacant(token.release()) {
            // Messages that have arrived become dead letters, which are passed to user hooks.
            self.host.while_visiting(|| TABLE.take_back(token.acquire()));
        }
    }

    /// Gives back the slots that have been kept since the previous tick. Called at each tick.
    pub(crate) fn give_old_vacant_back(&self) {
        if self.thread.local.has_vacant() {
            self.thread.local.take_old_vacant().into_iter().for_each(|token| self.host.give_back_vacant(token));
        }
    }

    /// Empties slots with late messages until there are none left or the thread has been called. Each is a
    /// [visit](crate::engine::workers::worker::Worker::visit), since it runs user code. Must be called by a thread that
    /// does not count as searching. Returns whether it has emptied any.
    pub(crate) fn empty_late_slots(&self) -> bool {
        let mut has_emptied = false;
        while !(has_emptied && self.thread.is_called())
            && let Some(slot) = self.host.late_slots.pop()
        {
            self.thread.visit(|| slot.empty());
            has_emptied = true;
        }
        has_emptied
    }
}

#[cfg(all(test, not(postroom_no_local)))]
mod tests {
    use crate::engine::context::thread::{current_pid, with_current};
    use crate::engine::host::Scheduler;
    use crate::future::Ended;
    use crate::manual::{Events, InitContext, Process, StepOutput};
    use crate::process::fixtures::Brief;
    use crate::{ExitReason, Host, InitError, Payloads, Pid, ProcessError, Runtime};
    use std::collections::HashSet;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::{Context, Poll, Waker};

    /// Spawns processes that end on its thread until the thread keeps their slots. Then reports that and stays in its
    /// step.
    struct Stuck {
        keeps: Sender<()>,
        go_on: Receiver<()>,
    }

    impl Process for Stuck {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            if with_current(|context| context.is_some_and(|context| context.thread.local.has_vacant())) {
                self.keeps.send(()).expect("the test waits");
                self.go_on.recv().expect("the test continues");
                out.done();
                return Ok(());
            }
            let (host, own) = (Host::current().expect("a host"), current_pid().expect("a process"));
            host.spawn_process(Brief).start()?;
            host.send(own, ()).expect("this process lives");
            Ok(())
        }
    }

    /// Spawns processes that end on its thread until the thread keeps their slots. Then joins the last one, spawns
    /// another process, and reports the state of the join while that process starts.
    struct Joins {
        last: Option<Pid>,
        answer: Sender<Poll<ExitReason>>,
    }

    impl Process for Joins {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            let (host, own) = (Host::current().expect("a host"), current_pid().expect("a process"));
            let keeps = with_current(|context| context.is_some_and(|context| context.thread.local.has_vacant()));
            if let Some(last) = self.last.filter(|last| keeps && !last.is_alive()) {
                let (end, answer) = (Some(last.join()), self.answer.clone());
                host.spawn_process(Starts { end, answer }).start()?;
                out.done();
                return Ok(());
            }
            self.last = Some(host.spawn_process(Brief).start()?);
            host.send(own, ()).expect("this process lives");
            Ok(())
        }
    }

    struct Starts {
        end: Option<Ended>,
        answer: Sender<Poll<ExitReason>>,
    }

    impl Process for Starts {
        fn init(&mut self, _: &mut InitContext<'_>, _: &str, _: Payloads) -> Result<(), InitError> {
            let mut end = self.end.take().expect("it starts once");
            let answer = Pin::new(&mut end).poll(&mut Context::from_waker(Waker::noop()));
            self.answer.send(answer).expect("the test waits");
            Ok(())
        }

        fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            out.done();
            Ok(())
        }
    }

    fn keeps_some(host: &'static Scheduler) -> bool {
        host.threads.first(usize::MAX).any(|(_, thread)| thread.local.has_vacant())
    }

    /// Catches: a slot that a stuck thread keeps until its step returns, while a late message waits in it.
    #[test]
    fn what_a_thread_keeps_behind_a_step_that_does_not_end_is_given_back() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let ((keeps, kept), (go, go_on)) = (channel(), channel());
        runtime.spawn_process(Stuck { keeps, go_on }).start().expect("it starts");
        kept.recv().expect("it keeps some");
        while keeps_some(runtime.host().scheduler()) {
            std::thread::yield_now();
        }
        go.send(()).expect("it waits");
    }

    /// A test that is left out of builds with the feature `spans`, since every exit then goes through the stages.
    #[cfg(not(feature = "spans"))]
    mod late {
        use super::*;
        use crate::process::fixtures::EndsWhenTold;
        use crate::sync::window::{Window, do_in};

        /// Reports the name of the thread on which it is dropped.
        struct TellsThread(Sender<Option<String>>);

        impl Drop for TellsThread {
            fn drop(&mut self) {
                let _is_awaited = self.0.send(std::thread::current().name().map(str::to_string));
            }
        }

        /// Catches: user code that runs on the watchdog's thread. The watchdog must not wait for such code.
        #[test]
        fn what_has_come_late_behind_a_step_that_does_not_end_is_disposed_of_by_a_worker() {
            let runtime = Runtime::builder().workers(1).name("worker").build().expect("one worker");
            let host = runtime.host();
            // A message that arrives before the slot is kept, or after the watchdog has taken it, is handled or
            // returned. Then the test tries again.
            let mut is_late = false;
            while !is_late {
                let ((keeps, kept), (go, go_on), (tell, told)) = (channel(), channel(), channel());
                let pid = runtime.spawn_process(EndsWhenTold).start().expect("it starts");
                do_in(Window::BeforeMessage, move || {
                    host.send(pid, ()).expect("it lives");
                    host.spawn_process(Stuck { keeps, go_on }).start().expect("it starts");
                    kept.recv().expect("it keeps some");
                });
                is_late = host.send(pid, TellsThread(tell)).is_ok();
                if is_late {
                    let name = told.recv().expect("the message is dropped").expect("a thread of the runtime");
                    let number = name.strip_prefix("worker-").and_then(|number| number.parse::<u32>().ok());
                    assert!(number.is_some(), "{name}");
                }
                go.send(()).expect("it waits");
            }
        }
    }

    /// Catches: a thread that keeps slots while it sleeps, and a slot that is lost.
    #[test]
    fn a_thread_keeps_none_while_it_sleeps() {
        let runtime = Runtime::builder().workers(2).build().expect("two workers");
        let host = runtime.host().scheduler();
        for _ in 0..3 {
            (0..300).for_each(|_| _ = runtime.spawn_process(Brief).start().expect("it starts"));
            host.wait_until_idle().expect("all have ended");
            assert!(!keeps_some(host));
        }
        assert_eq!(host.gate.inside(), 0);
        assert_eq!(host.gate.snapshot(), (900, 900));
    }
    /// Spawns many processes that end on its thread, spawns as many again, and reports the PIDs of all.
    struct SpawnsAgain {
        first: Vec<Pid>,
        all: Sender<Vec<Pid>>,
    }

    impl Process for SpawnsAgain {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            let (host, own) = (Host::current().expect("a host"), current_pid().expect("a process"));
            let spawn = || (0..100).map(|_| host.spawn_process(Brief).start());
            if self.first.is_empty() {
                self.first = spawn().collect::<Result<_, _>>()?;
            }
            if self.first.iter().any(|pid| pid.is_alive()) {
                host.send(own, ()).expect("this process lives");
                return Ok(());
            }
            let all = self.first.iter().copied().map(Ok).chain(spawn()).collect::<Result<_, _>>()?;
            self.all.send(all).expect("the test waits");
            out.done();
            Ok(())
        }
    }

    /// Catches: a slot that is reused without a new generation.
    #[test]
    fn processes_in_kept_slots_have_new_pids() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (all, told) = channel();
        runtime.spawn_process(SpawnsAgain { first: Vec::new(), all }).start().expect("it starts");
        let all = told.recv().expect("it tells");
        assert_eq!(HashSet::<_>::from_iter(&all).len(), all.len());
    }

    /// Catches: a request to be notified of an end that waits for the start, or the first step, of the next process in
    /// the slot. That process may itself wait for the requester.
    #[test]
    fn a_join_of_a_process_that_has_ended_does_not_wait_for_the_next_one_in_its_slot() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (answer, answered) = channel();
        runtime.spawn_process(Joins { last: None, answer }).start().expect("it starts");
        assert_eq!(answered.recv(), Ok(Poll::Ready(ExitReason::NoProcess)));
    }
}
