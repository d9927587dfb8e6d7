//! Whether a node is a member, and why not.

use super::{Cluster, Outage};

/// Whether a node is a member of its cluster now: see [`Cluster::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It is a member.
    Member,
    /// It joins for the first time.
    Joining,
    /// It is no member at present, for this reason, and joins again by itself for as long as it runs.
    Out(Outage),
    /// It has left, or its runtime was shut down, or a thread of it has panicked, which is a fault of this crate and is
    /// logged: it will be no member any more.
    Left,
}

impl Cluster {
    /// Returns whether this node is a member now, and why not.
    ///
    /// ```
    /// # use postroom::prelude::*;
    /// use postroom_cluster::{Cluster, Status};
    /// # use postroom_cluster::memory::Broker;
    /// # let runtime = Runtime::new()?;
    /// # let broker = Broker::new();
    /// # let _running = broker.run();
    /// let cluster = Cluster::builder("bank").node("eu-1").join(&runtime, broker.connect())?;
    /// assert_eq!(cluster.status(), Status::Member);
    /// cluster.leave().wait();
    /// assert_eq!(cluster.status(), Status::Left);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn status(&self) -> Status {
        let view = self.shared.view.lock();
        if view.is_over.is_some() {
            Status::Left
        } else if view.is_member {
            Status::Member
        } else {
            let obstacle = view.obstacle.clone().map(|problem| Outage::Broker { problem });
            obstacle.or_else(|| view.outage.clone()).map_or(Status::Joining, Status::Out)
        }
    }
}
