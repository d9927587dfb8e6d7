//! The stable target of a child's address: the process that serves now, and messages that wait for the next.
//!
//! A slot is *up* while a process serves, and forwards messages to it. When the process ends:
//!
//! 1. the slot no longer gives out its PID, and waits until the senders that already have it are done (they are within
//!    a few instructions of that; only a slot that keeps messages counts them);
//! 2. so no message can enter the dead process's mailbox after it was emptied into the slot;
//! 3. later messages wait in the slot, behind those from the mailbox;
//! 4. the successor gets all of them in order once it has started, and the slot is up only when none is left. If it is
//!    on another node and there is no room on the way, the rest waits in the slot, and the supervisor goes on with them
//!    when there is.
//!
//! So the messages of one sender keep their order across the restart, and none is lost in between.

use super::status::ChildStatus;
use crate::call::{dead_letter::DeadLetterReason, package::Undeliverable};
use crate::engine::backpressure::congestion::{SendMode, with_mode};
use crate::engine::{blocking::block_in_place::while_blocked, host::Scheduler, host::backlog::Backlog};
use crate::routing::alias::{self, AliasTarget};
use crate::routing::hosts::is_here;
use crate::routing::router::{deliver_anyway, deliver_beyond, queue_abroad, route};
use crate::routing::transport_queue::TransportQueue;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock, park, yield_now};
use crate::{
    CallError, ExitReason, Package, Pid,
    env::clock::instant_now,
    errors::SendFailure,
    slots::ProcessKind,
    util::{defer::defer, oneshot::Oneshot},
};
use std::{any::Any, collections::VecDeque, num::NonZeroU64, sync::Arc, time::Duration};

/// The default limit of messages that wait for a child that is down.
pub(crate) const KEEPS: usize = 1_024;

/// How long an ending process waits for concurrent senders. They need some nanoseconds, unless their thread is
/// preempted: on an overloaded machine for more than a tenth of a second. The wait is bounded because a sender that
/// never returns, from a user's hook for dead letters, would keep a worker for ever; a message that takes longer
/// becomes a dead letter.
const SENDERS_PATIENCE: Duration = Duration::from_secs(10);

/// The children of a child that is a supervisor.
pub(super) trait Subtree: Any + Send + Sync {
    /// Called when they have no supervisor and none will follow by itself.
    fn shut(&self, reason: &ExitReason);

    /// Called when no supervisor can follow at all: their PIDs are retired.
    fn retire(&self, reason: &ExitReason);
}

/// How often it polls for senders before it lends its worker, and the pause between polls after that. Guesses: most are
/// gone before the first poll.
const POLLS: usize = 100;
const PAUSE: Duration = Duration::from_micros(100);

pub(crate) struct ChildSlot {
    pub(crate) name: Arc<str>,
    /// The process type, if the closure that the supervisor was built with tells it.
    pub(crate) kind: Option<&'static ProcessKind>,
    /// The type of the closure that starts it next, which may have been replaced.
    next_kind: Mutex<Option<&'static ProcessKind>>,
    /// How many messages wait while the child is down; `None`: they are returned to their senders.
    pub(crate) keeps: Option<usize>,
    host: &'static Scheduler,
    /// The PID of the serving process, in two words. The second, slot and generation, is zero if there is none.
    place: AtomicU64,
    incarnation: AtomicU64,
    /// The number of senders that hold the PID; not counted if nothing is kept.
    inside: AtomicUsize,
    queue: Mutex<ChildQueue>,
    pub(super) status: Mutex<ChildStatus>,
    pub(super) subtree: Mutex<Option<Arc<dyn Subtree>>>,
}

