//! Where a child is reached, whichever life it is in: who serves there now, and what waits for the next.
//!
//! A slot is *up* while a process serves. What is sent then goes straight to that process. When the process ends:
//!
//! 1. the slot gives its PID out no more, and waits until those that have been given it are done with it (they
//!    are few instructions from that; only a slot that keeps messages counts them);
//! 2. so no message can come into the dead process's mailbox after it has been emptied into the slot;
//! 3. what is sent from then on waits in the slot, behind what was in the mailbox;
//! 4. when the successor has started it is sent all that, in order, and the slot is up only when nothing is left.
//!
//! So the messages of one sender keep their order across the restart, and none is lost in between.

use super::status::ChildStatus;
use crate::call::caller::Caller;
use crate::call::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::call::package::{Package, Undeliverable};
use crate::engine::backpressure::congestion::{Manner, in_manner};
use crate::engine::blocking::block_in_place::while_blocked;
use crate::engine::host::Scheduler;
use crate::engine::host::backlog::Backlog;
use crate::env::clock::instant_now;
use crate::errors::{CallError, SendFailure};
use crate::exit::ExitReason;
use crate::pid::{GENERATION_BITS, GENERATION_MASK, Pid};
use crate::routing::alias::{self, AliasTarget};
use crate::routing::router::{deliver, deliver_anyway};
use crate::slots::ProcessKind;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock, park, yield_now};
use crate::util::oneshot::Oneshot;
use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// How many messages wait for a child that is down, unless it is said otherwise.
pub(crate) const KEEPS: usize = 1_024;

/// How long a process that ends waits for those who are sending to it at that moment. They need some nanoseconds,
/// unless their thread is put aside: on a machine with more to do than it can, for longer than a tenth of a second.
/// Without any bound a sender that never returns, in a user's hook for dead letters, would keep a worker for ever; the
/// message of one that takes longer than this is a dead letter.
const HURRY: Duration = Duration::from_secs(10);

/// Of a child that is a supervisor: what is known of its children.
pub(super) trait Subtree: Send + Sync {
    /// There is no supervisor of them any more, and none will come by itself.
    fn shut(&self, reason: &ExitReason);

    /// Nor can anyone start one: their PIDs are retired.
    fn retire(&self, reason: &ExitReason);

    /// What it is.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// How often it looks for them before it lends its worker, and how long it pauses between two looks then. Guesses: most
/// are gone before the first look.
const GLANCES: usize = 100;
const PAUSE: Duration = Duration::from_micros(100);

/// See the module.
pub(crate) struct ChildSlot {
    pub(crate) name: Arc<str>,
    /// The type of process, if the closure says so that its supervisor was built with.
    pub(crate) kind: Option<&'static ProcessKind>,
    /// The same of the closure that starts it next, which may be another one by now.
    next_kind: Mutex<Option<&'static ProcessKind>>,
    /// How many messages wait while the child is down; `None`: they come back to their senders.
    pub(crate) keeps: Option<usize>,
    host: &'static Scheduler,
    /// The PID of the process that serves, in two words. The second, slot and generation, is zero if none does.
    place: AtomicU64,
    life: AtomicU64,
    /// How many senders have been given the PID and are not done with it; not counted if nothing is kept.
    inside: AtomicUsize,
    spawn: Mutex<Door>,
    /// What is told of the child.
    pub(super) status: Mutex<ChildStatus>,
    /// Of a child that is a supervisor: what is known of its children.
    pub(super) subtree: Mutex<Option<Arc<dyn Subtree>>>,
}

struct Door {
    state: SlotState,
    /// The process that serves, or is ending.
    process: Option<Pid>,
    /// What waits, in this order: what the process that is ending leaves (which is complete when it has ended), what
    /// the ones before it left and no successor got, what was sent since.
    left: VecDeque<Package>,
    older: VecDeque<Package>,
    kept: VecDeque<Package>,
    /// Who wants to know when there may be a process again.
    rooms: Vec<Arc<Oneshot<()>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// Not started yet: what is sent waits, whatever is kept later.
    New,
    Up,
    Down,
    /// The child does not come back by itself.
    Shut,
}

impl ChildSlot {
    pub(super) fn new(
        name: Arc<str>,
        kind: Option<&'static ProcessKind>,
        keeps: Option<usize>,
        host: &'static Scheduler,
        subtree: Option<Arc<dyn Subtree>>,
    ) -> Self {
        let [left, older, kept] = [(); 3].map(|()| VecDeque::new());
        let spawn = Door { state: SlotState::New, process: None, left, older, kept, rooms: Vec::new() };
        Self {
            name,
            kind,
            next_kind: Mutex::new(kind),
            keeps,
            host,
            place: AtomicU64::new(0),
            life: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            spawn: Mutex::new(spawn),
            status: Mutex::default(),
            subtree: Mutex::new(subtree),
        }
    }

