//! Processes with a thread of their own, which holds no worker.
//!
//! Each has a [`Post`]: the record of its thread, the home of its slot, and an inbox. Whoever wakes the process asks the slot's
//! home, as for any other, and that puts the token into the inbox: so a wake of an ordinary process knows nothing of this.
//! The thread takes the token out, runs a turn with what all threads run turns with, and waits for the next. It has a context,
//! so that its process is found as any other is, and counts as one that has lost its worker: what it wakes goes to the global
//! queue and is announced with the fence.
//!
//! # Birth
//!
//! * N1 the spawner does all that can refuse the process beforehand, and opens the slot, with the post for its home;
//! * N2 it starts the thread, and waits; N3 the thread makes the state and starts it, in the spawner's stead (it may look at
//!   what the slot keeps for it, since the spawner, which has the token, does not);
//! * N4 the thread answers, with the state, which stays its own wherever it is kept ([`Anchored`]), and waits for the token;
//! * N5 the spawner binds the process, puts the state into the slot and lays the token down, or wakes it. If the start has
//!   failed, it asks the thread to close and drop the state, when the PID is unroutable, and the thread ends.
//!
//! # Inbox
//!
//! There is one token, so an inbox has at most one thing in it, under a lock: nothing is overwritten and no wake is lost. The
//! thread ends when its process has: nobody else could end it, since only this thread gets the token. Then the post is free
//! for another; a late sender cannot mistake the two, since whoever has a token looks at the home of the process that lives in
//! its slot then.
//!
//! [`Anchored`]: crate::anchored::Anchored

use super::aside::while_blocked;
use super::birth::{Birth, Environment, First, Inside, Newborn};
use super::host::Host;
use super::local::Context;
use super::step::Desk;
use super::thread::{LOST, Thread};
use crate::anchored::Anchored;
use crate::clock::TimeKeeper;
use crate::dead_letter::{DeadLetter, Sink};
use crate::errors::{InitError, SpawnError};
use crate::exit::ExitReason;
use crate::mailbox::bound::Bound;
use crate::mailbox::node::{Letter, NodeBox};
use crate::oneshot::Oneshot;
use crate::pid::Pid;
use crate::process::body::Body;
use crate::process::{InitContext, Process};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, OnceLock, Ordering, lock, spawn_thread, wait};
use crate::table::{Admission, Home, Keeper, Slot, TABLE, Token};
use std::ptr;

/// Where a pinned process lives besides its slot. Never freed, as a host: a sender may look at it late.
pub(crate) struct Post {
    host: &'static Host,
    /// Of its thread: what it runs, what it counts.
    pub(crate) thread: Thread,
    home: OnceLock<&'static Home>,
    in_use: AtomicBool,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

/// What a thread is given to do.
#[derive(Default)]
struct Inbox {
    work: Option<Work>,
    /// Whether the thread waits for work, or there is none.
    rests: bool,
    /// How often it has got work.
    rises: u64,
}

enum Work {
    /// A turn of the process.
    Turn(Token),
    /// Its start has failed: close and drop it, and tell the panic of that.
    Close(Body, ExitReason, Arc<Oneshot<Option<ExitReason>>>),
    /// There is not even a state.
    Leave,
}

/// The posts of a host.
#[derive(Default)]
pub(crate) struct Posts(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    all: Vec<&'static Post>,
    free: Vec<&'static Post>,
}

impl Posts {
    /// A post that is free, or a new one.
    fn take(&self, host: &'static Host) -> &'static Post {
        let mut lists = lock(&self.0);
        if let Some(post) = lists.free.pop() {
            post.in_use.store(true, Ordering::Relaxed);
            return post;
        }
        let post: &'static Post = Box::leak(Box::new(Post {
            host,
            thread: Thread::new(),
            home: OnceLock::new(),
            in_use: AtomicBool::new(true),
            inbox: Mutex::new(Inbox { rests: true, ..Inbox::default() }),
            arrived: Condvar::new(),
        }));
        let home: &'static Home = Box::leak(Box::new(Home::beside(host.home(), post)));
        let _first = post.home.set(home);
        lists.all.push(post);
        post
    }

    fn give_back(&self, post: &'static Post) {
        post.in_use.store(false, Ordering::Relaxed);
        lock(&self.0).free.push(post);
    }

    /// All that there have ever been.
    pub(crate) fn all(&self) -> Vec<&'static Post> {
        lock(&self.0).all.clone()
    }

    /// How many pinned processes live, or come and go.
    pub(crate) fn count(&self) -> usize {
        let lists = lock(&self.0);
        lists.all.len() - lists.free.len()
    }

    /// How often any of the threads has been given work or has come to rest in a wait, if all of them rest.
    pub(crate) fn at_rest(&self) -> Option<u64> {
        self.all().into_iter().try_fold(0, |sum: u64, post| Some(sum.wrapping_add(post.at_rest()?)))
    }

    /// The host runs: turns may be taken.
    pub(crate) fn resume(&self) {
        for post in self.all() {
            // Whoever found the host paused under this lock waits by now.
            drop(lock(&post.inbox));
            post.arrived.notify_all();
        }
    }
}

