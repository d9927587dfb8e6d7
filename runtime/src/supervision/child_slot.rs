//! The stable target of a child's address: the process that serves now, and messages that wait for the next one.
//!
//! A slot is *up* while a process serves, and forwards messages to it. When the process ends:
//!
//! 1. the slot no longer hands out its PID, and waits until the senders that already have the PID are done (they are
//!    within a few instructions of being done; only a slot that keeps messages counts them);
//! 2. so no message can enter the dead process's mailbox after it was emptied into the slot;
//! 3. later messages wait in the slot, behind those from the mailbox;
//! 4. the successor gets all of them in order once it has started, and the slot is up only when none is left. If the
//!    successor is on another node and the transport has no room, the rest waits in the slot, and the supervisor
//!    continues with it when there is room.
//!
//! So the messages of one sender keep their order across the restart, and none is lost in between.
//!
//! Requests to the process are passed on, or wait: see [`held`](super::held). A *wait* for the end (a join, link or
//! monitor) must reach a process that will report its end, or wait for the next process. It may race with a process
//! that ends:
//!
//! 1. a wait is counted as being on its way, under the lock, if the process has not declared that it accepts no more
//!    waits;
//! 2. the process declares this under the lock ([`ending`](ChildSlot::ending)), then waits until no wait is on its way,
//!    as it does for senders of messages, and only then empties its mailbox for the last time;
//! 3. so a wait that was passed on is in that mailbox, and any other wait stays in the slot;
//! 4. the process takes the waits that are in the slot before it notifies anyone of its end
//!    ([`settle`](ChildSlot::settle)), so a waiter that is notified and waits again waits for the next process.
//!
//! A process that was not spawned through the supervisor's `ChildSpawn`, such as a pool's, does not take part in this:
//! a wait that is passed on to it while it ends is notified that there is no process. For a process on another node,
//! all waits stay in the slot until the supervisor's node is notified of the end of that process.

use super::child_queue::{ChildQueue, KeptItem, SlotState, wake_waiters};
use super::held::{EndWaits, FirstRequest};
use super::plan::child::AfterExit;
use super::status::{ChildState, ChildStatus, LastEnd};
use crate::call::{dead_letter::DeadLetterReason, package::Undeliverable};
use crate::engine::backpressure::congestion::{SendMode, with_mode};
use crate::engine::{blocking::block_in_place::while_blocked, host::Scheduler, host::backlog::Backlog};
use crate::routing::alias::{self, AliasTarget, Request};
use crate::routing::hosts::is_here;
use crate::routing::router::{deliver_anyway, deliver_beyond, queue_abroad, route};
use crate::routing::transport_queue::TransportQueue;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock, park, yield_now};
use crate::{
    CallError, ExitReason, Package, Pid,
    env::clock::instant_now,
    errors::SendFailure,
    slots::{ProcessKind, TABLE},
    util::{defer::defer, dispose::dispose, oneshot::Oneshot, panics::Site},
};
use std::{any::Any, collections::VecDeque, num::NonZeroU64, sync::Arc, time::Duration};

/// Default limit of messages that wait for a child that is down.
pub(crate) const KEEPS: usize = 1_024;

/// How long an ending process waits for concurrent senders. They need some nanoseconds, unless their thread is
/// preempted. On an overloaded machine that can last more than a tenth of a second. The wait is bounded because a
/// sender that never returns from a user's hook for dead letters would occupy a worker forever. A message that takes
/// longer becomes a dead letter.
const SENDERS_PATIENCE: Duration = Duration::from_secs(10);

/// The children of a child that is a supervisor.
pub(super) trait Subtree: Any + Send + Sync {
    /// Called when the children have no supervisor, and none will follow automatically.
    fn shut(&self, reason: &ExitReason);

    /// Called when no supervisor can follow at all: retires the children's PIDs.
    fn retire(&self, reason: &ExitReason);
}

