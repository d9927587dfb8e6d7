//! Builds of one program that disagree about a message.

use std::fmt;

/// A disagreement about a message between the build of this node and that of another node. The message cannot be sent
/// to that node.
///
/// The hashes cover the names and types of the message's fields, and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Skew {
    /// Name of the message: its crate, type and method.
    pub message: &'static str,
    /// Hash of the message in the build of this node.
    pub here: u64,
    /// Hash of the message in the build of the other node; `None` if that build does not have the message.
    pub there: Option<u64>,
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, here, there } = self;
        match there {
            None => write!(
                f,
                "the build of the other node does not have `{message}` (hash {here:016x} here); run a build there \
                 that has it, and export its process"
            ),
            Some(there) => write!(
                f,
                "the build of the other node has `{message}` with other fields or another answer (hash {here:016x} \
                 here, {there:016x} there); run one build on both, or write `#[message(codec = \"named\")]` in both, \
                 and `#[serde(default)]` at new fields"
            ),
        }
    }
}
