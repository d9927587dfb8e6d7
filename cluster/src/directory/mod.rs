//! Messages between nodes about groups, eventual names and keys, and notices to processes about changes.
//!
//! * [`message`]: the bytes behind [`Envelope::Directory`](crate::envelope::Envelope::Directory);
//! * [`notices`]: messages to processes of this node that wait until their mailboxes have room.

pub(crate) mod message;
pub(crate) mod notices;

/// The maximum length in bytes of a key, or of the name of a group, a topic or an eventual name. It is the same as for
/// names within a node.
pub(crate) const MAX_NAME: usize = 1_024;

/// Returns whether a name has a valid length.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
}
