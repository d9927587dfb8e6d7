//! Joins on processes of other nodes. Each join is a monitor that belongs to a pseudo-process of the local node.

use crate::env::program::{HOSTLESS, this_node};
use crate::env::world::World;
use crate::exit::ExitReason;
use crate::links::protocol::LinkMessage;
use crate::pid::{NodeId, Pid};
use crate::process::control::Join;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::util::panics::{Site, contain};
use std::collections::BTreeMap;

/// Returns the PID that monitors processes for the joins of a node. No process has this PID, since generations begin
/// with one.
fn joiner(node: NodeId) -> Pid {
    Pid::new(node, HOSTLESS, 0, 0)
}

pub(super) fn is_joiner(pid: Pid) -> bool {
    pid == joiner(pid.node())
}

/// Number of joins below which abandoned ones are not removed.
const FEW: usize = 64;

pub(super) struct RemoteJoin {
    /// The joiner.
    pub(super) from: Pid,
    /// The process that the joiner monitors.
    pub(super) to: Pid,
    join: Join,
}

/// The pending joins, by the numbers of their monitors.
struct RemoteJoins {
    waiting: BTreeMap<u64, RemoteJoin>,
    /// The number of joins at which abandoned ones are removed.
    swept_at: usize,
}

static JOINS: World<Mutex<RemoteJoins>> =
    World::new(Mutex::new(RemoteJoins { waiting: BTreeMap::new(), swept_at: FEW }));

impl RemoteJoins {
    /// Removes abandoned joins whenever there are twice as many joins as the last removal left. A caller that waits
    /// with a timeout in a loop abandons one join per iteration.
    fn sweep(&mut self) -> BTreeMap<u64, RemoteJoin> {
        if self.waiting.len() < self.swept_at {
            return BTreeMap::new();
        }
        let given_up = self.waiting.extract_if(.., |_, kept| !kept.join.is_awaited()).collect();
        self.swept_at = FEW.max(2 * self.waiting.len());
        given_up
    }
}

/// Registers a wait for the end of a process of another node. Returns the joiner, the number of its monitor, and the
/// joins that were given up. The caller must remove the monitors of those joins.
pub(super) fn register(to: Pid, join: Join) -> (Pid, u64, BTreeMap<u64, RemoteJoin>) {
    static NUMBER: World<AtomicU64> = World::new(AtomicU64::new(1));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let from = joiner(this_node());
    let mut joins = lock(&JOINS);
    let given_up = joins.sweep();
    joins.waiting.insert(number, RemoteJoin { from, to, join });
    (from, number, given_up)
}

/// Handles a message to the joiner of a node of this program.
pub(super) fn receive(from: Pid, message: LinkMessage<ExitReason>) {
    let LinkMessage::Down(number, reason) = message else { return };
    let mut joins = lock(&JOINS);
    if joins.waiting.get(&number).is_none_or(|kept| kept.to.node() != from.node()) {
        return;
    }
    let Some(RemoteJoin { join, .. }) = joins.waiting.remove(&number) else { return };
    drop(joins);
    if let Err(panic) = contain(Site::Backstop, || join.notify(&reason)) {
        crate::util::log::error!(%panic, "a waiter for the end of a process panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::package::Undeliverable;
    use crate::routing::router::Router;
    use crate::routing::transport::{Receiver, Transport};
    use crate::{Package, sync::Arc};
    use std::time::Duration;

    /// A transport that records the numbers of the monitors on the other node.
    #[derive(Default)]
    struct Way(Mutex<std::collections::BTreeSet<u64>>);

    impl Receiver for Way {
        fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
            drop(package);
            Ok(())
        }
    }

    impl Transport for Way {
        fn send_link(
            &self,
            from: Pid,
            _: Pid,
            message: LinkMessage<ExitReason>,
        ) -> Result<(), LinkMessage<ExitReason>> {
            assert!(is_joiner(from));
            match message {
                LinkMessage::Watch(number) => _ = lock(&self.0).insert(number),
                LinkMessage::Unwatch(number) => _ = lock(&self.0).remove(&number),
                other => return Err(other),
            }
            Ok(())
        }
    }

    fn of_node(node: NodeId) -> usize {
        lock(&JOINS).waiting.values().filter(|kept| kept.to.node() == node).count()
    }

    /// Catches: abandoned waits that are kept forever, here and on the node of the process.
    #[test]
    fn waits_that_were_given_up_are_forgotten_on_both_nodes() {
        let (node, way) = (NodeId::random(), Arc::new(Way::default()));
        Router::of_program().connect(node, way.clone());
        let process = Pid::new(node, 1, 1, 1);
        let early = process.join();
        for _ in 0..1_000 {
            assert_eq!(process.join().wait_timeout(Duration::ZERO), None);
        }
        let kept = of_node(node);
        assert!((1..=2 * FEW).contains(&kept), "{kept} waits are kept");
        let watches: Vec<u64> = lock(&way.0).iter().copied().collect();
        assert_eq!(watches.len(), kept);
        receive(process, LinkMessage::Down(watches[0], ExitReason::Killed));
        assert_eq!(early.wait(), ExitReason::Killed);
        assert!(Router::of_program().disconnect(node));
        assert_eq!(of_node(node), 0);
    }
}
