//! An in-memory transport between the logical nodes of a test. The test decides when a parcel arrives.

use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::routing::{Answerer, ControlMessage, LinkMessage, Node, Receiver, Router, Transport, Undeliverable};
use postroom::{Builder, NodeId, Package};
use postroom_tests::HOUR;
use postroom_tests::face::{builder, until, watched};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// An item in a queue between two nodes.
pub(super) enum Parcel {
    /// A message. For a call, also the number under which its caller waits, and the remaining time of the call.
    Message(Pid, Payload, Option<(u64, Option<std::time::Duration>)>),
    Link(Pid, Pid, LinkMessage<ExitReason>),
    Control(Pid, ControlMessage),
    Answer(u64, Result<Payload, CallError>),
}

/// The way in which a wire treats parcels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Takes,
    /// Refuses messages as too many.
    Full,
    /// Refuses everything but messages, like a transport that implements only `Receiver`.
    MessagesOnly,
}

struct Wires {
    queues: BTreeMap<(NodeId, NodeId), VecDeque<Parcel>>,
    /// Callers that wait for an answer, each with its own node and the node that it called.
    waiting: BTreeMap<u64, (NodeId, NodeId, Answerer)>,
    number: u64,
    mode: Mode,
    /// Number of messages that were refused.
    refused: u64,
    /// For each node, the callback to call when a parcel for it has been queued.
    bells: BTreeMap<NodeId, Bell>,
}

type Bell = Arc<dyn Fn() + Send + Sync>;

/// The wires between the nodes of a test.
#[derive(Clone)]
pub(super) struct Net(Arc<Mutex<Wires>>);

struct Wire {
    net: Net,
    from: NodeId,
    to: NodeId,
}

impl Net {
    pub(super) fn new() -> Self {
        let (queues, waiting, bells) = Default::default();
        Self(Arc::new(Mutex::new(Wires { queues, waiting, number: 0, mode: Mode::Takes, refused: 0, bells })))
    }

    fn wires(&self) -> MutexGuard<'_, Wires> {
        self.0.lock().unwrap()
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.wires().mode = mode;
    }

    /// Returns the number of messages that were refused.
    pub(super) fn refused(&self) -> u64 {
        self.wires().refused
    }

    /// Sets the callback to call when a parcel has been queued for `node`.
    pub(super) fn ring(&self, node: NodeId, ring: impl Fn() + Send + Sync + 'static) {
        self.wires().bells.insert(node, Arc::new(ring));
    }

    /// Connects two nodes, in both directions.
    pub(super) fn connect(&self, one: NodeId, other: NodeId) {
        for (from, to) in [(one, other), (other, one)] {
            Router::of_node(from).connect(to, Arc::new(Wire { net: self.clone(), from, to }));
        }
    }

    /// Cuts the connection between two nodes: parcels under way are lost, and both nodes are notified.
    pub(super) fn cut(&self, one: NodeId, other: NodeId) {
        let (mut lost, mut unheard) = (Vec::new(), Vec::new());
        {
            let mut wires = self.wires();
            for (from, to) in [(one, other), (other, one)] {
                let queue = std::mem::take(wires.queues.entry((from, to)).or_default());
                for parcel in queue {
                    if let Parcel::Message(_, _, Some((number, _))) = &parcel {
                        unheard.extend(wires.waiting.remove(number));
                    }
                    lost.push(parcel);
                }
                let of_both = wires.waiting.extract_if(.., |_, (caller, called, _)| (*caller, *called) == (from, to));
                unheard.extend(of_both.map(|(_, waiting)| waiting).collect::<Vec<_>>());
            }
        }
        drop(lost);
        for (_, _, answerer) in unheard {
            answerer.answer(Err(CallError::Died(ExitReason::NodeLost)));
        }
        assert!(Router::of_node(one).disconnect(other));
        assert!(Router::of_node(other).disconnect(one));
    }

    fn push(&self, from: NodeId, to: NodeId, parcel: Parcel) {
        let bell = {
            let mut wires = self.wires();
            wires.queues.entry((from, to)).or_default().push_back(parcel);
            wires.bells.get(&to).cloned()
        };
        if let Some(bell) = bell {
            bell();
        }
    }

    /// Returns the number of parcels under way.
    pub(super) fn under_way(&self) -> usize {
        self.wires().queues.values().map(VecDeque::len).sum()
    }

    /// Returns the number of waiting callers.
    pub(super) fn waiting(&self) -> usize {
        self.wires().waiting.len()
    }

    /// Returns whether the answerer of any waiting caller satisfies `is_such`.
    pub(super) fn any_waiting(&self, is_such: impl Fn(&Answerer) -> bool) -> bool {
        self.wires().waiting.values().any(|(_, _, answerer)| is_such(answerer))
    }

    /// Takes the next parcel from one node to the other.
    pub(super) fn take(&self, from: NodeId, to: NodeId) -> Option<Parcel> {
        self.wires().queues.get_mut(&(from, to))?.pop_front()
    }

    /// Delivers the next parcel from one node to the other. Returns whether there was one.
    pub(super) fn step(&self, from: NodeId, to: NodeId) -> bool {
        let Some(parcel) = self.take(from, to) else { return false };
        self.deliver(from, to, parcel);
        true
    }

    pub(super) fn deliver(&self, from: NodeId, to: NodeId, parcel: Parcel) {
        let node = Node::of(to).unwrap();
        match parcel {
            Parcel::Message(pid, payload, call) => {
                let package = match call {
                    None => Package::with_payload(pid, payload),
                    Some((number, time_left)) => {
                        let net = self.clone();
                        Package::with_answer(pid, payload, time_left, move |result| {
                            net.push(to, from, Parcel::Answer(number, result));
                        })
                    }
                };
                if let Err(refused) = node.deliver(package) {
                    // A call gets the reason as its answer; a message that was sent is lost.
                    let reason = refused.reason;
                    let (_, _, answerer) = refused.package.take_apart();
                    answerer.answer(Err(reason.into()));
                }
            }
            Parcel::Link(sender, receiver, message) => _ = node.post_link(sender, receiver, message),
            Parcel::Control(receiver, control) => _ = node.control(receiver, control),
            Parcel::Answer(number, result) => {
                let waiting = self.wires().waiting.remove(&number);
                if let Some((_, _, answerer)) = waiting {
                    answerer.answer(result);
                }
            }
        }
    }

    /// Delivers parcels, in all directions in turn, until none is under way. Returns whether there were any.
    pub(super) fn pump(&self) -> bool {
        let mut moved = false;
        loop {
            let ways: Vec<_> = self.wires().queues.keys().copied().collect();
            let steps = ways.into_iter().filter(|(from, to)| self.step(*from, *to)).count();
            if steps == 0 {
                return moved;
            }
            moved = true;
        }
    }

    /// Keeps delivering parcels until the condition holds.
    pub(super) fn pump_until(&self, mut condition: impl FnMut() -> bool) {
        until(|| {
            self.pump();
            condition()
        });
    }
}

