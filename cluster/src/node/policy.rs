//! The requests that peers may make to this node.
//!
//! # Requests
//! A peer can ask this node to start a process, to end one, or to return a snapshot of one. Without a policy set by the
//! user, the answer is [`Ask::is_usual`]: starts of exported types and snapshots are allowed to all members, and ending
//! a process is allowed to the node that started it. Asking for the process of a key counts as a start, whether or not
//! that process already runs. A message is not such a request: only the messages of exported types are delivered, and
//! the meaning of a message is up to its process. Nor is a link or a monitor: a link ends a process only if the process
//! does not trap exits, which is its own decision. A name is not requested from a node, but registered in the store by
//! the node of its process.
//!
//! # Execution
//! A user's closure may block or panic. So it runs in a process of its own on the node's runtime, one request after the
//! other, and neither the lease nor the messages of others wait for it. At most [`MAX_WAITING`] requests wait; further
//! ones are refused. An allowed request is executed after the messages that have arrived in the meantime, so a process
//! that is asked to stop first handles the messages that were sent to it before the request. If the session with the
//! peer is over by then, the request is ignored.

use crate::node::porter::{Job, Porter};
use crate::node::view::{Member, View};
use postroom::__private::discard_panic;
use postroom::{Address, NodeId, Pid};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of requests that wait for the user's closure.
const MAX_WAITING: usize = 1_024;

/// A user's closure that decides on requests.
pub(crate) type Allow = dyn Fn(&Member, &Ask) -> bool + Send + Sync;

/// A request from a peer to this node: see [`Builder::allow`](crate::Builder::allow).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// Starts a process of an exported type.
    #[non_exhaustive]
    Start {
        /// The name of the type.
        process: &'static str,
        /// The name of the entry.
        entry: &'static str,
        /// Whether the process becomes the child of a supervisor of the peer. If so, it ends with the session.
        is_child: bool,
    },
    /// Stops a process.
    Stop(Subject),
    /// Cancels a process.
    Cancel(Subject),
    /// Kills a process.
    Kill(Subject),
    /// Requests a [snapshot](crate::RemoteInfo) of a process.
    Info(Subject),
}

/// The process that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subject {
    /// The PID of the process.
    pub pid: Pid,
    /// The name of its type; `None` if the process has ended.
    pub process: Option<&'static str>,
    /// Whether the requesting peer started the process.
    pub is_own: bool,
}

impl Ask {
    /// Returns the answer in the absence of a policy: true for the start of an exported type, a request for a
    /// snapshot, or the ending of a process that the peer itself started.
    pub fn is_usual(&self) -> bool {
        match self {
            Self::Start { .. } | Self::Info(_) => true,
            Self::Stop(subject) | Self::Cancel(subject) | Self::Kill(subject) => subject.is_own,
        }
    }
}

/// The policy of this node towards its peers.
pub(crate) struct Policy {
    /// The user's closure, and the process that it runs in.
    allow: Option<(Arc<Allow>, Address<Porter>)>,
    wards: Mutex<Wards>,
    view: Arc<View>,
    waiting: Arc<AtomicUsize>,
    counts: Arc<PolicyCounts>,
}

/// Counters of refused requests.
#[derive(Debug, Default)]
pub(crate) struct PolicyCounts {
    /// Requests from peers that this node refused.
    pub(crate) refused: AtomicU64,
    /// Refused requests for which the user's closure panicked.
    pub(crate) panicked: AtomicU64,
    /// Requests that were allowed only after the session with the peer had ended.
    pub(crate) late: AtomicU64,
    /// Controls of this node that peers refused.
    pub(crate) denied: AtomicU64,
}

/// The live processes that peers have started here.
#[derive(Default)]
struct Wards {
    peers: BTreeMap<Pid, NodeId>,
    /// The processes by the number of their start; `None` while the start is in progress.
    numbers: BTreeMap<u64, Option<Pid>>,
    last: u64,
}

/// The decision on a request, or the means to obtain it.
pub(crate) enum Verdict {
    Now(bool),
    Later(Hearing),
}

/// A request that the user's closure decides on.
pub(crate) struct Hearing {
    allow: Arc<Allow>,
    judge: Address<Porter>,
    peer: Member,
    ask: Ask,
    waiting: Arc<AtomicUsize>,
    counts: Arc<PolicyCounts>,
}

