//! One node of a cluster, over a NATS server: a process on another node, and a name with one holder. Run it in several
//! terminals, each with a different name, beside a `nats-server -js` on this machine
//! (`cluster/nats/tools/fetch-nats-server` fetches one):
//!
//! ```console
//! cargo run --manifest-path cluster/nats/Cargo.toml --example node -- eu-1
//! ```
//!
//! `NATS_URL` names another server. End a node with Ctrl-C, or stop the server, and see what the others print. The
//! example `cluster` of `postroom-cluster` has three nodes in one program, and needs no server.

use postroom::Runtime;
use postroom::prelude::*;
use postroom_cluster::Cluster;
use postroom_nats::Nats;
use std::error::Error;
use std::time::Duration;

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

/// Opens an account on some node and calls the holder of a name, every two seconds.
fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("name the node: `-- eu-1`")?;
    let runtime = Runtime::new()?;
    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".into());
    let cluster = Cluster::builder("bank").node(&*name).export::<Account>().join(&runtime, Nats::at(url))?;
    println!("{name} is node {}", cluster.id());
    let own = runtime.spawn(Account::default()).serve(0)?;
    loop {
        let members: Vec<_> = cluster.members().into_iter().map(|member| member.name).collect();
        let place = if cluster.is_member() { "a member" } else { "cut off" };
        println!("{name} is {place}; the others: {members:?}");
        match cluster.register("acct-7", own).wait() {
            Ok(token) => println!("  holds the name, with token {token}"),
            Err(error) => println!("  {error}"),
        }
        println!("  a deposit by name: {:?}", cluster.named::<Account>("acct-7")?.deposit(1).wait());
        if let Ok(node) = cluster.any::<Account>() {
            match node.start::<Account>("serve", payloads![100]).wait() {
                Ok(account) => {
                    println!("  an account on {}: {:?}", node.name(), account.deposit(5).wait());
                    account.pid().stop();
                }
                Err(error) => println!("  {error}"),
            }
        }
        std::thread::sleep(Duration::from_secs(2));
    }
}
