//! Names, groups and topics of a host.

use super::runtime::Host;
use crate::actor::definition::{Actor, Handles};
use crate::actor::{send::Addressed, send::call::send};
use crate::errors::{BadName, GroupError, NameError, SendFailure, WhereisError};
use crate::routing::Pointer;
use crate::{Address, Context, Group, Pid, SendError, Topic, names::name::Name, sync::Arc};

impl Host {
    /// Registers a process under a name. A process may have several names, and registering it again under its own name
    /// is not an error. The name is free again before the process's end is reported. The process may also belong to
    /// another host of the program, or be a stand-alone [`Mailbox`](crate::Mailbox). An [alias](Pid::is_alias) can have
    /// a name too. The name then leads to the alias's current target.
    ///
    /// Of several concurrent registrations of a name, only one succeeds.
    ///
    /// ```
    /// use postroom::{Mailbox, Runtime};
    /// use postroom::error::NameError;
    ///
    /// let runtime = Runtime::new()?;
    /// let (one, other) = (Mailbox::new()?, Mailbox::new()?);
    /// runtime.register_name("printer", one.pid())?;
    /// let taken = NameError::Taken { name: "printer".to_string(), holder: one.pid() };
    /// assert_eq!(runtime.register_name("printer", other.pid()), Err(taken));
    /// drop(one);
    /// assert_eq!(runtime.register_name("printer", other.pid()), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NameError`] if another live process has the name, if this process is not alive, if the host has ended, or if
    /// the name is empty or longer than 1,024 bytes.
    pub fn register_name(self, name: impl Into<Arc<str>>, process: impl Into<Pid>) -> Result<(), NameError> {
        let name = Name::new(name)?;
        if self.has_ended() {
            return Err(NameError::Shutdown);
        }
        self.scheduler().names.register(&name, process.into())
    }

    /// Removes a name, and returns its holder; `None` if no process had the name.
    pub fn unregister_name(self, name: &str) -> Option<Pid> {
        self.scheduler().names.unregister(name)
    }

    /// Returns the holder of a name. Costs a hash of the name and a read lock that some other names share.
    pub fn whereis(self, name: &str) -> Option<Pid> {
        self.scheduler().names.whereis(name)
    }

    /// Returns the typed address of the holder of a name.
    ///
    /// # Errors
    /// [`WhereisError`] if no process has the name, or if it has another type.
    pub fn whereis_as<P: Addressed + ?Sized>(self, name: &str) -> Result<Address<P>, WhereisError> {
        let unknown = || WhereisError::Unknown { name: name.chars().take(80).collect() };
        Ok(self.address(self.whereis(name).ok_or_else(unknown)?)?)
    }

    /// Returns an address that follows the name: each message goes to its current holder, across restarts. While no
    /// process has the name, messages are returned with [`SendFailure::UnknownName`], and calls fail. Whether the
    /// holder is a `P` is checked at delivery. A send costs an additional lookup of the name.
    ///
    /// Each name has one such address while a process holds it. Of the names without a holder, the 1,024 that lost
    /// theirs most recently keep their addresses. Any other such address behaves like that of an ended process: request
    /// a new one.
    ///
    /// ```
    /// # use postroom::prelude::*;
    /// # #[process] struct Printer;
    /// # #[process]
    /// # impl Printer { #[entry] fn serve(&mut self) {} #[message] fn print(&mut self) -> u32 { 7 } }
    /// let runtime = Runtime::new()?;
    /// let printer: Address<Printer> = runtime.named_address("printer")?;
    /// let first = runtime.spawn(Printer).named("printer").serve()?;
    /// assert_eq!(printer.print().wait()?, 7);
    /// first.pid().kill();
    /// first.pid().join().wait();
    /// runtime.spawn(Printer).named("printer").serve()?;
    /// assert_eq!(printer.print().wait()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BadName`] if the name is empty or longer than 1,024 bytes.
    pub fn named_address<P: Addressed + ?Sized>(self, name: impl Into<Arc<str>>) -> Result<Address<P>, BadName> {
        Ok(Address::new(self.scheduler().names.alias(&Name::new(name)?)))
    }

