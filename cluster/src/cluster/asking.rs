//! What a node asks of another about one process, with an answer; and what it allows others to ask.

use super::{Builder, Cluster};
use crate::codec::encode_exit_reason;
use crate::envelope::AskKind;
use crate::info::{AskError, RemoteInfo};
use crate::node::peer::asks::Asker;
use crate::node::policy::Ask;
use crate::node::view::Member;
use crate::reply::{Pending, pair};
use bytes::Bytes;
use postroom::{ExitReason, Pid};
use std::sync::Arc;
use std::time::Duration;

impl Builder {
    /// Decides what other nodes may ask of this one. Without it the answer is [`Ask::is_usual`]: any member may start
    /// exported types and look at processes, and end those processes that it has started itself.
    ///
    /// `allow` runs in a process of its own on the node's runtime, for one request after the other. While it blocks,
    /// requests wait, up to 1,024 of them; messages do not. Its panic refuses the request. A refusal is a typed error
    /// at the node that has asked ([`StartError::Denied`](crate::StartError::Denied), [`AskError::Denied`]), and is
    /// counted here and there in [`Statistics`](crate::Statistics).
    ///
    /// It is not asked about the ending of a child by its supervisor: that is part of its start, which has
    /// `is_child` set.
    ///
    /// A [`stop`](Pid::stop) from another node comes after the messages that its sender has sent before. With a policy,
    /// messages that were sent after it may be handled too, until the policy has decided.
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
    /// Takes a snapshot of a process on any node, as [`Pid::info`] does of one in this program. The answer comes within
    /// that time, or is [`AskError::Timeout`].
    ///
    /// # Errors
    /// The pending result is [`AskError`], which says what to do.
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

    /// Asks a process on any node to [stop](Pid::stop). Unlike that, the pending result says what came of it: `Ok` if
    /// the process was told.
    ///
    /// # Errors
    /// The pending result is [`AskError`], such as [`AskError::Denied`] if its node does not allow it.
    pub fn stop(&self, process: impl Into<Pid>, within: Duration) -> Pending<Result<(), AskError>> {
        self.end(process.into(), AskKind::Stop, Bytes::new(), within, Pid::stop)
    }

    /// Tells a process on any node to end, as [`Pid::cancel`] does. The pending result says what came of it.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub fn cancel(
        &self,
        process: impl Into<Pid>,
        reason: impl Into<ExitReason>,
        within: Duration,
    ) -> Pending<Result<(), AskError>> {
        let reason = reason.into();
        self.end(process.into(), AskKind::Cancel, encode_exit_reason(&reason), within, |pid| pid.cancel(reason))
    }

    /// Ends a process on any node, as [`Pid::kill`] does. The pending result says what came of it.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
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

    /// Returns the session with a node, for tests that say what no node would.
    #[cfg(test)]
    pub(crate) fn peer(&self, node: postroom::NodeId) -> Option<Arc<crate::node::peer::Peer>> {
        self.shared.view.lock().peers.get(&node).cloned()
    }

    /// Runs `body` as code of this node.
    fn here<R>(&self, body: impl FnOnce() -> R) -> R {
        match postroom::routing::Node::of(self.shared.id) {
            Some(node) => node.enter(body),
            // The runtime has been shut down: there are no processes.
            None => body(),
        }
    }
}
