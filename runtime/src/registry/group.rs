//! Groups: names for many processes at once.

use super::group_table::{GroupKey, GroupTable, key, spread};
use crate::actor::send::addressed::SendTo;
use crate::errors::{BadName, JoinError};
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::sync::Arc;
use std::fmt;

/// A name for any number of processes of a host, from [`Host::group`](crate::Host::group). A handle, cheap to clone;
/// the group is there while it has members or subscribers.
///
/// A process is a member as long as it has joined more often than left, and lives. It is none any more before anyone
/// hears of its end. Members may be processes of any host of the program, stand-alone mailboxes, and PIDs that [point
/// on](Pid::is_alias): such a member stays across restarts.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::Mailbox;
///
/// let runtime = Runtime::new()?;
/// let room = runtime.group("room");
/// let (mut alice, bob) = (Mailbox::new()?, Mailbox::new()?);
/// room.join(alice.pid())?;
/// room.join(bob.pid())?;
/// drop(bob);
/// assert_eq!(room.broadcast("hello"), 1);
/// assert_eq!(alice.receive().take::<&str>().ok(), Some("hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Group {
    rooms: &'static GroupTable,
    name: Arc<str>,
    /// What it is found by, if it has a name that can be one.
    key: Result<GroupKey, BadName>,
}

impl Group {
    pub(crate) fn new(rooms: &'static GroupTable, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        let key = key(None, name.clone());
        Self { rooms, name, key }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a process a member, or one once more: it then has to leave as often. Returns whether it was none before.
    /// Costs a lock, which some other groups share.
    ///
    /// # Errors
    /// If the process has ended, or if the group's name is empty or longer than 1,024 bytes.
    pub fn join(&self, member: impl Into<Pid>) -> Result<bool, JoinError> {
        self.rooms.join(self.key.as_ref().map_err(Clone::clone)?, member.into())
    }

    /// Takes one joining back. Returns whether the process was a member.
    pub fn leave(&self, member: impl Into<Pid>) -> bool {
        self.key.as_ref().is_ok_and(|key| self.rooms.leave(key, member.into()))
    }

    /// Returns whether the process is a member.
    pub fn contains(&self, member: impl Into<Pid>) -> bool {
        self.key.as_ref().is_ok_and(|key| self.rooms.contains(key, member.into()))
    }

    /// The members, in the order of their PIDs. The list is made once after each change, and shared.
    pub fn members(&self) -> Arc<[Pid]> {
        self.key.as_ref().map(|key| self.rooms.members(key)).unwrap_or_default()
    }

    /// Returns how many members there are.
    pub fn len(&self) -> usize {
        self.members().len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends each member a copy of `message`, and gives how many got it. Waits for none of them: what a full mailbox
    /// has no room for is a dead letter, and its member the only one to miss it. Which of them understand it is found
    /// out at delivery, as for any PID.
    ///
    /// The messages of one sender to one member stay in their order, broadcast or not.
    pub fn broadcast<M: Clone + Send + 'static>(&self, message: M) -> usize {
        spread(&self.members(), message)
    }

    /// Returns the members, and has `subscriber` told of each change from then on by a [`GroupEvent`]: nothing is left
    /// out between the list and the events, and nothing is told twice. (Not for a full mailbox either: a process that
    /// joins and leaves faster than a subscriber can follow is held for it.) Ends with the subscriber. One that has
    /// subscribed already gets a new list, and its events go on. By a PID that points on the process is subscribed that
    /// answers for it now: the next one knows of no list.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn subscribe(&self, subscriber: impl SendTo<GroupEvent>) -> Result<Arc<[Pid]>, JoinError> {
        let (key, pid) = (self.key.as_ref().map_err(Clone::clone)?, subscriber.target());
        self.rooms.watch(key, pid.resolve().ok_or(JoinError::Gone(pid))?)
    }

    /// Ends a subscription. Events that have been sent are still in the mailbox. Returns whether there was one.
    pub fn unsubscribe(&self, subscriber: impl SendTo<GroupEvent>) -> bool {
        let subscriber = subscriber.target().resolve();
        subscriber.is_some_and(|pid| self.key.as_ref().is_ok_and(|key| self.rooms.unwatch(key, pid)))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Group").field(&self.name).finish()
    }
}

/// What a group's subscribers are told, as a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// A process has become a member.
    Joined {
        /// The name of the group.
        group: Arc<str>,
        /// The process.
        pid: Pid,
    },
    /// A process is no member any more.
    Left {
        /// The name of the group.
        group: Arc<str>,
        /// The process.
        pid: Pid,
        /// Why it ended; `None` if it has left.
        reason: Option<ExitReason>,
    },
}