/// Number of times that `quiesce` polls for remaining senders before it lends its worker. A guess: most senders are
/// gone before the first poll.
const POLLS: usize = 100;
/// The pause between later polls. A guess.
const PAUSE: Duration = Duration::from_micros(100);

pub(crate) struct ChildSlot {
    pub(crate) name: Arc<str>,
    /// The process type, if it is known from the closure that the supervisor was built with.
    pub(crate) kind: Option<&'static ProcessKind>,
    /// The process type according to the closure for the next start. That closure may have replaced the original one.
    next_kind: Mutex<Option<&'static ProcessKind>>,
    /// Maximum number of messages that wait while the child is down, or `None` if they are returned to their senders.
    pub(crate) keeps: Option<usize>,
    host: &'static Scheduler,
    /// The PID of the serving process, in two words. The second, slot and generation, is zero if there is no process.
    place: AtomicU64,
    incarnation: AtomicU64,
    /// Number of senders that hold the PID; not counted if no messages are kept.
    inside: AtomicUsize,
    queue: Mutex<ChildQueue>,
    pub(super) status: Mutex<ChildStatus>,
    /// What follows when the child's process ends, according to the supervisor's plan.
    pub(super) after: Mutex<AfterExit>,
    pub(super) subtree: Mutex<Option<Arc<dyn Subtree>>>,
}

impl ChildSlot {
    pub(super) fn new(
        name: Arc<str>,
        kind: Option<&'static ProcessKind>,
        keeps: Option<usize>,
        host: &'static Scheduler,
        subtree: Option<Arc<dyn Subtree>>,
    ) -> Self {
        Self {
            name,
            kind,
            next_kind: Mutex::new(kind),
            keeps,
            host,
            place: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            queue: Mutex::new(ChildQueue::new()),
            status: Mutex::new(ChildStatus { state: ChildState::Waiting, ..ChildStatus::default() }),
            after: Mutex::default(),
            subtree: Mutex::new(subtree),
        }
    }

