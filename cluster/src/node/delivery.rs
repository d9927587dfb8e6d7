//! The delivery. It decodes the messages from peers, delivers them, and stores those for slow processes.

mod answers;
mod arrivals;
mod counters;
mod directory;
mod kept;
mod requests;
mod slow;

use super::directory::Directory;
use super::keys::StartKeys;
use super::peer::Peer;
use super::policy::Policy;
use super::porter::Porter;
use super::view::View;
use crate::codec::{Agreement, CodecError, MessageId, answer_lost, decode_call_error, decode_exit_reason, not_taken};
use crate::engine::Lane;
use crate::envelope::{Content, Envelope, LinkKind};
use crate::session::Item;
use crate::starts::NotStarted;
use answers::StartKind;
use kept::{Kept, MAX_KEPT, Slow};
use postroom::__private::discard_panic;
use postroom::routing::{ControlMessage, LinkMessage, Node, Router};
use postroom::{Address, CallError, ExitReason, Host, NodeId, Package, Pid};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) use arrivals::{Arrival, Arrivals};
pub(crate) use counters::NodeCounters;

/// The interval at which delivery to a full mailbox is retried. A guess: often enough that the process does not run
/// dry, and rarely enough that a thousand slow processes cost little.
const RETRY: Duration = Duration::from_millis(2);

/// Delivery to full mailboxes is also retried after this many arrivals.
const RETRY_EVERY: u32 = 256;

/// Delivers the messages that arrive at one node.
pub(crate) struct Delivery {
    node: Node,
    router: Router,
    host: Host,
    /// The porter that starts processes, and the one that watches them.
    porters: [Address<Porter>; 2],
    arrivals: Arc<Arrivals>,
    counters: Arc<NodeCounters>,
    policy: Arc<Policy>,
    view: Arc<View>,
    keys: Arc<StartKeys>,
    directory: Arc<Directory>,
    /// The stored messages, by process and peer. The messages of one peer to one process wait in order.
    slow: BTreeMap<(Pid, NodeId), Slow>,
    /// The size of the stored messages from each peer, in bytes. Beyond `max_kept`, a message's credit is returned only
    /// when the message is delivered.
    kept: BTreeMap<NodeId, u64>,
    /// [`MAX_KEPT`], or a limit set by a test.
    max_kept: u64,
    /// Maximum number of links and monitors with one peer.
    max_bonds: usize,
}

/// The arguments for a delivery.
pub(crate) struct DeliverySetup {
    pub(crate) node: Node,
    pub(crate) host: Host,
    pub(crate) porters: [Address<Porter>; 2],
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) counters: Arc<NodeCounters>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) view: Arc<View>,
    pub(crate) keys: Arc<StartKeys>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) max_bonds: usize,
}

impl Delivery {
    pub(crate) fn new(setup: DeliverySetup) -> Self {
        let DeliverySetup { node, host, porters, arrivals, counters, policy, view, keys, directory, max_bonds } = setup;
        let router = Router::of_node(node.id());
        Self {
            node,
            router,
            host,
            porters,
            arrivals,
            counters,
            policy,
            view,
            keys,
            directory,
            slow: BTreeMap::new(),
            kept: BTreeMap::new(),
            max_kept: MAX_KEPT,
            max_bonds,
        }
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

    /// Returns the time after which [`run`](Self::run) must be called even if nothing arrives. Returns `None` if there
    /// is no need for such a call.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn retries_in(&self) -> Option<Duration> {
        (!self.slow.is_empty()).then_some(RETRY)
    }

