//! Nodes that cease to be members: the reason, the log, and their return.

use super::asks::Gate;
use super::*;
use crate::membership;
use crate::rights::Rights;
use crate::store::{Bucket, Entry, StoreError};
use crate::{Outage, Status};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Once, mpsc};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

type Fields = BTreeMap<&'static str, String>;

/// Stores the events of this crate's nodes, for the whole test program: nodes log on threads of their own.
struct Log;

static EVENTS: Mutex<Vec<(Level, Fields)>> = Mutex::new(Vec::new());

/// A node name and a gate. Events about the nodes of that name wait at the gate, as in a subscriber that blocks.
static BLOCKS: Mutex<Option<(&str, Arc<Gate>)>> = Mutex::new(None);

impl Log {
    fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing::subscriber::set_global_default(Self).unwrap());
    }

    /// Returns the events about the nodes of this name. No other test uses the name.
    fn of(node: &str) -> Vec<(Level, Fields)> {
        let is_its = |event: &&(Level, Fields)| event.1.get("node").is_some_and(|name| name == node);
        EVENTS.lock().unwrap().iter().filter(is_its).cloned().collect()
    }

    fn count(node: &str, level: Level, text: &str) -> usize {
        let is_it = |event: &&(Level, Fields)| event.0 == level && event.1["message"].contains(text);
        Self::of(node).iter().filter(is_it).count()
    }
}

