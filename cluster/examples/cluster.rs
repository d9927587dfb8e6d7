//! Three nodes in one program, over a broker in memory: processes on other nodes, a name with one holder, a node that
//! is cut off, and what the others learn about it. Run it with `cargo run --example cluster`. It takes about 16
//! seconds, most of them for the lease of the node that is cut off.
//!
//! As a rule, a program has one node. `Builder::logical_node`, of the feature `test`, gives it several.
//!
//! With a NATS server, the example `node` of `postroom-nats` has one node in each program.

use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use postroom_cluster::memory::{Broker, Client};
use postroom_cluster::{Cluster, names::Token};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of each wait. The longest wait is for a lease of 15 seconds.
const LIMIT: Duration = Duration::from_secs(60);

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

/// Watches accounts, wherever they are.
#[process]
#[derive(Default)]
struct Auditor {
    ends: Vec<Down>,
}

#[process]
impl Auditor {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn watch(&mut self, account: Address<Account>) -> Result<(), String> {
        account.pid().monitor().map(drop).map_err(|error| error.to_string())
    }

    #[message]
    fn ends(&mut self) -> Vec<Down> {
        self.ends.clone()
    }

    #[signal]
    fn down(&mut self, down: Down) {
        println!("  the auditor on eu-1 hears: {} ended: {}", down.pid, down.reason);
        self.ends.push(down);
    }
}

struct Node {
    runtime: Runtime,
    cluster: Cluster,
    /// The node's connection with the broker.
    client: Arc<Client>,
}

fn join(broker: &Broker, name: &str) -> Result<Node, Box<dyn Error>> {
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build()?;
    let client = Arc::new(broker.connect());
    let cluster = Cluster::builder("bank").node(name).export::<Account>().join(&runtime, Arc::clone(&client))?;
    println!("  {name} is node {}", cluster.id());
    Ok(Node { runtime, cluster, client })
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > LIMIT {
            return Err(format!("after {LIMIT:?} it is not so that {what}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("  {what}, after {:.1} s", begun.elapsed().as_secs_f32());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let broker = Broker::new();
    let _running = broker.run();

    println!("Three nodes join.");
    let (one, two, three) = (join(&broker, "eu-1")?, join(&broker, "eu-2")?, join(&broker, "eu-3")?);
    for node in [&one, &two, &three] {
        if !node.cluster.wait_for_members(2, LIMIT) {
            return Err("the nodes do not find each other".into());
        }
    }

    println!("eu-1 starts accounts on any of them, and calls them there.");
    let auditor = one.runtime.spawn(Auditor::default()).serve()?;
    for opening in [100, 200, 300] {
        let node = one.cluster.any::<Account>()?;
        let account = node.start::<Account>("serve", payloads![opening]).wait()?;
        println!("  {} on {}: {} after a deposit", account.pid(), node.name(), account.deposit(5).wait()?);
    }

    println!("An account on eu-2 gets a name that one process of the cluster holds.");
    let holder = one.cluster.node("eu-2")?.start::<Account>("serve", payloads![700]).wait()?;
    auditor.watch(holder).wait()?;
    let token = two.cluster.register("acct-7", holder).wait()?;
    wait_until("eu-3 knows the name", || three.cluster.holder("acct-7").is_some())?;
    let named = three.cluster.named::<Account>("acct-7")?;
    println!("  eu-3 calls it by name: {}, with token {token}", named.deposit(1).wait()?);

    println!("eu-2 is cut off from the broker.");
    two.client.disconnect();
    wait_until("eu-1 has lost it", || !auditor.ends().wait().unwrap_or_default().is_empty())?;
    wait_until("it has fenced itself", || !two.cluster.is_member())?;
    println!("  its holder {}", if holder.pid().is_alive() { "still ends" } else { "has ended" });
    wait_until("its lease is over, and the name is free", || three.cluster.holder("acct-7").is_none())?;

    println!("An account on eu-3 takes the name.");
    let next = one.cluster.node("eu-3")?.start::<Account>("serve", payloads![700]).wait()?;
    let next_token: Token = three.cluster.register("acct-7", next).wait()?;
    println!("  with token {next_token}, which is greater than {token}");

    println!("eu-2 is connected again.");
    two.client.reconnect();
    wait_until("it is a member again", || two.cluster.is_member() && two.cluster.wait_for_members(2, LIMIT))?;
    wait_until("it knows the new holder", || two.cluster.holder("acct-7") == Some((next.pid(), next_token)))?;
    Ok(())
}
