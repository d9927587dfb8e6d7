//! How a child is given the address of another child of its supervisor.

use super::errors::ChildError;
use super::registry::Roll;
use super::tree::address_of;
use crate::actor::handle::address::Address;
use crate::actor::send::addressed::Addressed;
use crate::api::child_spawn::ChildSpawn;

impl ChildSpawn {
    /// Returns the address of another child of the same supervisor, to be put into the state of this one. It stays valid when
    /// either of them is started again.
    ///
    /// All children that the supervisor was built with have an address before the first one starts, so the order of the children
    /// does not matter; but one that is started later does not serve yet when this one starts: its messages wait, and a call
    /// from the entry of this one would wait for it in vain.
    ///
    /// As [`Tree::child`](super::Tree::child), `sibling::<dyn Storage>(name)` asks whether it answers a protocol.
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
    /// As [`Tree::child`](super::Tree::child); and [`ChildError::Alone`] for what is not the child of a supervisor, such as a
    /// member of a pool. Passed on by the closure, the error is that of the child's start.
    pub fn sibling<P: Addressed + ?Sized>(&self, name: &str) -> Result<Address<P>, ChildError> {
        match self.siblings().and_then(|siblings| siblings.downcast::<Roll>().ok()) {
            Some(roll) => address_of(&roll, name),
            None => Err(ChildError::Alone { name: name.chars().take(80).collect() }),
        }
    }
}