impl Receiver for Wire {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        let is_full = {
            let mut wires = self.net.wires();
            let is_full = wires.mode == Mode::Full;
            wires.refused += u64::from(is_full);
            is_full
        };
        if is_full {
            let reason = SendFailure::Full(package.to());
            return Err(Undeliverable { package, reason });
        }
        let (to, payload, mut answerer) = package.take_apart();
        let call = answerer.expects_answer().then(|| {
            answerer.note_sent();
            let time_left = answerer.time_left();
            let mut wires = self.net.wires();
            wires.number += 1;
            let number = wires.number;
            wires.waiting.insert(number, (self.from, self.to, answerer));
            (number, time_left)
        });
        self.net.push(self.from, self.to, Parcel::Message(to, payload, call));
        Ok(())
    }
}

impl Transport for Wire {
    fn send_link(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        let mode = self.net.wires().mode;
        if mode == Mode::MessagesOnly {
            return Err(message);
        }
        self.net.push(self.from, self.to, Parcel::Link(from, to, message));
        Ok(())
    }

    fn control(&self, to: Pid, control: ControlMessage) -> bool {
        let mode = self.net.wires().mode;
        if mode == Mode::MessagesOnly {
            return false;
        }
        self.net.push(self.from, self.to, Parcel::Control(to, control));
        true
    }
}

/// Two logical nodes, connected.
pub(super) struct Pair {
    pub(super) net: Net,
    pub(super) here: Runtime,
    pub(super) there: Runtime,
}

impl Pair {
    pub(super) fn nodes(&self) -> (NodeId, NodeId) {
        (self.here.node(), self.there.node())
    }

    /// Runs `body` as code of the first node.
    pub(super) fn as_here<R>(&self, body: impl FnOnce() -> R) -> R {
        Node::of(self.here.node()).unwrap().enter(body)
    }

    pub(super) fn cut(&self) {
        let (one, other) = self.nodes();
        self.net.cut(one, other);
    }
}

fn logical(builder: Builder) -> Runtime {
    builder.logical_node(NodeId::random()).build().unwrap()
}

/// Runs `body` with two connected nodes within the time limit. Their shutdown must not have to kill any process.
pub(super) fn with_pair(body: impl FnOnce(&Pair) + Send + 'static) {
    watched(move || {
        let pair = Pair { net: Net::new(), here: logical(builder()), there: logical(builder()) };
        let (one, other) = pair.nodes();
        pair.net.connect(one, other);
        body(&pair);
        for runtime in [pair.here, pair.there] {
            let report = runtime.shutdown_within(HOUR).unwrap();
            assert!(!report.was_forced(), "{report}");
        }
    });
}