    /// Delivers the messages that have arrived, and the stored messages for which there is now room. Returns false once
    /// the node has left.
    pub(crate) fn run(&mut self) -> bool {
        self.retry();
        let mut handled = 0;
        while let Some(arrival) = self.arrivals.pop() {
            // Stored messages are retried in between, too, so that endless traffic does not starve the slow processes.
            handled += 1;
            if handled % RETRY_EVERY == 0 {
                self.retry();
            }
            if let Arrival::Closed(then) = arrival {
                self.close();
                then.into_iter().for_each(|then| then.complete(()));
                return false;
            }
            let credit = match &arrival {
                Arrival::Item(peer, item) => Some((Arc::clone(peer), item.lane, item.cost)),
                _ => None,
            };
            // Only user code outside all other guards can panic here. The panic costs the message that caused it, and
            // no other.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.arrival(arrival))) {
                discard_panic(panic);
                self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                if let Some((peer, lane, cost)) = credit {
                    peer.release(lane, cost);
                }
            }
        }
        true
    }

    /// Stops the processes that this node runs for the cluster, and refuses everything that has not been handled.
    fn close(&mut self) {
        self.porters.iter().for_each(|porter| _ = porter.pid().stop());
        self.policy.close();
        self.directory.close();
        drop(self.arrivals.close());
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
            Arrival::Decided(peer, is_allowed, then) => match peer.is_over() {
                false => self.decided(&peer, is_allowed, then),
                true => _ = self.counters.policy.late.fetch_add(u64::from(is_allowed), Ordering::Relaxed),
            },
            Arrival::Room(room) => room.give(),
            Arrival::Abandoned(calls) => drop(calls),
            Arrival::Ended(peer) => self.ended(&peer),
            Arrival::Closed(_) => {}
        }
    }

    fn ended(&mut self, peer: &Arc<Peer>) {
        let node = peer.node();
        self.counters.unconfirmed.fetch_add(peer.fail_all(), Ordering::Relaxed);
        self.counters.floods.fetch_add(u64::from(peer.is_flooding()), Ordering::Relaxed);
        // The supervisors of these children are lost, or they consider the children lost and start them elsewhere.
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

    /// Handles an envelope. Returns true if the envelope is stored together with its credit. In that case the credit
    /// must not be returned yet.
    fn envelope(&mut self, peer: &Arc<Peer>, envelope: Envelope, lane: Lane, cost: u64) -> bool {
        match envelope {
            Envelope::Message { to, content } => return self.message(peer, to, content, lane, cost),
            Envelope::Call { to, number, time_left, content } => {
                let Some(package) = self.called(peer, to, number, time_left, content) else { return false };
                return self.deliver(peer, to, Kept::Package(package), lane, cost);
            }
            Envelope::Link { from, to, link, number, reason } => {
                let Some(message) = self.linked(peer, from, link, number, &reason) else { return false };
                return self.deliver(peer, to, Kept::Link { from, message }, lane, cost);
            }
            Envelope::Ask { number, to, ask, reason } => {
                return self.asked(peer, number, to, (ask, reason), lane, cost);
            }
            Envelope::Told { number, told, bytes } => self.told(peer, number, told, &bytes),
            Envelope::Answer { number, content } => self.answered(peer, number, content),
            Envelope::Failed { number, error } => {
                if let Some(answerer) = peer.take_call(number) {
                    // An older or newer node may send an error that this one cannot decode.
                    answerer.answer(Err(decode_call_error(&error).unwrap_or(CallError::Dropped)));
                }
            }
            Envelope::Abandon { number } => peer.abandoned(number),
            Envelope::Start { number, content } => self.start(peer, number, StartKind::Plain, content),
            Envelope::StartKeyed { number, key, content } => self.start(peer, number, StartKind::Keyed(key), content),
            Envelope::StartChild { number, content } if peer.is_next_child(number) => {
                self.start(peer, number, StartKind::Child, content);
            }
            Envelope::StartChild { .. } => _ = self.counters.undecodable.fetch_add(1, Ordering::Relaxed),
            Envelope::Started { number, pid } => self.started(peer, number, pid),
            Envelope::Refused { number, reason } => peer.start_is_over(number, Err(NotStarted::Said(reason))),
            Envelope::KeyTaken { number, process } => {
                if let Some(then) = peer.take_start(number) {
                    then.complete(Err(NotStarted::KeyTaken { process }));
                }
            }
            Envelope::ChildEnded { number, handling, reason } => {
                peer.child_ended(number, exit_reason(&reason), &handling);
            }
            Envelope::Directory { message } => self.directory(peer, message),
        }
        false
    }

    fn message(&mut self, peer: &Arc<Peer>, to: Pid, content: Content, lane: Lane, cost: u64) -> bool {
        let Ok((_, payload)) = self.decode(peer, content, Agreement::decode) else { return false };
        self.deliver(peer, to, Kept::Package(Package::with_payload(to, payload)), lane, cost)
    }

    /// Returns the package of a call. The answer to the call goes back to the peer. Returns `None` if the call has
    /// failed; in that case the peer has been told.
    fn called(
        &self,
        peer: &Arc<Peer>,
        to: Pid,
        number: u64,
        time_left: Option<Duration>,
        content: Content,
    ) -> Option<Package> {
        if peer.owes_too_much() {
            peer.answer(number, MessageId(0), Err(CallError::Full));
            return None;
        }
        let (message, payload) = match self.decode(peer, content, Agreement::decode) {
            Ok(decoded) => decoded,
            Err(error) => {
                let lost = CallError::Gone(ExitReason::NodeLost);
                peer.answer(number, MessageId(0), Err(error.as_ref().map_or(lost, not_taken)));
                return None;
            }
        };
        let answering = Arc::clone(peer);
        let then = move |answer| answering.answer_noted(number, message, answer);
        let (package, abandonment) = Package::with_caller(to, payload, time_left, then);
        peer.begin_answering(number, abandonment);
        Some(package)
    }

    fn answered(&self, peer: &Arc<Peer>, number: u64, content: Content) {
        if let Some(answerer) = peer.take_call(number) {
            let answer = self.decode(peer, content, Agreement::decode_answer);
            answerer.answer(answer.map_err(|error| error.as_ref().map_or(CallError::Dropped, answer_lost)));
        }
    }

    /// Decodes a message of the link protocol. Returns `None` if the peer is not allowed to send it.
    fn linked(
        &self,
        peer: &Arc<Peer>,
        from: Pid,
        link: LinkKind,
        number: u64,
        reason: &[u8],
    ) -> Option<LinkMessage<ExitReason>> {
        // A peer may send link messages only for its own processes.
        if from.node() != peer.node() {
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let is_new = matches!(link, LinkKind::Link | LinkKind::Watch);
        if is_new && self.router.ties(peer.node()) >= self.max_bonds {
            peer.end_flood();
            return None;
        }
        Some(match link {
            LinkKind::Link => LinkMessage::Link,
            LinkKind::Unlink => LinkMessage::Unlink(number),
            LinkKind::Unlinked => LinkMessage::Unlinked(number),
            LinkKind::Watch => LinkMessage::Watch(number),
            LinkKind::Unwatch => LinkMessage::Unwatch(number),
            LinkKind::Down => LinkMessage::Down(number, exit_reason(reason)),
            LinkKind::Exit => LinkMessage::Exit(exit_reason(reason)),
            LinkKind::Failed => LinkMessage::Failed(exit_reason(reason)),
        })
    }

    fn started(&self, peer: &Arc<Peer>, number: u64, pid: Pid) {
        // A peer starts processes only on its own node.
        let is_there = pid.node() == peer.node();
        if !is_there {
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
        }
        let started = if is_there { Ok(pid) } else { Err("it has named a process of another node".into()) };
        peer.start_is_over(number, started);
    }

    /// Decodes a value from a peer. A failure is counted and reported.
    fn decode<T>(
        &self,
        peer: &Peer,
        content: Content,
        decode: impl FnOnce(&Agreement, MessageId, &[u8]) -> Result<T, CodecError>,
    ) -> Result<T, Option<CodecError>> {
        let Content { message, bytes } = content;
        // Items arrive after their session has opened, so without an agreement the session is over.
        let agreement = peer.agreement().ok_or(None)?;
        decode(&agreement, MessageId(message), &bytes).map_err(|error| {
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
            peer.report(&error);
            Some(error)
        })
    }
}

/// Leaves no process behind, even if the node failed to start because a part of it could not be created, or if the
/// delivery panicked.
impl Drop for Delivery {
    fn drop(&mut self) {
        self.close();
    }
}

/// Decodes an exit reason. An unreadable one becomes an error.
fn exit_reason(bytes: &[u8]) -> ExitReason {
    decode_exit_reason(bytes).unwrap_or_else(ExitReason::error)
}
