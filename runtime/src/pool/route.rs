//! Which lane of a pool a message belongs to: what its user said of messages of its type.

use crate::exit::Panic;
use crate::mailbox::payload::Payload;
use crate::util::log;
use crate::util::panics::{Site, contain, dispose, ignore};
use std::any::TypeId;
use std::collections::HashMap;

/// The key of a message, or the panic of the code of the key's user. Nothing if the message is of another type.
type KeyOf<K> = Box<dyn Fn(&mut Payload) -> Option<Result<K, Panic>> + Send + Sync>;

/// See the module.
pub(crate) struct Routes<K> {
    keys: HashMap<TypeId, KeyOf<K>>,
    copies: HashMap<TypeId, fn(&mut Payload) -> Option<Payload>>,
    /// Of messages of all other types.
    otherwise: Option<K>,
}

/// Where a message goes.
pub(crate) enum Route<K> {
    Lane(K),
    /// To each member, and how it is copied.
    All(fn(&mut Payload) -> Option<Payload>),
    /// There is no lane for messages of this type.
    None,
}

impl<K: Clone + 'static> Routes<K> {
    pub(crate) fn new(otherwise: Option<K>) -> Self {
        Self { keys: HashMap::new(), copies: HashMap::new(), otherwise }
    }

    /// Messages of type `M` go to the lane that `key` says, unless it panics.
    pub(crate) fn by_key<M: Send + 'static>(&mut self, key: impl Fn(&M) -> Result<K, Panic> + Send + Sync + 'static) {
        let key = move |message: &mut Payload| message.get_mut::<M>().map(|message| key(message));
        self.keys.insert(TypeId::of::<M>(), Box::new(key));
    }

    /// Messages of type `M` go to all.
    pub(crate) fn broadcast<M: Clone + Send + 'static>(&mut self) {
        fn copy<M: Clone + Send + 'static>(message: &mut Payload) -> Option<Payload> {
            message.get_mut::<M>().map(|message| Payload::new(message.clone()))
        }
        self.copies.insert(TypeId::of::<M>(), copy::<M>);
    }

    /// Where a message goes. A key that cannot be told because its user's code panics is none.
    pub(crate) fn of(&self, message: &mut Payload) -> Route<K> {
        let type_id = message.type_id();
        if let Some(copy) = self.copies.get(&type_id) {
            return Route::All(*copy);
        }
        let key = match self.keys.get(&type_id) {
            Some(key) => contain(Site::PoolKey, || key(message).transpose()).flatten().unwrap_or_else(|panic| {
                let message_type = message.type_name();
                // On the thread of the sender, whom a panic of the subscriber must not harm.
                ignore(Site::PoolKey, || log::error!(%panic, message_type, "the key of a pool's message panicked"));
                None
            }),
            None => self.otherwise.clone(),
        };
        key.map_or(Route::None, Route::Lane)
    }
}

impl<K> Drop for Routes<K> {
    fn drop(&mut self) {
        // What a user's closure holds may panic in its drop, which is on the thread that drops the pool
        // last.
        self.keys.drain().for_each(|(_, key)| dispose(Site::PoolKey, key));
    }
}
