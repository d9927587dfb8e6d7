//! Whole nodes on a real server that fails.

use super::server::Server;
use super::{GUARD, wait_until};
use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use postroom_cluster::{Cluster, Outage, Status};
use std::sync::mpsc;

#[process]
#[derive(Default)]
pub(super) struct Holder;

#[process]
impl Holder {
    #[entry]
    pub(super) fn serve(&mut self) {}

    #[message]
    pub(super) fn answer(&mut self) -> u8 {
        7
    }
}

pub(super) fn runtime() -> Runtime {
    Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap()
}

/// The node can neither notify anyone nor delete its record, its lease and its names. It ends nevertheless, together
/// with its holders. The next program with the same node name takes over when the lease is over.
#[test]
fn a_node_leaves_while_its_server_is_gone() {
    let Some(mut server) = Server::start() else { return };
    let runtimes = [runtime(), runtime()];
    let join = |server: &Server, runtime: &Runtime| {
        let builder = Cluster::builder("bank").node("eu-1").join_within(GUARD);
        builder.join(runtime, server.nats()).unwrap()
    };
    let cluster = join(&server, &runtimes[0]);
    let holder = runtimes[0].spawn(Holder).serve().unwrap();
    let token = cluster.register("acct-7", holder).wait().unwrap();
    server.kill();
    let (sender, left) = mpsc::channel();
    let leaving = cluster.clone();
    std::thread::spawn(move || {
        leaving.leave().wait();
        let _ = sender.send(());
    });
    left.recv_timeout(GUARD).expect("it leaves");
    assert_eq!(cluster.status(), Status::Left);
    assert!(!holder.pid().is_alive(), "it holds nothing any more");

    server.restart();
    let again = join(&server, &runtimes[1]);
    let next = runtimes[1].spawn(Holder).serve().unwrap();
    let mut taken = None;
    wait_until(|| {
        taken = again.register("acct-7", next).wait().ok();
        taken.is_some()
    });
    assert!(taken > Some(token));
}

/// Catches: a node that the broker no longer accepts, and that reports only that it was late.
#[test]
fn a_node_that_is_kept_out_by_its_server_says_why_and_comes_back() {
    let Some(mut server) = Server::start() else { return };
    let runtime = runtime();
    let cluster = Cluster::builder("bank").node("eu-1").join_within(GUARD).join(&runtime, server.nats()).unwrap();
    server.restart_with(&["-js", "--auth", "secret"]);
    let mut reason = String::new();
    wait_until(|| match cluster.status() {
        Status::Out(Outage::Broker { problem }) => {
            reason = problem;
            true
        }
        _ => false,
    });
    assert!(reason.contains("refuses this node") && reason.contains(".token("), "{reason}");
    server.restart_with(&["-js"]);
    wait_until(|| cluster.status() == Status::Member);
    assert_eq!(cluster.statistics().outages, 1);
}
