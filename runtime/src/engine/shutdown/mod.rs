//! Ending all processes of a host.
//!
//! 1. The gate closes: new spawns are refused.
//! 2. Every unsupervised process gets a cancel signal with the reason; a process without a method for it ends before
//!    its next step. Supervised processes get no signal: their supervisor does, and stops them in order.
//! 3. The permits keep running until the last process is done, so that clean-ups that make calls can finish.
//! 4. At the deadline the remaining processes are killed. Steps have a moment to return: see [`grace`].
//! 5. The threads end when they have run the work left in the queues. A thread that is still in a step is left behind
//!    and reported: one thread cannot end the code of another. A thread in other user code (a task of the reactor, the
//!    action of a timer) is left behind, too, after the same time.
//!
//! Only step 5 ends threads that have a permit: if they ended when they found no work, the clean-up of step 3 might
//! have no thread to run it.
//!
//! # Every process ends
//!
//! All processes and callers that have joined, monitored, called or linked with a process are notified when its state
//! has been dropped, after the shutdown as well as before. No time limit affects that; limits only determine the
//! contents of the report, and which threads are left behind.
//!
//! After step 4 each remaining process has a kill in its control lane, so its token is not parked: it is in a queue, or
//! held by a thread. (The gate is closed, so there are no new processes.)
//!
//! * Held by a thread of the host, in a step: when the step returns, the thread fails to park the token and ends the
//!   process, or queues the token and then looks in that queue itself.
//! * In a queue:
//!   * L1 a thread that must end searches all queues once more, and runs the work that it finds (and empties vacant
//!     slots: `late_slots`);
//!   * L2 when the threads have been told to end and processes are left, one more thread is started. That thread is in
//!     no step, so it does L1 even if all others are stuck.
//! * Held by another thread, which is starting the process, or has woken it and was preempted before it queued the
//!   token. It will queue the token, and
//!   * L3 a thread that has pushed to a queue checks, after its fence, whether the threads have been told to end, and
//!     does L2 if so.
//!
//! No token is missed between L1 and L3: the threads are told to end before L1, with a fence before its search, and the
//! push precedes the fence of L3. If L3 does not see that the threads were told to end, L1 sees the push.
//!
//! So a step that returns years later ends its process as it would have done before the shutdown, and only then is the
//! end reported: a file or a lock that the process holds is not free while its step runs. A caller that cannot wait
//! that long should join with a time limit; the report names the stuck processes.

pub(crate) mod drain;
pub(crate) mod grace;
pub(crate) mod quiescence;
pub(crate) mod report;

pub use report::{Remaining, ShutdownReport, Unfinished};

use super::backpressure;

use super::host::{Scheduler, UnattendedShutdown};
use super::watchdog::detector::StepId;
use super::workers::driven::DrivenWatch;
use super::workers::threads::StartedThread;
use crate::call::dead_letter::DeadLetterReason;
use crate::env::clock::{Moment, instant_now};
use crate::exit::ExitReason;
use crate::process::control::Control;
use crate::slots::Slot;
use crate::sync::{Ordering, lock, park};
use crate::time::timers::TimerAction;
use grace::{GRACE, Grace, GraceStep};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of processes that the report names among those alive at the deadline.
const NAMED: usize = 20;

/// Interval at which a shutdown checks whether threads have ended. It cannot join them at once, since some may be
/// stuck.
const LOOK: Duration = Duration::from_millis(1);

impl Scheduler {
    /// Lets the host handle all queued work, then shuts it down, all within `deadline`.
    pub(crate) fn drain(&'static self, reason: &ExitReason, deadline: Duration) -> ShutdownReport {
        let (began, dead) = (instant_now(), self.dead(DeadLetterReason::Ended));
        // On a paused host nothing else would run the queued processes.
        let _started = self.start();
        let finished = self.finish_work(began.checked_add(drain::share(deadline)));
        let report = self.end_all(reason, deadline.saturating_sub(instant_now().duration_since(began)), dead);
        let drained = Some(finished.is_ok());
        ShutdownReport {
            drained,
            unfinished: finished.err().unwrap_or_default(),
            took: instant_now().duration_since(began),
            ..report
        }
    }

    /// Shuts the host down. The first caller gets the full report; the report of a later caller covers only the rest.
    pub(crate) fn shut_down(&'static self, reason: &ExitReason, deadline: Duration) -> ShutdownReport {
        self.end_all(reason, deadline, self.dead(DeadLetterReason::Ended))
    }

