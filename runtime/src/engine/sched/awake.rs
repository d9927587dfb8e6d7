//! The limit of awake threads: the samples that the watchdog takes for it at each tick (watchdog:K1), and how the limit
//! is applied.

use crate::engine::host::Scheduler;
use crate::engine::permits::holders::At;
use crate::engine::permits::sleep::IdleCounts;
use crate::engine::watchdog::awake_limit::{AwakeLimit, Done};
use crate::engine::watchdog::detector::{StepId, ThreadSample};
use crate::engine::watchdog::queue_waits::{QueueSample, QueueWaits};
use crate::engine::workers::worker::Worker;
use crate::env::clock::Moment;

/// The samples of the most recent tick, and the state of the limit.
#[derive(Debug)]
pub(super) struct AwakeWatch {
    limit: AwakeLimit,
    waits: QueueWaits,
    queues: Vec<QueueSample>,
    /// The time of that tick; `None` if the watchdog has rested since.
    looked_at: Option<Moment>,
    /// The numbers of steps and messages that each thread had counted by that tick.
    counted: Vec<(u64, u64)>,
    /// The step of each thread at that tick.
    steps: Vec<Option<StepId>>,
    /// Number of times that all threads had been asleep by that tick.
    lulls: u64,
}

impl AwakeWatch {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            limit: AwakeLimit::new(workers),
            waits: QueueWaits::default(),
            queues: Vec::new(),
            looked_at: None,
            counted: Vec::new(),
            steps: Vec::new(),
            lulls: 0,
        }
    }

    /// Forgets the time of the last tick, since the watchdog has rested.
    pub(super) fn rested(&mut self) {
        self.looked_at = None;
    }

    /// Returns how many processes are in queues that any thread may take from.
    pub(super) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.queued).sum()
    }

    /// Returns how many steps or messages the thread has handled since the last tick, and whether it has been in the
    /// same step since.
    fn look_at(&mut self, number: usize, thread: &Worker, sample: ThreadSample) -> (u64, bool) {
        if self.counted.len() <= number {
            self.counted.resize(number + 1, (0, 0));
            self.steps.resize(number + 1, None);
        }
        let (steps, messages) = (thread.counters.steps.get(), thread.counters.messages.get());
        let (steps_before, messages_before) = std::mem::replace(&mut self.counted[number], (steps, messages));
        let step_before = std::mem::replace(&mut self.steps[number], sample.step);
        let is_long = sample.has_permit && sample.step.is_some() && sample.step == step_before;
        // A step that handles ten messages counts as ten steps.
        (steps.saturating_sub(steps_before).max(messages.saturating_sub(messages_before)), is_long)
    }
}

impl Scheduler {
    /// Samples the queues, and sets the limit of awake threads.
    pub(super) fn limit_awake(
        &'static self,
        watch: &mut AwakeWatch,
        now: Moment,
        threads: &[ThreadSample],
        (places, counts): (&[At], IdleCounts),
    ) {
        self.sample_queues(&mut watch.queues);
        let has_any_waited = watch.waits.look(&watch.queues);
        let lulls = std::mem::replace(&mut watch.lulls, counts.lulls);
        let (mut events, mut is_any_long) = (0, false);
        for (number, thread) in self.threads_in_use() {
            let Some(sample) = threads.get(number) else { break };
            let (done, is_long) = watch.look_at(number, thread, *sample);
            events += done;
            is_any_long |= is_long;
        }
        let Some(took) = watch.looked_at.replace(now).map(|at| now.since(at)) else { return };
        let limit = watch.limit.look(Done {
            events,
            took,
            awake: places.iter().filter(|at| matches!(at, At::Up(_))).count(),
            is_any_long,
            have_all_slept: counts.all_idle || counts.lulls != lulls,
            has_any_waited,
        });
        self.idle.limit_awake(limit);
    }

