//! Twenty nodes on one server.

use super::super::server::Server;
use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use postroom_cluster::Cluster;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const NODES: usize = 20;

/// The longest wait on a busy machine. It only guards against a hang.
const LONGEST: Duration = Duration::from_secs(900);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONGEST, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[process]
#[derive(Default)]
struct Account {
    balance: i64,
}

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64) {
        self.balance = opening;
    }

    #[message]
    fn deposit(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }
}

/// All nodes join at once, know each other, start and call processes on each other, and see each other's names and
/// groups.
#[test]
fn twenty_nodes_on_one_server_are_one_cluster() {
    let Some(server) = Server::start() else { return };
    let names: Vec<_> = (0..NODES).map(|number| format!("eu-{number}")).collect();
    let runtimes: Vec<_> =
        names.iter().map(|_| Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap()).collect();
    let joining: Vec<_> = names
        .iter()
        .zip(&runtimes)
        .map(|(name, runtime)| {
            let builder = Cluster::builder("bank").node(name.clone()).export::<Account>().join_within(LONGEST);
            builder.join_async(runtime, server.nats())
        })
        .collect();
    let clusters: Vec<_> = joining.into_iter().map(|joining| joining.wait().unwrap()).collect();
    for cluster in &clusters {
        assert!(cluster.wait_for_members(NODES - 1, LONGEST), "{:?}", cluster.members());
    }
    let on = |number: usize| postroom::routing::Node::of(clusters[number].id()).unwrap();
    for (number, cluster) in clusters.iter().enumerate() {
        let next = (number + 1) % NODES;
        let node = cluster.node(&names[next]).unwrap();
        let account = node.start::<Account>("serve", payloads![number as i64]).wait().unwrap();
        assert_eq!(account.pid().node(), clusters[next].id());
        assert_eq!(on(number).enter(|| account.deposit(1).wait()), Ok(number as i64 + 1));
        let own = runtimes[number].spawn(Account::default()).serve(0).unwrap();
        cluster.register(format!("acct-{number}"), own).wait().unwrap();
        cluster.group("accounts").join(own).unwrap();
    }
    for cluster in &clusters {
        until("all names are known", || (0..NODES).all(|number| cluster.holder(&format!("acct-{number}")).is_some()));
        until("all members are known", || cluster.group("accounts").members().wait().map(|all| all.len()) == Ok(NODES));
        let nodes: BTreeSet<_> = cluster.members().into_iter().map(|member| member.name).collect();
        assert_eq!(nodes.len(), NODES - 1);
    }
    for cluster in &clusters {
        cluster.leave().wait();
    }
}