    /// Ends all processes, and then the threads. `dead` is the number of messages that exits had discarded when the
    /// shutdown began.
    fn end_all(&'static self, reason: &ExitReason, deadline: Duration, dead: u64) -> ShutdownReport {
        let began = instant_now();
        self.unattended.store(false, Ordering::SeqCst);
        self.close();
        let alive = self.gate.inside();
        self.cancel_unsupervised(reason);
        if alive > 0 {
            // The processes of a paused host cannot end without threads. If none can be started, everything below
            // treats the processes as stuck.
            let _started = self.start();
        }
        let mut grace = Grace::until(began.checked_add(deadline));
        let (left, alive_at_deadline) = self.wait_for_all(&mut grace);
        self.timers.clear();
        self.stop_threads();
        let stuck = self.end_threads(&mut grace);
        // The queued messages of stuck processes will be discarded when their steps return.
        let doomed: u64 = stuck.iter().map(|slot| slot.lanes.depth()).sum();
        self.end_reactor(GRACE);
        drop(self.take_user());
        // This comes last, since from here on the last process to leave ends the threads, when its stuck step has
        // returned. If it came earlier, that could happen while this thread waits for the reactor. Threads started from
        // here on are not joined.
        self.leave_unattended();
        ShutdownReport {
            alive,
            ended: alive.saturating_sub(left),
            killed: left.saturating_sub(stuck.len() as u64),
            alive_at_deadline,
            stuck: self.named(stuck),
            thrown_away: self.dead(DeadLetterReason::Ended) - dead + doomed,
            took: instant_now().duration_since(began),
            ..ShutdownReport::default()
        }
    }

    /// Performs step 1.
    fn close(&self) {
        self.gate.close();
        crate::routing::hosts::goes_down(self.number());
    }

    /// Performs steps 3 and 4. Returns how many processes were left at the deadline, and some of them.
    fn wait_for_all(&'static self, grace: &mut Grace) -> (u64, Vec<Remaining>) {
        let (mut killed, mut some) = (0, Vec::new());
        loop {
            let now = instant_now();
            grace.look(now, self.steps());
            match grace.next(now, self.gate.inside()) {
                GraceStep::Wait(until, most) => _ = self.gate.wait_until_at_most(most, until),
                GraceStep::Kill => {
                    killed = self.gate.inside();
                    some = self.named(self.slots().filter(|slot| slot.living().is_some()).take(NAMED).collect());
                    self.signal(|_| true, || Control::Kill);
                }
                GraceStep::Stop => return (killed, some),
            }
        }
    }

    /// Returns the steps that processes are in, including the starts and clean-ups of pinned processes.
    fn steps(&self) -> impl Iterator<Item = StepId> {
        let pinned = self.pinned_threads.all().into_iter().filter_map(|pinned_thread| pinned_thread.thread.step());
        self.threads_in_use().filter_map(|(_, thread)| thread.step_of_process()).chain(pinned)
    }

