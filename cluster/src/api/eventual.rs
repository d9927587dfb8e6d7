//! The public API of eventual names.

use super::Cluster;
use crate::eventual::ClaimError;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use postroom::{Address, Pid};

impl Cluster {
    /// Registers an eventual name for a process of this node. Takes effect at once and needs no broker, so it also
    /// works while this node is cut off. Returns true if the process did not hold the name before.
    ///
    /// While the cluster is split, each side may have its own holder. Afterwards all nodes agree on one; a process that
    /// loses the name receives a [`NameLost`](crate::NameLost) and keeps running. For a name that never has two
    /// holders, use [`register`](Self::register): names of the two kinds are independent of each other.
    ///
    /// ```
    /// # use postroom::prelude::*;
    /// # use postroom_cluster::memory::Broker;
    /// use postroom_cluster::{Cluster, NameLost};
    ///
    /// #[process]
    /// struct Reporter { reports: bool }
    ///
    /// #[process]
    /// impl Reporter {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message(NameLost)]
    ///     fn lost(&mut self, _lost: NameLost) { self.reports = false; }
    /// }
    ///
    /// # let runtime = Runtime::new()?;
    /// # let broker = Broker::new();
    /// # let _running = broker.run();
    /// let cluster = Cluster::builder("bank").join(&runtime, broker.connect())?;
    /// let reporter = runtime.spawn(Reporter { reports: true }).serve()?;
    /// cluster.register_eventual("reporter", reporter)?;
    /// assert_eq!(cluster.eventual_holder("reporter"), Some(reporter.pid()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ClaimError::Taken`] if another process holds the name as far as this node knows; another [`ClaimError`] if the
    /// process has ended or runs on another node, or the name is not valid.
    pub fn register_eventual(&self, name: &str, process: impl Into<Pid>) -> Result<bool, ClaimError> {
        let (pid, directory) = (super::held_by(process.into()), &self.shared.directory);
        if directory.lock().is_over {
            return Err(ClaimError::Left);
        }
        if pid.node() == directory.node && !pid.is_alive() {
            return Err(ClaimError::Ended { pid });
        }
        let is_new = directory.change(|state| state.eventual.claim(name, pid))?;
        // If the process has ended in the meantime, `watch` still reports its end.
        if directory.watch(pid) { Ok(is_new) } else { Err(ClaimError::Left) }
    }

    /// Releases an eventual name. Returns whether the process held it.
    pub fn release_eventual(&self, name: &str, process: impl Into<Pid>) -> bool {
        let pid = super::held_by(process.into());
        self.shared.directory.change(|state| state.eventual.release(name, pid))
    }

    /// Returns the holder of an eventual name, as far as this node knows.
    pub fn eventual_holder(&self, name: &str) -> Option<Pid> {
        self.shared.directory.lock().eventual.holder(name)
    }

    /// Returns the address of the holder of an eventual name. Does not check that the holder is a `P`.
    pub fn named_eventual<P: Remote + Addressed>(&self, name: &str) -> Option<Address<P>> {
        self.eventual_holder(name).map(Address::assume)
    }
}