struct Texts(Fields);

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "postroom" && *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut texts = Texts(Fields::new());
        event.record(&mut texts);
        let blocks = BLOCKS.lock().unwrap().clone();
        if let Some((_, gate)) = blocks.filter(|(node, _)| texts.0.get("node").is_some_and(|name| name == node)) {
            gate.pass();
        }
        EVENTS.lock().unwrap().push((*event.metadata().level(), texts.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Returns two nodes, and a client that may write anything.
fn two(names: [&str; 2]) -> (Nodes, [Node; 2], Client) {
    Log::install();
    let nodes = Nodes::new();
    let two = names.map(|name| nodes.join(name));
    for node in &two {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
        until("it is a member", || node.cluster.status() == Status::Member);
    }
    let intruder = nodes.broker.connect();
    (nodes, two, intruder)
}

fn record(intruder: &Client, node: &Node) -> Entry {
    let (sender, answers) = mpsc::channel();
    let key = format!("{}.{}", node.cluster.name(), node.cluster.id());
    intruder.get(Bucket::Nodes, &key, Box::new(move |answer| drop(sender.send(answer))));
    answers.recv_timeout(Duration::from_secs(60)).expect("an answer").unwrap().expect("a record")
}

fn overwrite(intruder: &Client, node: &Node) {
    let Entry { key, revision, .. } = record(intruder, node);
    let (sender, answers) = mpsc::channel();
    let then = Box::new(move |answer: Result<_, StoreError>| drop(sender.send(answer.map(drop))));
    intruder.update(Bucket::Nodes, &key, "garbage".into(), revision, then);
    assert_eq!(answers.recv_timeout(Duration::from_secs(60)).expect("an answer"), Ok(()));
}

/// Catches: a part of a node that ends silently because its thread has panicked.
#[test]
fn a_thread_of_the_cluster_that_panics_says_so() {
    Log::install();
    let thread = crate::threads::spawn("doomed", || panic!("a fault of this crate")).unwrap();
    assert!(thread.join().is_err());
    let is_its = |(level, fields): &(Level, Fields)| {
        let is_doomed = fields.get("thread").is_some_and(|thread| thread == "doomed");
        is_doomed && *level == Level::ERROR && fields["message"].contains("panicked")
    };
    until("it is logged", || EVENTS.lock().unwrap().iter().any(is_its));
}

/// Catches: a refusal that silently and permanently ends a node that was a member.
#[test]
fn a_node_whose_record_was_overwritten_says_so_and_comes_back() {
    let (_nodes, [one, two], intruder) = two(["eu-1", "eu-overwritten"]);
    let account = start(&one, "eu-overwritten", 100);
    overwrite(&intruder, &two);
    until("it is out", || two.cluster.status() == Status::Out(Outage::Evicted));
    until("the log says so", || Log::count("eu-overwritten", Level::WARN, "no member of its cluster any more") == 1);
    until("it is a member again", || two.cluster.status() == Status::Member);
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    assert_eq!(on(&one, || account.deposit(1).wait()), Ok(101));
    let statistics = two.cluster.statistics();
    assert_eq!((statistics.outages, statistics.refused_joins), (1, 0));
    assert!(!Log::of("eu-overwritten")[0].1["reason"].is_empty());
}

/// Catches: a node that gives up, or does not report why it is not a member.
#[test]
fn a_node_that_may_not_join_again_goes_on_trying_and_says_why() {
    let (_nodes, [one, two], intruder) = two(["eu-1", "eu-refused"]);
    two.client.set_rights(Some(Rights::of("other", "eu-9")));
    overwrite(&intruder, &two);
    let key = record(&intruder, &two).key;
    let refused = membership::JoinRefusal::Store(StoreError::Forbidden { key });
    let out = Status::Out(Outage::Refused(refused.clone()));
    until("the program can see why", || two.cluster.status() == out);
    until("it tries again and again", || two.cluster.statistics().refused_joins >= 3);
    assert_eq!((two.cluster.status(), two.cluster.statistics().outages), (out, 1));
    until("the log says why", || Log::count("eu-refused", Level::ERROR, "could not join its cluster again") >= 3);
    let events = Log::of("eu-refused");
    let (_, said) = events.iter().find(|(level, _)| *level == Level::ERROR).unwrap();
    assert_eq!((&*said["cluster"], &*said["reason"]), ("bank", &*refused.to_string()));
    let pauses: Vec<_> = events.iter().filter_map(|(_, fields)| fields.get("pause").map(String::as_str)).collect();
    assert_eq!(pauses[..3], ["2s", "4s", "8s"]);

    two.client.set_rights(None);
    until("it is a member again", || two.cluster.is_member());
    assert!(one.cluster.wait_for_members(1, Duration::from_secs(60)));
}

/// The node is refused before it was ever a member. That is an error of the program, so the join must fail and not wait
/// forever.
#[test]
fn a_refusal_of_the_first_join_is_an_error() {
    let broker = Broker::new();
    let _running = broker.run();
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
    let client = broker.connect_as("other", "eu-9");
    let error = Cluster::builder("bank").node("eu-1").join(&runtime, client).unwrap_err();
    let refused = crate::JoinError::Membership(membership::JoinRefusal::Store(StoreError::Forbidden {
        key: format!("eu-1.{}", runtime.node()),
    }));
    assert_eq!(error, refused);
}

#[process]
#[derive(Default)]
struct Holder;

#[process]
impl Holder {
    #[entry]
    fn serve(&mut self) {}

    /// Runs one long step.
    #[message]
    fn stand(&mut self, gate: Arc<Gate>) {
        gate.pass();
    }
}

/// A step cannot be stopped from outside, so the log has to name the process that may still act alongside the next
/// holder.
#[test]
fn a_holder_whose_step_outlives_the_fence_is_named_in_the_log() {
    let (_nodes, [_one, two], _) = two(["eu-1", "eu-stands"]);
    let holder = two.runtime.spawn(Holder).serve().unwrap();
    let pid = holder.pid();
    two.cluster.register("acct-7", holder).wait().unwrap();
    let gate = Arc::new(Gate::default());
    holder.stand(Arc::clone(&gate)).send().unwrap();
    until("its step has begun", || gate.waiting() == 1);
    two.client.disconnect();
    until("the log names it", || Log::count("eu-stands", Level::WARN, "continues its step") == 1);
    let events = Log::of("eu-stands");
    let (_, said) = events.iter().find(|(_, fields)| fields.contains_key("pid")).unwrap();
    assert_eq!((&*said["pid"], &*said["names"]), (&*pid.to_string(), "acct-7"));
    let least = crate::lease::Timing::default().grace.as_secs();
    let lasted: f64 = said["lasted"].trim_end_matches('s').parse().unwrap();
    assert!(lasted >= least as f64, "{said:?}");
    assert!(pid.is_alive());
    gate.open();
    until("the log says that it has ended", || Log::count("eu-stands", Level::WARN, "has ended") == 1);
    assert!(!pid.is_alive());
}

/// Two programs under one name are a deployment mistake; the stale record of a restarted node is not.
#[test]
fn two_nodes_of_one_name_are_named_in_the_log_and_a_restarted_one_is_not() {
    let (nodes, twins, _) = two(["eu-twin", "eu-twin-2"]);
    let twin = nodes.join("eu-twin");
    let text = "run under one name";
    until("both say so", || Log::count("eu-twin", Level::WARN, text) == 2);
    let mut named: Vec<_> = Log::of("eu-twin").into_iter().map(|(_, mut fields)| fields.remove("other")).collect();
    named.sort();
    let mut ids = [&twins[0], &twin].map(|node| Some(node.cluster.id().to_string()));
    ids.sort();
    assert_eq!(named, ids);

    // The node ends silently, and its lease remains.
    twins[1].client.disconnect();
    nodes.lock().machines[1].driver = None;
    let again = nodes.join("eu-twin-2");
    until("it is a member", || again.cluster.is_member());
    nodes.pass(Duration::from_secs(40));
    assert_eq!(Log::count("eu-twin-2", Level::WARN, text), 0);
    assert_eq!(Log::count("eu-twin", Level::WARN, text), 2, "once each");
}

/// Opens a gate when dropped, even if the test has failed.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Catches: a node that does not answer its peers while the subscriber of its log blocks.
#[test]
fn a_log_that_blocks_delays_nothing_that_arrives() {
    let (nodes, [one, _two], _) = two(["eu-1", "eu-blocks"]);
    let account = start(&one, "eu-blocks", 100);
    let gate = Arc::new(Gate::default());
    *BLOCKS.lock().unwrap() = Some(("eu-blocks", Arc::clone(&gate)));
    let opens = Opens(Arc::clone(&gate));
    let _twin = nodes.join("eu-blocks");
    until("both say that they run under one name", || gate.waiting() == 2);
    let (id, (sender, answers)) = (one.cluster.id(), mpsc::channel());
    let call = std::thread::spawn(move || {
        let answer = postroom::routing::Node::of(id).unwrap().enter(|| account.deposit(1).wait());
        sender.send(answer).unwrap();
    });
    let mut answer = None;
    until("a call is answered", || {
        answer = answers.try_recv().ok();
        answer.is_some()
    });
    assert_eq!(answer, Some(Ok(101)));
    drop(opens);
    call.join().unwrap();
}
