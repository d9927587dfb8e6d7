//! Starting processes by the name of their type, and sending them messages by name.

use crate::actor::definition::{Actor, Inputs, NamedMessage};
use crate::errors::{MessageError, StartError};
use crate::process::{control::EndWaiter, guardian::Guardian};
use crate::sync::{Arc, PoisonError, RwLock};
use crate::util::panics::{Site, contain};
use crate::{Pid, SpawnError, actor::definition::actor::message_of, engine::host::reuse::HostRef};
use std::{any::TypeId, collections::BTreeMap, panic::Location};

/// The parties that are notified of a process that is started by name.
#[derive(Default)]
pub(crate) struct StartTies {
    pub(crate) guardian: Option<Arc<dyn Guardian>>,
    pub(crate) ending: Option<Arc<dyn EndWaiter>>,
}

type TypeFactory =
    dyn Fn(HostRef, &'static Location<'static>, &str, Inputs, StartTies) -> Result<Pid, SpawnError> + Send + Sync;

type MessageMaker = fn(&str, Inputs) -> Result<NamedMessage, MessageError>;

#[derive(Default)]
pub(crate) struct Registry {
    types: RwLock<BTreeMap<String, Arc<TypeFactory>>>,
    /// Keyed by type, because a process takes messages by name no matter how it was started.
    messages: RwLock<BTreeMap<TypeId, MessageMaker>>,
}

impl Registry {
    /// Adds a type, replacing one of the same name.
    pub(crate) fn add<P: Actor>(
        &self,
        name: String,
        factory: impl Fn(HostRef, &'static Location<'static>, &str, Inputs, StartTies) -> Result<Pid, SpawnError>
        + Send
        + Sync
        + 'static,
    ) {
        self.messages.write().unwrap_or_else(PoisonError::into_inner).insert(TypeId::of::<P>(), message_of::<P>);
        let before = self.types.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(factory));
        // Dropped outside the lock, because the drop of the factory may run user code.
        drop(before);
    }

    /// Removes all types. Their factories are user code, so panics in their drops are contained.
    pub(crate) fn clear(&self) {
        self.messages.write().unwrap_or_else(PoisonError::into_inner).clear();
        let types = std::mem::take(&mut *self.types.write().unwrap_or_else(PoisonError::into_inner));
        types.into_values().for_each(|factory| _ = contain(Site::TypeDrop, || drop(factory)));
    }

    pub(crate) fn start(
        &self,
        host: HostRef,
        place: &'static Location<'static>,
        name: &str,
        entry: &str,
        inputs: Inputs,
        ties: StartTies,
    ) -> Result<Pid, StartError> {
        // Checked first: a host that is shut down clears its types, which would otherwise be reported as unknown.
        if host.scheduler.gate.is_closed() {
            return Err(SpawnError::Shutdown.into());
        }
        let types = self.types.read().unwrap_or_else(PoisonError::into_inner);
        let Some(factory) = types.get(name).cloned() else {
            let name = name.chars().take(80).collect();
            return Err(StartError::Unknown { name, has: types.keys().cloned().collect() });
        };
        // Unlocked before the call: the factory is user code, and may register types.
        drop(types);
        let outcome = contain(Site::TypeStart, || factory(host, place, entry, inputs, ties));
        Ok(outcome.unwrap_or_else(|panic| Err(SpawnError::Init(crate::errors::InitError::Panicked(panic))))?)
    }

    pub(crate) fn messages(&self, of: TypeId) -> Option<MessageMaker> {
        self.messages.read().unwrap_or_else(PoisonError::into_inner).get(&of).copied()
    }
}
