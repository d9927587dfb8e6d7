//! Processes with a thread of their own. Such a thread holds no permit.
//!
//! Each has a [`PinnedThread`]: the record of its thread. The record has an inbox, and owns the process's slot. A
//! thread that wakes the process passes the token to the owner of the slot, as for any process, and this owner puts it
//! into the inbox. So ordinary processes pay nothing for pinned ones. The pinned thread takes the token out, runs a
//! time slice in the run loop that all threads share, and waits for the next token. It has a context, so its process is
//! found like any other. It is marked as having lost its permit, so the run loop asks this module for its next process,
//! and any process that it wakes goes to the global queue and is announced with the fence.
//!
//! # Spawn
//!
//! * N1 the spawner performs every check that may refuse the process, and opens the slot, with the pinned thread as its
//!   owner;
//! * N2 it starts the thread, and waits; N3 the thread makes the state and starts it in the spawner's place. It may
//!   access the slot's data: the spawner has the token but does not use it, and foreign code on the spawner's thread
//!   (such as a waker) does not either, since it is not part of the start;
//! * N4 the thread answers with the state, which stays bound to the thread wherever it is stored ([`Anchored`]), and
//!   waits for the token;
//! * N5 the spawner binds the process to its supervisor and links, puts the state into the slot and parks the token, or
//!   wakes it. If the start has failed, it asks the thread to close and drop the state, once the PID is unroutable, and
//!   the thread ends.
//!
//! # Inbox
//!
//! A process has one token, so its inbox contains at most one item, under a lock: nothing is overwritten and no wake is
//! lost. The thread ends with its process. Only that thread can end the process, since only it gets the token. The
//! record is then free for another process. A late sender cannot confuse the two processes: the holder of a token reads
//! the current owner of the slot.
//!
//! [`Anchored`]: crate::util::thread_bound::Anchored

use super::blocking::block_in_place::while_blocked;
use super::context::thread::ThreadContext;
use super::host::Scheduler;
use super::lifecycle::spawn::{Environment, First, Inside, PendingSpawn, Spawnable, while_started_elsewhere};
use super::sched::run_loop::Next;
use super::sched::spare::Rest;
use super::workers::pinned::{PinnedThread, Work};
use super::workers::threads::StartedThread;
use crate::errors::{InitError, SpawnError};
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::process::body::Body;
use crate::process::{InitContext, Process};
use crate::slots::{SlotOwner, TABLE, Token};
use crate::sync::{Arc, Ordering, ThreadKind, spawn_thread_with};
use crate::thread_cache::lock::LOST;
use crate::util::oneshot::Oneshot;
use crate::util::panics::{Site, contain};
use crate::util::thread_bound::Anchored;
use std::ptr;

type StartPinned = dyn FnOnce(&mut InitContext<'_>) -> StartedPinned + Send;

struct StartedPinned {
    /// The state, if it was made.
    body: Option<Body>,
    /// The first action of the process, and whether it traps exits.
    outcome: Result<(First, bool), SpawnError>,
}

fn begin<P: Process>(
    make: impl FnOnce() -> P,
    start: impl FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError>,
    ctx: &mut InitContext<'_>,
) -> StartedPinned {
    let mut body = None;
    let outcome = contain(Site::Make, make).and_then(|made| {
        let mut process = Anchored::new(made);
        let outcome = contain(Site::Start, || {
            let first = start(process.get_mut(), ctx)?;
            Ok::<_, InitError>((first, process.get().traps_exits()))
        });
        body = Some(Body::new(process));
        outcome
    });
    let outcome = outcome.unwrap_or_else(|panic| Err(InitError::Panicked(panic)));
    StartedPinned { body, outcome: outcome.map_err(SpawnError::from) }
}

struct PinnedSpawn {
    host: &'static Scheduler,
    pinned_thread: Option<&'static PinnedThread>,
    name: &'static str,
    begin: Option<Box<StartPinned>>,
    /// Whether the thread was started, in which case the thread frees the record.
    has_thread: bool,
    body: Option<Body>,
    traps: bool,
}

impl Drop for PinnedSpawn {
    fn drop(&mut self) {
        if let Some(pinned_thread) = self.pinned_thread
            && !self.has_thread
        {
            self.host.pinned_threads.give_back(pinned_thread);
        }
    }
}

impl PinnedSpawn {
    fn pinned_thread(&mut self) -> &'static PinnedThread {
        self.pinned_thread.get_or_insert_with(|| self.host.pinned_threads.take(self.host.slot_owner()))
    }
}

