//! Nodes with keys, on a server with the generated configuration.

use super::certificates::Certificates;
use super::server::Server;
use super::{GUARD, channel, connect, create, delete, get, next, wait_until};
use crate::keys::{NodeKeys, Plan};
use crate::{Nats, NatsEngine, Problem};
use bytes::Bytes;
use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use postroom_cluster::__private::Subjects;
use postroom_cluster::engine::{Engine, Lane, ProbeOutcome};
use postroom_cluster::membership::Identity;
use postroom_cluster::store::{Bucket, Change, StoreError};
use postroom_cluster::{Cluster, JoinError};
use std::sync::Arc;

/// A server, and the keys of the nodes that it knows.
pub(super) struct Secured {
    pub(super) server: Server,
    pub(super) certificates: Certificates,
    pub(super) keys: NodeKeys,
}

impl Secured {
    /// Starts a server for these nodes of the cluster `bank`. Returns `None` if the tests are skipped.
    pub(super) fn start(nodes: &[&str]) -> Option<Self> {
        let certificates = Certificates::make();
        let file = |path: std::path::PathBuf| path.display().to_string();
        let plan = Plan::new("bank", nodes.iter().copied()).listen("127.0.0.1:-1").store(file(certificates.store()));
        let keys = plan.tls(file(certificates.certificate()), file(certificates.key())).make().unwrap();
        let server = Server::with(&[], &keys.configuration())?;
        Some(Self { server, certificates, keys })
    }

    /// Returns the settings of a program that has the key of the node `key`.
    pub(super) fn with_key_of(&self, key: &str) -> Nats {
        let nats = Nats::at(format!("tls://127.0.0.1:{}", self.server.port()));
        nats.cluster("bank").root_certificates(self.certificates.authority()).nkey(self.keys.seed(key).unwrap())
    }

    /// Returns the engine of a node, without the rest of the node.
    pub(super) fn engine(&self, node: &str) -> NatsEngine {
        connect(self.with_key_of(node).node(node))
    }
}

pub(super) fn identity(text: &str) -> Identity {
    Identity::parse(text).unwrap()
}

pub(super) fn frame(to: &str, from: &str) -> String {
    Subjects::of("bank").frame(&identity(to), Lane::Data, &identity(from))
}

/// Waits until the server has refused `count` requests, and returns the last refusal.
pub(super) fn refusal(engine: &NatsEngine, count: u64) -> String {
    wait_until(|| engine.counts().refused == count);
    engine.last_refusal().unwrap()
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

struct Node {
    cluster: Cluster,
    engine: Arc<NatsEngine>,
    runtime: Runtime,
}

fn runtime() -> Runtime {
    Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap()
}

fn join(secured: &Secured, name: &str) -> Node {
    let (runtime, engine) = (runtime(), Arc::new(secured.engine(name)));
    let cluster = Cluster::builder("bank").node(name).export::<Account>();
    let cluster = cluster.join(&runtime, Arc::clone(&engine)).unwrap();
    Node { cluster, engine, runtime }
}

#[test]
fn nodes_with_their_keys_are_a_cluster() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let [one, two] = ["eu-1", "eu-2"].map(|name| join(&secured, name));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, GUARD));
    }
    let account = one.cluster.node("eu-2").unwrap().start::<Account>("serve", payloads![100]).wait().unwrap();
    assert_eq!(account.pid().node(), two.cluster.id());
    let here = postroom::routing::Node::of(one.cluster.id()).unwrap();
    assert_eq!(here.enter(move || account.deposit(5).wait()), Ok(105));
    two.cluster.register("acct-7", account).wait().unwrap();
    wait_until(|| one.cluster.holder("acct-7").is_some());
    assert!(two.cluster.release("acct-7", account).wait());

    // One node disappears silently. The other one deletes that node's record, which is a write to the record of another
    // node.
    two.engine.close();
    wait_until(|| one.cluster.members().is_empty());
    let again = join(&secured, "eu-2");
    assert!(one.cluster.wait_for_members(1, GUARD) && again.cluster.wait_for_members(1, GUARD));
    again.cluster.leave().wait();
    wait_until(|| one.cluster.members().is_empty());
    for node in [&one, &two, &again] {
        assert_eq!((node.engine.counts().refused, node.engine.last_refusal()), (0, None));
        assert_eq!(node.engine.counts().misdelivered, 0);
    }
    assert_eq!(one.cluster.statistics().forged_frames, 0);
    drop(two.runtime);
}

