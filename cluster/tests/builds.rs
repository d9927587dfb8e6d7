//! Two builds of one program in one cluster: nodes with the old build and nodes with the new one, and a rolling upgrade
//! from one to the other. Two modules that have types with the same names stand for the two builds.

use postroom::error::{SendFailure, Skew};
use postroom::prelude::*;
use postroom::routing::Node as LogicalNode;
use postroom::{CallError, Delivery, NodeId, Runtime};
use postroom_cluster::codec::CodecError;
use postroom_cluster::memory::{Broker, Client};
use postroom_cluster::{Cluster, StartError};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Guards against a hang: the events that are awaited take milliseconds.
const WAIT: Duration = Duration::from_secs(60);

mod old {
    use super::*;

    #[process]
    #[derive(Default)]
    pub(super) struct Ledger {
        balance: i64,
        notes: Vec<String>,
    }

    #[process(remote)]
    impl Ledger {
        #[entry]
        fn serve(&mut self) {}
        #[entry]
        fn open(&mut self, opening: i64) {
            self.balance = opening;
        }
        /// Unchanged in the new build.
        #[message]
        pub(super) fn deposit(&mut self, amount: i64) -> i64 {
            self.balance += amount;
            self.balance
        }
        /// Has one more field in the new build.
        #[message]
        pub(super) fn withdraw(&mut self, amount: i64) -> i64 {
            self.balance -= amount;
            self.balance
        }
        /// Has one more field in the new build, too, but its fields are named.
        #[message(codec = "named")]
        pub(super) fn note(&mut self, text: String) -> Vec<String> {
            self.notes.push(text);
            self.notes.clone()
        }
        /// Does not exist in the new build.
        #[message]
        pub(super) fn audit(&mut self) -> i64 {
            self.balance
        }
    }
}

mod new {
    use super::*;

    #[process]
    #[derive(Default)]
    pub(super) struct Ledger {
        balance: i64,
        notes: Vec<String>,
    }

    #[process(remote)]
    impl Ledger {
        #[entry]
        fn serve(&mut self) {}
        #[entry]
        fn open(&mut self, opening: i64, owner: String) {
            self.balance = opening;
            self.notes.push(owner);
        }
        #[message]
        pub(super) fn deposit(&mut self, amount: i64) -> i64 {
            self.balance += amount;
            self.balance
        }
        #[message]
        pub(super) fn withdraw(&mut self, amount: i64, fee: i64) -> i64 {
            self.balance -= amount + fee;
            self.balance
        }
        #[message(codec = "named")]
        pub(super) fn note(&mut self, text: String, #[serde(default)] urgent: bool) -> Vec<String> {
            self.notes.push(if urgent { format!("{text}!") } else { text });
            self.notes.clone()
        }
        /// Does not exist in the old build.
        #[message]
        pub(super) fn close(&mut self) -> i64 {
            std::mem::take(&mut self.balance)
        }
    }
}

struct Member {
    cluster: Cluster,
    runtime: Runtime,
    _client: Arc<Client>,
}

fn runtime() -> Runtime {
    Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap()
}

fn join_old(broker: &Broker, name: &str) -> Member {
    let (runtime, client) = (runtime(), Arc::new(broker.connect()));
    let builder = Cluster::builder("bank").node(name).export::<old::Ledger>();
    Member { cluster: builder.join(&runtime, Arc::clone(&client)).unwrap(), runtime, _client: client }
}

fn join_new(broker: &Broker, name: &str) -> Member {
    let (runtime, client) = (runtime(), Arc::new(broker.connect()));
    let builder = Cluster::builder("bank").node(name).export::<new::Ledger>();
    Member { cluster: builder.join(&runtime, Arc::clone(&client)).unwrap(), runtime, _client: client }
}

/// Runs `body` as code of a node.
fn on<T>(member: &Member, body: impl FnOnce() -> T) -> T {
    LogicalNode::of(member.cluster.id()).unwrap().enter(body)
}

fn start<P: postroom::remote::Remote + postroom::generic::Addressed>(from: &Member, to: &str) -> Address<P> {
    from.cluster.node(to).unwrap().start::<P>("serve", payloads![]).wait().unwrap()
}

/// Serializes the tests: if a log line is first reached on a thread without a subscriber, other tests may miss it.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the lines of the log that name this test's type.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                _ = write!(self.0, "{value:?}");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        if text.0.contains("Ledger") {
            self.0.lock().unwrap().push(text.0);
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn two() -> (postroom_cluster::memory::RunningBroker, Member, Member) {
    let broker = Broker::new();
    let running = broker.run();
    let (older, newer) = (join_old(&broker, "old"), join_new(&broker, "new"));
    for member in [&older, &newer] {
        assert!(member.cluster.wait_for_members(1, WAIT));
    }
    (running, older, newer)
}

#[test]
fn messages_of_one_form_and_named_ones_travel_in_both_directions() {
    let _turn = turn();
    let (_running, older, newer) = two();
    let there = start::<old::Ledger>(&older, "new");
    on(&older, || {
        assert_eq!(there.deposit(5).wait(), Ok(5));
        assert_eq!(there.note("from the old".into()).wait(), Ok(vec!["from the old".into()]));
    });
    let there = start::<new::Ledger>(&newer, "old");
    on(&newer, || {
        assert_eq!(there.deposit(7).wait(), Ok(7));
        // The old build ignores the field `urgent`.
        assert_eq!(there.note("from the new".into(), true).wait(), Ok(vec!["from the new".into()]));
    });
}

