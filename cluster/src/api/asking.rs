//! Requests to other nodes about one of their processes, and the policy for such requests from other nodes.

use super::{Builder, Cluster};
use crate::codec::encode_exit_reason;
use crate::envelope::AskKind;
use crate::info::{AskError, RemoteInfo};
use crate::node::peer::open_asks::Asker;
use crate::node::policy::Ask;
use crate::node::view::Member;
use crate::reply::{Pending, pair};
use bytes::Bytes;
use postroom::{ExitReason, Pid};
use std::sync::Arc;
use std::time::Duration;

impl Builder {
    /// Sets the policy for requests from other nodes. Without one, [`Ask::is_usual`] decides: any member may start
    /// exported types and take snapshots of processes, but may end only the processes that it started itself.
    ///
    /// `allow` runs in a process of its own on the node's runtime, one request at a time. While it blocks, up to 1,024
    /// requests wait and further ones are refused; messages do not wait. If it panics, the request is refused. The
    /// requesting node gets a refusal as a typed error ([`StartError::Denied`](crate::StartError::Denied),
    /// [`AskError::Denied`]), and both nodes count it in [`Statistics`](crate::Statistics).
    ///
    /// The policy is not consulted when a supervisor ends its child: that permission is part of the child's start,
    /// which has `is_child` set.
    ///
    /// A [`stop`](Pid::stop) from another node takes effect after the messages that its sender sent before it. With a
    /// policy, messages that were sent after it may be handled too, until the policy has decided.
    ///
    /// ```
    /// use postroom_cluster::{Ask, Cluster};
    ///
    /// let builder = Cluster::builder("bank").allow(|peer, ask| match ask {
    ///     Ask::Kill(subject) => subject.is_own || peer.name == "console",
    ///     Ask::Start { process, .. } => *process != "Vault",
    ///     ask => ask.is_usual(),
    /// });
    /// # let _ = builder;
    /// ```
    pub fn allow(mut self, allow: impl Fn(&Member, &Ask) -> bool + Send + Sync + 'static) -> Self {
        self.allow = Some(Arc::new(allow));
        self
    }
}

impl Cluster {
    /// Takes a snapshot of a process on any node, as [`Pid::info`] does for a process in this program, and waits up to
    /// `within` for the answer. If no answer arrives in that time, the result is [`AskError::Timeout`].
    ///
    /// # Errors
    /// The pending result is an [`AskError`], whose text says what to do.
    pub fn info(&self, process: impl Into<Pid>, within: Duration) -> Pending<Result<RemoteInfo, AskError>> {
        let pid = process.into();
        let (pending, then) = pair(Err(AskError::Lost { pid }));
        if pid.node() == self.shared.id {
            then.complete(self.here(|| pid.info()).map(RemoteInfo::from).ok_or(AskError::NoProcess { pid }));
        } else {
            self.ask(pid, AskKind::Info, Bytes::new(), within, Asker::Info(then));
        }
        pending
    }

    /// Asks a process on any node to stop. Unlike [`Pid::stop`], this reports the outcome: the pending result is `Ok`
    /// if the process was asked to stop.
    ///
    /// # Errors
    /// The pending result is an [`AskError`], such as [`AskError::Denied`] if the process's node does not allow the
    /// request.
    pub fn stop(&self, process: impl Into<Pid>, within: Duration) -> Pending<Result<(), AskError>> {
        self.end(process.into(), AskKind::Stop, Bytes::new(), within, Pid::stop)
    }

    /// Cancels a process on any node, as [`Pid::cancel`] does. The pending result reports the outcome.
    ///
    /// # Errors
    /// The same as for [`stop`](Self::stop).
    pub fn cancel(
        &self,
        process: impl Into<Pid>,
        reason: impl Into<ExitReason>,
        within: Duration,
    ) -> Pending<Result<(), AskError>> {
        let reason = reason.into();
        self.end(process.into(), AskKind::Cancel, encode_exit_reason(&reason), within, |pid| pid.cancel(reason))
    }

    /// Kills a process on any node, as [`Pid::kill`] does. The pending result reports the outcome.
    ///
    /// # Errors
    /// The same as for [`stop`](Self::stop).
    pub fn kill(&self, process: impl Into<Pid>, within: Duration) -> Pending<Result<(), AskError>> {
        self.end(process.into(), AskKind::Kill, Bytes::new(), within, Pid::kill)
    }

    fn end(
        &self,
        pid: Pid,
        ask: AskKind,
        reason: Bytes,
        within: Duration,
        here: impl FnOnce(Pid) -> bool,
    ) -> Pending<Result<(), AskError>> {
        let (pending, then) = pair(Err(AskError::Lost { pid }));
        if pid.node() == self.shared.id {
            let was_alive = self.here(|| here(pid));
            then.complete(if was_alive { Ok(()) } else { Err(AskError::NoProcess { pid }) });
        } else {
            self.ask(pid, ask, reason, within, Asker::Done(then));
        }
        pending
    }

    fn ask(&self, pid: Pid, ask: AskKind, reason: Bytes, within: Duration, asker: Asker) {
        let peer = self.shared.view.lock().peers.get(&pid.node()).cloned();
        match peer {
            Some(peer) => peer.ask(pid, ask, reason, within, asker),
            None => asker.fail(AskError::Unreachable { pid }),
        }
    }

    /// Returns the session with a node, for tests that send messages no real node would send.
    #[cfg(test)]
    pub(crate) fn peer(&self, node: postroom::NodeId) -> Option<Arc<crate::node::peer::Peer>> {
        self.shared.view.lock().peers.get(&node).cloned()
    }

    /// Runs `body` in the context of this node.
    fn here<R>(&self, body: impl FnOnce() -> R) -> R {
        match postroom::routing::Node::of(self.shared.id) {
            Some(node) => node.enter(body),
            // The runtime has been shut down, so no processes exist.
            None => body(),
        }
    }
}
