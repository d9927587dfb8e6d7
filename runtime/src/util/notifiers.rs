//! Threads that do nothing but run user code, on behalf of threads that must not run it.
//!
//! The watchdog, the timekeeper and the threads of a cluster have duties that others depend on, and user code may block
//! (see `sync/thread_kind`). So they hand user code to these threads: wakers of tasks and threads outside, expired
//! timers of code without a runtime, reports of stalls. A job that blocks delays no other job, unless they form a
//! [`Series`].
//!
//! # Protocol
//!
//! All state is under one lock, which is not held while a job runs. A thread *is called* from the moment when it is
//! woken or started until it examines the queue. Which of the waiting threads responds to a wake-up does not matter.
//!
//! * *call*: a thread that queues a job, or that has taken a job and leaves others in the queue, calls another thread
//!   before it does anything else, unless one is called already, or [`MOST`] are busy.
//! * *rest*: a thread that finds no job waits; if it is not called within [`KEEP`], it ends.
//!
//! *No job waits behind one that blocks*: while the queue is not empty, a thread is called, or [`MOST`] threads are
//! busy. *call* establishes this: a called thread takes a job, and then calls another thread. *rest* preserves it:
//! under the lock, a thread checks whether it is called before it ends, and it checks the queue before it waits.
//!
//! The exception is a system that refuses to start a thread. If there are no notifiers, the thread that queues the job
//! performs it itself, and appears to user code as a notifier ([`ThreadKind::in_place_of_notifier`]). If there are
//! notifiers, the queued jobs wait until one of these threads is free, or until the next job calls one: they may wait
//! behind jobs that block.

use super::panics::{Site, contain, contain_thread};
use crate::env::{clock::instant_now, world::World};
use crate::sync::{Condvar, Mutex, MutexGuard, ThreadKind, lock, spawn_thread, wait_for};
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

/// Maximum number of threads. A guess: all of them may be inside user code, and further jobs then wait until one
/// returns.
const MOST: usize = 256;

/// Time that a thread waits for a job before it ends. A guess.
const KEEP: Duration = Duration::from_millis(200);

pub(crate) type Job = Box<dyn FnOnce() + Send>;

static NOTIFIERS: World<Notifiers> = World::new(Notifiers::new());

struct Notifiers {
    state: Mutex<NotifierState>,
    called: Condvar,
}

struct NotifierState {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Number of threads that wait and are not called.
    idle: usize,
    /// Number of called threads that were woken. At most one thread is called at a time, either woken or started.
    woken: usize,
    /// Number of called threads that were started.
    started: usize,
}

/// Returns whether the calling thread must hand user code to a notifier.
#[inline]
pub(crate) fn is_needed() -> bool {
    !ThreadKind::current().runs_users_code()
}

/// Runs user code on this thread, or on a notifier if this thread has other duties.
pub fn run(job: impl FnOnce() + Send + 'static) {
    if is_needed() { notify(Box::new(job)) } else { job() }
}

/// Wakes a task or a thread. A waker is code of its executor; if it panics, the panic does not reach the caller.
pub(crate) fn wake(site: Site, waker: Waker) {
    run(move || _ = contain(site, || waker.wake()));
}

/// Runs `job` on a notifier.
pub(crate) fn notify(job: Job) {
    NOTIFIERS.notify(job);
}

impl Notifiers {
    const fn new() -> Self {
        let state = NotifierState { jobs: VecDeque::new(), threads: 0, idle: 0, woken: 0, started: 0 };
        Self { state: Mutex::new(state), called: Condvar::new() }
    }

    fn notify(&'static self, job: Job) {
        let mut state = lock(&self.state);
        state.jobs.push_back(job);
        self.call(&mut state);
        if state.threads == 0 {
            // The system refuses to start a thread. Running the jobs here is better than never running them.
            let jobs = std::mem::take(&mut state.jobs);
            drop(state);
            perform_here(jobs);
        }
    }

    /// Performs *call*.
    fn call(&'static self, state: &mut MutexGuard<'_, NotifierState>) {
        if state.woken + state.started > 0 {
            return;
        }
        if state.idle > 0 {
            state.idle -= 1;
            state.woken += 1;
            self.called.notify_one();
        } else if state.threads < MOST
            && spawn_thread(ThreadKind::Notifier, "postroom-notify".to_string(), || self.run()).is_ok()
        {
            state.threads += 1;
            state.started += 1;
        }
    }

    fn run(&'static self) {
        contain_thread();
        let mut state = lock(&self.state);
        state.started -= 1;
        loop {
            while let Some(job) = state.jobs.pop_front() {
                if !state.jobs.is_empty() {
                    self.call(&mut state);
                }
                drop(state);
                perform(job);
                state = lock(&self.state);
            }
            // Performs *rest*.
            state.idle += 1;
            let until = instant_now() + KEEP;
            while state.woken == 0 {
                let rest = until.saturating_duration_since(instant_now());
                if rest.is_zero() {
                    state.idle -= 1;
                    state.threads -= 1;
                    return;
                }
                state = wait_for(&self.called, state, rest);
            }
            state.woken -= 1;
        }
    }
}

/// Performs jobs on the calling thread, when there is no notifier for them.
pub(crate) fn perform_here(jobs: VecDeque<Job>) {
    ThreadKind::in_place_of_notifier(|| jobs.into_iter().for_each(perform));
}

