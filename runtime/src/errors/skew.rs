//! Two builds of one program that differ about a message.

use std::fmt;

/// How the build of another node differs from this one about a message, which therefore cannot travel there.
///
/// Hashes are those of the names and types of the fields and of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Skew {
    /// The name of the message: its crate, type and method.
    pub message: &'static str,
    /// Its hash in the build of this node.
    pub here: u64,
    /// Its hash in the build of the other node; `None`: that build does not have the message.
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
