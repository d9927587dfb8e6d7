//! Nodes in a simulated test. They use no threads.

use super::{Builder, Cluster, JoinError};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::node::turns;
use crate::node::view::View;
use postroom::Host;
use postroom::test::Sim;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A node in a simulation that has begun to join.
pub(crate) struct SimulatedJoin {
    pub(crate) cluster: Cluster,
    pub(crate) view: Arc<View>,
    /// Whether a part of the node has panicked.
    pub(crate) has_panicked: Arc<AtomicBool>,
}

impl Builder {
    /// Begins to join as a node whose parts are processes of `host`.
    pub(crate) fn begin_simulated(
        self,
        sim: &Sim,
        host: Host,
        engine: Arc<dyn Engine>,
    ) -> Result<SimulatedJoin, JoinError> {
        let time = sim.clone();
        let clock = Arc::new(move || Moment::after_start(time.elapsed()));
        let (cluster, driver, delivery) = self.prepare(host, engine, clock)?;
        let view = driver.view();
        let has_panicked = turns::begin(host, sim, driver, delivery).ok_or(JoinError::Runtime)?;
        Ok(SimulatedJoin { cluster, view, has_panicked })
    }
}
