//! The public API for keyed processes.

use super::Cluster;
use crate::keyed::KeyedError;
use crate::node::directory::Directory;
use crate::reply::Pending;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use postroom::{Address, NodeId, Pid};
use std::marker::PhantomData;
use std::sync::Arc;

impl Cluster {
    /// Returns a handle to the process of a key. The process runs on one of the nodes that export `P`. The first
    /// request starts it there, with the entry of `P` that takes the key, a `String`, as its only input.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom_cluster::Cluster;
    /// use postroom_cluster::memory::Broker;
    ///
    /// #[process]
    /// #[derive(Default)]
    /// struct Account { number: String, balance: i64 }
    ///
    /// #[process(remote)]
    /// impl Account {
    ///     #[entry]
    ///     fn open(&mut self, key: String) { self.number = key; } // and load its balance from somewhere
    ///     #[message]
    ///     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
    /// }
    ///
    /// # let runtime = Runtime::new()?;
    /// # let broker = Broker::new();
    /// # let _running = broker.run();
    /// let cluster = Cluster::builder("bank").export::<Account>().join(&runtime, broker.connect())?;
    /// let account = cluster.keyed::<Account>("acct-7").wait()?; // or `.await`
    /// assert_eq!(account.deposit(5).wait()?, 5);
    /// let same = cluster.keyed::<Account>("acct-7").wait()?;
    /// assert_eq!(same, account);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed<P: Remote + Addressed>(&self, key: impl Into<String>) -> Keyed<P> {
        let directory = Arc::clone(&self.shared.directory);
        Keyed { directory, key: key.into(), entry: None, process: PhantomData }
    }
}

/// A handle to the process of a key, from [`Cluster::keyed`]. Await it, or call [`wait`](Self::wait), to get the
/// address of the process.
///
/// Each request finds the node anew among the current members and asks it, so keep the address while it works, and ask
/// again when it does not. **A key whose node changes starts anew**: the previous process is stopped, and state that it
/// has not stored elsewhere is lost. While the members change, a key may briefly have two processes.
#[must_use = "await it, or wait for it, to get the address"]
pub struct Keyed<P> {
    directory: Arc<Directory>,
    key: String,
    entry: Option<String>,
    process: PhantomData<fn() -> P>,
}

impl<P: Remote + Addressed> Keyed<P> {
    /// Sets the entry, for a type that has several.
    pub fn entry(self, entry: impl Into<String>) -> Self {
        Self { entry: Some(entry.into()), ..self }
    }

    /// Returns the key's home node, as this node sees the members; `None` if no member exports the type.
    pub fn home(&self) -> Option<NodeId> {
        self.directory.lock().keys.home(P::NAME, &self.key)
    }

    fn ask(&self) -> Result<Pending<Result<Pid, KeyedError>>, KeyedError> {
        let entries = self.directory.codecs.entries_of(P::NAME);
        let entry = match (&self.entry, &entries[..]) {
            (Some(entry), _) => entry,
            (None, [entry]) => *entry,
            // The type is not exported: `ask_key` reports that.
            (None, []) => "",
            (None, _) => return Err(KeyedError::Entry { process: P::NAME, entries }),
        };
        Ok(self.directory.ask_key(P::NAME, entry, &self.key))
    }

    /// Waits at most five seconds for the process of the key. The process is started if there is none. If the caller is
    /// a process, its worker runs other processes meanwhile.
    ///
    /// # Errors
    /// A [`KeyedError`], which says whether to ask again.
    pub fn wait(self) -> Result<Address<P>, KeyedError> {
        self.ask()?.wait().map(Address::assume)
    }
}

impl<P: Remote + Addressed> IntoFuture for Keyed<P> {
    type Output = Result<Address<P>, KeyedError>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let asked = self.ask();
        Box::pin(async move { asked?.await.map(Address::assume) })
    }
}

impl<P> Clone for Keyed<P> {
    fn clone(&self) -> Self {
        Self {
            directory: Arc::clone(&self.directory),
            key: self.key.clone(),
            entry: self.entry.clone(),
            process: PhantomData,
        }
    }
}

impl<P> std::fmt::Debug for Keyed<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed").field("key", &self.key).field("entry", &self.entry).finish_non_exhaustive()
    }
}
