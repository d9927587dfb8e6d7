//! What arrives: decoded, delivered, and kept for processes that are slow.

mod requests;

use super::directory::Directory;
use super::keys::Keys;
use super::overflow::{Room, SLOW_BYTES, SLOW_MESSAGES};
use super::peer::{NotStarted, Peer, Started};
use super::porter::Porter;
use super::view::View;
use crate::codec::{Agreement, CodecError, MessageId, decode_call_error, decode_exit_reason};
use crate::engine::Lane;
use crate::envelope::{Content, Envelope, LinkKind};
use crate::frame::Table;
use crate::policy::{Policy, PolicyCounts};
use crate::reply::Completer;
use crate::session::Item;
use postroom::error::SendFailure;
use postroom::routing::{Answerer, ControlMessage, LinkMessage, Node, Router};
use postroom::{Address, CallError, ExitReason, Host, NodeId, Package, Pid};
use requests::StartKind;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(any(test, feature = "test"))]
use std::task::{Context, Poll, Waker};
use std::time::Duration;

mod directory;

/// How often a mailbox that was full is tried again. A guess: often enough that the process does not run dry, seldom
/// enough that a thousand slow ones cost little.
const RETRY: Duration = Duration::from_millis(2);

/// After how many arrivals it is tried again, too.
const RETRY_EVERY: u32 = 256;

/// How much may wait for slow processes of this node, for each peer, before the peer gets no more credit: what is on
/// its way when a first process falls behind, and as much again for others.
const MAX_KEPT: u64 = 64 << 20;

/// What the driver hands over, in order.
pub(crate) enum Arrival {
    /// A session begins: processes may send there.
    Begun(Arc<Peer>),
    /// The session is open: the peer has this table.
    Opened(Arc<Peer>, Table),
    /// A message of a session.
    Item(Arc<Peer>, Item),
    /// There is room for some that wait to send.
    Room(Room),
    /// Calls to a peer whose callers have given up, to be dropped here: a pool goes on by that.
    Abandoned(Vec<Answerer>),
    /// The session is over.
    Ended(Arc<Peer>),
    /// The node leaves, behind all that has arrived.
    Closed(Vec<Completer<()>>),
}

/// The queue of the delivery. Bounded by the windows of the sessions.
#[derive(Default)]
pub(crate) struct Arrivals {
    queue: Mutex<ArrivalQueue>,
    arrived: Condvar,
    /// Wakes a delivery that is a process.
    #[cfg(any(test, feature = "test"))]
    waker: Mutex<Option<Waker>>,
}

#[derive(Default)]
struct ArrivalQueue {
    arrivals: VecDeque<Arrival>,
    /// The delivery sleeps, and has not been woken. Waking costs a system call, also when nobody sleeps.
    is_waiting: bool,
}

/// Wakes the delivery when it is dropped, if something was put into its queue that it sleeps for.
///
/// For those that hold the lock of a peer, which the delivery takes first of all: woken earlier, it would have to sleep
/// again.
pub(crate) struct WakeLater<'a> {
    arrivals: &'a Arrivals,
    is_due: bool,
}

impl WakeLater<'_> {
    pub(crate) fn push(&mut self, arrival: Arrival) {
        let mut queue = self.arrivals.lock();
        queue.arrivals.push_back(arrival);
        self.is_due |= std::mem::take(&mut queue.is_waiting);
        #[cfg(any(test, feature = "test"))]
        {
            self.is_due |= self.arrivals.waker().is_some();
        }
    }
}

