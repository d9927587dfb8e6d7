//! Nodes whose store loses its leader.

use super::super::nodes::{Holder, runtime};
use super::super::server::cluster;
use super::super::{GUARD, wait_until};
use crate::Nats;
use postroom::Runtime;
use postroom_cluster::{Cluster, Status};

/// Kills each server in turn, so that each table loses its leader at least once. Afterwards the nodes are members and
/// know each other, and a name has one living holder, with the same token, or with a larger one if the holder has
/// changed. The number of times that a node was fenced is printed: a change of the leader does not fence a node by
/// itself, but a busy machine may take too long.
#[test]
fn nodes_outlive_the_loss_of_each_server() {
    let Some(mut servers) = cluster(3) else { return };
    let addresses: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let nodes: Vec<(Runtime, Cluster)> = ["eu-1", "eu-2", "eu-3"]
        .into_iter()
        .map(|name| {
            let runtime = runtime();
            let nats = Nats::at(addresses.join(",")).replicas(3);
            let cluster = Cluster::builder("bank").node(name).join_within(GUARD).join(&runtime, nats).unwrap();
            (runtime, cluster)
        })
        .collect();
    let are_whole = || {
        nodes.iter().all(|(_, node)| {
            node.status() == Status::Member && node.members().iter().filter(|member| member.is_connected).count() == 2
        })
    };
    wait_until(are_whole);
    let (first, cluster) = &nodes[0];
    let mut holder = first.spawn(Holder).serve().unwrap();
    let mut token = cluster.register("acct-7", holder).wait().unwrap();
    for (killed, server) in servers.iter_mut().enumerate() {
        let before: Vec<u64> = nodes.iter().map(|(_, node)| node.statistics().outages).collect();
        server.kill();
        // First while the server is down, and then after it has been restarted.
        for restarts in [false, true] {
            if restarts {
                server.restart();
            }
            wait_until(are_whole);
            // A fenced node has cancelled its holder, and the name is free when the holder has ended. A node may be
            // fenced at any moment here.
            wait_until(|| {
                let is_another = !holder.pid().is_alive();
                if is_another {
                    holder = first.spawn(Holder).serve().unwrap();
                }
                let Ok(now) = cluster.register("acct-7", holder).wait() else { return false };
                assert!(now > token || now == token && !is_another, "{now} after {token}");
                token = now;
                holder.answer().wait() == Ok(7)
                    && nodes.iter().all(|(_, node)| node.holder("acct-7") == Some((holder.pid(), token)))
            });
        }
        let outages = nodes.iter().zip(before).map(|((_, node), before)| node.statistics().outages - before);
        println!("server {killed} killed: {:?} outages of the nodes", outages.collect::<Vec<_>>());
    }
}