    /// Returns the process type of the next start, if it is known from the closure.
    pub(crate) fn next_kind(&self) -> Option<&'static ProcessKind> {
        *lock(&self.next_kind)
    }

    /// Sets the process type of the closure that starts the child from now on.
    pub(crate) fn redefine(&self, kind: Option<&'static ProcessKind>) {
        *lock(&self.next_kind) = kind;
    }

    pub(crate) fn short_name(&self) -> String {
        self.name.chars().take(80).collect()
    }

    /// Sets the serving process and sends it all waiting messages. If the process is on another node and the transport
    /// has no room for all of them, returns the queue in which to wait for room; the rest waits, in order, until this
    /// is called again.
    #[must_use = "the rest of the messages waits for another call"]
    pub(crate) fn up(&self, pid: Pid) -> Option<TransportQueue> {
        // Counted like a sender, so that the process waits for this hand-over if it ends in the meantime.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let _left = defer(|| _ = self.inside.fetch_sub(1, Ordering::SeqCst));
        // This runs in a step of the supervisor, which must not be suspended at a full mailbox.
        with_mode(SendMode::Try, || {
            self.pass_first(pid);
            self.hand_over(pid)
        })
    }

    /// Passes on the requests that precede all messages. When none is left, records the process as the child's.
    fn pass_first(&self, pid: Pid) {
        loop {
            let mut queue = lock(&self.queue);
            let first = std::mem::take(&mut queue.first);
            if first.is_empty() {
                (queue.process, queue.has_begun) = (Some(pid), true);
                return;
            }
            drop(queue);
            first.into_iter().for_each(|request| request.pass_to(pid));
        }
    }

    fn hand_over(&self, pid: Pid) -> Option<TransportQueue> {
        loop {
            let mut queue = lock(&self.queue);
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
            // Sent outside the lock, since a refused message is passed to a user's hook.
            let mut waiting = std::mem::take(&mut queue.older);
            waiting.append(&mut queue.kept);
            drop(queue);
            while let Some(item) = waiting.pop_front() {
                let KeptItem::Message(package) = item else {
                    pid.stop();
                    continue;
                };
                if let Some((package, room)) = self.pass_on(pid, package) {
                    waiting.push_front(KeptItem::Message(package));
                    let mut queue = lock(&self.queue);
                    queue.older = waiting;
                    return room;
                }
            }
        }
    }

    /// Passes a kept message on to the process. Returns the message if it must still be kept. Either there is no room,
    /// and the queue in which to wait for room is returned, too; or the process has ended already. In the second case,
    /// the messages that were sent to the process come back as its unhandled messages, ahead of this one.
    fn pass_on(&self, pid: Pid, package: Package) -> Option<(Package, Option<TransportQueue>)> {
        let Undeliverable { package, reason } = redeliver(pid, package).err()?;
        let is_full = matches!(reason, SendFailure::Full(_));
        // The process is on another node, and the transport has no room.
        let room = is_full.then(|| queue_abroad(pid)).flatten();
        if room.is_some() || is_over(reason) {
            return Some((package, room));
        }
        // The message cannot be sent to this process, or the transport does not report when there is room.
        let why = if is_full { DeadLetterReason::Overflow } else { DeadLetterReason::Ended };
        package.fail(self.host, why, reason.into());
        None
    }

    /// Stops handing out the PID of a process that ends, both to senders and to waits for its end.
    pub(crate) fn ending(&self, pid: Pid) {
        self.incarnation.store(0, Ordering::SeqCst);
        lock(&self.queue).ended = Some(pid);
    }

    /// Called when a process has ended, before anyone is notified. Returns the waits for its end that the slot holds.
    pub(super) fn settle(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>) -> EndWaits {
        let mut queue = lock(&self.queue);
        (queue.ended, queue.has_begun) = (Some(pid), true);
        let (waits, unneeded) = (std::mem::take(&mut queue.waits), std::mem::take(&mut queue.first));
        drop(queue);
        drop(unneeded);
        self.note_end(Some(pid), LastEnd { reason: reason.clone(), handling });
        waits
    }

    /// Records the end of the process `pid`, or that no process could be started (`None`).
    pub(super) fn note_end(&self, pid: Option<Pid>, end: LastEnd) {
        let mut status = lock(&self.status);
        status.ended = pid;
        let before = status.last.replace(end);
        drop(status);
        // Dropped outside the lock, since it may contain a user's error.
        dispose(Site::ReasonDrop, before);
    }

    /// Returns the reason of the child's most recent end, or `otherwise` if there is none.
    pub(super) fn last_reason(&self, otherwise: &ExitReason) -> ExitReason {
        lock(&self.status).last.as_ref().map_or_else(|| otherwise.clone(), |last| last.reason.clone())
    }

    /// Returns the child's published state. If its process has ended and its supervisor has not been notified, the
    /// state is what follows from that end.
    pub(super) fn status(&self) -> ChildStatus {
        // Read before the status, which then contains everything about the end of this process.
        let process = lock(&self.queue).process;
        let mut status = lock(&self.status).clone();
        if process.is_some() && process == status.ended {
            status.state = self.state_after(&status);
        }
        status
    }

    /// Publishes what follows from the most recent end, before the supervisor's plan decides and the process is
    /// forgotten.
    pub(super) fn show_end(&self) {
        let mut status = lock(&self.status);
        status.state = self.state_after(&status);
    }

    fn state_after(&self, status: &ChildStatus) -> ChildState {
        let is_over = |last: &LastEnd| status.restart.is_over(*lock(&self.after), &last.reason);
        if status.last.as_ref().is_some_and(is_over) { ChildState::Down } else { ChildState::BackingOff }
    }

    /// Waits until no sender holds the PID, for at most [`SENDERS_PATIENCE`].
    pub(crate) fn quiesce(&self) {
        let until = instant_now().checked_add(SENDERS_PATIENCE);
        let is_over = || self.inside.load(Ordering::SeqCst) == 0 || until.is_some_and(|until| instant_now() >= until);
        for _ in 0..POLLS {
            if is_over() {
                return;
            }
            yield_now();
        }
        // A sender may need this worker in order to continue, such as a process that waits for room inside its step.
        while_blocked(|| {
            while !is_over() {
                park(Some(PAUSE));
            }
        });
    }

    pub(crate) fn take_unhandled(&self, package: Package) -> Result<(), Package> {
        let mut queue = lock(&self.queue);
        // A tick of the process's own timer is not passed to its successor, because the successor's timers send their
        // own.
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
        if queue.has_begun {
            let is_message = |item: &KeptItem| matches!(item, KeptItem::Message(_));
            let ChildQueue { older, kept, .. } = &mut *queue;
            [older, kept].into_iter().for_each(|items| items.retain(is_message));
        }
        if queue.state == SlotState::Shut {
            return;
        }
        queue.state = SlotState::Down;
        if self.keeps.is_some() {
            let left = std::mem::take(&mut queue.left).into_iter().map(KeptItem::Message);
            let older = left.chain(std::mem::take(&mut queue.older)).collect();
            queue.older = older;
            return;
        }
        let unwanted = queue.take_messages();
        drop(queue);
        self.make_dead_letters(unwanted, reason);
    }

    /// Marks the child as not to be restarted automatically: waiting messages become dead letters, and their callers
    /// get the reason. Returns the waits for its end, to be notified once its name is free. If its process still
    /// exists, that process notifies them.
    pub(super) fn shut(&self, reason: &ExitReason) -> EndWaits {
        self.incarnation.store(0, Ordering::SeqCst);
        let mut queue = lock(&self.queue);
        queue.state = SlotState::Shut;
        let waits = if queue.has_process() { EndWaits::default() } else { std::mem::take(&mut queue.waits) };
        wake_waiters(queue);
        self.empty(reason);
        let subtree = lock(&self.subtree).clone();
        if let Some(subtree) = subtree {
            subtree.shut(reason);
        }
        waits
    }

    /// Retires the child's children. Called after [`shut`](Self::shut), when no supervisor is left that could restart
    /// it.
    pub(crate) fn retire(&self, reason: &ExitReason) {
        let subtree = lock(&self.subtree).clone();
        if let Some(subtree) = subtree {
            subtree.retire(reason);
        }
    }

    pub(crate) fn empty(&self, reason: &ExitReason) {
        let waiting = lock(&self.queue).take_messages();
        self.make_dead_letters(waiting, reason);
    }

    fn make_dead_letters(&self, packages: VecDeque<Package>, reason: &ExitReason) {
        for package in packages {
            package.fail(self.host, DeadLetterReason::Ended, CallError::Gone(reason.clone()));
        }
    }

    /// Keeps a package for the next process. `ended`: a process that no longer serves, if one is known. Returns the
    /// package if it is not kept; the reason is missing if another process serves already.
    fn keep(&self, package: Package, ended: Option<Pid>) -> Result<(), (Package, Option<SendFailure>)> {
        let pid = package.to();
        let mut queue = lock(&self.queue);
        // PIDs are compared as a whole, since processes of two nodes can have the same incarnation.
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
            // This also applies between the end of the process and the supervisor's decision.
            None => Err((package, Some(SendFailure::Restarting(pid)))),
            Some(most) if queue.kept.len() >= most => Err((package, Some(SendFailure::Full(pid)))),
            Some(_) => {
                queue.kept.push_back(KeptItem::Message(package));
                Ok(())
            }
        }
    }
}