impl Spawnable for PinnedSpawn {
    fn slot_owner(&mut self) -> &'static SlotOwner {
        self.pinned_thread().slot_owner()
    }

    fn start(&mut self, env: &Environment) -> Result<First, Box<SpawnError>> {
        let Some(begin) = self.begin.take() else { return Err(Box::new(SpawnError::Used)) };
        let (host, pinned_thread, theirs, answer) =
            (self.host, self.pinned_thread(), env.clone(), Arc::new(Oneshot::new()));
        pinned_thread.begins();
        let sender = answer.clone();
        let run = move || host.run_pinned(pinned_thread, theirs, begin, &sender);
        match spawn_thread_with(ThreadKind::Pinned, self.name.to_owned(), host.config.stack, run) {
            Ok(thread) => host.keep_thread(StartedThread::of_thread(thread, Some(&pinned_thread.thread))),
            Err(error) => {
                pinned_thread.ends();
                return Err(Box::new(SpawnError::Thread(error.to_string())));
            }
        }
        self.has_thread = true;
        let begun = while_started_elsewhere(env, || while_blocked(|| answer.wait(None)));
        let Some(begun) = begun else { return Err(Box::new(SpawnError::Shutdown)) };
        self.body = begun.body;
        let (first, traps) = begun.outcome?;
        self.traps = traps;
        Ok(first)
    }

    fn traps_exits(&self) -> bool {
        self.traps
    }

    fn close(mut self, reason: &ExitReason) -> Option<ExitReason> {
        let Some(body) = self.body.take() else {
            if self.has_thread {
                self.pinned_thread().give(Work::Leave);
            }
            return None;
        };
        let closed = Arc::new(Oneshot::new());
        self.pinned_thread().give(Work::Close(body, reason.clone(), closed.clone()));
        while_blocked(|| closed.wait(None)).flatten()
    }

    fn into_body(mut self) -> Body {
        self.body.take().unwrap_or_else(|| unreachable!("it has started"))
    }

    fn queue(_: &'static Scheduler, token: Token) {
        token.wake();
    }
}

impl ThreadContext {
    /// Returns the next action of a pinned process's thread, for the common run loop.
    pub(crate) fn next_of_pinned(&self, pinned_thread: &'static PinnedThread) -> Next {
        if pinned_thread.has_ended() {
            return Next::Exit(self.flush());
        }
        match pinned_thread.try_take(|| self.host.is_paused(), || self.host.quiet.notify()) {
            None => Next::Park(Rest::Inbox(pinned_thread)),
            Some(Work::Slice(token)) => {
                pinned_thread.runs(token.pid());
                self.run_or_time(token)
            }
            Some(Work::Close(body, reason, closed)) => {
                closed.put(self.thread.visit(|| crate::engine::lifecycle::exit::close(body, &reason)));
                Next::Exit(self.flush())
            }
            Some(Work::Leave) => Next::Exit(self.flush()),
        }
    }
}

impl Scheduler {
    fn run_pinned(
        &'static self,
        pinned_thread: &'static PinnedThread,
        env: Environment,
        begin: Box<StartPinned>,
        answer: &Oneshot<StartedPinned>,
    ) {
        if let (Some(user), Some(deque)) = (self.user(), pinned_thread.thread.occupy(self)) {
            let context = ThreadContext {
                pinned_thread: Some(pinned_thread),
                ..ThreadContext::new(self, user, (usize::MAX, &pinned_thread.thread), None, deque)
            };
            pinned_thread.thread.call(LOST);
            self.inhabit(&context, |context| {
                let begun = pinned_thread.thread.visit(|| {
                    let begun = {
                        let _inside = Inside::enter(&env);
                        in_place_of_the_spawner(env.pid, || begin(&mut InitContext::of(env.pid, env.parent)))
                    };
                    // The inherited values belong to the process from here on.
                    drop(env);
                    begun
                });
                answer.put(begun);
                context.run();
            });
            pinned_thread.thread.vacate(context.deque);
        } else {
            answer.put(StartedPinned { body: None, outcome: Err(SpawnError::Shutdown) });
            let work = loop {
                match pinned_thread.try_take(|| false, || self.quiet.notify()) {
                    Some(work) => break work,
                    None => pinned_thread.wait(|| false),
                }
            };
            debug_assert!(matches!(work, Work::Leave), "nothing was made");
        }
        pinned_thread.ends();
        self.pinned_threads.give_back(pinned_thread);
        self.quiet.notify();
    }

    /// Spawns a process with a thread of its own, on which `make` creates it and `start` starts it.
    pub(crate) fn spawn_pinned<P: Process>(
        &'static self,
        pending: &mut PendingSpawn,
        make: impl FnOnce() -> P + Send + 'static,
        start: impl FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError> + Send + 'static,
    ) -> Result<Pid, SpawnError> {
        // A paused host needs the panic hook, too, so that the panics of the process are contained and reported like
        // all others.
        crate::util::panics::install_hook();
        // Only the last part of the path is used, since the system shows only 15 characters.
        let name = (pending.kind.name)().rsplit("::").next().unwrap_or_default();
        let begin: Box<StartPinned> = Box::new(move |ctx| begin(make, start, ctx));
        let spawned = PinnedSpawn {
            host: self,
            pinned_thread: None,
            name,
            begin: Some(begin),
            has_thread: false,
            body: None,
            traps: false,
        };
        self.start_process(pending, spawned)
    }
}

/// Performs N3: runs `begin` on the process's own thread, while the spawner has its token.
fn in_place_of_the_spawner<R>(pid: Pid, begin: impl FnOnce() -> R) -> R {
    let Some(slot) = TABLE.living(pid) else { return begin() };
    let spawner = slot.debug_owner.take_over();
    let begun = begin();
    slot.debug_owner.give_back(spawner);
    begun
}

/// Stores the entry of a starting process whose entry was not known before.
pub(crate) fn note_entry(pid: Pid, entry: &'static &'static str) {
    if let Some(slot) = TABLE.living(pid) {
        slot.metadata.entry.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
    }
}
