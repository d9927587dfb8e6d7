//! Routing of messages to lanes, as configured for their types.

use crate::util::dispose::dispose_here;
use crate::util::panics::{Site, contain};
use crate::{Payload, exit::Panic, util::log};
use std::{any::TypeId, collections::BTreeMap};

/// A function that returns the key of a message, or the panic of the user code. It returns `None` for a message of
/// another type.
type KeyOf<K> = Box<dyn Fn(&mut Payload) -> Option<Result<K, Panic>> + Send + Sync>;

pub(crate) struct Routes<K> {
    keys: BTreeMap<TypeId, KeyOf<K>>,
    copies: BTreeMap<TypeId, fn(&mut Payload) -> Option<Payload>>,
    /// Lane of messages of all other types.
    otherwise: Option<K>,
}

#[derive(Clone)]
pub(crate) enum Route<K> {
    Lane(K),
    /// Sent to each member; the function copies the message.
    All(fn(&mut Payload) -> Option<Payload>),
    /// No lane takes messages of this type.
    None,
}

impl<K: Clone + 'static> Routes<K> {
    pub(crate) fn new(otherwise: Option<K>) -> Self {
        Self { keys: BTreeMap::new(), copies: BTreeMap::new(), otherwise }
    }

    /// Routes messages of type `M` by `key`. A message whose key panics has no route.
    pub(crate) fn by_key<M: Send + 'static>(&mut self, key: impl Fn(&M) -> Result<K, Panic> + Send + Sync + 'static) {
        let key = move |message: &mut Payload| message.get_mut::<M>().map(|message| key(message));
        self.keys.insert(TypeId::of::<M>(), Box::new(key));
    }

    pub(crate) fn broadcast<M: Clone + Send + 'static>(&mut self) {
        fn copy<M: Clone + Send + 'static>(message: &mut Payload) -> Option<Payload> {
            let origin = message.origin();
            let copied = message.get_mut::<M>().map(|message| message.clone());
            copied.map(|message| Payload::with_origin(message, origin))
        }
        self.copies.insert(TypeId::of::<M>(), copy::<M>);
    }

    /// Returns the route of a message, or [`Route::None`] if the user code panics.
    pub(crate) fn of(&self, message: &mut Payload) -> Route<K> {
        let type_id = message.value_type();
        if let Some(copy) = self.copies.get(&type_id) {
            return Route::All(*copy);
        }
        let key = match self.keys.get(&type_id) {
            Some(key) => contain(Site::PoolKey, || key(message).transpose()).flatten().unwrap_or_else(|panic| {
                let message_type = message.type_name();
                // This runs on the sender's thread, which a panicking log subscriber must not harm.
                log::error!(%panic, message_type, "the key of a pool's message panicked");
                None
            }),
            None => self.otherwise.clone(),
        };
        key.map_or(Route::None, Route::Lane)
    }
}

impl<K> Drop for Routes<K> {
    fn drop(&mut self) {
        // The captures of a user's closure may panic when they are dropped. The thread that drops the pool last must
        // survive that.
        std::mem::take(&mut self.keys).into_values().for_each(|key| dispose_here(Site::PoolKey, key));
    }
}