impl Drop for WakeLater<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.arrivals.arrived.notify_one();
            #[cfg(any(test, feature = "test"))]
            self.arrivals.waker().take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, ArrivalQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before the lock is taken that the wake-up is to come behind.
    pub(crate) fn wake_later(&self) -> WakeLater<'_> {
        WakeLater { arrivals: self, is_due: false }
    }

    pub(crate) fn push(&self, arrival: Arrival) {
        self.wake_later().push(arrival);
    }

    #[cfg(any(test, feature = "test"))]
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like `wait`, for a delivery that is a process.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn poll_wait(&self, context: &Context<'_>) -> Poll<()> {
        *self.waker() = Some(context.waker().clone());
        if self.lock().arrivals.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn pop(&self) -> Option<Arrival> {
        self.lock().arrivals.pop_front()
    }

    /// Waits until there is something, for at most `time`; `None` is without a limit.
    fn wait(&self, time: Option<Duration>) {
        let mut queue = self.lock();
        if !queue.arrivals.is_empty() {
            return;
        }
        queue.is_waiting = true;
        queue = match time {
            Some(time) => self.arrived.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0,
            None => self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
        queue.is_waiting = false;
        drop(queue);
    }
}

/// What was lost, and why: see [`Cluster::statistics`](crate::Cluster::statistics).
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Messages that this node could not decode, or does not know.
    pub(crate) undecodable: AtomicU64,
    /// Messages whose process had ended.
    pub(crate) undelivered: AtomicU64,
    /// Messages that had waited for a session, and that the peer does not export.
    pub(crate) returned: AtomicU64,
    /// Messages that were accepted for peers that were lost before they confirmed them.
    pub(crate) unconfirmed: AtomicU64,
    /// Keys of starts that were forgotten before their time.
    pub(crate) forgotten_keys: AtomicU64,
    /// Frames that were none.
    pub(crate) broken_frames: AtomicU64,
    /// What this node's policy has refused, and those of peers.
    pub(crate) policy: Arc<PolicyCounts>,
    /// Frames on a subject that is none, or whose sender is not who its record says.
    pub(crate) forged_frames: AtomicU64,
    /// Records that claimed the ID of another node.
    pub(crate) claimed_ids: AtomicU64,
    /// Records of nodes that cannot be read.
    pub(crate) unreadable_records: AtomicU64,
}

/// What waits for a process whose mailbox was full, in the order in which it came.
enum Kept {
    Package(Package),
    Link { from: Pid, message: LinkMessage<ExitReason> },
    Stop,
}

struct Slow {
    peer: Arc<Peer>,
    kept: VecDeque<Waiting>,
    /// What is kept, in bytes.
    bytes: u64,
    /// The peer knows that it has fallen behind.
    is_told: bool,
}

impl Slow {
    fn new(peer: &Arc<Peer>) -> Self {
        Self { peer: Arc::clone(peer), kept: VecDeque::new(), bytes: 0, is_told: false }
    }

    /// Tells the peer when too much is kept, and again when half of that is left.
    fn tell(&mut self, pid: Pid) {
        let is_above = |share| self.kept.len() >= SLOW_MESSAGES / share || self.bytes >= SLOW_BYTES / share as u64;
        let is_slow = is_above(if self.is_told { 2 } else { 1 });
        if is_slow != self.is_told {
            self.is_told = is_slow;
            self.peer.set_slow(pid, is_slow);
        }
    }
}

struct Waiting {
    what: Kept,
    lane: Lane,
    cost: u64,
    /// Its credit has not been given back.
    holds_credit: bool,
}

/// Delivers what arrives at one node.
pub(crate) struct Delivery {
    node: Node,
    router: Router,
    host: Host,
    /// Which starts processes, and which watches them.
    porters: [Address<Porter>; 2],
    arrivals: Arc<Arrivals>,
    counters: Arc<Counters>,
    policy: Arc<Policy>,
    view: Arc<View>,
    keys: Arc<Keys>,
    directory: Arc<Directory>,
    /// By process and peer: each peer's messages to it wait in their order.
    slow: BTreeMap<(Pid, NodeId), Slow>,
    /// What is kept of each peer, in bytes; credit for what exceeds [`MAX_KEPT`] is given back later.
    kept: BTreeMap<NodeId, u64>,
}

/// What a delivery needs.
pub(crate) struct Setup {
    pub(crate) node: Node,
    pub(crate) host: Host,
    pub(crate) porters: [Address<Porter>; 2],
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) view: Arc<View>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) directory: Arc<Directory>,
}

