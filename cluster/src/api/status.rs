//! The membership status of a node.

use super::{Cluster, Outage};

/// Whether a node is currently a member of its cluster, from [`Cluster::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The node is a member.
    Member,
    /// The node is joining for the first time.
    Joining,
    /// The node is currently not a member, for this reason. It tries to join again for as long as it runs.
    Out(Outage),
    /// The node has left, its runtime was shut down, or one of its threads panicked, which is a bug in this crate and
    /// is logged. The node will not be a member again.
    Left,
}

impl Cluster {
    /// Returns whether this node is currently a member, and if not, why.
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
