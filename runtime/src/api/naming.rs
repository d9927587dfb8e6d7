//! What can be found on a host by a name, a group, or a type of events, by anyone and from inside its processes.

use super::runtime::Host;
use crate::actor::definition::actor::{Actor, Handles};
use crate::actor::definition::context::Context;
use crate::actor::handle::address::Address;
use crate::actor::send::addressed::Addressed;
use crate::actor::send::call::send;
use crate::errors::{BadName, JoinError, NameError, SendError, SendFailure, WhereisError};
use crate::names::name::Name;
use crate::pid::Pid;
use crate::registry::group::Group;
use crate::registry::topic::Topic;
use crate::sync::Arc;

impl Host {
    /// Returns a name to a process; it may have several, and have this one already. It has it as long as it lives:
    /// before anyone hears of its end the name is free. The process may be one of another host of the program, a
    /// stand-alone [`Mailbox`](crate::Mailbox), or the process that serves behind a PID that [points
    /// on](Pid::is_alias).
    ///
    /// Of many that want the same name at the same time, one gets it.
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
    /// If another process that lives has the name; if this process does not live; if the name is empty or longer than
    /// 1,024 bytes.
    pub fn register_name(self, name: impl Into<Arc<str>>, process: impl Into<Pid>) -> Result<(), NameError> {
        self.scheduler().names.register(&Name::new(name)?, process.into())
    }

    /// Takes a name from the holder of it, and gives who that was.
    pub fn unregister_name(self, name: &str) -> Option<Pid> {
        self.scheduler().names.unregister(name)
    }

    /// The process that has that name. Costs a lock for reading, which some other names share, and hashing the name.
    pub fn whereis(self, name: &str) -> Option<Pid> {
        self.scheduler().names.whereis(name)
    }

    /// The typed address of the process that has that name.
    ///
    /// # Errors
    /// If no process has it, or if the process is of another type.
    pub fn whereis_as<P: Addressed + ?Sized>(self, name: &str) -> Result<Address<P>, WhereisError> {
        let unknown = || WhereisError::Unknown { name: name.chars().take(80).collect() };
        Ok(self.address(self.whereis(name).ok_or_else(unknown)?)?)
    }

    /// An address that goes by the name: what is sent to it goes to its holder at that time, across restarts. While no
    /// process has it, messages come back with [`SendFailure::UnknownName`], and calls fail. Whether the process is a
    /// `P` is checked at delivery. Sending costs a look at the name besides.
    ///
    /// Each name has one such address, as long as a process has the name; of names that no process has, the addresses
    /// of those 1,024 are kept that have been without one for the shortest time. Any other is as that of a process that
    /// has ended: ask for it anew.
    ///
    /// ```
    /// # use postroom::prelude::*;
    /// # #[process] struct Printer;
    /// # #[process]
    /// # impl Printer { #[entry] fn serve(&mut self) {} #[message] fn print(&mut self) -> u32 { 7 } }
    /// let runtime = Runtime::new()?;
    /// let printer: Address<Printer> = runtime.named("printer")?;
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
    /// If the name is empty or longer than 1,024 bytes.
    pub fn named<P: Addressed + ?Sized>(self, name: impl Into<Arc<str>>) -> Result<Address<P>, BadName> {
        Ok(Address::new(self.scheduler().names.alias(&Name::new(name)?)))
    }

    /// Sends a message, of any type, to the process that has that name.
    ///
    /// # Errors
    /// The message, with the reason: [`SendFailure::UnknownName`] if no process has the name; else as [`Host::send`].
    pub fn send_named<M: Send + 'static>(self, name: &str, message: M) -> Result<(), SendError<M>> {
        let Some(mut holder) = self.whereis(name) else {
            return Err(SendError { message, reason: SendFailure::UnknownName });
        };
        let mut message = message;
        loop {
            let Err(refused) = send(holder, message) else { return Ok(()) };
            // It has ended since; the name may have gone to another.
            match (refused.reason, self.whereis(name)) {
                (SendFailure::Gone(_), None) => return Err(SendError { reason: SendFailure::UnknownName, ..refused }),
                (SendFailure::Gone(_), Some(next)) if next != holder => (holder, message) = (next, refused.message),
                _ => return Err(refused),
            }
        }
    }

    /// The group of that name. See [`Group`].
    pub fn group(self, name: impl Into<Arc<str>>) -> Group {
        Group::new(self.groups(), name)
    }

    /// The topic of that name for events of type `E`. See [`Topic`].
    pub fn topic<E: Send + 'static>(self, name: impl Into<Arc<str>>) -> Topic<E> {
        Topic::named(self.topics(), name)
    }

    /// The topic without a name for events of type `E`: that of [`publish`](Self::publish) and
    /// [`subscribe`](Self::subscribe).
    pub fn events<E: Send + 'static>(self) -> Topic<E> {
        Topic::of_type(self.topics())
    }

    /// Sends a copy of `event` to each process that has subscribed to events of its type, and gives how many got it.
    /// Waits for none of them: what a full mailbox has no room for is a dead letter.
    pub fn publish<E: Clone + Send + 'static>(self, event: E) -> usize {
        self.events().publish(event)
    }

    /// From here on `subscriber` gets each event of type `E` that is published on this host. Returns whether it did not
    /// before.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn subscribe<E: Send + 'static>(
        self,
        subscriber: impl crate::actor::send::addressed::SendTo<E>,
    ) -> Result<bool, JoinError> {
        self.events::<E>().subscribe(subscriber)
    }

    /// Ends a subscription to events of type `E`. Returns whether there was one.
    pub fn unsubscribe<E: Send + 'static>(self, subscriber: impl crate::actor::send::addressed::SendTo<E>) -> bool {
        self.events::<E>().unsubscribe(subscriber)
    }
}

/// On the process's own host. In a machine that is driven by hand there is none.
impl<P: Actor> Context<P> {
    /// The process that has that name on the same host; `None` also in a machine that is driven by hand.
    pub fn whereis(&self, name: &str) -> Option<Pid> {
        self.host()?.whereis(name)
    }

    /// Returns the process a name, or one more. See [`Host::register_name`].
    ///
    /// # Errors
    /// As [`Host::register_name`].
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn register_name(&self, name: impl Into<Arc<str>>) -> Result<(), NameError> {
        self.host_or_panic().register_name(name, self.pid())
    }

    /// The group of that name on the same host.
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn group(&self, name: impl Into<Arc<str>>) -> Group {
        self.host_or_panic().group(name)
    }

    /// The topic of that name on the same host.
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn topic<E: Send + 'static>(&self, name: impl Into<Arc<str>>) -> Topic<E> {
        self.host_or_panic().topic(name)
    }

    /// From here on the process gets each event of type `E` that is published on its host. Returns whether it did not
    /// before. To hear of a topic with a name, `ctx.topic("…").subscribe(ctx.address())`.
    ///
    /// # Panics
    /// In a machine that is driven by hand.
    #[track_caller]
    pub fn subscribe<E: Send + 'static>(&self) -> bool
    where
        P: Handles<E>,
    {
        // It lives, since this runs in it.
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