impl Delivery {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { node, host, porters, arrivals, counters, policy, view, keys, directory } = setup;
        let router = Router::of_node(node.id());
        let (slow, kept) = (BTreeMap::new(), BTreeMap::new());
        Self { node, router, host, porters, arrivals, counters, policy, view, keys, directory, slow, kept }
    }

    /// Delivers until the node has left.
    pub(crate) fn run_to_end(mut self) {
        while self.run() {
            let wait = (!self.slow.is_empty()).then_some(RETRY);
            self.arrivals.wait(wait);
        }
    }

    #[cfg(any(test, feature = "test"))]
    pub(crate) fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(&self.arrivals)
    }

    /// Returns when to come back without an arrival, if ever.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn retries_in(&self) -> Option<Duration> {
        (!self.slow.is_empty()).then_some(RETRY)
    }

    /// Delivers what has arrived, and what was kept if it has room now. Returns false when the node has left.
    pub(crate) fn run(&mut self) -> bool {
        self.retry();
        let mut handled = 0;
        while let Some(arrival) = self.arrivals.pop() {
            // Between others, so that traffic without an end does not starve the slow.
            handled += 1;
            if handled % RETRY_EVERY == 0 {
                self.retry();
            }
            if let Arrival::Closed(then) = arrival {
                self.porters.iter().for_each(|porter| _ = porter.pid().stop());
                self.policy.close();
                self.directory.close();
                then.into_iter().for_each(|then| then.complete(()));
                return false;
            }
            let credit = match &arrival {
                Arrival::Item(peer, item) => Some((Arc::clone(peer), item.lane, item.cost)),
                _ => None,
            };
            // What panics here is a user's code that no other guard is around: it costs its own message.
            if catch_unwind(AssertUnwindSafe(|| self.arrival(arrival))).is_err() {
                self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                if let Some((peer, lane, cost)) = credit {
                    peer.release(lane, cost);
                }
            }
        }
        true
    }

    fn arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Begun(peer) => self.router.connect(peer.node(), peer),
            Arrival::Opened(peer, table) => {
                let returned = peer.opened(&table);
                self.counters.returned.fetch_add(returned, Ordering::Relaxed);
                self.directory.connected(&peer);
                self.view.connected(&peer);
            }
            Arrival::Item(peer, item) => self.item(&peer, item),
            Arrival::Room(room) => room.give(),
            Arrival::Abandoned(calls) => drop(calls),
            Arrival::Ended(peer) => self.ended(&peer),
            Arrival::Closed(_) => {}
        }
    }

    fn ended(&mut self, peer: &Arc<Peer>) {
        let node = peer.node();
        self.counters.unconfirmed.fetch_add(peer.fail_all(), Ordering::Relaxed);
        // Their supervisors are lost, and start them elsewhere.
        peer.take_charges().into_iter().for_each(|pid| _ = self.node.control(pid, ControlMessage::Kill));
        let lost = self.slow.extract_if(.., |(_, from), _| *from == node).map(|(_, slow)| slow.kept.len() as u64);
        self.counters.undelivered.fetch_add(lost.sum(), Ordering::Relaxed);
        self.kept.remove(&node);
        self.router.disconnect(node);
        self.directory.disconnected(node);
    }

    fn item(&mut self, peer: &Arc<Peer>, item: Item) {
        let Item { lane, bytes, cost } = item;
        if peer.is_over() {
            return;
        }
        match Envelope::decode(bytes) {
            Ok(envelope) => {
                if self.envelope(peer, envelope, lane, cost) {
                    return;
                }
            }
            Err(_) => _ = self.counters.undecodable.fetch_add(1, Ordering::Relaxed),
        }
        peer.release(lane, cost);
    }

    /// Handles an envelope. Returns whether it is kept, with its credit.
    fn envelope(&mut self, peer: &Arc<Peer>, envelope: Envelope, lane: Lane, cost: u64) -> bool {
        match envelope {
            Envelope::Message { to, content } => {
                let Ok((_, payload)) = self.decode(peer, content, Agreement::decode) else { return false };
                self.deliver(peer, to, Kept::Package(Package::with_payload(to, payload)), lane, cost)
            }
            Envelope::Call { to, number, time_left, content } => {
                if peer.owes_too_much() {
                    peer.answer(number, MessageId(0), Err(CallError::Full));
                    return false;
                }
                let answering = Arc::clone(peer);
                let (message, payload) = match self.decode(peer, content, Agreement::decode) {
                    Ok(decoded) => decoded,
                    Err(error) => {
                        peer.answer(number, MessageId(0), Err(not_taken(error)));
                        return false;
                    }
                };
                let then = move |answer| answering.answer_noted(number, message, answer);
                let (package, abandonment) = Package::with_caller(to, payload, time_left, then);
                peer.begin_answering(number, abandonment);
                self.deliver(peer, to, Kept::Package(package), lane, cost)
            }
            Envelope::Answer { number, content } => {
                if let Some(answerer) = peer.take_call(number) {
                    let answer = self.decode(peer, content, Agreement::decode_answer);
                    // The message was handled, and what it returned cannot be told.
                    answerer.answer(answer.map_err(|_| CallError::Dropped));
                }
                false
            }
            Envelope::Failed { number, error } => {
                if let Some(answerer) = peer.take_call(number) {
                    // What an older or newer node says, and this one cannot read.
                    answerer.answer(Err(decode_call_error(&error).unwrap_or(CallError::Dropped)));
                }
                false
            }
            Envelope::Link { from, to, link, number, reason } => {
                // A peer speaks for its own processes only.
                if from.node() != peer.node() {
                    self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                    return false;
                }
                let why = || exit_reason(&reason);
                let message = match link {
                    LinkKind::Link => LinkMessage::Link,
                    LinkKind::Unlink => LinkMessage::Unlink(number),
                    LinkKind::Unlinked => LinkMessage::Unlinked(number),
                    LinkKind::Watch => LinkMessage::Watch(number),
                    LinkKind::Unwatch => LinkMessage::Unwatch(number),
                    LinkKind::Down => LinkMessage::Down(number, why()),
                    LinkKind::Exit => LinkMessage::Exit(why()),
                    LinkKind::Failed => LinkMessage::Failed(why()),
                };
                self.deliver(peer, to, Kept::Link { from, message }, lane, cost)
            }
            Envelope::Control { to, control, reason } => self.control(peer, to, (control, reason), lane, cost),
            Envelope::Abandon { number } => {
                peer.abandoned(number);
                false
            }
            Envelope::Start { number, content } => {
                self.start(peer, number, StartKind::Plain, content);
                false
            }
            Envelope::StartKeyed { number, key, content } => {
                self.start(peer, number, StartKind::Keyed(key), content);
                false
            }
            Envelope::KeyTaken { number, process } => {
                if let Some(then) = peer.take_start(number) {
                    then.complete(Err(NotStarted::KeyTaken { process }));
                }
                false
            }
            Envelope::Started { number, pid } => {
                // A peer starts processes on its own node only.
                let is_there = pid.node() == peer.node();
                if !is_there {
                    self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                }
                let started = if is_there { Ok(pid) } else { Err("it has named a process of another node".into()) };
                match peer.take_start(number) {
                    Some(then) => then.complete(started),
                    None => peer.child_started(number, started),
                }
                false
            }
            Envelope::Refused { number, reason } => {
                let refused = Err(NotStarted::Said(reason));
                match peer.take_start(number) {
                    Some(then) => then.complete(refused),
                    None => peer.child_started(number, refused),
                }
                false
            }
            Envelope::StartChild { number, .. } if !peer.is_next_child(number) => {
                self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                false
            }
            Envelope::StartChild { number, content } => {
                self.start(peer, number, StartKind::Child, content);
                false
            }
            Envelope::ChildEnded { number, reason } => {
                peer.child_ended(number, exit_reason(&reason));
                false
            }
            Envelope::Ask { number, to, ask, reason } => self.asked(peer, number, to, (ask, reason), lane, cost),
            Envelope::Told { number, told, bytes } => {
                self.told(peer, number, told, &bytes);
                false
            }
            Envelope::Denied { .. } => {
                self.counters.policy.denied.fetch_add(1, Ordering::Relaxed);
                false
            }
            Envelope::Directory(bytes) => {
                self.directory(peer, bytes);
                false
            }
        }
    }

    /// Decodes a value of a peer; counted if it cannot be.
    fn decode<T>(
        &self,
        peer: &Peer,
        content: Content,
        decode: impl FnOnce(&Agreement, MessageId, &[u8]) -> Result<T, CodecError>,
    ) -> Result<T, Option<CodecError>> {
        let Content { message, bytes } = content;
        // Items come behind the opening of their session.
        let agreement = peer.agreement().ok_or(None)?;
        decode(&agreement, MessageId(message), &bytes).map_err(|error| {
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
            peer.report(&error);
            Some(error)
        })
    }

    /// Delivers to a process, behind what is kept for it. Returns whether it is kept with its credit.
    fn deliver(&mut self, peer: &Arc<Peer>, to: Pid, what: Kept, lane: Lane, cost: u64) -> bool {
        let key = (to, peer.node());
        let back = match self.slow.contains_key(&key) {
            true => Some(what),
            false => self.try_deliver(to, what),
        };
        let Some(what) = back else { return false };
        let slow = self.slow.entry(key).or_insert_with(|| Slow::new(peer));
        let kept = self.kept.entry(peer.node()).or_default();
        *kept += cost;
        let holds_credit = *kept > MAX_KEPT;
        slow.kept.push_back(Waiting { what, lane, cost, holds_credit });
        slow.bytes += cost;
        slow.tell(to);
        holds_credit
    }

    /// Delivers to a process. Returns it if the mailbox is full.
    fn try_deliver(&self, to: Pid, what: Kept) -> Option<Kept> {
        match what {
            Kept::Package(package) => match self.node.try_deliver(package) {
                Ok(()) => None,
                Err(refused) if matches!(refused.reason, SendFailure::Full(_)) => Some(Kept::Package(refused.package)),
                Err(refused) => {
                    self.counters.undelivered.fetch_add(1, Ordering::Relaxed);
                    let (_, _, answerer) = refused.package.take_apart();
                    answerer.answer(Err(refused.reason.into()));
                    None
                }
            },
            Kept::Link { from, message } => {
                self.node.post_link(from, to, message);
                None
            }
            Kept::Stop => {
                self.node.control(to, ControlMessage::Stop);
                None
            }
        }
    }

    /// Tries again what found a full mailbox.
    fn retry(&mut self) {
        let keys: Vec<_> = self.slow.keys().copied().collect();
        for key in keys {
            let Some(mut slow) = self.slow.remove(&key) else { continue };
            while let Some(mut waiting) = slow.kept.pop_front() {
                if let Some(what) = self.try_deliver(key.0, waiting.what) {
                    waiting.what = what;
                    slow.kept.push_front(waiting);
                    break;
                }
                slow.bytes -= waiting.cost;
                if let Some(kept) = self.kept.get_mut(&key.1) {
                    *kept = kept.saturating_sub(waiting.cost);
                }
                if waiting.holds_credit {
                    slow.peer.release(waiting.lane, waiting.cost);
                }
            }
            slow.tell(key.0);
            if !slow.kept.is_empty() {
                self.slow.insert(key, slow);
            }
        }
    }
}

