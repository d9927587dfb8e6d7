//! Numbers for the keys of a pool. The plan, which runs under a lock, distinguishes its lanes by these numbers.
//!
//! A key's `Hash`, `Eq` and `Drop` are user code, which may panic, block, or send to this pool. So they run without a
//! lock and under a guard; the plan only compares and clones numbers. `Hash` and `Eq` run on the sending thread, `Drop`
//! on the thread that later replaces the key or drops the pool.
//!
//! 1. The key is hashed.
//! 2. Under the lock, the known keys with that hash are collected.
//! 3. Without the lock, they are compared with the key; if one is equal, the key has its number.
//! 4. Otherwise the key is added under the lock; if others were added since step 2, it is compared with those first.
//!
//! So equal keys have the same number, even if they are sent concurrently.
//!
//! A key that is no longer referenced is dropped when the list would grow. The list itself references each key, so a
//! reference that is dropped under a lock is never the last one.

use crate::sync::{Arc, Mutex, lock};
use crate::util::dispose::dispose_here;
use crate::util::panics::{Site, contain};
use crate::{env::chance::HashKeys, exit::Panic};
use std::hash::{BuildHasher, Hash};
use std::{cmp::Ordering, collections::BTreeMap, mem::ManuallyDrop};

/// A key, identified by its number.
pub(crate) struct KeyRef<K>(Arc<KeyEntry<K>>);

struct KeyEntry<K> {
    number: u64,
    key: ManuallyDrop<K>,
}

pub(crate) struct Keys<K> {
    hasher: HashKeys,
    list: Mutex<List<K>>,
}

struct List<K> {
    /// Known keys by hash. Keys with the same hash are in the order of their numbers.
    known: BTreeMap<u64, Vec<KeyRef<K>>>,
    count: usize,
    /// Length of the list at which it is searched for unused keys.
    bound: usize,
    /// The most recently assigned number.
    last: u64,
}

/// Minimum length of the list at which it is searched for unused keys.
const SOME: usize = 64;

/// Returns the hash of a key, and the key. The drop of a key whose hash panics may panic too; it must not run during
/// the first panic, because a second one would abort the program.
///
/// # Errors
/// Returns the panic of the key's `Hash`; the key has then been dropped.
pub(crate) fn hashed<K: Hash>(hasher: &impl BuildHasher, key: K) -> Result<(u64, K), Panic> {
    match contain(Site::PoolKey, || hasher.hash_one(&key)) {
        Ok(hash) => Ok((hash, key)),
        Err(panic) => {
            dispose_here(Site::PoolKey, key);
            Err(panic)
        }
    }
}

impl<K: Hash + Eq> Keys<K> {
    pub(crate) fn new() -> Self {
        let list = List { known: BTreeMap::new(), count: 0, bound: SOME, last: 0 };
        Self { hasher: HashKeys::new(), list: Mutex::new(list) }
    }

    /// Returns the known key that is equal to `key`, or adds `key` with a new number.
    ///
    /// # Errors
    /// Returns the panic of the key's `Hash` or `Eq`; nothing has changed then.
    pub(crate) fn know(&self, key: K) -> Result<KeyRef<K>, Panic> {
        let (hash, key) = hashed(&self.hasher, key)?;
        let mut compared = 0;
        loop {
            let candidates: Vec<KeyRef<K>> = {
                let list = lock(&self.list);
                let alike = list.known.get(&hash).map_or(&[][..], Vec::as_slice);
                alike.iter().filter(|known| known.0.number > compared).cloned().collect()
            };
            let found = contain(Site::PoolKey, || candidates.iter().find(|known| *known.key() == key).cloned());
            if let Some(found) = found.transpose() {
                dispose_here(Site::PoolKey, key);
                return found;
            }
            compared = candidates.last().map_or(compared, |known| known.0.number);
            let mut list = lock(&self.list);
            let newest = list.known.get(&hash).and_then(|alike| alike.last()).map_or(0, |known| known.0.number);
            if newest > compared {
                continue;
            }
            let (known, unused) = list.enter(hash, key);
            drop(list);
            // Dropped outside the lock, since the drop of a key is user code.
            drop(unused);
            return Ok(known);
        }
    }
}

impl<K> List<K> {
    /// Adds a key. Returns it together with the keys that were removed. The caller must drop the removed keys outside
    /// the lock.
    fn enter(&mut self, hash: u64, key: K) -> (KeyRef<K>, Vec<KeyRef<K>>) {
        let unused = if self.count >= self.bound { self.sweep() } else { Vec::new() };
        self.last += 1;
        let known = KeyRef(Arc::new(KeyEntry { number: self.last, key: ManuallyDrop::new(key) }));
        self.known.entry(hash).or_default().push(known.clone());
        self.count += 1;
        (known, unused)
    }

    /// Removes keys that only the list refers to. They cannot gain another reference: only the list could create one,
    /// and its lock is held.
    #[cold]
    fn sweep(&mut self) -> Vec<KeyRef<K>> {
        let mut unused = Vec::new();
        self.known.retain(|_, alike| {
            unused.extend(alike.extract_if(.., |known| Arc::strong_count(&known.0) == 1));
            !alike.is_empty()
        });
        // Sorted because the order of hashes differs from run to run, and the drops are user code.
        unused.sort_unstable();
        self.count -= unused.len();
        self.bound = SOME.max(2 * self.count);
        unused
    }
}

impl<K> KeyRef<K> {
    pub(crate) fn key(&self) -> &K {
        &self.0.key
    }
}

impl<K> Drop for KeyEntry<K> {
    fn drop(&mut self) {
        // SAFETY: the key is taken only here, in the drop of its only owner.
        dispose_here(Site::PoolKey, unsafe { ManuallyDrop::take(&mut self.key) });
    }
}

impl<K> Clone for KeyRef<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> PartialEq for KeyRef<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl<K> Eq for KeyRef<K> {}

impl<K> PartialOrd for KeyRef<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for KeyRef<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_have_one_number_whoever_sends_them_at_the_same_time() {
        let keys = Keys::new();
        let numbers = std::thread::scope(|scope| {
            let ask =
                || (0..500).map(|key: u64| keys.know((key % 100).to_string()).unwrap().0.number).collect::<Vec<_>>();
            let threads = [(); 3].map(|()| scope.spawn(ask));
            threads.map(|thread| thread.join().unwrap())
        });
        // A key may be forgotten when its number is dropped, so numbers can be compared only while the keys are held.
        assert!(numbers.iter().all(|numbers| numbers.len() == 500));
        let held: Vec<_> = (0..200).map(|key: u64| keys.know(key.to_string()).unwrap()).collect();
        for (key, known) in held.iter().enumerate() {
            assert!(keys.know(key.to_string()).unwrap() == *known && *known.key() == key.to_string());
        }
    }

    /// Catches: a list that keeps every key that it has ever seen.
    #[test]
    fn keys_that_nobody_refers_to_are_let_go_and_those_in_use_are_kept() {
        let keys = Keys::new();
        let held: Vec<_> = (0..10).map(|key| keys.know(key).unwrap()).collect();
        (10..100_000).for_each(|key| drop(keys.know(key).unwrap()));
        assert!(lock(&keys.list).count <= 2 * SOME);
        assert!(held.iter().enumerate().all(|(key, known)| keys.know(key as i32).unwrap() == *known));
    }
}
