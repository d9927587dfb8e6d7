//! Nodes join, are cut off, come back and leave.

use super::*;
use crate::store;

#[test]
fn a_node_that_is_cut_off_is_lost_once_and_comes_back_with_its_processes() {
    let (nodes, [one, two, three]) = three();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    let [account, tied] = [start(&one, "eu-2", 100), start(&one, "eu-2", 100)];
    observer.watch(account.pid()).wait().unwrap();
    observer.tie(tied.pid()).wait().unwrap();
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(101));
    two.client.disconnect();
    until("the loss is heard", || observer.heard().wait().unwrap().len() == 2);
    let mut heard = observer.heard().wait().unwrap();
    heard.sort();
    assert_eq!(heard, ["down: its node was lost", "exit: its node was lost"]);
    let refused = on(&one, move || account.deposit(1).send()).unwrap_err();
    assert_eq!(refused.reason, SendFailure::UnknownNode(account.pid()));
    until("it knows that it is cut off", || !two.cluster.is_member());
    assert_eq!(account.deposit(1).wait(), Ok(102), "its processes go on");
    until("but for one that was tied to a lost one", || !tied.pid().is_alive());

    two.client.reconnect();
    for node in [&one, &two, &three] {
        assert!(node.cluster.wait_for_members(2, Duration::from_secs(60)));
    }
    until("it is a member again", || two.cluster.is_member());
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(103));
    nodes.pass(Duration::from_secs(20));
    assert_eq!(observer.heard().wait().unwrap().len(), 2, "once");
}

#[test]
fn a_node_whose_runtime_is_shut_down_leaves() {
    let (_nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 1);
    let Node { cluster, runtime, .. } = two;
    cluster.register("acct-7", account).wait().unwrap();
    runtime.shutdown().unwrap();
    until("it has left", || one.cluster.members().iter().all(|member| member.id != cluster.id()));
    until("its name is free", || one.cluster.holder("acct-7").is_none());
    let refused = cluster.register("acct-8", account).wait();
    assert!(matches!(refused, Err(RegisterError::NotAMember | RegisterError::Ended { .. })), "{refused:?}");
}

/// The limit is in the nodes' time: the neighbours find twice, a second apart, that the broker has no subscriber.
#[test]
fn a_node_whose_connection_is_closed_is_lost_within_one_and_a_half_seconds() {
    let (nodes, [one, two, three]) = three();
    let mut world = nodes.lock();
    two.client.close();
    let closed_at = world.now;
    let has_lost = |node: &Node| node.cluster.members().iter().all(|member| member.id != two.cluster.id());
    while !has_lost(&one) || !has_lost(&three) {
        world.step();
        assert!(world.now.since(closed_at) <= Duration::from_millis(1_500), "{:?}", one.cluster.members());
    }
    assert!(world.now.since(closed_at) > Duration::from_secs(1), "not without a grace");
}

#[test]
fn settings_that_are_not_safe_are_refused() {
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
    let broker = Broker::new();
    let join = |builder: crate::Builder| builder.join(&runtime, broker.connect()).unwrap_err();
    let mut config = crate::session::Config::default();
    config.data.window = 1_000;
    assert_eq!(join(Cluster::builder("bank").sessions(config)), crate::JoinError::Window);
    let ttl = Duration::from_secs(60);
    let timing = crate::lease::Timing { ttl, fence: Duration::from_secs(50), ..Default::default() };
    let expected = crate::lease::TimingError::TtlTooLong { ttl };
    assert_eq!(join(Cluster::builder("bank").lease(timing)), expected.into());
    let name = "a.b".to_owned();
    assert_eq!(join(Cluster::builder(name.clone())), crate::JoinError::ClusterName { name });
    assert!(matches!(join(Cluster::builder("bank").node("")), crate::JoinError::NodeName(_)));
    let waited = Duration::from_millis(10);
    let late = join(Cluster::builder("bank").join_within(waited));
    assert_eq!(late, crate::JoinError::Timeout { waited, attempts: Vec::new() }, "nothing moves the broker");
}