#[test]
fn a_wrong_key_is_an_error_that_says_which_is_right() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let join = |nats: Nats| {
        let runtime = runtime();
        Cluster::builder("bank").node("eu-1").join(&runtime, nats).map(drop).unwrap_err()
    };
    // The key of another node.
    let JoinError::Broker { problem } = join(secured.with_key_of("eu-2")) else { panic!("another error") };
    assert!(problem.contains("use the key that was made for node `eu-1` of cluster `bank`"), "{problem}");
    // A key that the server does not know, and a token in place of a key.
    let unknown = Plan::new("bank", ["eu-1"]).make().unwrap();
    for nats in
        [secured.with_key_of("eu-1").nkey(unknown.seed("eu-1").unwrap()), secured.with_key_of("eu-1").token("x")]
    {
        let JoinError::Broker { problem } = join(nats) else { panic!("another error") };
        assert!(problem.contains("refuses this node") && problem.contains("`.nkey(…)`"), "{problem}");
    }
    // The key of another cluster.
    let engine = secured.with_key_of("eu-1").cluster("other").node("eu-1").start().unwrap();
    let problem = engine.wait(GUARD).unwrap_err();
    assert!(matches!(&problem, Problem::Forbidden { cluster, .. } if cluster == "other"), "{problem}");
}

#[test]
fn a_node_cannot_send_as_another_nor_hear_what_is_sent_to_it() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2", "eu-3"]) else { return };
    let [one, two, three] = ["eu-1", "eu-2", "eu-3"].map(|node| secured.engine(node));
    let (push, frames) = channel();
    let _frames = one.subscribe(Lane::Data, "pr1.bank.n.eu-1.1.d.*.*", push).unwrap();
    let own = frame("eu-1.1", "eu-2.2");
    super::reaches(&two, &own, &frames);

    two.publish(Lane::Data, &frame("eu-1.1", "eu-3.3"), "forged".into()).unwrap();
    let refused = refusal(&two, 1);
    assert!(refused.contains("may not publish on `pr1.bank.n.eu-1.1.d.eu-3.3`"), "{refused}");
    two.publish(Lane::Data, &own, "own".into()).unwrap();
    let message = next(&frames);
    assert_eq!((message.subject, message.payload), (own.clone(), "own".into()), "nothing came before it");
    assert_eq!(two.problem(), None, "it can do without");
    assert_eq!(two.refused(), 1);

    // Messages to another node, and the store's answers to it.
    for (count, pattern) in (1..).zip(["pr1.bank.n.eu-1.1.d.*.*", "pr1.bank.n.>", "pr1.bank.i.eu-1.>", ">", "$KV.>"]) {
        let (push, overheard) = channel();
        let _overheard = three.subscribe(Lane::Data, pattern, push).unwrap();
        let refused = refusal(&three, count);
        assert!(refused.contains(&format!("may not subscribe to `{pattern}`")), "{refused}");
        two.publish(Lane::Data, &own, "secret".into()).unwrap();
        assert_eq!(next(&frames).payload, "secret");
        create(&one, Bucket::Names, &format!("name-{count}"), "value").unwrap();
        assert!(overheard.try_recv().is_err(), "{pattern}");
    }
    // The probes of a node are answered by the node that they ask.
    let (push, outcomes) = channel();
    two.probe(&own, push);
    assert_eq!(next(&outcomes), ProbeOutcome::Responders);
    let (push, outcomes) = channel();
    two.probe(&frame("eu-1.9", "eu-2.2"), push);
    assert_eq!(next(&outcomes), ProbeOutcome::NoResponders);
    two.publish(Lane::Control, "pr1.bank.p.eu-1.token.eu-3", Bytes::new()).unwrap();
    assert!(refusal(&two, 2).contains("pr1.bank.p.eu-1.token.eu-3"));
    assert_eq!(one.counts().refused, 0);
}