impl Backlog for ChildSlot {
    fn is_empty(&self) -> bool {
        let queue = lock(&self.queue);
        let is_message = |item: &KeptItem| matches!(item, KeptItem::Message(_));
        queue.left.is_empty() && !queue.older.iter().chain(&queue.kept).any(is_message)
    }
}

impl AliasTarget for ChildSlot {
    fn now(&self) -> Option<Pid> {
        loop {
            let incarnation = self.incarnation.load(Ordering::SeqCst);
            let place = NonZeroU64::new(self.place.load(Ordering::Acquire)).filter(|_| incarnation != 0)?;
            // A process on another node has another place, so both words must belong to the same process.
            if self.incarnation.load(Ordering::SeqCst) == incarnation {
                return Some(Pid::of_words(place, incarnation));
            }
        }
    }

    fn enter(&self) -> Option<Pid> {
        // The sender is counted before it reads the PID, and an ending process clears the PID before it reads the
        // count, so at least one of them sees the other.
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
            // The child may have come up since the sender checked.
            if let Some(pid) = self.enter() {
                ended = Some(pid);
                // Called even if a transport panics; otherwise the end of the process would wait for this sender.
                let left = defer(|| self.left());
                // The process may be on another node.
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
        let queue = lock(&self.queue);
        queue.process.filter(|_| queue.has_process())
    }

    fn ended(&self) -> Option<Pid> {
        lock(&self.queue).ended
    }

    fn enter_wait(&self) -> Option<Pid> {
        let queue = lock(&self.queue);
        let process = queue.process.filter(|_| queue.has_process())?;
        let takes_waits = if process.is_alias() { alias::lives(process) } else { TABLE.last(process).is_some() };
        if !takes_waits || !is_here(process) {
            return None;
        }
        // Counted under the lock: see the comment at the top of this file.
        self.inside.fetch_add(1, Ordering::SeqCst);
        Some(process)
    }

    fn waits(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn hold(&self, request: Request) -> Result<(), Request> {
        let mut queue = lock(&self.queue);
        let is_over = queue.state == SlotState::Shut && !queue.has_process();
        match request {
            Request::Join(join) if !is_over => queue.waits.join(join),
            Request::Tie(sent) if !is_over => {
                let mut effect = queue.waits.receive(sent);
                let process = queue.process.filter(|_| queue.has_process());
                let failure = effect.failure.take();
                let failure = match process {
                    None => {
                        queue.first.extend(failure.map(FirstRequest::Failure));
                        None
                    }
                    Some(process) => failure.map(|failure| (failure, process)),
                };
                drop(queue);
                failure.into_iter().for_each(|(failure, process)| failure.pass_to(process));
                effect.finish();
            }
            Request::Cancel(reason) if queue.waits_to_begin() => queue.first.push(FirstRequest::Cancel(reason)),
            Request::Kill if queue.waits_to_begin() => queue.hold_kill(),
            Request::Stop if queue.hold_stop() => {}
            refused => return Err(refused),
        }
        Ok(())
    }

    /// Returns the type of the child's process, which an upgrade may have changed, or else that of the next start. If
    /// the child is itself reached by an alias, as a pool is, the types behind that alias are not used.
    fn kind(&self) -> Option<&'static ProcessKind> {
        let process = self.life().filter(|pid| !pid.is_alias());
        process.and_then(alias::kind).or_else(|| self.next_kind())
    }

    fn owner(&self) -> u16 {
        self.host.number()
    }

    /// Returns a signal that fires when a process serves again or when none will, or `None` if either is already the
    /// case.
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

/// Delivers a package that was accepted earlier, however full the mailbox of the process is. Returns the package if the
/// process has ended, or if it is on another node and the transport cannot take the package, even beyond its bound.
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

/// Fails everything that waits, since no supervisor is left that could restart the child.
impl Drop for ChildSlot {
    fn drop(&mut self) {
        let waits = std::mem::take(&mut lock(&self.queue).waits);
        waits.tell(&ExitReason::NoProcess);
        wake_waiters(lock(&self.queue));
        self.empty(&ExitReason::NoProcess);
    }
}

#[cfg(test)]
mod tests;