    /// Performs L2, and waits for the threads, except those in user code that does not return. Returns the processes
    /// that have not ended.
    fn end_threads(&'static self, grace: &mut Grace) -> Vec<&'static Slot> {
        if self.gate.inside() > 0 {
            self.start_last_thread();
        } else {
            // From here on the threads only finish their current work. They have the full grace period for that,
            // however long they have been doing it.
            grace.begin_anew();
        }
        let (mut threads, mut driven) = (Vec::new(), DrivenWatch::default());
        loop {
            // The watchdog has ended.
            self.driven.look(&mut driven);
            threads.append(&mut lock(&self.running));
            let now = instant_now();
            grace.look(now, threads.iter().filter_map(StartedThread::user_code));
            let mut pending = Vec::new();
            for thread in threads {
                if thread.has_ended() {
                    thread.join();
                } else if !thread.user_code().is_some_and(|step| grace.gives_up(now, step)) {
                    pending.push(thread);
                }
            }
            threads = pending;
            if threads.is_empty() && lock(&self.running).is_empty() {
                self.driven.forget_ended();
                return self.stuck();
            }
            park(Some(LOOK));
        }
    }

    /// Performs L3 for a thread that has pushed to a queue. (Vacant slots may be queued when no process is left.)
    #[cold]
    pub(crate) fn end_late(&'static self) {
        if self.gate.inside() > 0 && self.has_work() || !self.late_slots.is_empty() {
            self.start_last_thread();
        }
    }

    /// Shuts down without waiting, for a runtime that is dropped inside one of its own processes. The last process to
    /// leave ends the threads and logs what was lost; the caller's process has not left yet.
    pub(crate) fn begin_shut_down(&'static self, reason: &ExitReason, deadline: Duration) {
        let (began, dead) = (instant_now(), self.dead(DeadLetterReason::Ended));
        self.leave_unattended();
        self.close();
        *lock(&self.ending) = Some(UnattendedShutdown { began, alive: self.gate.inside(), dead, killed: 0 });
        self.cancel_unsupervised(reason);
        let kill = TimerAction::Run(Box::new(|| self.kill_unattended()));
        if self.set_timer(Moment::now().after(deadline), kill).is_none() {
            self.kill_unattended();
        }
        // Has no effect inside a process, since that process has not left yet.
        self.end_if_left();
    }

    fn kill_unattended(&'static self) {
        if let Some(shutdown) = &mut *lock(&self.ending) {
            shutdown.killed = self.gate.inside();
        }
        self.signal(|_| true, || Control::Kill);
    }

    /// Counts a process out; if it was the last and no thread waits for the shutdown, ends the threads.
    pub(crate) fn leave(&'static self) {
        self.gate.leave(self.current_thread());
        if self.unattended.load(Ordering::SeqCst) {
            self.end_if_left();
        }
    }

    /// Ends the threads if no thread waits for the shutdown and no process is left.
    fn end_if_left(&'static self) {
        let is_left = || self.unattended.load(Ordering::SeqCst) && self.gate.inside() == 0;
        if !is_left() {
            return;
        }
        // The condition is checked again under the lock. The lock prevents the reuse of the record (`reuse`).
        let mut ending = lock(&self.ending);
        if !is_left() {
            return;
        }
        self.stop_threads();
        let (timers, user) = (self.timers.take(), self.take_user());
        let report = ending.take().map(|shutdown| self.report_of(&shutdown));
        // The rest of this function runs user code, such as a log subscriber. That code may end this host or start
        // another one. The name stays valid: every host that uses the record has the same one.
        drop(ending);
        self.driven.help_all();
        timers.into_iter().for_each(TimerAction::discard);
        drop(user);
        if let Some(report) = report {
            report.log(&self.config.name);
        }
    }

    fn report_of(&self, shutdown: &UnattendedShutdown) -> ShutdownReport {
        let UnattendedShutdown { began, alive, dead, killed } = *shutdown;
        let (ended, thrown_away) = (alive.saturating_sub(killed), self.dead(DeadLetterReason::Ended) - dead);
        ShutdownReport {
            alive,
            ended,
            killed,
            thrown_away,
            took: instant_now().duration_since(began),
            ..ShutdownReport::default()
        }
    }

    /// Sends a cancel signal to all unsupervised processes. A supervised process has a live supervisor to stop it: a
    /// supervisor that ends without having stopped its children kills them.
    fn cancel_unsupervised(&'static self, reason: &ExitReason) {
        self.signal(|slot| !slot.is_supervised(), || Control::Cancel(reason.clone()));
    }

    /// Refuses new processes, and kills all existing ones, at the end of a simulation that has used these `slots`.
    /// Other tests of the program may have used a million slots; visiting all of those for each seed would take most of
    /// the time.
    #[cfg(feature = "test")]
    pub(crate) fn kill_all(&'static self, slots: &[u32]) {
        self.close();
        let slots = slots.iter().filter_map(|index| crate::slots::TABLE.slot(*index));
        slots.filter(|slot| self.has_alive(slot)).for_each(|slot| signal_slot(slot, Control::Kill));
    }

    fn signal(&'static self, whom: impl Fn(&Slot) -> bool, control: impl Fn() -> Control) {
        self.slots().filter(|slot| whom(slot)).for_each(|slot| signal_slot(slot, control()));
    }

    /// Returns the processes that have not ended: those in a step, in a start, or in their clean-up.
    fn stuck(&'static self) -> Vec<&'static Slot> {
        if self.gate.inside() == 0 {
            // Any live processes have come too late, and are about to find the gate closed.
            return Vec::new();
        }
        // Both sources are needed: a process in its clean-up is no longer alive, and a starting one is not run by a
        // worker.
        let slots: BTreeMap<u32, &Slot> = self.at_work().chain(self.slots()).map(|slot| (slot.index(), slot)).collect();
        slots.into_values().collect()
    }

    fn named(&self, slots: Vec<&'static Slot>) -> Vec<Remaining> {
        let named = |slot: &'static Slot| {
            let pid = self.slot_owner().pid(slot.index(), slot.last());
            let process = slot.metadata.names().map_or("?", |(process, _)| process);
            Remaining { pid, process, label: self.label(pid) }
        };
        slots.into_iter().map(named).collect()
    }
}

fn signal_slot(slot: &'static Slot, control: Control) {
    if let Some(generation) = slot.living() {
        send_control(slot, generation, control);
    }
}

pub(crate) fn send_control(slot: &'static Slot, generation: u64, control: Control) {
    let is_end = control.is_end();
    slot.request(generation, control);
    if is_end && slot.is_suspended() {
        backpressure::suspend::let_step_end(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    /// Shuts a host down when it is dropped, as user code may.
    struct EndsHost(&'static Scheduler);

    impl Drop for EndsHost {
        fn drop(&mut self) {
            self.0.begin_shut_down(&ExitReason::Shutdown, Duration::MAX);
        }
    }

    /// Catches: a timer action or a hook that is dropped while `ending` is locked.
    #[test]
    fn what_an_unattended_end_drops_may_end_the_host_again() {
        let (say, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let hook = std::sync::Arc::new(std::sync::OnceLock::new());
            let kept = hook.clone();
            let builder = Runtime::builder().workers(1).paused().on_dead_letter(move |_| _ = &kept);
            let runtime = builder.build().expect("one worker");
            let host = runtime.host().scheduler();
            assert!(hook.set(EndsHost(host)).is_ok());
            drop(hook);
            let timer = EndsHost(host);
            host.set_timer(Moment::now().after(Duration::MAX), TimerAction::Run(Box::new(move || drop(timer))));
            host.begin_shut_down(&ExitReason::Shutdown, Duration::MAX);
            drop(runtime);
            let _is_awaited = say.send(());
        });
        // The timeout only guards against a hang.
        said.recv_timeout(Duration::from_secs(60)).expect("it ends");
    }

    /// Shuts the runtime down. The timeout only guards against a hang.
    fn end(runtime: Runtime) -> ShutdownReport {
        let (say, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || _ = say.send(runtime.shutdown_within(Duration::from_millis(10))));
        said.recv_timeout(Duration::from_secs(60)).expect("it ends").expect("asked from outside")
    }

    /// Catches: a shutdown that waits forever for a thread in user code that is not a step.
    #[test]
    fn a_thread_that_stays_in_the_action_of_a_timer_is_left_behind() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let ((begin, begun), (let_go, held)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let stay = move || {
            begin.send(()).expect("it is waited for");
            let _let_go = held.recv();
        };
        runtime.host().scheduler().set_timer(Moment::now(), TimerAction::Run(Box::new(stay)));
        begun.recv().expect("it is due");
        assert!(end(runtime).is_clean());
        drop(let_go);
    }

    /// A process that calls the closure once and ends.
    #[cfg(feature = "tokio")]
    struct Does<F>(Option<F>);

    #[cfg(feature = "tokio")]
    impl<F: FnOnce() + Send + 'static> crate::manual::Process for Does<F> {
        fn step(
            &mut self,
            _: &mut crate::manual::Events<'_>,
            out: &mut crate::manual::StepOutput<'_>,
        ) -> Result<(), crate::ProcessError> {
            self.0.take().into_iter().for_each(|action| action());
            out.done();
            Ok(())
        }
    }

    /// Catches: a shutdown that waits forever for a thread that runs a task in its wait, and so counts as asleep. That
    /// thread may be the only one left, or there may also be a step that does not return.
    #[cfg(feature = "tokio")]
    #[test]
    fn a_thread_that_stays_in_a_task_while_it_waits_in_the_reactor_is_left_behind() {
        use crate::engine::sched::driving::waits_here;
        for stuck in [0, 1] {
            let runtime = Runtime::builder().workers(2).tokio().build().expect("two workers");
            let ((begin, begun), (let_go, held)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
            let begins = begin.clone();
            let task = async move {
                while !waits_here() {
                    tokio::task::yield_now().await;
                }
                begins.send(()).expect("it is waited for");
                let _let_go = held.recv();
            };
            let spawns = Does(Some(move || drop(tokio::spawn(task))));
            runtime.spawn_process(spawns).start().expect("it starts");
            begun.recv().expect("a thread waits");
            let (go_on, stays) = std::sync::mpsc::channel::<()>();
            if stuck > 0 {
                let stay = move || {
                    begin.send(()).expect("it is waited for");
                    let _let_go: Result<(), _> = stays.recv();
                };
                runtime.spawn_process(Does(Some(stay))).start().expect("it starts");
                begun.recv().expect("it has a step");
            }
            assert_eq!(end(runtime).stuck.len(), stuck);
            drop((let_go, go_on));
        }
    }

    /// Catches: a thread that is started to end the remaining processes although none remain.
    #[test]
    fn a_shutdown_that_leaves_no_process_starts_no_thread() {
        let runtime = Runtime::builder().workers(1).paused().build().expect("one worker");
        runtime.host().scheduler().shut_down(&ExitReason::Shutdown, Duration::MAX);
        assert!(runtime.statistics().threads.is_empty());
    }

    /// Catches: a thread handle that is kept forever, and with it the thread's stack, because the thread was started
    /// when a stuck step returned long after the shutdown.
    #[test]
    fn a_thread_that_is_started_after_the_shutdown_is_not_kept() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let host = runtime.host().scheduler();
        runtime.shutdown().expect("asked from outside");
        host.start_last_thread();
        assert!(lock(&host.running).is_empty());
    }
}
