//! Topics: publishing events to subscribers.

use super::group_table::{GroupKey, GroupTable, TableOfHost, key};
use crate::errors::{BadName, GroupError};
use crate::{Pid, actor::send::SendTo, sync::Arc, util::debug::impl_debug};
use std::any::{TypeId, type_name};
use std::marker::PhantomData;

/// A topic for events of type `E`, from [`Host::topic`](crate::Host::topic). This is a handle, cheap to clone. The
/// topic exists while it has subscribers. Once its host has ended, a topic has no subscribers and accepts none.
///
/// Topics with the same name and different types are independent. A subscription ends before the end of its process is
/// reported.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::Mailbox;
///
/// #[derive(Clone)]
/// struct Placed { order: u64 }
///
/// let runtime = Runtime::new()?;
/// let mut mailbox = Mailbox::new()?;
/// let topic = runtime.topic::<Placed>("orders/new");
/// topic.subscribe(mailbox.pid())?;
/// assert_eq!(topic.publish(Placed { order: 7 }), 1);
/// assert_eq!(mailbox.receive().take::<Placed>().ok().map(|placed| placed.order), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Topic<E> {
    table: TableOfHost,
    /// The key of the topic, if its name is valid.
    key: Result<GroupKey, BadName>,
    event: PhantomData<fn(E)>,
}

impl<E: Send + 'static> Topic<E> {
    pub(crate) fn named(table: TableOfHost, name: impl Into<Arc<str>>) -> Self {
        Self { table, key: key(Some(TypeId::of::<E>()), name), event: PhantomData }
    }

    /// Returns the unnamed topic for events of type `E`.
    pub(crate) fn of_type(table: TableOfHost) -> Self {
        let key = Ok(GroupKey { event: Some(TypeId::of::<E>()), name: None });
        Self { table, key, event: PhantomData }
    }

    /// Returns the name of the topic, or `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        self.key.as_ref().ok()?.name.as_ref().map(|name| &**name.text())
    }

    /// Returns the table and the key of the topic.
    fn place(&self) -> Result<(&'static GroupTable, &GroupKey), GroupError> {
        let key = self.key.as_ref().map_err(Clone::clone)?;
        Ok((self.table.get()?, key))
    }

    /// Sends each subscriber a copy of `event`, and returns how many subscribers got it. Never waits: a copy for which
    /// a mailbox has no room becomes a dead letter.
    pub fn publish(&self, event: E) -> usize
    where
        E: Clone,
    {
        self.table.spread(&self.subscribers(), event)
    }

    /// Subscribes a process. It gets each event once, however many times it subscribes. Returns whether it was not
    /// subscribed before.
    ///
    /// # Errors
    /// [`GroupError`] if the process or the topic's host has ended, or if the topic's name is empty or longer than
    /// 1,024 bytes.
    pub fn subscribe(&self, subscriber: impl SendTo<E>) -> Result<bool, GroupError> {
        let (table, key) = self.place()?;
        table.join_once(key, subscriber.target())
    }

    /// Ends a subscription; events that are already in the mailbox stay. Returns whether there was a subscription.
    pub fn unsubscribe(&self, subscriber: impl SendTo<E>) -> bool {
        self.place().is_ok_and(|(table, key)| table.leave(key, subscriber.target()))
    }

    /// Returns the subscribers, in the order of their PIDs. The list is created once after each change, and shared.
    pub fn subscribers(&self) -> Arc<[Pid]> {
        self.place().map(|(table, key)| table.members(key)).unwrap_or_default()
    }
}

impl<E> Clone for Topic<E> {
    fn clone(&self) -> Self {
        Self { table: self.table, key: self.key.clone(), event: PhantomData }
    }
}

impl_debug!([E] Topic<E>, self => "Topic" {
    event: type_name::<E>(), name: self.key.as_ref().ok().and_then(|key| key.name.as_ref())
});