    /// The type that the child is started as next, if the closure that does so says it.
    pub(crate) fn next_kind(&self) -> Option<&'static ProcessKind> {
        *lock(&self.next_kind)
    }

    /// Another closure starts the child from here on, which gives processes of this type.
    pub(crate) fn redefine(&self, kind: Option<&'static ProcessKind>) {
        *lock(&self.next_kind) = kind;
    }

    /// The name, for messages to people.
    pub(crate) fn short_name(&self) -> String {
        self.name.chars().take(80).collect()
    }

    /// A process serves from here on. It gets all that has waited.
    pub(crate) fn up(&self, pid: Pid) {
        // As others who send to it: when it ends before this is over, what it leaves is waited for too.
        self.inside.fetch_add(1, Ordering::SeqCst);
        // Its supervisor, whose step this is, is not held for the mailbox that becomes too full.
        in_manner(Manner::Try, || self.hand_over(pid));
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn hand_over(&self, pid: Pid) {
        loop {
            let mut spawn = lock(&self.spawn);
            spawn.process = Some(pid);
            if spawn.older.is_empty() && spawn.kept.is_empty() {
                spawn.state = SlotState::Up;
                self.place.store(pid.place().get(), Ordering::Relaxed);
                self.life.store(word(pid), Ordering::SeqCst);
                return tell(spawn);
            }
            if spawn.state == SlotState::Shut {
                spawn.state = SlotState::Down;
            }
            // Sent without the lock, since that may dispose of what others have sent, which shows it to a user's hook.
            let mut waiting = std::mem::take(&mut spawn.older);
            waiting.append(&mut spawn.kept);
            drop(spawn);
            while let Some(package) = waiting.pop_front() {
                if let Err(package) = hand(pid, package) {
                    // It has ended already. What it has been sent comes back as what it left, ahead of this.
                    waiting.push_front(package);
                    let mut spawn = lock(&self.spawn);
                    spawn.older = waiting;
                    return;
                }
            }
        }
    }

    /// The process that served ends: its PID is given out no more.
    pub(crate) fn ending(&self) {
        self.life.store(0, Ordering::SeqCst);
    }

    /// Waits until all that were given its PID are done with it.
    pub(crate) fn quiesce(&self) {
        let until = instant_now().checked_add(HURRY);
        let is_over = || self.inside.load(Ordering::SeqCst) == 0 || until.is_some_and(|until| instant_now() >= until);
        for _ in 0..GLANCES {
            if is_over() {
                return;
            }
            yield_now();
        }
        // One of them may need this worker to go on: a process that waited for room inside its step.
        while_blocked(|| {
            while !is_over() {
                park(Some(PAUSE));
            }
        });
    }

    /// Takes what the process that served has not handled.
    pub(crate) fn inherit(&self, package: Package) -> Result<(), Package> {
        let mut spawn = lock(&self.spawn);
        if self.keeps.is_none() || spawn.state == SlotState::Shut {
            return Err(package);
        }
        spawn.left.push_back(package);
        Ok(())
    }

    /// The process that served has ended, or none could be started.
    pub(crate) fn down(&self, reason: &ExitReason) {
        self.life.store(0, Ordering::SeqCst);
        let mut spawn = lock(&self.spawn);
        spawn.process = None;
        if spawn.state == SlotState::Shut {
            return;
        }
        spawn.state = SlotState::Down;
        if self.keeps.is_some() {
            let mut older = std::mem::take(&mut spawn.left);
            older.append(&mut spawn.older);
            spawn.older = older;
            return;
        }
        let unwanted = spawn.take_all();
        drop(spawn);
        self.bury(unwanted, reason);
    }

    /// The child does not come back by itself: what waits for it are dead letters, whose callers learn why.
    pub(crate) fn shut(&self, reason: &ExitReason) {
        self.life.store(0, Ordering::SeqCst);
        let mut spawn = lock(&self.spawn);
        spawn.state = SlotState::Shut;
        tell(spawn);
        self.empty(reason);
        let subtree = lock(&self.subtree).clone();
        if let Some(subtree) = subtree {
            subtree.shut(reason);
        }
    }

    /// No supervisor is left that could start the child again. It has been shut, and so is what there is below it.
    pub(crate) fn retire(&self, reason: &ExitReason) {
        let subtree = lock(&self.subtree).clone();
        if let Some(subtree) = subtree {
            subtree.retire(reason);
        }
    }

    /// What waits is dead letters.
    pub(crate) fn empty(&self, reason: &ExitReason) {
        let waiting = lock(&self.spawn).take_all();
        self.bury(waiting, reason);
    }

    fn bury(&self, packages: VecDeque<Package>, reason: &ExitReason) {
        for package in packages {
            let (to, message, caller) = package.into_parts();
            self.host.dead_letter(DeadLetter { to, message, reason: DeadLetterReason::Ended });
            // After the letter: a caller that is told finds it counted.
            if let Some(caller) = caller {
                Caller::fail(caller, CallError::Gone(reason.clone()));
            }
        }
    }

    /// Keeps a package for the process that serves next; `ended` has served, and does not any more. It comes back
    /// without a reason if another process serves already.
    fn keep(&self, package: Package, ended: u64) -> Result<(), (Package, Option<SendFailure>)> {
        let pid = package.to();
        let mut spawn = lock(&self.spawn);
        let life = self.life.load(Ordering::SeqCst);
        if spawn.state == SlotState::Up && life != 0 && life != ended {
            drop(spawn);
            return Err((package, None));
        }
        let most = match (spawn.state, self.keeps) {
            (SlotState::Shut, _) => None,
            (SlotState::New, keeps) => Some(keeps.unwrap_or(KEEPS)),
            (_, keeps) => keeps,
        };
        match most {
            None if spawn.state == SlotState::Shut => Err((package, Some(SendFailure::Gone(pid)))),
            // Also from when its process has ended until its supervisor has decided what follows from that.
            None => Err((package, Some(SendFailure::Restarting(pid)))),
            Some(most) if spawn.kept.len() >= most => Err((package, Some(SendFailure::Full(pid)))),
            Some(_) => {
                spawn.kept.push_back(package);
                Ok(())
            }
        }
    }
}

/// Those who wait for a process look again.
fn tell(mut spawn: MutexGuard<'_, Door>) {
    let rooms = std::mem::take(&mut spawn.rooms);
    // Their wakers may do anything.
    drop(spawn);
    rooms.iter().for_each(|room| _ = room.put(()));
}

impl Door {
    /// All that waits, in order.
    fn take_all(&mut self) -> VecDeque<Package> {
        let mut all = std::mem::take(&mut self.left);
        all.append(&mut self.older);
        all.append(&mut self.kept);
        all
    }
}

impl Backlog for ChildSlot {
    fn is_empty(&self) -> bool {
        let spawn = lock(&self.spawn);
        spawn.left.is_empty() && spawn.older.is_empty() && spawn.kept.is_empty()
    }
}

impl AliasTarget for ChildSlot {
    fn now(&self) -> Option<Pid> {
        let life = self.life.load(Ordering::SeqCst);
        let place = NonZeroU64::new(self.place.load(Ordering::Relaxed)).filter(|_| life != 0)?;
        Some(Pid::of_words(place, (life >> GENERATION_BITS) as u32, life & GENERATION_MASK))
    }

