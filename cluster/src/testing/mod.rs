//! Whole clusters in simulated tests: nodes that share one program, one thread and one virtual time, over a broker
//! whose messages are delayed, lost, repeated or cut off at random, as determined by the seed of the test.
//!
//! The nodes are complete: sessions, leases, names and processes are those of production, and a program joins in the
//! same way. The threads of a node are replaced by processes of the simulation, whose turns the seed orders among
//! those of the program.
//!
//! ```
//! use postroom::prelude::*;
//! use postroom::test::{Sim, Simulation};
//! use postroom_cluster::Cluster;
//! use postroom_cluster::memory::Broker;
//! use postroom_cluster::testing::Faults;
//! use std::time::Duration;
//!
//! # #[process]
//! # #[derive(Default)]
//! # struct Account { balance: i64 }
//! # #[process(remote)]
//! # impl Account {
//! #     #[entry] fn serve(&mut self, opening: i64) { self.balance = opening; }
//! #     #[message] fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
//! # }
//! Simulation::new("a deposit").seeds(5).run(|sim: Sim| {
//!     let broker = Broker::simulated(&sim);
//!     let [a, b] = ["a", "b"].map(|name| broker.join(Cluster::builder("bank").node(name).export::<Account>()));
//!     broker.settle(&[&a, &b]); // until they know each other
//!     broker.faults(Faults { drop: 0.01, delay: Duration::from_millis(50), ..Faults::default() });
//!
//!     let account = a.node("b").unwrap().start::<Account>("serve", payloads![100]).wait().unwrap();
//!     assert_eq!(a.enter(|| account.deposit(5).wait()), Ok(105));
//!
//!     broker.partition(&[&a], &[&b]); // the store stays with the larger side; here, with the first
//!     sim.advance(Duration::from_secs(20));
//!     assert!(!b.is_member()); // cut off from the store, it has fenced itself
//!     broker.heal();
//!     broker.settle(&[&a, &b]);
//! });
//! ```
//!
//! * [`node`](SimulatedNode): a node, and the faults that a test can inject into it;
//! * `oracle`: checks that a name never has two holders;
//! * [`checks`]: records and comparisons for tests, including your own.

pub mod checks;
mod node;
mod oracle;
#[cfg(test)]
mod tests;

pub use crate::memory::StoreCopy;
pub use crate::memory::simulated::{Faults, SimulatedBroker, Traffic};
pub use crate::node::books::Books;
pub use node::{SimulatedNode, Trouble};