fn perform(job: Job) {
    let _panic = contain(Site::Backstop, job);
}

/// Jobs that run one after the other, in order: one that blocks delays those behind it.
#[derive(Default)]
pub(crate) struct Series(Mutex<SeriesState>);

#[derive(Default)]
struct SeriesState {
    jobs: VecDeque<Job>,
    is_running: bool,
}

impl Series {
    /// Queues the job that `make` returns behind the others, unless `most` are waiting.
    pub(crate) fn push(&'static self, most: usize, make: impl FnOnce() -> Job) {
        let mut state = lock(&self.0);
        if state.jobs.len() >= most {
            return;
        }
        state.jobs.push_back(make());
        if !std::mem::replace(&mut state.is_running, true) {
            drop(state);
            notify(Box::new(|| self.run()));
        }
    }

    fn run(&self) {
        loop {
            let mut state = lock(&self.0);
            let Some(job) = state.jobs.pop_front() else {
                state.is_running = false;
                return;
            };
            drop(state);
            perform(job);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::exit::ExitReason;
    use crate::sync::Arc;
    use std::fmt;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::ThreadId;

    /// A user's error that reports the kind of the thread on which it is dropped.
    #[derive(Debug)]
    struct Dropped(Sender<ThreadKind>);

    impl fmt::Display for Dropped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a user's error")
        }
    }

    impl std::error::Error for Dropped {}

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(ThreadKind::current()).expect("it is waited for");
        }
    }

    /// Passes the only reference to an exit reason with a user's error to `body`, on a thread of a cluster. Returns the
    /// kind of the thread on which the error is dropped.
    pub(crate) fn dropped_on(body: impl FnOnce(ExitReason) + Send) -> ThreadKind {
        let (say, said) = channel();
        let reason = ExitReason::error(Dropped(say));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                ThreadKind::Cluster.enter();
                body(reason);
            });
            assert!(thread.join().is_ok(), "users' code on a thread of a cluster");
        });
        said.recv().expect("it is dropped")
    }

    fn of_its_own() -> &'static Notifiers {
        Box::leak(Box::new(Notifiers::new()))
    }

    /// Catches: a job that waits behind one that blocks.
    #[test]
    fn no_job_waits_behind_one_that_blocks() {
        let notifiers = of_its_own();
        let mut ends = Vec::new();
        for number in 0..20 {
            let (inside, is_inside) = channel();
            let (end, until) = channel::<()>();
            notifiers.notify(Box::new(move || {
                assert_eq!(ThreadKind::current(), ThreadKind::Notifier);
                inside.send(number).expect("it is waited for");
                let _end = until.recv();
            }));
            assert_eq!(is_inside.recv(), Ok(number));
            ends.push(end);
        }
        assert_eq!(lock(&notifiers.state).threads, 20);
    }

    /// Catches: a thread that takes one of several jobs, and calls no other thread for the rest.
    #[test]
    fn what_is_queued_behind_a_called_thread_does_not_wait_for_its_job() {
        let notifiers = of_its_own();
        let (begin, begun) = channel::<()>();
        let (end, until) = channel::<()>();
        let mut state = lock(&notifiers.state);
        // Both jobs are queued before the first thread examines the queue, so it finds both.
        state.jobs.push_back(Box::new(move || {
            begin.send(()).expect("it is waited for");
            let _end = until.recv();
        }));
        notifiers.call(&mut state);
        let (say, said) = channel();
        state.jobs.push_back(Box::new(move || say.send(7).expect("it is waited for")));
        drop(state);
        assert_eq!((begun.recv(), said.recv()), (Ok(()), Ok(7)));
        drop(end);
    }

    /// Catches: a thread that ends because a job panics, or that is still counted after it has ended.
    #[test]
    fn threads_survive_panics_and_end_when_there_is_nothing_to_do() {
        let notifiers = of_its_own();
        let (say, said) = channel::<ThreadId>();
        for _ in 0..10 {
            let say = say.clone();
            notifiers.notify(Box::new(|| panic!("as users' code may")));
            notifiers.notify(Box::new(move || say.send(std::thread::current().id()).expect("it is waited for")));
        }
        assert_eq!(said.iter().take(10).count(), 10);
        while lock(&notifiers.state).threads > 0 {
            std::thread::yield_now();
        }
        let state = lock(&notifiers.state);
        assert_eq!((state.idle, state.woken, state.started, state.jobs.len()), (0, 0, 0, 0));
    }

    /// Catches: jobs of a series that run at the same time, or out of order.
    #[test]
    fn a_series_runs_one_after_the_other_and_takes_no_more_than_it_may() {
        let series: &'static Series = Box::leak(Box::default());
        let (end, until) = channel::<()>();
        let done = Arc::new(Mutex::new(Vec::new()));
        let (begin, begun) = channel();
        series.push(3, || {
            Box::new(move || {
                begin.send(()).expect("it is waited for");
                let _end = until.recv();
            })
        });
        begun.recv().expect("it begins");
        for number in 0..5 {
            let done = done.clone();
            series.push(3, || Box::new(move || lock(&done).push(number)));
        }
        assert!(lock(&done).is_empty());
        drop(end);
        while lock(&series.0).is_running {
            std::thread::yield_now();
        }
        assert_eq!(*lock(&done), [0, 1, 2]);
    }
}
