//! Vacant slots in which something has arrived late, until a worker empties them.
//!
//! Emptying such a slot runs user code: wakers of joins, drops of messages, the dead-letter hook. That code may block,
//! and may wait for other processes of the host. So it does not run in the places where a thread may come upon such a
//! slot: on the watchdog, which looks for steps that do not end; under a lock; on a thread that counts as searching,
//! since others rely on it; or in a [flush](crate::thread_cache::tokens), after which the thread must keep nothing. In
//! these places, an empty slot is given back at once, and any other is queued. The queue is one of those that any
//! thread may take from: a thread that pushes to it announces the push (sleep:P2), and a thread that goes to sleep
//! looks at it (sleep:S3). A worker empties the slots as visits, during which its permit can be taken over:
//! * when it has found nothing to run and has stopped searching, before it sleeps (`find`);
//! * at each visit to a shared queue;
//! * before it exits, when the host has stopped.
//!
//! *No slot is left when a host stops*, as for processes (shutdown:L1, shutdown:L3). A thread that has been told to end
//! looks at this queue after its fence. A thread that pushes a slot executes a fence before it checks whether the
//! threads have been told to end, and if so starts the last thread.

use super::Scheduler;
use super::late_slot::LateSlot;
use crate::slots::{TABLE, Token};

impl Scheduler {
    /// Gives back a vacant slot that a thread has kept. Runs no user code.
    pub(crate) fn give_back_vacant(&'static self, token: Token) {
        if self.queue_unless_empty(token) {
            self.announce();
        }
    }

    /// Like [`give_back_vacant`](Self::give_back_vacant), for a caller that announces queued slots itself. Returns
    /// whether the slot was queued.
    pub(super) fn queue_unless_empty(&self, token: Token) -> bool {
        let late = TABLE.take_back_empty(token.acquire());
        late.map(|token| self.late_slots.push(LateSlot::Kept(token.release()))).is_some()
    }

    pub(crate) fn push_late(&'static self, slot: LateSlot) {
        self.late_slots.push(slot);
        self.announce();
    }
}

#[cfg(test)]
mod tests {
    use super::LateSlot;
    use crate::engine::host::Scheduler;
    use crate::future::Ended;
    use crate::manual::{Events, Process, StepOutput};
    use crate::slots::{TABLE, Token};
    use crate::sync::window::{Window, do_in};
    use crate::thread_cache::evict::Evicted;
    use crate::{ExitReason, ProcessError, Runtime};
    use std::sync::mpsc::{Sender, channel};

    /// Returns the slot of an ended process, and a join that came too late.
    fn joined_late(host: &'static Scheduler) -> (LateSlot, Ended) {
        let mut token = TABLE.take().expect("a slot");
        let pid = token.open(host.slot_owner());
        token.close();
        let join = pid.join();
        (LateSlot::Kept(token.release()), join)
    }

    /// Catches: a slot that no thread empties because all threads sleep.
    #[test]
    fn a_thread_that_sleeps_wakes_to_empty_a_slot() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let host = runtime.host().scheduler();
        for _ in 0..3 {
            host.wait_until_idle().expect("nothing runs");
            let (slot, join) = joined_late(host);
            host.push_late(slot);
            host.wait_until_idle().expect("nothing runs");
            assert!(host.late_slots.is_empty(), "it was not idle before");
            assert_eq!(join.wait(), ExitReason::NoProcess);
        }
    }

    /// Catches: a slot that is queued after the threads have ended, and stays in the queue.
    #[test]
    fn a_slot_is_emptied_after_the_threads_of_its_host_have_ended() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let host = runtime.host().scheduler();
        let (slot, join) = joined_late(host);
        runtime.shutdown().expect("not inside");
        host.push_late(slot);
        assert_eq!(join.wait(), ExitReason::NoProcess);
    }

    /// A process that sends the name of the thread on which its state is closed.
    struct ClosedOn(Sender<Option<String>>);

    impl Process for ClosedOn {
        fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            out.idle();
            Ok(())
        }

        fn close(&mut self) {
            self.0.send(std::thread::current().name().map(str::to_string)).expect("the test waits");
        }
    }

    /// A thread parks an idle process, and the process then ends on another thread. When the first thread looks at the
    /// slot again, a process of another host uses it, and is being killed.
    ///
    /// Catches: a process that runs on the threads of another host.
    #[test]
    fn a_token_that_is_taken_back_for_a_process_of_another_host_goes_there() {
        let [old, new] =
            ["old", "new"].map(|name| Runtime::builder().workers(1).name(name).build().expect("one worker"));
        let ((old, new), (tell, told)) = ((old.host().scheduler(), new.host()), channel());
        let ((pushes, pushed), (go, go_on)) = (channel(), channel());
        let mut token = TABLE.take().expect("a slot");
        token.open(old.slot_owner());
        let slot = token.slot();
        do_in(Window::AfterParking, move || {
            let mut token = Token::claim_own(slot).expect("it is parked");
            token.close();
            TABLE.take_back(token);
            let pid = new.spawn_process(ClosedOn(tell)).start().expect("it starts");
            assert_eq!(pid.slot(), slot.index(), "this thread has just given it back");
            new.scheduler().wait_until_idle().expect("nothing runs");
            std::thread::spawn(move || {
                do_in(Window::BeforeClaim, move || {
                    pushes.send(()).expect("the test waits");
                    go_on.recv().expect("the test has it go on");
                });
                pid.kill()
            });
            pushed.recv().expect("it pushes");
        });
        let Evicted::HasEnded(token) = token.release().evict() else { panic!("it takes back another's token") };
        old.push_late(LateSlot::Listed(token));
        let thread = told.recv().expect("it is closed").expect("a thread of a runtime");
        assert!(thread.starts_with("new-"), "{thread}");
        go.send(()).expect("it waits");
    }
}