#[test]
fn a_node_writes_no_record_and_no_lease_but_its_own() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let [one, two] = ["eu-1", "eu-2"].map(|node| secured.engine(node));
    for bucket in [Bucket::Nodes, Bucket::Leases] {
        let forbidden = Err(StoreError::Forbidden { key: "eu-1.1".into() });
        assert_eq!(create(&two, bucket, "eu-1.1", "forged"), forbidden);
        let written = create(&one, bucket, "eu-1.1", "own").unwrap();
        let (push, answers) = channel();
        two.update(bucket, "eu-1.1", "forged".into(), written, push);
        assert_eq!(next(&answers), forbidden);
        assert_eq!(get(&two, bucket, "eu-1.1").unwrap().unwrap().value, "own");
        create(&two, bucket, "eu-2.2", "own").unwrap();
    }
    assert_eq!(two.counts().refused, 4);
    let lease = get(&one, Bucket::Leases, "eu-1.1").unwrap().unwrap();
    let forbidden = Err(StoreError::Forbidden { key: "eu-1.1".into() });
    assert_eq!(delete(&two, Bucket::Leases, "eu-1.1", lease.revision), forbidden);
    assert_eq!(two.problem(), None);
}

/// Compare and set covers all writes to a record, those of its own node and those of others.
#[test]
fn a_record_is_removed_by_others_once_and_written_again_by_its_node() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2", "eu-3"]) else { return };
    let [one, two, three] = ["eu-1", "eu-2", "eu-3"].map(|node| secured.engine(node));
    let (changes, _watch) = super::watch(&three, Bucket::Nodes);
    let key = "eu-1.1";
    let conflict = StoreError::Conflict { key: key.into() };
    let first = create(&one, Bucket::Nodes, key, "first").unwrap();
    let removed = delete(&two, Bucket::Nodes, key, first).unwrap();
    assert_eq!(delete(&three, Bucket::Nodes, key, first), Err(conflict.clone()));
    assert_eq!(delete(&one, Bucket::Nodes, key, first), Err(conflict.clone()));
    assert_eq!(get(&one, Bucket::Nodes, key), Ok(None));
    let second = create(&one, Bucket::Nodes, key, "second").unwrap();
    assert_eq!(create(&one, Bucket::Nodes, key, "third"), Err(conflict.clone()));
    assert_eq!(delete(&two, Bucket::Nodes, key, first), Err(conflict));
    let entry = get(&two, Bucket::Nodes, key).unwrap().unwrap();
    assert_eq!((entry.key.as_str(), entry.value, entry.revision), (key, "second".into(), second));
    let last = delete(&one, Bucket::Nodes, key, second).unwrap();
    let deleted = |revision| Change::Deleted { key: key.into(), revision };
    let expected =
        [super::put(key, "first", first), deleted(removed), super::put(key, "second", second), deleted(last)];
    assert_eq!([(); 4].map(|()| next(&changes)), expected);
    // These writes are for a watch that begins after them.
    let third = create(&one, Bucket::Nodes, key, "third").unwrap();
    delete(&two, Bucket::Nodes, key, third).unwrap();
    let fourth = create(&one, Bucket::Nodes, key, "fourth").unwrap();
    let (push, snapshot) = channel();
    let _snapshot = two.watch(Bucket::Nodes, None, push).unwrap();
    let synced = Change::Synced { revision: fourth };
    assert_eq!([(); 3].map(|()| next(&snapshot)), [Change::Resync, super::put(key, "fourth", fourth), synced]);
    assert_eq!([&one, &two, &three].map(|engine| engine.counts().refused), [0; 3]);
}

/// No node can fill the memory of all others with names.
#[test]
fn the_number_of_names_has_a_limit() {
    let Some(server) = Server::start() else { return };
    let limited = connect(server.nats().max_names(2));
    for number in 0..8 {
        create(&limited, Bucket::Names, &format!("name-{number}"), "value").unwrap();
    }
    let full = create(&limited, Bucket::Names, "one-more", "value").unwrap_err();
    assert_eq!(full, StoreError::Full { key: "one-more".into() });
    let other = server.nats().start().unwrap();
    let problem = other.wait(GUARD).unwrap_err();
    assert!(matches!(problem, Problem::BucketDiffers { field: "max_msgs", .. }), "{problem}");
}