/// Each message is refused at the sender, and returned. The log states the reason once, however many times the message
/// is sent.
#[test]
fn messages_that_the_other_build_has_not_or_has_otherwise_are_refused_and_logged_once() {
    let _turn = turn();
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (_running, older, newer) = two();
    let there = start::<old::Ledger>(&older, "new");
    on(&older, || {
        for _ in 0..3 {
            let refused = there.withdraw(1).send().unwrap_err();
            let SendFailure::OtherBuild(skew) = refused.reason else { panic!("{refused}") };
            assert!(
                skew.message.ends_with("Ledger::withdraw") && skew.there.is_some_and(|it| it != skew.here),
                "{skew}"
            );
            assert_eq!(there.withdraw(1).wait(), Err(CallError::OtherBuild(skew)));
            let lacks = there.audit().wait().unwrap_err();
            let CallError::OtherBuild(skew) = lacks else { panic!("{lacks}") };
            assert!(skew.message.ends_with("Ledger::audit") && skew.there.is_none(), "{skew}");
            assert_eq!((lacks.delivery(), lacks.is_retryable()), (Delivery::NotDelivered, false));
        }
        assert_eq!(there.deposit(1).wait(), Ok(1), "the session goes on");
    });
    let there = start::<new::Ledger>(&newer, "old");
    on(&newer, || {
        assert!(matches!(there.withdraw(1, 1).wait(), Err(CallError::OtherBuild(Skew { there: Some(_), .. }))));
        assert!(matches!(there.close().wait(), Err(CallError::OtherBuild(Skew { there: None, .. }))));
    });
    let mut lines = log.0.lock().unwrap().clone();
    lines.sort();
    let of = |name: &str| lines.iter().filter(|line| line.contains(&format!("Ledger::{name}`"))).collect::<Vec<_>>();
    assert_eq!((of("audit").len(), of("close").len()), (1, 1), "{lines:?}");
    assert!(of("audit")[0].contains("is not known on the other node"), "{lines:?}");
    // Once on each of the two nodes.
    assert_eq!(of("withdraw").len(), 2, "{lines:?}");
    assert!(of("withdraw").iter().all(|line| line.contains("other fields or another answer")), "{lines:?}");
    for member in [older, newer] {
        let mut statistics = member.cluster.statistics();
        // A frame is repeated if this machine acknowledges it slowly.
        statistics.replayed_frames = 0;
        assert_eq!(statistics, postroom_cluster::Statistics::default(), "nothing travelled in vain");
    }
}

#[test]
fn an_entry_with_other_inputs_is_refused_with_both_hashes() {
    let _turn = turn();
    let (_running, older, newer) = two();
    let error = older.cluster.node("new").unwrap().start::<old::Ledger>("open", payloads![1]).wait().unwrap_err();
    let StartError::Inputs(CodecError::Incompatible { name, here, there }) = error else { panic!("{error}") };
    assert!(name.ends_with("Ledger::open") && here != there, "{name}");
    let inputs = payloads![1, "me".to_owned()];
    let error = newer.cluster.node("old").unwrap().start::<new::Ledger>("open", inputs).wait().unwrap_err();
    let StartError::Inputs(CodecError::Incompatible { here: other, .. }) = error else { panic!("{error}") };
    assert_eq!(other, there, "each names its own");
}

/// Nodes leave one after another and are replaced by nodes with the new build, while a node that stays calls
/// processes on each.
#[test]
fn a_cluster_is_upgraded_node_by_node_while_it_works() {
    let _turn = turn();
    let broker = Broker::new();
    let _running = broker.run();
    let client = join_new(&broker, "client");
    let mut servers = vec![join_old(&broker, "a"), join_old(&broker, "b")];
    let mut deposits = 0;
    for round in 0..3 {
        let names = [["a", "b"], ["a2", "b"], ["a2", "b2"]][round];
        let began = Instant::now();
        while !names.iter().all(|name| client.cluster.node(name).is_ok()) || !client.cluster.wait_for_members(2, WAIT) {
            assert!(began.elapsed() < WAIT, "{:?}", client.cluster.members());
            thread::sleep(Duration::from_millis(1));
        }
        for name in names {
            let ledger = start::<new::Ledger>(&client, name);
            on(&client, || (1..=100).for_each(|sum| assert_eq!(ledger.deposit(1).wait(), Ok(sum), "at {name}")));
            deposits += 100;
            let is_new = name.ends_with('2');
            let closed = on(&client, || ledger.close().wait());
            match closed {
                Ok(balance) => assert_eq!((balance, is_new), (100, true), "at {name}"),
                Err(error) => assert!(matches!(error, CallError::OtherBuild(_)) && !is_new, "at {name}: {error}"),
            }
        }
        if round < 2 {
            let leaving = servers.remove(0);
            leaving.cluster.leave().wait();
            leaving.runtime.shutdown().unwrap();
            servers.push(join_new(&broker, ["a2", "b2"][round]));
        }
    }
    assert_eq!(deposits, 600);
}
