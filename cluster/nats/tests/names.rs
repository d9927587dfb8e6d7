//! Names of the cluster under faults, over a real server. The cluster's test `names` describes the clients, the faults
//! and the checks, and does the same over the broker in memory.

#[path = "../../tests/names/clients.rs"]
mod clients;
#[allow(dead_code, reason = "the tests over the broker in memory use the rest")]
#[path = "../../tests/names/history.rs"]
mod history;
#[allow(dead_code, reason = "the tests of programs use the rest")]
#[path = "programs/proxy.rs"]
mod proxy;
#[path = "../../tests/names/spec.rs"]
mod spec;
#[path = "programs/support.rs"]
mod support;

use clients::{Line, Site, check_names, wait_until};
use postroom::Runtime;
use postroom_cluster::{Builder, Cluster};
use postroom_nats::Nats;
use proxy::Proxy;
use support::server::Server;

impl Site for Server {
    fn join(&self, runtime: &Runtime, builder: Builder) -> (Cluster, Box<dyn Line>) {
        let proxy = Proxy::to(self.port());
        let nats = Nats::at(format!("nats://127.0.0.1:{}", proxy.port()));
        (builder.join(runtime, nats).unwrap(), Box::new(proxy))
    }
}

impl Line for Proxy {
    fn cut(&self) {
        Proxy::cut(self);
    }

    fn heal(&self) {
        Proxy::heal(self);
    }
}

#[test]
fn names_are_linearizable_over_a_real_server() {
    let Some(server) = Server::start() else { return };
    check_names(&server);
}
