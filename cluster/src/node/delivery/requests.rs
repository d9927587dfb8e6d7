//! What peers ask of this node: decided by its [`Policy`](crate::policy::Policy), and done.

use super::slow::Kept;
use super::{Delivery, exit_reason};
use crate::codec::{Agreement, Start};
use crate::engine::Lane;
use crate::envelope::{AskKind, Content, ControlKind, Envelope, ToldKind};
use crate::info::RemoteInfo;
use crate::node::keys::MAX_KEY;
use crate::node::peer::{NotStarted, Peer, Started};
use crate::node::porter::Job;
use crate::policy::{Ask, Verdict};
use bytes::Bytes;
use postroom::routing::{ControlMessage, Node};
use postroom::{ExitReason, Pid};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a start is asked for.
pub(super) enum StartKind {
    Plain,
    /// A repetition returns the process of the first.
    Keyed(String),
    /// By a supervisor.
    Child,
}

impl Delivery {
    /// Starts a process for a peer, if it may.
    pub(super) fn start(&self, peer: &Arc<Peer>, number: u64, kind: StartKind, content: Content) {
        let is_child = matches!(kind, StartKind::Child);
        let answer = StartAnswer { peer: Arc::clone(peer), number, is_child, is_given: false };
        let Start { process, entry, inputs } = match self.decode(peer, content, Agreement::decode_inputs) {
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
        let (host, policy, starter) = (self.host, Arc::clone(&self.policy), self.porters[0]);
        let (requester, keys) = (Arc::clone(peer), Arc::clone(&self.keys));
        let start = move |is_allowed: bool| {
            if !is_allowed {
                answer.give(Err(NotStarted::Denied));
                return;
            }
            let begin = move || {
                let ward = policy.begin_start();
                let (ends, ended) = (Arc::clone(&policy), Arc::clone(&requester));
                let on_end = move |reason: &ExitReason| {
                    ends.ended(ward);
                    if is_child {
                        // Its supervisor has not asked for it: as far as that knows, the node is lost.
                        let is_lost = reason.is_normal() && host.is_shutting_down();
                        ended.charge_ended(number, if is_lost { &ExitReason::NodeLost } else { reason });
                    }
                };
                let started = host.start_watched(process, entry, inputs, on_end);
                match &started {
                    Ok(pid) => policy.started(ward, requester.node(), *pid),
                    Err(_) => policy.ended(ward),
                }
                started.map_err(|error| NotStarted::Said(error.to_string()))
            };
            let tell = move |started: Started| {
                let pid = started.clone();
                if !answer.give(started)
                    && let Ok(pid) = pid
                {
                    pid.kill();
                }
            };
            let job: Job = Box::new(move || match kind {
                StartKind::Keyed(key) => keys.start(key, process, tell, begin),
                StartKind::Plain | StartKind::Child => tell(begin()),
            });
            // Refused, or dropped before it has run, it answers all the same.
            let _ = starter.run(job).send();
        };
        match self.policy.verdict(peer.node(), Ask::Start { process, entry, is_child }) {
            Verdict::Now(is_allowed) => start(is_allowed),
            Verdict::Later(hearing) => hearing.then(start),
        }
    }

    /// Decides on a request about a process. A supervisor may end its children: that was decided at their start.
    fn verdict(&self, peer: &Peer, pid: Pid, ask: Ask) -> Verdict {
        let is_end = matches!(ask, Ask::Stop(_) | Ask::Cancel(_) | Ask::Kill(_));
        if is_end && peer.is_charge(pid) { Verdict::Now(true) } else { self.policy.verdict(peer.node(), ask) }
    }

    /// Passes on a request to end, if the peer may make it. Returns whether it is kept, with its credit.
    pub(super) fn control(
        &mut self,
        peer: &Arc<Peer>,
        to: Pid,
        control: (ControlKind, Bytes),
        lane: Lane,
        cost: u64,
    ) -> bool {
        if !self.node.enter(|| to.is_alive()) {
            return false;
        }
        let subject = self.node.enter(|| self.policy.subject(peer.node(), to));
        let ask = match control.0 {
            ControlKind::Stop => Ask::Stop(subject),
            ControlKind::Cancel => Ask::Cancel(subject),
            ControlKind::Kill => Ask::Kill(subject),
        };
        let (kind, denied) = (control.0, Arc::clone(peer));
        let deny = move || denied.say(Envelope::Denied { to, control: kind });
        match self.verdict(peer, to, ask) {
            Verdict::Now(false) => deny(),
            Verdict::Now(true) if kind == ControlKind::Stop => {
                return self.deliver(peer, to, Kept::Stop, lane, cost);
            }
            Verdict::Now(true) => _ = self.node.control(to, control_message(kind, &control.1)),
            Verdict::Later(hearing) => {
                let node = self.node;
                hearing.then(move |is_allowed| match is_allowed {
                    true => _ = node.control(to, control_message(kind, &control.1)),
                    false => deny(),
                });
            }
        }
        false
    }

    /// Answers what a peer asks about a process. Returns whether it is kept, with its credit.
    pub(super) fn asked(
        &mut self,
        peer: &Arc<Peer>,
        number: u64,
        to: Pid,
        ask: (AskKind, Bytes),
        lane: Lane,
        cost: u64,
    ) -> bool {
        if peer.owes_too_much() {
            // A flood whose answers are not taken. The peer's requests time out.
            self.counters.undelivered.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let answer = AskAnswer { peer: Arc::clone(peer), number, is_given: false };
        if !self.node.enter(|| to.is_alive()) {
            // No question of who may: there is nothing to do.
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
            Verdict::Now(true) if ask.0 == AskKind::Stop => {
                answer.give(ToldKind::Done, Bytes::new());
                return self.deliver(peer, to, Kept::Stop, lane, cost);
            }
            Verdict::Now(true) => perform(self.node, to, ask.0, &ask.1, answer),
            Verdict::Later(hearing) => {
                let node = self.node;
                hearing.then(move |is_allowed| match is_allowed {
                    true => perform(node, to, ask.0, &ask.1, answer),
                    false => answer.give(ToldKind::Denied, Bytes::new()),
                });
            }
        }
        false
    }

    /// A peer has answered a request.
    pub(super) fn told(&self, peer: &Arc<Peer>, number: u64, told: ToldKind, bytes: &[u8]) {
        if peer.told(number, told, bytes) || told != ToldKind::Denied {
            return;
        }
        match peer.take_start(number) {
            Some(then) => then.complete(Err(NotStarted::Denied)),
            None => peer.child_started(number, Err(NotStarted::Denied)),
        }
    }
}

fn control_message(kind: ControlKind, reason: &[u8]) -> ControlMessage {
    match kind {
        ControlKind::Stop => ControlMessage::Stop,
        ControlKind::Cancel => ControlMessage::Cancel(exit_reason(reason)),
        ControlKind::Kill => ControlMessage::Kill,
    }
}

/// Does what a peer may ask for.
fn perform(node: Node, to: Pid, ask: AskKind, reason: &[u8], answer: AskAnswer) {
    let kind = match ask {
        AskKind::Info => {
            return match node.enter(|| to.info()) {
                Some(info) => answer.give(ToldKind::Info, RemoteInfo::from(info).encode().into()),
                None => answer.give(ToldKind::Gone, Bytes::new()),
            };
        }
        AskKind::Stop => ControlKind::Stop,
        AskKind::Cancel => ControlKind::Cancel,
        AskKind::Kill => ControlKind::Kill,
    };
    let was_alive = node.control(to, control_message(kind, reason));
    answer.give(if was_alive { ToldKind::Done } else { ToldKind::Gone }, Bytes::new());
}

/// The duty to answer a peer that has asked about a process.
struct AskAnswer {
    peer: Arc<Peer>,
    number: u64,
    is_given: bool,
}

impl AskAnswer {
    fn give(mut self, told: ToldKind, bytes: Bytes) {
        self.is_given = true;
        self.peer.say(Envelope::Told { number: self.number, told, bytes });
    }
}

impl Drop for AskAnswer {
    /// The node ends before its policy has decided.
    fn drop(&mut self) {
        if !self.is_given {
            self.peer.say(Envelope::Told { number: self.number, told: ToldKind::Denied, bytes: Bytes::new() });
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
