//! Counts of a node's open operations with other nodes, for tests.

use std::ops::Add;

/// The open operations of a node with other nodes. Each of them must end, so all counts are zero at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Books {
    /// Unfinished calls to processes of other nodes.
    pub calls: usize,
    /// Unfinished starts on other nodes.
    pub starts: usize,
    /// Messages that wait for a session to open.
    pub waiting: usize,
    /// The cost of the messages that wait to be sent or acknowledged, in bytes.
    pub bytes: usize,
    /// Links, monitors and joins with processes of other nodes.
    pub ties: usize,
}

impl Add for Books {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            starts: self.starts + other.starts,
            waiting: self.waiting + other.waiting,
            bytes: self.bytes + other.bytes,
            ties: self.ties + other.ties,
        }
    }
}