    /// Fills `queues` with samples of the queues that any thread may take from: the global queue, all inject queues as
    /// one, and each deque. See [`queue_waits`](crate::engine::watchdog::queue_waits).
    fn sample_queues(&'static self, queues: &mut Vec<QueueSample>) {
        // The counters are read before the lengths, so that a process taken in between is counted at the next tick.
        let sum = |count: fn(&Worker) -> u64| self.threads_in_use().map(|(_, thread)| count(thread)).sum::<u64>();
        let fair = sum(|thread| thread.counters.fair.get());
        let stolen = sum(|thread| thread.counters.stolen.get());
        let from_global = sum(|thread| thread.counters.from_global.get());
        let from_inject = sum(|thread| thread.counters.from_inject.get());
        let injected = self.permits.iter().map(|permit| permit.inject.len()).sum();
        queues.clear();
        queues.push(QueueSample { queued: self.global.len(), taken: from_global + fair });
        queues.push(QueueSample { queued: injected, taken: from_inject + stolen + fair });
        let deques = queues.len();
        for (number, thread) in self.threads_in_use() {
            let taken = thread.counters.steps.get() + stolen;
            queues.resize(deques + number, QueueSample::default());
            queues.push(QueueSample { queued: thread.stealer.len(), taken });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::context::thread::ThreadContext;
    use crate::engine::sched::run_loop::Next;
    use crate::engine::sched::run_loop::tests::{Counts, begin, run_until_parked};
    use crate::engine::sched::spare::Rest;
    use crate::engine::slice::scratch::StepScratch;
    use crate::process::fixtures::OnMessage;
    use crate::sync::{Arc, AtomicUsize, Ordering};
    use crate::{Host, Pid, Runtime};
    use std::mem::ManuallyDrop;
    use std::time::Duration;

    /// A host with two workers. The test plays the roles of their threads, one of which is held back.
    struct Limited {
        /// The runtime is not dropped if an assertion fails, since the drop would wait for the threads.
        runtime: ManuallyDrop<Runtime>,
        host: &'static Scheduler,
        contexts: [ThreadContext; 2],
        scratches: [StepScratch; 2],
        /// How each sleeping thread rests.
        rests: [Option<Rest>; 2],
        watch: AwakeWatch,
        now: Moment,
    }

    impl Limited {
        fn new() -> Self {
            let runtime = Runtime::builder().workers(2).seed(1).paused().build().expect("it is built");
            let host = runtime.host().scheduler();
            let contexts = [begin(host, 0), begin(host, 1)];
            let scratches = [StepScratch::new(contexts[0].thread), StepScratch::new(contexts[1].thread)];
            let (watch, now) = (AwakeWatch::new(2), Moment::now());
            let runtime = ManuallyDrop::new(runtime);
            let mut limited = Self { runtime, host, contexts, scratches, rests: [None, None], watch, now };
            limited.park(1);
            let mut awake = 2;
            for _ in 0..20 {
                // Simulates a program that is faster on one thread.
                awake = limited.watch.limit.look(Done {
                    events: 100_000 / awake as u64,
                    took: Duration::from_millis(2),
                    awake: 1,
                    is_any_long: false,
                    have_all_slept: false,
                    has_any_waited: false,
                });
            }
            assert_eq!(awake, 1);
            host.idle.limit_awake(awake);
            limited
        }

        fn next(&mut self, thread: usize) -> Next {
            match self.rests[thread].take() {
                Some(rest) => self.contexts[thread].resume(rest),
                None => self.contexts[thread].next(),
            }
        }

        /// Runs processes on the thread until it sleeps.
        fn park(&mut self, thread: usize) {
            let next = self.next(thread);
            let (rest, _) = run_until_parked(&self.contexts[thread], &mut self.scratches[thread], next);
            self.rests[thread] = Some(rest);
        }

        /// Runs processes on the first thread until `count` messages have been handled.
        fn run_until(&mut self, handled: &AtomicUsize, count: usize) {
            while handled.load(Ordering::SeqCst) < count {
                let Next::Run(token) = self.next(0) else { panic!("there is work") };
                self.contexts[0].enter(|context| context.run_slice(&mut self.scratches[0], token));
            }
        }

        /// Performs a tick after short events. Returns the limit of awake threads.
        fn tick(&mut self) -> usize {
            self.now = self.now.after(Duration::from_micros(1));
            let mut places = Vec::new();
            let counts = self.host.idle.sample(&mut places);
            let threads = [ThreadSample::default(); 2];
            self.host.limit_awake(&mut self.watch, self.now, &threads, (&places, counts));
            self.host.idle.awake_limit()
        }

        fn end(mut self, pids: &[Pid]) {
            self.host.idle.limit_awake(2);
            pids.iter().for_each(|pid| _ = pid.kill());
            while self.runtime.statistics().processes.live > 0 {
                self.park(0);
                self.park(1);
            }
            for context in self.contexts {
                context.thread.vacate(context.deque);
                self.host.idle.dismiss(context.index);
            }
            drop(ManuallyDrop::into_inner(self.runtime));
        }
    }

    /// The way in which processes get into a queue.
    #[derive(Clone, Copy)]
    enum Queued {
        /// By a message from another process, into the deque.
        Process,
        /// By a message from outside, into the inject queue.
        Outside,
        /// By a spawn from outside, into the global queue.
        Spawn,
    }

    /// Queues many processes between two ticks, and runs all of them, or only a few if `waits`.
    fn queue_and_run(by: Queued, waits: bool) {
        const ALL: usize = 100;
        let mut limited = Limited::new();
        let handled = Arc::new(AtomicUsize::new(0));
        let spawn = |limited: &Limited| {
            let pid = limited.runtime.spawn_process(Counts(handled.clone())).start().expect("it starts");
            limited.runtime.send(pid, ()).expect("it lives");
            pid
        };
        let mut pids: Vec<_> = (0..ALL).map(|_| spawn(&limited)).collect();
        let targets = pids.clone();
        let fans = OnMessage(move |_| {
            let host = Host::current().expect("a host");
            targets.iter().for_each(|&pid| host.send(pid, ()).expect("it lives"));
        });
        let fans = limited.runtime.spawn_process(fans).start().expect("it starts");
        limited.run_until(&handled, ALL);
        limited.tick();
        for round in 1..4 {
            let before = round * ALL;
            assert_eq!(handled.load(Ordering::SeqCst), before);
            match by {
                Queued::Process => {
                    limited.runtime.send(fans, ()).expect("it lives");
                    limited.run_until(&handled, before + 1);
                }
                Queued::Outside => pids[..ALL].iter().for_each(|&pid| limited.runtime.send(pid, ()).expect("it lives")),
                Queued::Spawn => (0..ALL).for_each(|_| pids.push(spawn(&limited))),
            }
            limited.run_until(&handled, before + 1);
            assert_eq!(limited.tick(), 1, "nothing has waited since the last tick");
            assert!(limited.watch.queued() > ALL / 2, "{:?}", limited.watch.queues);
            limited.run_until(&handled, before + if waits { 2 } else { ALL });
            assert_eq!(limited.tick(), if waits { 2 } else { 1 }, "{round}: {:?}", limited.watch);
            if waits {
                break;
            }
        }
        pids.push(fans);
        limited.end(&pids);
    }

    /// Catches: a limit that persists while a process waits for a whole tick after a message from another process.
    #[test]
    fn a_process_that_waits_in_a_deque_ends_the_limit() {
        queue_and_run(Queued::Process, false);
        queue_and_run(Queued::Process, true);
    }

    /// Catches: a limit that persists while a process waits for a whole tick after a message from outside.
    #[test]
    fn a_process_that_waits_in_an_inject_queue_ends_the_limit() {
        queue_and_run(Queued::Outside, false);
        queue_and_run(Queued::Outside, true);
    }

    /// Catches: a limit that persists while a new process waits for a whole tick.
    #[test]
    fn a_process_that_waits_in_the_global_queue_ends_the_limit() {
        queue_and_run(Queued::Spawn, false);
        queue_and_run(Queued::Spawn, true);
    }

    /// Catches: a limit that persists although all threads sleep between two ticks, if one is awake at each tick.
    #[test]
    fn a_limit_ends_when_all_threads_sleep_between_ticks() {
        for sleeps in [false, true] {
            let mut limited = Limited::new();
            let handled = Arc::new(AtomicUsize::new(0));
            let pid = limited.runtime.spawn_process(Counts(handled.clone())).start().expect("it starts");
            assert_eq!(limited.host.idle.sample(&mut Vec::new()).lulls, 0, "only the one that is held back sleeps");
            let limits = [1, 2, 3, 4].map(|round| {
                limited.runtime.send(pid, ()).expect("it lives");
                limited.run_until(&handled, round);
                let limit = limited.tick();
                if sleeps {
                    limited.park(0);
                }
                limit
            });
            assert_eq!(limits, [1, 1, 1, if sleeps { 2 } else { 1 }]);
            limited.end(&[pid]);
        }
    }
}
