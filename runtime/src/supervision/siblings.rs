//! Addresses of siblings for a child that is being started.

use super::{errors::ChildError, registry::ChildRegistry, tree::address_of};
use crate::{Address, ChildSpawn, Pid, actor::send::Addressed, sync::Arc};

impl ChildSpawn {
    /// Returns the address of another child of the same supervisor, to store in this child's state. It stays valid when
    /// either child is restarted.
    ///
    /// All children that the supervisor was built with have an address before the first one starts, whatever their
    /// order. The supervisor is busy while it starts a child, so an entry must not wait for the start or restart of a
    /// sibling: a call to a sibling that is not running would wait until its deadline. A message that is sent rather
    /// than called waits for the sibling.
    ///
    /// If the closure of a child returns a PID, as that of a hand-written process does, the type of the child is
    /// unknown before it runs: use [`sibling_pid`](Self::sibling_pid) for it.
    ///
    /// Like [`Tree::child`](super::Tree::child), `sibling::<dyn Storage>(name)` checks that the child implements the
    /// protocol.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::supervision::Supervisor;
    ///
    /// # #[process] struct Db;
    /// # #[process]
    /// # impl Db { #[entry] fn serve(&mut self) {} #[message] fn get(&mut self, key: u32) -> u32 { 2 * key } }
    /// #[process]
    /// struct Web { db: Address<Db> }
    ///
    /// #[process]
    /// impl Web {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message]
    ///     async fn page(&mut self, key: u32) -> Result<u32, CallError> { self.db.get(key).await }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let tree = Supervisor::one_for_one()
    ///     .child("db", |spawn| spawn.of(Db).serve())
    ///     .child("web", |spawn| {
    ///         let db = spawn.sibling("db")?;
    ///         spawn.of(Web { db }).serve()
    ///     })
    ///     .spawn(&runtime)?;
    /// assert_eq!(tree.child::<Web>("web")?.page(4).wait()?, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tree::child`](super::Tree::child), and [`ChildError::Alone`] if this process is not
    /// a supervisor's child, such as a member of a pool. If the closure returns the error, the child's start fails.
    pub fn sibling<P: Addressed + ?Sized>(&self, name: &str) -> Result<Address<P>, ChildError> {
        address_of(&*self.registry_of_siblings(name)?, name)
    }

    /// Returns the PID of another child of the same supervisor, whatever its type. It stays valid when either child
    /// restarts.
    ///
    /// # Errors
    /// Returns [`ChildError::Unknown`] if there is no such child, and [`ChildError::Alone`] as
    /// [`sibling`](Self::sibling) does.
    pub fn sibling_pid(&self, name: &str) -> Result<Pid, ChildError> {
        Ok(self.registry_of_siblings(name)?.find(name)?.1)
    }

    fn registry_of_siblings(&self, name: &str) -> Result<Arc<ChildRegistry>, ChildError> {
        let siblings = self.siblings().and_then(|siblings| siblings.downcast::<ChildRegistry>().ok());
        siblings.ok_or_else(|| ChildError::Alone { name: name.chars().take(80).collect() })
    }
}
