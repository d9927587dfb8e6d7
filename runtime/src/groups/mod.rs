//! Processes that belong together, and those that hear of the same things.
//!
//! * [`event`]: what is told of a group;
//! * [`rooms`]: who is in which room, and who watches: what groups and topics both are;
//! * [`group`]: rooms that processes join, and whose members others know;
//! * [`topic`]: rooms of those who hear of events of one type.
//!
//! A room is there while somebody is in it. What all of them know of a member's end they know from
//! [`memberships`](crate::memberships).

pub(crate) mod event;
pub(crate) mod group;
pub(crate) mod rooms;
pub(crate) mod topic;
