//! Snapshots of processes on other nodes, and the errors of requests about such processes.

use postroom::Pid;
use postroom::inspect::{ProcessInfo, ProcessState};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The maximum length of a text in an encoded snapshot, in bytes.
const MAX_TEXT: usize = 1_024;

/// Maximum number of names of a process in a snapshot.
const MAX_NAMES: usize = 64;

/// A snapshot of a process on any node: the parts of [`ProcessInfo`] that are meaningful on other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteInfo {
    /// The PID of the process.
    pub pid: Pid,
    /// The current state.
    pub state: ProcessState,
    /// The name of the process type.
    pub process: String,
    /// The entry that it was started with.
    pub entry: String,
    /// The label.
    pub label: Option<String>,
    /// The names of the process on its node.
    pub names: Vec<String>,
    /// The process that spawned it.
    pub parent: Option<Pid>,
    /// Number of steps run.
    pub steps: u64,
    /// Number of messages received.
    pub messages: u64,
    /// Number of messages queued in the mailbox.
    pub mailbox: u64,
    /// The process that it waits for, and the method that it called there.
    pub waits_for: Option<(Pid, Option<String>)>,
}

/// Why another node did not fulfil a request about one of its processes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is no session with the node.
    #[error("the node of {pid} cannot be reached; try again when it is a member")]
    Unreachable {
        /// The process.
        pid: Pid,
    },
    /// The process has ended.
    #[error("{pid} is no process of its node; it may have ended")]
    NoProcess {
        /// The process.
        pid: Pid,
    },
    /// The node's policy denies the request.
    #[error("the node of {pid} does not allow it; change what it allows with `Builder::allow` there")]
    Denied {
        /// The process.
        pid: Pid,
    },
    /// The answer has not arrived in time. A request to end the process may have been carried out.
    #[error("the node of {pid} has not answered within {waited:?}")]
    Timeout {
        /// The process.
        pid: Pid,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The node was lost before it answered. A request to end the process may have been carried out.
    #[error("the node of {pid} was lost before it answered")]
    Lost {
        /// The process.
        pid: Pid,
    },
    /// The answer cannot be decoded.
    #[error("the node of {pid} has given an answer that cannot be read; update the older of the two nodes")]
    Unreadable {
        /// The process.
        pid: Pid,
    },
}

/// The encoded form of a snapshot. The order of the fields and variants defines the format.
#[derive(Serialize, Deserialize)]
struct WireInfo {
    pid: Pid,
    state: WireState,
    process: String,
    entry: String,
    label: Option<String>,
    names: Vec<String>,
    parent: Option<Pid>,
    counts: [u64; 3],
    waits_for: Option<(Pid, Option<String>)>,
}

#[derive(Serialize, Deserialize)]
enum WireState {
    Ready,
    Running,
    Blocking,
    Idle,
    Suspended(Pid),
    Waiting(u32),
}

impl From<ProcessInfo> for RemoteInfo {
    fn from(info: ProcessInfo) -> Self {
        Self {
            pid: info.pid,
            state: info.state,
            process: cut(info.process),
            entry: cut(info.entry),
            label: info.label.as_deref().map(cut),
            names: info.names.iter().take(MAX_NAMES).map(|name| cut(name)).collect(),
            parent: info.parent,
            steps: info.steps,
            messages: info.messages,
            mailbox: info.mailbox,
            waits_for: info.waits_for.map(|waits| (waits.pid, waits.method.map(cut))),
        }
    }
}

impl RemoteInfo {
    pub(crate) fn encode(self) -> Vec<u8> {
        let state = match self.state {
            ProcessState::Running => WireState::Running,
            ProcessState::Blocking => WireState::Blocking,
            ProcessState::Idle => WireState::Idle,
            ProcessState::Suspended { at } => WireState::Suspended(at),
            ProcessState::Waiting { outstanding } => WireState::Waiting(outstanding),
            // This includes `Ready`, and states that this crate does not know yet: a process in such a state is not
            // idle.
            _ => WireState::Ready,
        };
        let Self { pid, process, entry, label, names, parent, waits_for, .. } = self;
        let counts = [self.steps, self.messages, self.mailbox];
        let wire = WireInfo { pid, state, process, entry, label, names, parent, counts, waits_for };
        // Texts and numbers cannot fail to encode. An empty answer is reported as unreadable.
        postcard::to_stdvec(&wire).unwrap_or_default()
    }

    /// Decodes a snapshot. Returns `None` if the bytes are not exactly one snapshot.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (wire, rest) = postcard::take_from_bytes::<WireInfo>(bytes).ok()?;
        let WireInfo { pid, state, process, entry, label, names, parent, counts, waits_for } = wire;
        let state = match state {
            WireState::Ready => ProcessState::Ready,
            WireState::Running => ProcessState::Running,
            WireState::Blocking => ProcessState::Blocking,
            WireState::Idle => ProcessState::Idle,
            WireState::Suspended(at) => ProcessState::Suspended { at },
            WireState::Waiting(outstanding) => ProcessState::Waiting { outstanding },
        };
        let [steps, messages, mailbox] = counts;
        rest.is_empty().then_some(Self {
            pid,
            state,
            process,
            entry,
            label,
            names,
            parent,
            steps,
            messages,
            mailbox,
            waits_for,
        })
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}