/// The duty to answer a peer that has asked for a process.
struct StartAnswer {
    peer: Arc<Peer>,
    number: u64,
    /// It was asked for by a supervisor.
    is_child: bool,
    is_given: bool,
}

impl StartAnswer {
    /// Returns false if the process must not live: it is a child, and the session is over.
    fn give(mut self, started: Started) -> bool {
        self.put(started)
    }

    fn put(&mut self, started: Started) -> bool {
        self.is_given = true;
        if self.is_child {
            return self.peer.adopt(self.number, started);
        }
        self.peer.answer_start(self.number, started);
        true
    }
}

impl Drop for StartAnswer {
    fn drop(&mut self) {
        if !self.is_given {
            self.put(Err("it is being shut down, or the start has panicked".into()));
        }
    }
}

/// Decodes an exit reason. One that cannot be read is still one.
fn exit_reason(bytes: &[u8]) -> ExitReason {
    decode_exit_reason(bytes).unwrap_or_else(ExitReason::error)
}

/// The error of a call whose message could not be decoded, and so was not delivered.
fn not_taken(error: Option<CodecError>) -> CallError {
    match error {
        Some(CodecError::Unknown { .. } | CodecError::Incompatible { .. }) => CallError::NotRemote,
        Some(_) => CallError::Unhandled,
        None => CallError::Gone(ExitReason::NodeLost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if what is put into the queue does not wake the one that sleeps, or if the flag outlives a sleep.
    #[test]
    fn what_arrives_wakes_the_delivery_when_the_lock_is_free() {
        let (arrivals, lock) = (Arrivals::default(), Mutex::new(()));
        std::thread::scope(|scope| {
            for _ in 0..100 {
                let waiting = scope.spawn(|| {
                    while arrivals.pop().is_none() {
                        arrivals.wait(None);
                    }
                    let _free = lock.lock().unwrap();
                });
                let mut wake = arrivals.wake_later();
                let held = lock.lock().unwrap();
                // In some rounds it sleeps by then, in some not yet.
                std::thread::yield_now();
                wake.push(Arrival::Closed(Vec::new()));
                drop((held, wake));
                waiting.join().unwrap();
            }
        });
        arrivals.wait(Some(Duration::ZERO));
        assert!(!arrivals.lock().is_waiting);
    }
}