impl Policy {
    pub(crate) fn new(
        allow: Option<(Arc<Allow>, Address<Porter>)>,
        view: Arc<View>,
        counts: Arc<PolicyCounts>,
    ) -> Arc<Self> {
        Arc::new(Self { allow, wards: Mutex::default(), view, waiting: Arc::default(), counts })
    }

    fn wards(&self) -> MutexGuard<'_, Wards> {
        self.wards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a peer begins to start a process. Returns the number of the start.
    pub(crate) fn begin_start(&self) -> u64 {
        let mut wards = self.wards();
        wards.last += 1;
        let number = wards.last;
        wards.numbers.insert(number, None);
        number
    }

    /// Records the started process, which may have ended by now.
    pub(crate) fn started(&self, number: u64, peer: NodeId, pid: Pid) {
        let mut wards = self.wards();
        if let Some(started) = wards.numbers.get_mut(&number) {
            *started = Some(pid);
            wards.peers.insert(pid, peer);
        }
    }

    /// Removes a start that has failed, or whose process has ended.
    pub(crate) fn ended(&self, number: u64) {
        let mut wards = self.wards();
        if let Some(Some(pid)) = wards.numbers.remove(&number) {
            wards.peers.remove(&pid);
        }
    }

    /// Describes a process for a request from a peer. Must run as code of this node (`Node::enter`).
    pub(crate) fn subject(&self, peer: NodeId, pid: Pid) -> Subject {
        let is_own = self.wards().peers.get(&pid) == Some(&peer);
        let process = if self.allow.is_some() { pid.info().map(|info| info.process) } else { None };
        Subject { pid, process, is_own }
    }

    /// Decides on a request from a peer.
    pub(crate) fn verdict(&self, peer: NodeId, ask: Ask) -> Verdict {
        let Some((allow, judge)) = &self.allow else { return self.now(ask.is_usual()) };
        // A node that is no longer a member may do nothing.
        let Some(member) = self.view.lock().members.get(&peer).cloned() else { return self.now(false) };
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return self.now(false);
        }
        let (waiting, counts) = (Arc::clone(&self.waiting), Arc::clone(&self.counts));
        Verdict::Later(Hearing { allow: Arc::clone(allow), judge: *judge, peer: member, ask, waiting, counts })
    }

    fn now(&self, is_allowed: bool) -> Verdict {
        if !is_allowed {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Now(is_allowed)
    }

    /// Ends the policy: the node has left.
    pub(crate) fn close(&self) {
        if let Some((_, judge)) = &self.allow {
            // A stop would wait behind the requests, whose closure may block.
            judge.pid().kill();
        }
    }
}

impl Hearing {
    /// Runs the user's closure, and then `then`. If the node ends first, `then` is dropped without being called.
    pub(crate) fn then(self, then: impl FnOnce(bool) + Send + 'static) {
        let judge = self.judge;
        let job: Job = Box::new(move || {
            let is_allowed = self.decide();
            drop(self);
            then(is_allowed);
        });
        let _ = judge.run(job).send();
    }

    fn decide(&self) -> bool {
        let decided = catch_unwind(AssertUnwindSafe(|| (self.allow)(&self.peer, &self.ask)));
        let is_allowed = decided.unwrap_or_else(|panic| {
            discard_panic(panic);
            self.counts.panicked.fetch_add(1, Ordering::Relaxed);
            false
        });
        if !is_allowed {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Arc<Policy> {
        Policy::new(None, Arc::default(), Arc::default())
    }

    fn pid(slot: u32) -> Pid {
        format!("<7f.1.{slot}.3>").parse().unwrap()
    }

    fn node(number: u64) -> NodeId {
        NodeId::new(number).unwrap()
    }

    /// Also covers a process that ends before its PID is known.
    #[test]
    fn a_process_that_has_ended_is_forgotten() {
        let policy = policy();
        let (first, second, third) = (policy.begin_start(), policy.begin_start(), policy.begin_start());
        policy.ended(first);
        policy.started(first, node(5), pid(1));
        policy.started(second, node(5), pid(2));
        assert!(!policy.subject(node(5), pid(1)).is_own && policy.subject(node(5), pid(2)).is_own);
        assert!(!policy.subject(node(6), pid(2)).is_own);
        policy.ended(second);
        policy.ended(third);
        let wards = policy.wards();
        assert!(wards.peers.is_empty() && wards.numbers.is_empty());
    }
}