impl Post {
    fn home(&self) -> &'static Home {
        self.home.get().unwrap_or_else(|| unreachable!("set when the post was made"))
    }

    /// Whether it has a process.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// What came too late for its processes.
    pub(crate) fn late(&self) -> u64 {
        self.home().late.load(Ordering::Relaxed)
    }

    fn give(&self, work: Work) {
        let mut inbox = lock(&self.inbox);
        debug_assert!(inbox.work.is_none(), "a process has one token");
        inbox.work = Some(work);
        inbox.rests = false;
        inbox.rises += 1;
        drop(inbox);
        self.arrived.notify_all();
    }

    /// Waits for something to do.
    fn next(&self) -> Work {
        let mut inbox = lock(&self.inbox);
        loop {
            // What is spawned on a host that is paused starts, and then waits.
            if !matches!(inbox.work, Some(Work::Turn(_))) || !self.host.is_paused() {
                if let Some(work) = inbox.work.take() {
                    return work;
                }
                if !inbox.rests {
                    inbox.rests = true;
                    // Not under the lock: whoever looks whether all rest looks here.
                    drop(inbox);
                    self.host.quiet.tell();
                    inbox = lock(&self.inbox);
                    continue;
                }
            }
            inbox = wait(&self.arrived, inbox);
        }
    }

    /// A number that is another one after the thread has done anything; `None` while it does.
    fn at_rest(&self) -> Option<u64> {
        let inbox = lock(&self.inbox);
        let (rests, rises) = (inbox.rests, inbox.rises);
        drop(inbox);
        let waits = if rests { self.thread.rests() } else { self.thread.at_rest()? };
        Some(rises.wrapping_add(waits))
    }

    /// The life of a process's thread.
    fn run(&'static self, env: Environment, begin: Box<Begin>, answer: &Oneshot<Begun>) {
        let host = self.host;
        let (slot, generation) = (TABLE.slot(env.pid.slot()), env.pid.generation());
        if let (Some(user), Some(deque)) = (host.user(), self.thread.occupy(host)) {
            let context =
                Context { post: Some(self), ..Context::new(host, user, (usize::MAX, &self.thread), None, deque) };
            self.thread.call(LOST);
            host.inhabit(&context, |context| {
                let begun = {
                    let _inside = Inside::enter(&env);
                    begin(&mut InitContext::of(env.pid, env.parent))
                };
                // What it inherits is the process's from here on.
                drop(env);
                answer.put(begun);
                let mut desk = Desk::new();
                loop {
                    match self.next() {
                        Work::Turn(token) => context.run_turn(&mut desk, token),
                        Work::Close(body, reason, told) => {
                            told.put(super::end::close(body, &reason));
                            return;
                        }
                        Work::Leave => return,
                    }
                    if slot.is_none_or(|slot| !slot.is_living(generation)) {
                        return;
                    }
                }
            });
            self.thread.vacate(context.deque);
        } else {
            answer.put(Begun { body: None, outcome: Err(SpawnError::Shutdown), traps: false });
            let Work::Leave = self.next() else { unreachable!("nothing was made") };
        }
        lock(&self.inbox).rests = true;
        host.posts.give_back(self);
        host.quiet.tell();
    }
}

impl Keeper for Post {
    fn wake(&'static self, token: Token) {
        self.give(Work::Turn(token));
    }

    fn bound(&self) -> Bound {
        self.host.bound()
    }

    fn crowded(&self, slot: &'static Slot) {
        self.host.crowded(slot);
    }

    fn admit(&self, slot: &'static Slot, node: NodeBox) -> Admission {
        self.host.admit(slot, node)
    }

    fn let_go(&self, slot: &'static Slot) {
        Keeper::let_go(self.host, slot);
    }

    fn redeem(&self, slot: &'static Slot, generation: u64) -> Option<Letter> {
        self.host.redeem(slot, generation)
    }

