//! Starting processes by the names of their types and entries, and sending to them by the names of their methods.

use super::runtime::Host;
#[cfg(feature = "serde")]
use crate::actor::definition::json::JsonInputs;
use crate::actor::definition::{Actor, Inputs, Migratable};
use crate::errors::{MessageError, StartError};
use crate::process::control::EndWaiter;
use crate::registry::types::StartTies;
use crate::routing::{alias, hosts::is_here, router::gone};
use crate::sync::{Arc, Mutex, lock};
use crate::util::dispose::dispose;
use crate::util::panics::{Site, contain};
use crate::{ExitReason, Payload, Payloads, Pid, Spawn};
use std::panic::Location;

/// Calls a closure at the end of a process that was started by name.
struct OnEnd(Mutex<Option<TakesReason>>);

/// A closure that is called once, with the exit reason and the type of the message in which the process failed.
type TakesReason = Box<dyn FnOnce(&ExitReason, Option<&'static str>) + Send>;

impl EndWaiter for OnEnd {
    fn ended(&self, reason: &ExitReason, result: Option<Payload>) {
        self.ended_while(reason, result, None);
    }

    fn ended_while(&self, reason: &ExitReason, result: Option<Payload>, handling: Option<&'static str>) {
        // Nothing waits for the result of an async entry.
        dispose(Site::ValueDrop, result);
        let Some(on_end) = lock(&self.0).take() else { return };
        if let Err(panic) = contain(Site::RemoteAnswer, || on_end(reason, handling)) {
            crate::util::log::error!(%panic, "what was to be done at the end of a process panicked");
        }
    }
}

impl Host {
    /// Registers `P` under its type name. Its processes can then be started by name, and receive messages by the names
    /// of their methods. Each process starts from `P::default()`.
    pub fn register_type<P: Migratable + Default>(self) {
        self.register_type_with(P::NAME, P::default);
    }

    /// Registers `P` under `name`. Its processes can then be started by that name, and receive messages by the names of
    /// their methods. Each process starts from the value that `make` returns. Has no effect on a host that has ended.
    pub fn register_type_with<P: Migratable>(
        self,
        name: impl Into<String>,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) {
        if self.has_ended() {
            return;
        }
        self.host_record().registry.add::<P>(name.into(), move |host, place, entry, inputs, ties| {
            // The inputs are checked before `make` is called.
            let start = P::start_by_name(entry, inputs)?;
            Spawn::new(host, place, make()).for_parent(ties.guardian, false).start_at(start, ties.ending)
        });
    }

    /// Like [`register_type_with`](Self::register_type_with), but for processes with their own thread. `make` runs on
    /// that thread: see [`Host::spawn_pinned`].
    pub fn register_pinned_type<P: Actor>(self, name: impl Into<String>, make: impl Fn() -> P + Send + Sync + 'static) {
        if self.has_ended() {
            return;
        }
        let make = Arc::new(make);
        self.host_record().registry.add::<P>(name.into(), move |host, place, entry, inputs, ties| {
            let (start, make) = (P::start_by_name(entry, inputs)?, make.clone());
            let spawn = Spawn::pinned(host, place, move || make());
            spawn.for_parent(ties.guardian, false).start_at(start, ties.ending)
        });
    }

    /// Starts a process by the names of its type and its entry. All inputs are checked before anything runs.
    ///
    /// # Errors
    /// [`StartError`], which lists the alternatives, for an unknown type or entry and for inputs that do not fit.
    #[track_caller]
    pub fn start(self, process: &str, entry: &str, inputs: Payloads) -> Result<Pid, StartError> {
        self.start_tied(process, entry, inputs, StartTies::default())
    }

    /// Like [`start`](Self::start), for code that starts a process on behalf of others, such as another node.
    /// `on_end` is called once, on the thread that ends the process, with the exit reason and the type of the message
    /// in which the process failed, if it failed in one. It is part of the start, so it is called however soon the
    /// process ends; it is not called if the start fails. `on_end` must not block; a panic in it is contained.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::sync::mpsc::channel;
    ///
    /// # #[process] #[derive(Default)] struct Account;
    /// # #[process]
    /// # impl Account { #[entry] async fn close(&mut self) {} }
    /// let runtime = Runtime::new()?;
    /// runtime.register_type::<Account>();
    /// let (ends, ended) = channel();
    /// runtime.start_watched("Account", "close", payloads![], move |reason, _| ends.send(reason.clone()).unwrap())?;
    /// assert_eq!(ended.recv()?, ExitReason::Normal);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Host::start`].
    #[track_caller]
    pub fn start_watched(
        self,
        process: &str,
        entry: &str,
        inputs: Payloads,
        on_end: impl FnOnce(&ExitReason, Option<&'static str>) + Send + 'static,
    ) -> Result<Pid, StartError> {
        let ending = Some(Arc::new(OnEnd(Mutex::new(Some(Box::new(on_end))))) as Arc<dyn EndWaiter>);
        self.start_tied(process, entry, inputs, StartTies { ending, guardian: None })
    }

    #[track_caller]
    pub(crate) fn start_tied(
        self,
        process: &str,
        entry: &str,
        inputs: Payloads,
        ties: StartTies,
    ) -> Result<Pid, StartError> {
        self.host_record().registry.start(
            self.reference(),
            Location::caller(),
            process,
            entry,
            Inputs::values(inputs),
            ties,
        )
    }

    /// Like [`start`](Self::start), but with JSON inputs. They are an array with the inputs in order, such as `[100,
    /// "text"]`, or an object with the inputs by name, such as `{"opening": 100, "owner": "text"}`, and are passed as
    /// text or as a [`serde_json::Value`]. The type of each input must be `Deserialize`.
    ///
    /// # Errors
    /// Those of [`Host::start`], and an error for anything that is neither a JSON array nor a JSON object.
    #[cfg(feature = "serde")]
    #[track_caller]
    pub fn start_json(self, process: &str, entry: &str, inputs: impl Into<JsonInputs>) -> Result<Pid, StartError> {
        let inputs = inputs.into().read().map_err(StartError::Json)?;
        let ties = StartTies::default();
        self.host_record().registry.start(self.reference(), Location::caller(), process, entry, inputs, ties)
    }

    /// Sends a message by the name of its method, with a value for each argument, to a process whose type is
    /// [registered](Self::register_type). The method may belong to a protocol that the process implements; the
    /// process's own methods take precedence. The answer is dropped, as with any message that is sent rather than
    /// called.
    ///
    /// Inputs are converted as in [`Host::start`]. Costs a lookup and two allocations more than a [`send`](Self::send).
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
    /// runtime.register_type::<Account>();
    /// let account = runtime.start("Account", "serve", payloads![])?;
    /// runtime.send_to_method(account, "deposit", payloads![20])?;
    /// assert_eq!(runtime.address::<Account>(account)?.deposit(5).wait()?, 25);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`MessageError`], which lists the alternatives, for an unknown message and for inputs that do not fit; if the
    /// type is not registered; and if the message is refused, as by [`Host::send`].
    pub fn send_to_method(self, to: impl Into<Pid>, message: &str, inputs: Payloads) -> Result<(), MessageError> {
        self.send_by_name(to.into(), message, Inputs::values(inputs))
    }

    /// Like [`send_to_method`](Self::send_to_method), but with JSON inputs. They are an array with the inputs in order,
    /// or an object with the inputs by name, and are passed as text or as a [`serde_json::Value`]. The type of each
    /// input must be `Deserialize`.
    ///
    /// # Errors
    /// Those of [`Host::send_to_method`], and an error for anything that is neither a JSON array nor a JSON object.
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
            let is_there = !is_here(to) || alias::lives(to);
            return Err(if is_there { MessageError::Untyped(to) } else { MessageError::Refused(gone(to)) });
        };
        let Some(message_of) = self.host_record().registry.messages(kind.type_id) else {
            return Err(MessageError::Unregistered { pid: to, process: (kind.name)() });
        };
        // If an upgrade has changed the type in the meantime, the message may be unhandled, as after any send.
        message_of(message, inputs)?.send(to).map_err(MessageError::Refused)
    }
}
