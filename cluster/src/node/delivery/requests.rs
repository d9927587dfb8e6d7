//! Requests from peers to this node: decided by its [`Policy`](crate::node::policy::Policy), and performed.

use super::Arrival;
use super::slow::Kept;
use super::{Delivery, exit_reason};
use crate::codec::{Agreement, DecodedStart};
use crate::engine::Lane;
use crate::envelope::{AskKind, Content, Envelope, ToldKind};
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

/// The kind of a start request.
pub(super) enum StartKind {
    Plain,
    /// With a key: a repetition returns the process of the first start.
    Keyed(String),
    /// Requested by a supervisor.
    Child,
}

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
                self.decide(peer, hearing, move |_, is_allowed| request.decided(kind, is_allowed, starter));
            }
        }
    }

    /// Lets the policy decide. `then` runs after all messages that have arrived from the peer by then.
    pub(super) fn decide(
        &self,
        peer: &Arc<Peer>,
        hearing: Hearing,
        then: impl FnOnce(&mut Self, bool) + Send + 'static,
    ) {
        let (peer, arrivals) = (Arc::clone(peer), Arc::clone(&self.arrivals));
        hearing.then(move |is_allowed| arrivals.push(Arrival::Decided(peer, is_allowed, Box::new(then))));
    }

    /// Decides on a request about a process. A supervisor may end its children: that was decided at their start.
    fn verdict(&self, peer: &Peer, pid: Pid, ask: Ask) -> Verdict {
        let is_end = matches!(ask, Ask::Stop(_) | Ask::Cancel(_) | Ask::Kill(_));
        if is_end && peer.is_charge(pid) { Verdict::Now(true) } else { self.policy.verdict(peer.node(), ask) }
    }

    /// Handles a request from a peer about a process. Returns whether the request is stored, with its credit.
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
            // A flood whose answers the peer does not take. Its requests time out.
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
                let asker = Arc::clone(peer);
                self.decide(peer, hearing, move |delivery, is_allowed| match is_allowed {
                    // The credit was returned when the request began to wait.
                    true => _ = delivery.perform(&asker, to, ask, answer, (lane, 0)),
                    false => answer.give(ToldKind::Denied, Bytes::new()),
                });
            }
        }
        false
    }

    /// Performs an allowed request. Returns whether the request is stored, with its credit.
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

/// The obligation to answer a peer's request about a process.
struct AskAnswer {
    peer: Arc<Peer>,
    number: u64,
    is_given: bool,
}

impl AskAnswer {
    fn give(mut self, told: ToldKind, bytes: Bytes) {
        self.is_given = true;
        // If no one waits for the answer, only a denial is sent.
        if self.number > 0 || told == ToldKind::Denied {
            self.peer.say(Envelope::Told { number: self.number, told, bytes });
        }
    }
}

impl Drop for AskAnswer {
    /// Denies the request: the node ends before its policy has decided.
    fn drop(&mut self) {
        if !self.is_given && self.number > 0 {
            self.peer.say(Envelope::Told { number: self.number, told: ToldKind::Denied, bytes: Bytes::new() });
        }
    }
}

/// A request to start a process, until the policy has decided about it.
struct PeerStart {
    host: Host,
    policy: Arc<Policy>,
    keys: Arc<StartKeys>,
    start: DecodedStart,
    answer: StartAnswer,
}

impl PeerStart {
    /// Has the process started on `starter` if the request `is_allowed`, and answers the request in any case.
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
        // If the job is refused, or dropped before it has run, the answer is sent nevertheless.
        let _ = starter.run(job).send();
    }
}

/// Starts a process for a peer. If it is a child, its supervisor on that peer knows it by the number `charge`, and is
/// told when it ends.
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
            // The supervisor has not requested this end, so to the supervisor it is the loss of the node.
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

/// The obligation to answer a peer's request to start a process.
struct StartAnswer {
    peer: Arc<Peer>,
    number: u64,
    /// Whether a supervisor requested the process.
    is_child: bool,
    is_given: bool,
    /// The length of its inputs, if the start is [recorded](Peer::begin_start).
    noted: Option<usize>,
}

impl StartAnswer {
    /// Answers the request. Returns false if the process must be killed: it is a child, and the session is over.
    fn give(mut self, started: Started) -> bool {
        self.put(started)
    }

    /// Answers the request, and kills a child whose session is over.
    fn tell(self, started: Started) {
        let pid = started.clone();
        if !self.give(started)
            && let Ok(pid) = pid
        {
            pid.kill();
        }
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
        self.noted.into_iter().for_each(|length| self.peer.end_start(length));
    }
}
