//! What nodes tell each other of groups, eventual names and keys, and how processes are told of changes.
//!
//! * [`message`]: the bytes behind [`Envelope::Directory`](crate::envelope::Envelope::Directory);
//! * [`notices`]: messages to processes of this node that wait until their mailboxes have room.

pub(crate) mod message;
pub(crate) mod notices;

/// The most bytes of the name of a group, a topic, an eventual name or a key: as names within a node.
pub(crate) const MAX_NAME: usize = 1_024;

/// Returns whether a name has a length that is allowed.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
}