/// An engine that refuses watches of the store. All other calls go to the client.
struct Deaf(Client);

impl Engine for Deaf {
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), engine::PublishError> {
        self.0.publish(lane, subject, payload)
    }

    fn subscribe(&self, lane: Lane, pattern: &str, then: engine::OnMessage) -> Subscribed {
        self.0.subscribe(lane, pattern, then)
    }

    fn probe(&self, subject: &str, then: engine::OnProbe) {
        self.0.probe(subject, then);
    }

    fn create(&self, bucket: store::Bucket, key: &str, value: Bytes, then: store::OnWrite) {
        self.0.create(bucket, key, value, then);
    }

    fn update(&self, bucket: store::Bucket, key: &str, value: Bytes, old: store::Revision, then: store::OnWrite) {
        self.0.update(bucket, key, value, old, then);
    }

    fn delete(&self, bucket: store::Bucket, key: &str, expected: store::Revision, then: store::OnWrite) {
        self.0.delete(bucket, key, expected, then);
    }

    fn get(&self, bucket: store::Bucket, key: &str, then: store::OnRead) {
        self.0.get(bucket, key, then);
    }

    fn watch(&self, _: store::Bucket, _: Option<store::Revision>, _: store::OnChange) -> Subscribed {
        Err(engine::SubscribeError::Closed)
    }

    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }
}

type Subscribed = Result<engine::Subscription, engine::SubscribeError>;

/// A join that fails halfway leaves no process behind, whichever part of the node could not be created.
///
/// Mutations: leave out `Drop` of `Delivery`, or that of the builder's `StopOnDrop`.
#[test]
fn a_join_that_fails_half_way_leaves_nothing_behind() {
    let broker = Broker::new();
    let builder = || Cluster::builder("bank").node("eu-1").allow(|_, _| true);
    let none_left = |runtime: &Runtime| until("none is left", || runtime.statistics().processes.live == 0);
    let runtime = || Runtime::builder().workers(1).logical_node(NodeId::random());

    let host = runtime().build().unwrap();
    let refused = builder().join(&host, Deaf(broker.connect())).unwrap_err();
    assert_eq!(refused, crate::JoinError::Subscribe(engine::SubscribeError::Closed));
    none_left(&host);

    // Simulates that no thread could be created for the delivery, or for the driver.
    for is_first in [true, false] {
        let host = runtime().build().unwrap();
        let clock = Arc::new(|| Moment::START);
        let engine = Arc::new(broker.connect());
        let (cluster, driver, mut delivery) = builder().prepare(*host, engine, clock).unwrap();
        assert!(host.statistics().processes.live > 0);
        if is_first {
            drop((delivery, driver, cluster));
        } else {
            drop((driver, cluster));
            while delivery.run() {}
        }
        none_left(&host);
    }

    // Each of a node's processes may be the one beyond the limit: two porters, one that asks the policy, one that
    // delivers for the directory, and those that start processes by key.
    for limit in 0..4 + crate::node::directory::STARTERS as usize {
        let host = runtime().process_limit(limit.max(1)).build().unwrap();
        let other = (limit == 0).then(|| host.spawn(Observer::default()).serve().unwrap());
        let refused = builder().join(&host, broker.connect()).unwrap_err();
        assert_eq!(refused, crate::JoinError::Runtime, "with {limit}");
        other.into_iter().for_each(|other| _ = other.pid().stop());
        none_left(&host);
    }
}

/// Messages sent before a node leaves arrive, and operations that wait for its answer fail.
#[test]
fn a_node_that_leaves_is_heard_of_behind_what_it_has_sent() {
    let (_nodes, [one, two, _three]) = three();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    let (here, there) = (start(&two, "eu-1", 0), start(&one, "eu-2", 0));
    observer.watch(there.pid()).wait().unwrap();
    on(&two, move || (0..1_000).for_each(|_| here.deposit(1).send().unwrap()));
    two.cluster.leave().wait();
    until("the loss is heard", || observer.heard().wait().unwrap() == ["down: its node was lost"]);
    assert_eq!(here.deposit(0).wait(), Ok(1_000));
}