    /// Returns a pointer whose PID stands for the process that `now` returns. This may be a process of this program or
    /// of another node. `now` is called again for each send and each other operation. A pointer is for code that has
    /// names of its own, such as those of a cluster. While `now` returns `None`, messages are returned with
    /// [`SendFailure::UnknownName`], and calls fail.
    ///
    /// `now` runs on the sending thread, without a lock. It should not block. A panic in it is logged, and counts as
    /// `None`.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::sync::{Arc, Mutex};
    ///
    /// # #[process] struct Printer { floor: u32 }
    /// # #[process]
    /// # impl Printer { #[entry] fn serve(&mut self) {} #[message] fn floor(&mut self) -> u32 { self.floor } }
    /// let runtime = Runtime::new()?;
    /// let nearest = Arc::new(Mutex::new(None));
    /// let now = Arc::clone(&nearest);
    /// let pointer = runtime.pointer(move || *now.lock().unwrap());
    /// let printer: Address<Printer> = Address::assume(pointer.pid());
    /// assert_eq!(printer.floor().wait(), Err(CallError::UnknownName));
    /// for floor in [1, 2] {
    ///     *nearest.lock().unwrap() = Some(runtime.spawn(Printer { floor }).serve()?.pid());
    ///     assert_eq!(printer.floor().wait(), Ok(floor));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pointer(self, now: impl Fn() -> Option<Pid> + Send + Sync + 'static) -> Pointer {
        Pointer::new(self.number(), now)
    }

    /// Sends a message of any type to the holder of a name.
    ///
    /// # Errors
    /// The message, and [`SendFailure::UnknownName`] if no process has the name; otherwise those of [`Host::send`].
    pub fn send_named<M: Send + 'static>(self, name: &str, message: M) -> Result<(), SendError<M>> {
        let Some(mut holder) = self.whereis(name) else {
            return Err(SendError { message, reason: SendFailure::UnknownName });
        };
        let mut message = message;
        loop {
            let Err(refused) = send(holder, message) else { return Ok(()) };
            // The holder has ended. The name may have a new holder.
            match (refused.reason, self.whereis(name)) {
                (SendFailure::Gone(_), None) => return Err(SendError { reason: SendFailure::UnknownName, ..refused }),
                (SendFailure::Gone(_), Some(next)) if next != holder => (holder, message) = (next, refused.message),
                _ => return Err(refused),
            }
        }
    }

    /// Returns the group called `name`. See [`Group`]. An invalid name is reported by [`Group::join`].
    pub fn group(self, name: impl Into<Arc<str>>) -> Group {
        Group::new(self.of_host(|record| &record.groups), name)
    }

    /// Returns the topic called `name` for events of type `E`. See [`Topic`].
    pub fn topic<E: Send + 'static>(self, name: impl Into<Arc<str>>) -> Topic<E> {
        Topic::named(self.of_host(|record| &record.topics), name)
    }

    /// Returns the unnamed topic for events of type `E`, which [`publish`](Self::publish) and
    /// [`subscribe`](Self::subscribe) use.
    pub fn event_topic<E: Send + 'static>(self) -> Topic<E> {
        Topic::of_type(self.of_host(|record| &record.topics))
    }

    /// Sends a copy of `event` to each subscriber of its type, and returns how many received it. Never waits: copies
    /// that find no room in a mailbox become dead letters.
    pub fn publish<E: Clone + Send + 'static>(self, event: E) -> usize {
        self.event_topic().publish(event)
    }

    /// Subscribes a process to events of type `E` on this host. Returns true if the process was not subscribed before.
    ///
    /// # Errors
    /// [`GroupError`] if the process or the host has ended.
    pub fn subscribe<E: Send + 'static>(
        self,
        subscriber: impl crate::actor::send::addressed::SendTo<E>,
    ) -> Result<bool, GroupError> {
        self.event_topic::<E>().subscribe(subscriber)
    }

    /// Ends a subscription to events of type `E`. Returns whether there was one.
    pub fn unsubscribe<E: Send + 'static>(self, subscriber: impl crate::actor::send::addressed::SendTo<E>) -> bool {
        self.event_topic::<E>().unsubscribe(subscriber)
    }
}

/// Operations on the process's own host. A machine that is driven by hand has no host.
impl<P: Actor> Context<P> {
    /// Returns the holder of a name on the same host; `None` also in a machine that is driven by hand.
    pub fn whereis(&self, name: &str) -> Option<Pid> {
        self.host()?.whereis(name)
    }

    /// Registers the process under a name. See [`Host::register_name`].
    ///
    /// # Errors
    /// Those of [`Host::register_name`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn register_name(&self, name: impl Into<Arc<str>>) -> Result<(), NameError> {
        self.host_or_panic().register_name(name, self.pid())
    }

    /// Returns the group called `name` on the same host.
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn group(&self, name: impl Into<Arc<str>>) -> Group {
        self.host_or_panic().group(name)
    }

    /// Returns the topic called `name` on the same host.
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn topic<E: Send + 'static>(&self, name: impl Into<Arc<str>>) -> Topic<E> {
        self.host_or_panic().topic(name)
    }

    /// Subscribes the process to events of type `E` on its host. Returns true if it was not subscribed before. For a
    /// topic with a name, use `ctx.topic("…").subscribe(ctx.address())`.
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn subscribe<E: Send + 'static>(&self) -> bool
    where
        P: Handles<E>,
    {
        // The process is alive, since this runs in it.
        self.host_or_panic().subscribe::<E>(self.address()).unwrap_or(false)
    }

    /// Ends the process's subscription to events of type `E`. Returns whether there was one.
    pub fn unsubscribe<E: Send + 'static>(&self) -> bool
    where
        P: Handles<E>,
    {
        self.host().is_some_and(|host| host.unsubscribe::<E>(self.address()))
    }

    /// Publishes an event on the process's host. See [`Host::publish`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn publish<E: Clone + Send + 'static>(&self, event: E) -> usize {
        self.host_or_panic().publish(event)
    }
}
