//! Requests from peers to this node: how the [`Policy`](crate::node::policy::Policy) decides on each, and how the
//! allowed ones are executed.

use super::answers::{AskAnswer, StartAnswer, StartKind};
use super::arrivals::{AfterDecision, Arrival};
use super::kept::Kept;
use super::{Delivery, exit_reason};
use crate::codec::{Agreement, DecodedStart};
use crate::engine::Lane;
use crate::envelope::{AskKind, Content, ToldKind};
use crate::info::RemoteInfo;
use crate::node::keys::StartKeys;
use crate::node::peer::Peer;
use crate::node::policy::{Ask, Hearing, Policy, Verdict};
use crate::node::porter::{Job, Porter};
use crate::starts::{MAX_KEY, NotStarted, Started};
use bytes::Bytes;
use postroom::routing::ControlMessage;
use postroom::{Address, ExitReason, Host, Pid};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Delivery {
    /// Starts a process for a peer, if the policy allows it.
    pub(super) fn start(&self, peer: &Arc<Peer>, number: u64, kind: StartKind, content: Content) {
        let is_child = matches!(kind, StartKind::Child);
        let length = content.bytes.len();
        let noted = peer.begin_start(length).then_some(length);
        let answer = StartAnswer { peer: Arc::clone(peer), number, is_child, is_given: false, noted };
        if noted.is_none() {
            self.counters.refused_starts.fetch_add(1, Ordering::Relaxed);
            answer.give(Err(NotStarted::Full));
            return;
        }
        let DecodedStart { process, entry, inputs } = match self.decode(peer, content, Agreement::decode_inputs) {
            Ok(start) => start,
            Err(error) => {
                let reason = error.map_or_else(|| "the session is over".into(), |error| error.to_string());
                answer.give(Err(NotStarted::Said(reason)));
                return;
            }
        };
        if let StartKind::Keyed(key) = &kind
            && (key.is_empty() || key.len() > MAX_KEY)
        {
            answer.give(Err(NotStarted::Said(format!("its key has {} bytes; use 1 to {MAX_KEY}", key.len()))));
            return;
        }
        let ask = Ask::Start { process, entry, is_child: answer.is_child };
        let request = PeerStart {
            host: self.host,
            policy: Arc::clone(&self.policy),
            keys: Arc::clone(&self.keys),
            start: DecodedStart { process, entry, inputs },
            answer,
        };
        let starter = self.porters[0];
        match self.policy.verdict(peer.node(), ask) {
            Verdict::Now(is_allowed) => request.decided(kind, is_allowed, starter),
            Verdict::Later(hearing) => {
                let then = move |is_allowed| request.decided(kind, is_allowed, starter);
                self.decide(peer, hearing, AfterDecision::Other(Box::new(then)));
            }
        }
    }

    /// Lets the policy decide. The decision takes effect after all messages that have arrived from the peer by then.
    pub(super) fn decide(&self, peer: &Arc<Peer>, hearing: Hearing, then: AfterDecision) {
        let (peer, arrivals) = (Arc::clone(peer), Arc::clone(&self.arrivals));
        hearing.then(move |is_allowed| arrivals.push(Arrival::Decided(peer, is_allowed, then)));
    }

    /// Performs or denies a request on which the policy has decided.
    pub(super) fn decided(&mut self, peer: &Arc<Peer>, is_allowed: bool, then: AfterDecision) {
        match then {
            AfterDecision::Other(then) => then(is_allowed),
            AfterDecision::Ask { to, ask, lane, answer } => match is_allowed {
                // The credit was returned when the request began to wait.
                true => _ = self.perform(peer, to, ask, answer, (lane, 0)),
                false => answer.give(ToldKind::Denied, Bytes::new()),
            },
        }
    }

    /// Decides on a request about a process. A supervisor may end its children: the policy decided on that when it
    /// allowed their start.
    fn verdict(&self, peer: &Peer, pid: Pid, ask: Ask) -> Verdict {
        let is_end = matches!(ask, Ask::Stop(_) | Ask::Cancel(_) | Ask::Kill(_));
        if is_end && peer.is_charge(pid) { Verdict::Now(true) } else { self.policy.verdict(peer.node(), ask) }
    }

    /// Handles a request from a peer about a process. Returns whether the request is stored together with its credit.
    pub(super) fn asked(
        &mut self,
        peer: &Arc<Peer>,
        number: u64,
        to: Pid,
        ask: (AskKind, Bytes),
        lane: Lane,
        cost: u64,
    ) -> bool {
        if number > 0 && peer.owes_too_much() {
            // The peer floods this node with requests, but does not take the answers. The requests time out.
            self.counters.undelivered.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let answer = AskAnswer { peer: Arc::clone(peer), number, is_given: false };
        if !self.node.enter(|| to.is_alive()) {
            // There is nothing to do, so the policy is not consulted.
            answer.give(ToldKind::Gone, Bytes::new());
            return false;
        }
        let subject = self.node.enter(|| self.policy.subject(peer.node(), to));
        let about = match ask.0 {
            AskKind::Info => Ask::Info(subject),
            AskKind::Stop => Ask::Stop(subject),
            AskKind::Cancel => Ask::Cancel(subject),
            AskKind::Kill => Ask::Kill(subject),
        };
        match self.verdict(peer, to, about) {
            Verdict::Now(false) => answer.give(ToldKind::Denied, Bytes::new()),
            Verdict::Now(true) => return self.perform(peer, to, ask, answer, (lane, cost)),
            Verdict::Later(hearing) => {
                self.decide(peer, hearing, AfterDecision::Ask { to, ask, lane, answer });
            }
        }
        false
    }

    /// Performs an allowed request. Returns whether the request is stored together with its credit.
    fn perform(
        &mut self,
        peer: &Arc<Peer>,
        to: Pid,
        (ask, reason): (AskKind, Bytes),
        answer: AskAnswer,
        (lane, cost): (Lane, u64),
    ) -> bool {
        let control = match ask {
            AskKind::Info => {
                match self.node.enter(|| to.info()) {
                    Some(info) => answer.give(ToldKind::Info, RemoteInfo::from(info).encode().into()),
                    None => answer.give(ToldKind::Gone, Bytes::new()),
                }
                return false;
            }
            AskKind::Stop if self.node.enter(|| to.is_alive()) => {
                answer.give(ToldKind::Done, Bytes::new());
                return self.deliver(peer, to, Kept::Stop, lane, cost);
            }
            AskKind::Stop => ControlMessage::Stop,
            AskKind::Cancel => ControlMessage::Cancel(exit_reason(&reason)),
            AskKind::Kill => ControlMessage::Kill,
        };
        let was_alive = self.node.control(to, control);
        answer.give(if was_alive { ToldKind::Done } else { ToldKind::Gone }, Bytes::new());
        false
    }

    /// Handles a peer's answer to a request.
    pub(super) fn told(&self, peer: &Arc<Peer>, number: u64, told: ToldKind, bytes: &[u8]) {
        if number == 0 {
            // No one waits for the answer.
            self.counters.policy.denied.fetch_add(u64::from(told == ToldKind::Denied), Ordering::Relaxed);
            return;
        }
        let why = match told {
            _ if peer.told(number, told, bytes) => return,
            ToldKind::Denied => NotStarted::Denied,
            ToldKind::Full => NotStarted::Full,
            ToldKind::Done | ToldKind::Gone | ToldKind::Info => return,
        };
        peer.start_is_over(number, Err(why));
    }
}

/// A request to start a process, while the policy decides on it.
struct PeerStart {
    host: Host,
    policy: Arc<Policy>,
    keys: Arc<StartKeys>,
    start: DecodedStart,
    answer: StartAnswer,
}

impl PeerStart {
    /// Starts the process on `starter` if the request `is_allowed`, and answers the request either way.
    fn decided(self, kind: StartKind, is_allowed: bool, starter: Address<Porter>) {
        if !is_allowed {
            self.answer.give(Err(NotStarted::Denied));
            return;
        }
        let job: Job = Box::new(move || {
            let Self { host, policy, keys, start, answer } = self;
            let (process, requester) = (start.process, Arc::clone(&answer.peer));
            let charge = answer.is_child.then_some(answer.number);
            let begin = || begin(host, &policy, &requester, start, charge);
            match kind {
                StartKind::Keyed(key) => keys.start(key, process, move |started| answer.tell(started), begin),
                StartKind::Plain | StartKind::Child => {
                    let started = begin();
                    answer.tell(started);
                }
            }
        });
        // If the job is refused, or dropped before it has run, its drop sends the answer.
        let _ = starter.run(job).send();
    }
}

/// Starts a process for a peer. If it is a child, its supervisor on that peer knows it by the number `charge`, and is
/// notified when it ends.
fn begin(
    host: Host,
    policy: &Arc<Policy>,
    requester: &Arc<Peer>,
    DecodedStart { process, entry, inputs }: DecodedStart,
    charge: Option<u64>,
) -> Started {
    let ward = policy.begin_start();
    let (ends, ended) = (Arc::clone(policy), Arc::clone(requester));
    let on_end = move |reason: &ExitReason, handling: Option<&'static str>| {
        ends.ended(ward);
        if let Some(number) = charge {
            // The supervisor did not request this end, so for the supervisor it counts as the loss of the node.
            let is_lost = reason.is_normal() && host.is_shutting_down();
            ended.charge_ended(number, if is_lost { &ExitReason::NodeLost } else { reason }, handling);
        }
    };
    let started = host.start_watched(process, entry, inputs, on_end);
    match &started {
        Ok(pid) => policy.started(ward, requester.node(), *pid),
        Err(_) => policy.ended(ward),
    }
    started.map_err(|error| NotStarted::Said(error.to_string()))
}
