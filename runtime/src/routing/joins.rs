//! Waiting for the end of processes of other nodes: a monitor of a process that each node has for this.

use super::connection::send_link;
use crate::env::program::{HOSTLESS, this_node};
use crate::env::world::World;
use crate::exit::ExitReason;
use crate::links::protocol::LinkMessage;
use crate::pid::{NodeId, Pid};
use crate::process::control::Join;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::util::panics::{Site, contain};
use std::collections::BTreeMap;

/// Returns the PID that watches for the joins of a node. No process has it: generations begin with one.
fn joiner(node: NodeId) -> Pid {
    Pid::new(node, HOSTLESS, 0, 0)
}

pub(super) fn is_joiner(pid: Pid) -> bool {
    pid == joiner(pid.node())
}

/// The joins that wait, by the numbers of their monitors, with the node of the process.
static JOINS: World<Mutex<BTreeMap<u64, (NodeId, Join)>>> = World::new(Mutex::new(BTreeMap::new()));

/// Waits for the end of a process of another node.
pub(crate) fn send_join(to: Pid, join: Join) {
    static NUMBER: World<AtomicU64> = World::new(AtomicU64::new(1));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    lock(&JOINS).insert(number, (to.node(), join));
    send_link(joiner(this_node()), to, LinkMessage::Watch(number));
}

/// Handles a message to the joiner of a node of this program.
pub(super) fn receive(from: Pid, message: LinkMessage<ExitReason>) {
    let LinkMessage::Down(number, reason) = message else { return };
    let mut joins = lock(&JOINS);
    if joins.get(&number).is_none_or(|(node, _)| *node != from.node()) {
        return;
    }
    let Some((_, join)) = joins.remove(&number) else { return };
    drop(joins);
    if let Err(panic) = contain(Site::Backstop, || join.notify(&reason)) {
        crate::util::log::error!(%panic, "a waiter for the end of a process panicked");
    }
}
