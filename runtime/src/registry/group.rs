//! Groups: one name for many processes.

use super::group_table::{GroupEvent, GroupKey, GroupTable, TableOfHost, key};
use crate::errors::{BadName, GroupError};
use crate::{Pid, actor::send::SendTo, sync::Arc};
use std::fmt;

/// A name for any number of processes, from [`Host::group`](crate::Host::group). This is a handle, cheap to clone. The
/// group exists while it has members or subscribers. Once its host has ended, a group has no members or subscribers and
/// accepts none.
///
/// A process is a member while it is alive and has joined the group more times than it has left it. When the process
/// ends, it is removed before its end is reported. Members may be processes of any host of the program, stand-alone
/// mailboxes, and [aliases](Pid::is_alias), which stay members across restarts.
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
    table: TableOfHost,
    name: Arc<str>,
    /// The key of the group, if its name is valid.
    key: Result<GroupKey, BadName>,
}

impl Group {
    pub(crate) fn new(table: TableOfHost, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        let key = key(None, name.clone());
        Self { table, name, key }
    }

    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table and the key of the group.
    fn place(&self) -> Result<(&'static GroupTable, &GroupKey), GroupError> {
        let key = self.key.as_ref().map_err(Clone::clone)?;
        Ok((self.table.get()?, key))
    }

    /// Adds a member, or one more membership of a member. A member must leave as many times as it has joined. Returns
    /// whether the process was not a member before. Takes a lock that some other groups share.
    ///
    /// # Errors
    /// [`GroupError`] if the process or the group's host has ended, or if the group's name is empty or longer than
    /// 1,024 bytes.
    pub fn join(&self, member: impl Into<Pid>) -> Result<bool, GroupError> {
        let (table, key) = self.place()?;
        table.join(key, member.into())
    }

    /// Removes one membership. Returns whether the process was a member.
    pub fn leave(&self, member: impl Into<Pid>) -> bool {
        self.place().is_ok_and(|(table, key)| table.leave(key, member.into()))
    }

    /// Returns whether the process is a member.
    pub fn contains(&self, member: impl Into<Pid>) -> bool {
        self.place().is_ok_and(|(table, key)| table.contains(key, member.into()))
    }

    /// Returns the members, in the order of their PIDs. The list is created once after each change, and shared.
    pub fn members(&self) -> Arc<[Pid]> {
        self.place().map(|(table, key)| table.members(key)).unwrap_or_default()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members().len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends each member a copy of `message`, and returns how many members got it. Never waits: a copy for which a
    /// mailbox has no room becomes a dead letter. As with any PID, it is checked only at delivery whether the receiver
    /// handles the message.
    ///
    /// Messages from one sender to one member arrive in order, whether they are broadcast or not.
    pub fn broadcast<M: Clone + Send + 'static>(&self, message: M) -> usize {
        self.table.spread(&self.members(), message)
    }

    /// Returns the members, and sends `subscriber` a [`GroupEvent`] for each later change. No change is missed or
    /// reported twice between the list and the events. (A full mailbox loses none either: a process that joins and
    /// leaves faster than a subscriber can follow is suspended.) The subscription ends with the subscriber. A repeated
    /// subscription returns a new list, and each event is still sent once. If the subscriber is an alias, its current
    /// process is subscribed.
    ///
    /// # Errors
    /// The same errors as [`join`](Self::join).
    pub fn subscribe(&self, subscriber: impl SendTo<GroupEvent>) -> Result<Arc<[Pid]>, GroupError> {
        let ((table, key), pid) = (self.place()?, subscriber.target());
        table.watch(key, pid.resolve().ok_or(GroupError::Gone(pid))?)
    }

    /// Ends a subscription; events that are already in the mailbox stay. Returns whether there was a subscription.
    pub fn unsubscribe(&self, subscriber: impl SendTo<GroupEvent>) -> bool {
        let subscriber = subscriber.target().resolve();
        subscriber.is_some_and(|pid| self.place().is_ok_and(|(table, key)| table.unwatch(key, pid)))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Group").field(&self.name).finish()
    }
}