struct ChildQueue {
    state: SlotState,
    /// The process that serves or is ending.
    process: Option<Pid>,
    /// Waiting messages, in this order: those left by the process that is ending (complete when it has ended), those
    /// left by earlier ones that no successor got, those sent since.
    left: VecDeque<Package>,
    older: VecDeque<Package>,
    kept: VecDeque<Package>,
    /// Signalled when there may be a process again.
    waiters: Vec<Arc<Oneshot<()>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// Not started yet: messages wait, whatever is kept later.
    New,
    Up,
    Down,
    /// The child will not come back by itself.
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
        let queue = ChildQueue { state: SlotState::New, process: None, left, older, kept, waiters: Vec::new() };
        Self {
            name,
            kind,
            next_kind: Mutex::new(kind),
            keeps,
            host,
            place: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            queue: Mutex::new(queue),
            status: Mutex::default(),
            subtree: Mutex::new(subtree),
        }
    }

    /// Returns the type of the next start, if its closure tells it.
    pub(crate) fn next_kind(&self) -> Option<&'static ProcessKind> {
        *lock(&self.next_kind)
    }

    /// Sets the type of the closure that starts the child from here on.
    pub(crate) fn redefine(&self, kind: Option<&'static ProcessKind>) {
        *lock(&self.next_kind) = kind;
    }

    pub(crate) fn short_name(&self) -> String {
        self.name.chars().take(80).collect()
    }

    /// Sets the serving process and sends it all waiting messages. If it is on another node and there is no room for
    /// all, returns where there will be: the rest waits in its order until this is called again.
    #[must_use = "the rest of the messages waits for another call"]
    pub(crate) fn up(&self, pid: Pid) -> Option<TransportQueue> {
        // Counted like other senders: if it ends meanwhile, its end waits for this hand-over.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let _left = defer(|| _ = self.inside.fetch_sub(1, Ordering::SeqCst));
        // The supervisor, whose step this is, must not be suspended at a full mailbox.
        with_mode(SendMode::Try, || self.hand_over(pid))
    }

    fn hand_over(&self, pid: Pid) -> Option<TransportQueue> {
        loop {
            let mut queue = lock(&self.queue);
            queue.process = Some(pid);
            if queue.older.is_empty() && queue.kept.is_empty() {
                queue.state = SlotState::Up;
                self.place.store(pid.place().get(), Ordering::Relaxed);
                self.incarnation.store(pid.incarnation(), Ordering::SeqCst);
                wake_waiters(queue);
                return None;
            }
            if queue.state == SlotState::Shut {
                queue.state = SlotState::Down;
            }
            // Sent outside the lock: a message that is refused is shown to a user's hook.
            let mut waiting = std::mem::take(&mut queue.older);
            waiting.append(&mut queue.kept);
            drop(queue);
            while let Some(package) = waiting.pop_front() {
                if let Err(Undeliverable { package, reason }) = redeliver(pid, package) {
                    let is_full = matches!(reason, SendFailure::Full(_));
                    // On another node, and there is no room on the way.
                    let room = is_full.then(|| queue_abroad(pid)).flatten();
                    if room.is_none() && !is_over(reason) {
                        // It cannot travel, or the transport does not tell when there is room.
                        let why = if is_full { DeadLetterReason::Overflow } else { DeadLetterReason::Ended };
                        package.fail(self.host, why, reason.into());
                        continue;
                    }
                    // Or it has ended already. Messages sent to it return as its remains, ahead of this one.
                    waiting.push_front(package);
                    let mut queue = lock(&self.queue);
                    queue.older = waiting;
                    return room;
                }
            }
        }
    }

    /// Stops giving out the PID of a process that ends.
    pub(crate) fn ending(&self) {
        self.incarnation.store(0, Ordering::SeqCst);
    }

    /// Waits for the senders that hold the PID.
    pub(crate) fn quiesce(&self) {
        let until = instant_now().checked_add(SENDERS_PATIENCE);
        let is_over = || self.inside.load(Ordering::SeqCst) == 0 || until.is_some_and(|until| instant_now() >= until);
        for _ in 0..POLLS {
            if is_over() {
                return;
            }
            yield_now();
        }
        // A sender may need this worker to continue: a process that waits for room inside its step.
        while_blocked(|| {
            while !is_over() {
                park(Some(PAUSE));
            }
        });
    }

    pub(crate) fn take_unhandled(&self, package: Package) -> Result<(), Package> {
        let mut queue = lock(&self.queue);
        // A tick of the process's own is not for its successor, whose timers send others.
        if self.keeps.is_none() || queue.state == SlotState::Shut || package.is_tick() {
            return Err(package);
        }
        queue.left.push_back(package);
        Ok(())
    }

    /// Marks the child as down: its process has ended, or none could be started.
    pub(crate) fn down(&self, reason: &ExitReason) {
        self.incarnation.store(0, Ordering::SeqCst);
        let mut queue = lock(&self.queue);
        queue.process = None;
        if queue.state == SlotState::Shut {
            return;
        }
        queue.state = SlotState::Down;
        if self.keeps.is_some() {
            let mut older = std::mem::take(&mut queue.left);
            older.append(&mut queue.older);
            queue.older = older;
            return;
        }
        let unwanted = queue.take_all();
        drop(queue);
        self.make_dead_letters(unwanted, reason);
    }

    /// Marks the child as not coming back: waiting messages become dead letters, whose callers learn the reason.
    pub(crate) fn shut(&self, reason: &ExitReason) {
        self.incarnation.store(0, Ordering::SeqCst);
        let mut queue = lock(&self.queue);
        queue.state = SlotState::Shut;
        wake_waiters(queue);
        self.empty(reason);
        let subtree = lock(&self.subtree).clone();
        if let Some(subtree) = subtree {
            subtree.shut(reason);
        }
    }

    /// Called when no supervisor is left that could restart it, after [`shut`](Self::shut): retires its children.
    pub(crate) fn retire(&self, reason: &ExitReason) {
        let subtree = lock(&self.subtree).clone();
        if let Some(subtree) = subtree {
            subtree.retire(reason);
        }
    }

    pub(crate) fn empty(&self, reason: &ExitReason) {
        let waiting = lock(&self.queue).take_all();
        self.make_dead_letters(waiting, reason);
    }

    fn make_dead_letters(&self, packages: VecDeque<Package>, reason: &ExitReason) {
        for package in packages {
            package.fail(self.host, DeadLetterReason::Ended, CallError::Gone(reason.clone()));
        }
    }

    /// Keeps a package for the next process; `ended` no longer serves. Returns the package without a reason if another
    /// process already serves.
    fn keep(&self, package: Package, ended: Option<Pid>) -> Result<(), (Package, Option<SendFailure>)> {
        let pid = package.to();
        let mut queue = lock(&self.queue);
        // As a whole: processes of two nodes can have the same incarnation.
        if queue.state == SlotState::Up && self.now().is_some_and(|now| Some(now) != ended) {
            drop(queue);
            return Err((package, None));
        }
        let most = match (queue.state, self.keeps) {
            (SlotState::Shut, _) => None,
            (SlotState::New, keeps) => Some(keeps.unwrap_or(KEEPS)),
            (_, keeps) => keeps,
        };
        match most {
            None if queue.state == SlotState::Shut => Err((package, Some(SendFailure::Gone(pid)))),
            // Also between the end of its process and the supervisor's decision.
            None => Err((package, Some(SendFailure::Restarting(pid)))),
            Some(most) if queue.kept.len() >= most => Err((package, Some(SendFailure::Full(pid)))),
            Some(_) => {
                queue.kept.push_back(package);
                Ok(())
            }
        }
    }
}

