//! The assignment of keys to shards.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use postroom::prelude::*;

use crate::shard::Shard;

#[derive(Clone)]
pub struct Keys {
    shards: Arc<[Address<Shard>]>,
    hasher: DefaultHashBuilder,
}

impl Keys {
    pub fn over(shards: impl IntoIterator<Item = Address<Shard>>) -> Self {
        Self { shards: shards.into_iter().collect(), hasher: DefaultHashBuilder::default() }
    }

    /// Returns the same shards by the PIDs of their current incarnations. These PIDs are faster than the addresses that
    /// survive a restart, but are only valid until the next restart.
    pub fn present(&self, host: Host) -> Self {
        let present = |shard: &Address<Shard>| host.address(shard.pid().resolve()?).ok();
        let shards = self.shards.iter().map(|shard| present(shard).unwrap_or(*shard)).collect();
        Self { shards, hasher: self.hasher.clone() }
    }

    pub fn shard(&self, key: &[u8]) -> Address<Shard> {
        self.shards[self.hasher.hash_one(key) as usize % self.shards.len()]
    }
}
