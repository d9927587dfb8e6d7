//! What is done with processes by the names of their types, entries and messages.

use super::runtime::Host;
use crate::actor::definition::actor::{Actor, Migratable};
use crate::actor::definition::inputs::Inputs;
#[cfg(feature = "serde")]
use crate::actor::definition::json::JsonInputs;
use crate::actor::spawn::builder::Spawn;
use crate::env::program::this_node;
use crate::errors::{MessageError, StartError};
use crate::mailbox::payload::Payloads;
use crate::pid::Pid;
use crate::routing::alias;
use crate::routing::router::gone;
use crate::sync::Arc;
use std::panic::Location;

impl Host {
    /// From here on processes of type `P` can be started under the type's name, and sent messages by
    /// the names of these; each begins as `P::default()`.
    pub fn register<P: Migratable + Default>(self) {
        self.register_with(P::NAME, P::default);
    }

    /// From here on processes of type `P` can be started under `name`, and sent messages by the names of
    /// these; each begins as what `make` gives.
    pub fn register_with<P: Migratable>(self, name: impl Into<String>, make: impl Fn() -> P + Send + Sync + 'static) {
        self.registry().add::<P>(name.into(), move |host, place, entry, inputs| {
            // Checked before anything is made.
            let start = P::start_by_name(entry, inputs)?;
            Spawn::new(host, place, make()).start_at(start)
        });
    }

    /// The same for processes with a thread of their own, on which each is made: see [`Host::spawn_pinned`].
    pub fn register_pinned<P: Actor>(self, name: impl Into<String>, make: impl Fn() -> P + Send + Sync + 'static) {
        let make = Arc::new(make);
        self.registry().add::<P>(name.into(), move |host, place, entry, inputs| {
            let (start, make) = (P::start_by_name(entry, inputs)?, make.clone());
            Spawn::pinned(host, place, move || make()).start_at(start)
        });
    }

    /// Starts a process by the name of its type and of its entry. Everything is checked before anything runs.
    ///
    /// # Errors
    /// What there is instead, for an unknown type or entry and for inputs that do not fit; see [`StartError`].
    #[track_caller]
    pub fn start(self, process: &str, entry: &str, inputs: Payloads) -> Result<Pid, StartError> {
        self.registry().start(self.life(), Location::caller(), process, entry, Inputs::values(inputs))
    }

    /// The same with the inputs as JSON: in order as an array, such as `[100, "text"]`, or by their names as an object,
    /// such as `{"opening": 100, "owner": "text"}`; as a text or as a [`serde_json::Value`]. Each input's type must be
    /// `Deserialize`.
    ///
    /// # Errors
    /// As [`Host::start`], and for what is neither a JSON array nor a JSON object.
    #[cfg(feature = "serde")]
    #[track_caller]
    pub fn start_json(self, process: &str, entry: &str, inputs: impl Into<JsonInputs>) -> Result<Pid, StartError> {
        let inputs = inputs.into().read().map_err(StartError::Json)?;
        self.registry().start(self.life(), Location::caller(), process, entry, inputs)
    }

    /// Sends a message by the name of its method, with a value for each of the method's arguments, to a process whose
    /// type is [registered](Self::register). The name may be that of a message of a protocol that the process answers;
    /// of two messages of one name it is the process's own. Answers go nowhere, as with any message that is sent and
    /// not called.
    ///
    /// Inputs are converted as those of [`Host::start`]. Costs a look at the registry and two allocations more than a
    /// [`send`](Self::send).
    ///
    /// ```
    /// # use postroom::prelude::*;
    /// # #[process] #[derive(Default)] struct Account { balance: i64 }
    /// # #[process]
    /// # impl Account {
    /// #     #[entry] fn serve(&mut self) {}
    /// #     #[message] fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
    /// # }
    /// let runtime = Runtime::new()?;
    /// runtime.register::<Account>();
    /// let account = runtime.start("Account", "serve", payloads![])?;
    /// runtime.send_to_method(account, "deposit", payloads![20])?;
    /// assert_eq!(runtime.address::<Account>(account)?.deposit(5).wait()?, 25);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What there is instead, for an unknown message and for inputs that do not fit; that the type is not registered;
    /// and why the message was refused, as by [`Host::send`]. See [`MessageError`].
    pub fn send_to_method(self, to: impl Into<Pid>, message: &str, inputs: Payloads) -> Result<(), MessageError> {
        self.send_by_name(to.into(), message, Inputs::values(inputs))
    }

    /// The same with the inputs as JSON: in order as an array, or by their names as an object; as a text or as a
    /// [`serde_json::Value`]. Each input's type must be `Deserialize`.
    ///
    /// # Errors
    /// As [`Host::send_to_method`], and for what is neither a JSON array nor a JSON object.
    #[cfg(feature = "serde")]
    pub fn send_json(
        self,
        to: impl Into<Pid>,
        message: &str,
        inputs: impl Into<JsonInputs>,
    ) -> Result<(), MessageError> {
        let inputs = inputs.into().read().map_err(MessageError::Json)?;
        self.send_by_name(to.into(), message, inputs)
    }

    fn send_by_name(self, to: Pid, message: &str, inputs: Inputs) -> Result<(), MessageError> {
        let Some(kind) = alias::kind(to) else {
            let is_there = to.node() != this_node() || alias::lives(to);
            return Err(if is_there { MessageError::Untyped(to) } else { MessageError::Refused(gone(to)) });
        };
        let Some(message_of) = self.registry().messages(kind.type_id) else {
            return Err(MessageError::Unregistered { pid: to, process: (kind.name)() });
        };
        // Should another have taken its place meanwhile, it finds a message that it may not understand, as after any
        // send.
        message_of(message, inputs)?.send(to).map_err(MessageError::Refused)
    }
}