fn wake_waiters(mut queue: MutexGuard<'_, ChildQueue>) {
    let waiters = std::mem::take(&mut queue.waiters);
    // Outside the lock: wakers may do anything.
    drop(queue);
    waiters.iter().for_each(|waiter| _ = waiter.put(()));
}

impl ChildQueue {
    fn take_all(&mut self) -> VecDeque<Package> {
        let mut all = std::mem::take(&mut self.left);
        all.append(&mut self.older);
        all.append(&mut self.kept);
        all
    }
}

impl Backlog for ChildSlot {
    fn is_empty(&self) -> bool {
        let queue = lock(&self.queue);
        queue.left.is_empty() && queue.older.is_empty() && queue.kept.is_empty()
    }
}

impl AliasTarget for ChildSlot {
    fn now(&self) -> Option<Pid> {
        loop {
            let incarnation = self.incarnation.load(Ordering::SeqCst);
            let place = NonZeroU64::new(self.place.load(Ordering::Acquire)).filter(|_| incarnation != 0)?;
            // On another node it has another place: both are to be of one process.
            if self.incarnation.load(Ordering::SeqCst) == incarnation {
                return Some(Pid::of_words(place, incarnation));
            }
        }
    }

    fn enter(&self) -> Option<Pid> {
        // Counted before the look; an ending process reads the count after it has cleared the PID: one sees the other.
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
            let mut ended = None;
            // It may have come up since the sender looked.
            if let Some(pid) = self.enter() {
                ended = Some(pid);
                // Also if a transport panics: the end of the process would wait for this sender.
                let left = defer(|| self.left());
                // It may be on another node.
                let sent = route(package.readdressed(pid));
                drop(left);
                let Err(Undeliverable { package: back, reason }) = sent else { return Ok(()) };
                package = back.readdressed(to);
                if !is_over(reason) {
                    return Err(Undeliverable { package, reason: reason.about(to) });
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
        lock(&self.queue).process
    }

    /// Returns the type of the process, which may have been upgraded, or that of the next start. The process of an
    /// alias, such as a pool's, is not what addresses are checked against.
    fn kind(&self) -> Option<&'static ProcessKind> {
        let process = self.life().filter(|pid| !pid.is_alias());
        process.and_then(alias::kind).or_else(|| self.next_kind())
    }

    fn owner(&self) -> u16 {
        self.host.number()
    }

    /// Signals when a process serves again, or when none will.
    fn room(&self) -> Option<Arc<Oneshot<()>>> {
        let mut queue = lock(&self.queue);
        let is_settled = queue.state == SlotState::Shut || self.incarnation.load(Ordering::SeqCst) != 0;
        if is_settled {
            return None;
        }
        let waiter = Arc::new(Oneshot::new());
        queue.waiters.retain(|waiter| !waiter.is_abandoned());
        queue.waiters.push(waiter.clone());
        Some(waiter)
    }
}

/// Delivers a package, which was accepted before, to a process, however full its mailbox is. Returns it if the process
/// has ended, or if it is on another node and cannot get it, also not beyond the bound of the way there.
fn redeliver(pid: Pid, package: Package) -> Result<(), Undeliverable> {
    let to = package.to();
    let (_, payload, caller) = package.into_parts();
    let sent = deliver_anyway(pid, payload, caller).or_else(|refused| match refused.reason {
        SendFailure::Full(_) if !is_here(pid) => deliver_beyond(refused.package),
        _ => Err(refused),
    });
    sent.map_err(|Undeliverable { package, reason }| Undeliverable { package: package.readdressed(to), reason })
}

/// Returns whether a message was refused because its process has ended, or its node is lost.
fn is_over(refusal: SendFailure) -> bool {
    matches!(refusal, SendFailure::Gone(_) | SendFailure::UnknownNode(_))
}

/// No supervisor is left that could restart it.
impl Drop for ChildSlot {
    fn drop(&mut self) {
        wake_waiters(lock(&self.queue));
        self.empty(&ExitReason::NoProcess);
    }
}

#[cfg(test)]
mod tests;