    fn enter(&self) -> Option<Pid> {
        // Counted before it looks; an ending process looks at the count after it has said that none serves: one of the
        // two sees the other.
        if self.keeps.is_some() {
            self.inside.fetch_add(1, Ordering::SeqCst);
        }
        let now = self.now();
        if now.is_none() {
            self.left();
        }
        now
    }

    fn left(&self) {
        if self.keeps.is_some() {
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn take(&self, mut package: Package) -> Result<(), Undeliverable> {
        let to = package.to();
        loop {
            let mut ended = 0;
            // Whether it has come up since the sender looked.
            if let Some(pid) = self.enter() {
                ended = word(pid);
                let (_, payload, caller) = package.into_parts();
                let sent = deliver(pid, payload, caller);
                self.left();
                match sent {
                    Ok(()) => return Ok(()),
                    Err(Undeliverable { package: back, reason: SendFailure::Gone(_) }) => package = addressed(back, to),
                    Err(Undeliverable { package, reason }) => {
                        return Err(Undeliverable { package: addressed(package, to), reason: reason.about(to) });
                    }
                }
            }
            package = match self.keep(package, ended) {
                Ok(()) => return Ok(()),
                Err((package, Some(reason))) => return Err(Undeliverable { package, reason }),
                Err((package, None)) => package,
            };
        }
    }

    fn life(&self) -> Option<Pid> {
        lock(&self.spawn).process
    }

    /// What it is now, which may have been upgraded, else what it is to be. A life that points on itself, as that of a
    /// pool does, is not what its addresses are checked by.
    fn kind(&self) -> Option<&'static ProcessKind> {
        let life = self.life().filter(|pid| !pid.is_alias());
        life.and_then(alias::kind).or_else(|| self.next_kind())
    }

    fn owner(&self) -> u16 {
        self.host.number()
    }

    /// Room is when a process serves again, or when it is known that none will.
    fn room(&self) -> Option<Arc<Oneshot<()>>> {
        let mut spawn = lock(&self.spawn);
        let is_settled = spawn.state == SlotState::Shut || self.life.load(Ordering::SeqCst) != 0;
        if is_settled {
            return None;
        }
        let room = Arc::new(Oneshot::new());
        spawn.rooms.retain(|room| !room.is_abandoned());
        spawn.rooms.push(room.clone());
        Some(room)
    }
}

/// Slot and generation; not zero, as the first generation is one.
fn word(pid: Pid) -> u64 {
    u64::from(pid.slot()) << GENERATION_BITS | pid.generation()
}

/// Hands a package over to a process, however full its mailbox is: it has been accepted before. It comes back if the
/// process has ended.
fn hand(pid: Pid, package: Package) -> Result<(), Package> {
    let to = package.to();
    let (_, payload, caller) = package.into_parts();
    deliver_anyway(pid, payload, caller).map_err(|package| addressed(package, to))
}

/// The package, for this one.
fn addressed(package: Package, to: Pid) -> Package {
    let (_, payload, caller) = package.into_parts();
    Package::from_parts(to, payload, caller)
}

/// No supervisor is left that could start another.
impl Drop for ChildSlot {
    fn drop(&mut self) {
        tell(lock(&self.spawn));
        self.empty(&ExitReason::Gone);
    }
}

#[cfg(test)]
mod tests;
