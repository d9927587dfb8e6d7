//! The handlers of commands.

use crate::call::caller::{self, Caller};
use crate::call::command::{Command, Completion};
use crate::errors::CommandError;
use crate::mailbox::payload::Payload;
use crate::util::panics::{Site, contain};
use std::any::TypeId;
use std::collections::BTreeMap;

type CommandHandler = Box<dyn Fn(Payload, Caller) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Handlers(BTreeMap<TypeId, CommandHandler>);

impl Handlers {
    /// Adds a handler. It replaces an earlier handler for the same command.
    pub(crate) fn add<C: Command>(&mut self, handle: impl Fn(C, Completion<C::Output>) + Send + Sync + 'static) {
        let handle: CommandHandler = Box::new(move |payload, caller| {
            if let Ok(command) = payload.take::<C>() {
                handle(command, Completion::new(caller));
            }
        });
        self.0.insert(TypeId::of::<C>(), handle);
    }

    pub(crate) fn into_each(self) -> impl Iterator<Item = CommandHandler> {
        self.0.into_values()
    }

    /// Passes `command` to its handler, which answers `caller` now or later. If that fails, the error is the answer.
    pub(crate) fn dispatch(&self, command: Payload, caller: Caller) {
        let Some(handle) = self.0.get(&command.value_type()) else {
            caller.fail_command(CommandError::Unregistered { command: command.type_name() });
            return;
        };
        if let Err(panic) = contain(Site::Handler, || handle(command, caller)) {
            crate::util::log::error!(%panic, "a command handler panicked");
            caller::blame_with(|_| CommandError::Panicked(panic.message.clone()));
        }
    }
}