    fn time_keeper(&'static self) -> Option<&'static dyn TimeKeeper> {
        self.host.time_keeper()
    }
}

impl Sink for Post {
    fn dead_letter(&self, letter: DeadLetter) {
        self.host.dead_letter(letter);
    }
}

/// Makes the state and starts it.
type Begin = dyn FnOnce(&mut InitContext<'_>) -> Begun + Send;

/// What came of it.
struct Begun {
    /// The state, if it was made.
    body: Option<Body>,
    outcome: Result<First, SpawnError>,
    traps: bool,
}

fn begin<P: Process>(
    make: impl FnOnce() -> P,
    start: impl FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError>,
    ctx: &mut InitContext<'_>,
) -> Begun {
    let panicked = |panic| SpawnError::Init(InitError::Panicked(panic));
    let mut process = match crate::panics::contain(make) {
        Ok(process) => Anchored::new(process),
        Err(panic) => return Begun { body: None, outcome: Err(panicked(panic)), traps: false },
    };
    let outcome = crate::panics::contain(|| {
        let first = start(process.get_mut(), ctx)?;
        Ok::<_, InitError>((first, process.get().traps_exits()))
    });
    let body = Some(Body::new(process));
    match outcome {
        Ok(Ok((first, traps))) => Begun { body, outcome: Ok(first), traps },
        Ok(Err(error)) => Begun { body, outcome: Err(error.into()), traps: false },
        Err(panic) => Begun { body, outcome: Err(panicked(panic)), traps: false },
    }
}

/// A pinned process that is about to come.
struct Pinned {
    post: &'static Post,
    name: &'static str,
    begin: Option<Box<Begin>>,
    /// Whether the thread was started, which gives the post back itself.
    has_thread: bool,
    body: Option<Body>,
    traps: bool,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.has_thread {
            self.post.host.posts.give_back(self.post);
        }
    }
}

impl Newborn for Pinned {
    fn home(&self) -> &'static Home {
        self.post.home()
    }

    fn start(&mut self, env: &Environment) -> Result<First, SpawnError> {
        let Some(begin) = self.begin.take() else { return Err(SpawnError::Used) };
        let (post, env, answer) = (self.post, env.clone(), Arc::new(Oneshot::new()));
        lock(&post.inbox).rests = false;
        let theirs = answer.clone();
        match spawn_thread(self.name.to_owned(), move || post.run(env, begin, &theirs)) {
            Ok(thread) => post.host.keep_thread(thread),
            Err(error) => {
                lock(&post.inbox).rests = true;
                return Err(SpawnError::Thread(error.to_string()));
            }
        }
        self.has_thread = true;
        let Some(begun) = while_blocked(|| answer.wait(None)) else { return Err(SpawnError::Shutdown) };
        (self.body, self.traps) = (begun.body, begun.traps);
        begun.outcome
    }

    fn traps_exits(&self) -> bool {
        self.traps
    }

    fn close(mut self, reason: &ExitReason) -> Option<ExitReason> {
        let Some(body) = self.body.take() else {
            if self.has_thread {
                self.post.give(Work::Leave);
            }
            return None;
        };
        let told = Arc::new(Oneshot::new());
        self.post.give(Work::Close(body, reason.clone(), told.clone()));
        while_blocked(|| told.wait(None)).flatten()
    }

    fn into_body(mut self) -> Body {
        self.body.take().unwrap_or_else(|| unreachable!("it has started"))
    }

    fn queue(_: &'static Host, token: Token) {
        token.wake();
    }
}

impl Host {
    /// Spawns a process with a thread of its own, on which `make` makes it and `start` starts it.
    pub(crate) fn spawn_pinned<P: Process>(
        &'static self,
        birth: Birth,
        make: impl FnOnce() -> P + Send + 'static,
        start: impl FnOnce(&mut P, &mut InitContext<'_>) -> Result<First, InitError> + Send + 'static,
    ) -> Result<Pid, SpawnError> {
        // Also where no worker has been started yet: its panics are contained and told as those of all.
        crate::panics::install_hook();
        // The last part of a path: the system shows 15 letters.
        let name = (birth.kind.name)().rsplit("::").next().unwrap_or_default();
        let begin: Box<Begin> = Box::new(move |ctx| begin(make, start, ctx));
        self.bear(birth, || Pinned {
            post: self.posts.take(self),
            name,
            begin: Some(begin),
            has_thread: false,
            body: None,
            traps: false,
        })
    }
}

/// Says at which of its entries a process starts, while it does: for one of which that is known no sooner.
pub(crate) fn note_entry(pid: Pid, entry: &'static &'static str) {
    if let Some(slot) = TABLE.living(pid) {
        slot.card.entry.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
    }
}
