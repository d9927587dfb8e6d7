//! Attacks on a node by messages: frames that have a forged sender, are repeated, belong to an old session, are too
//! long, or are invalid.
//!
//! The broker enforces the permissions that a real one would. For tests of the nodes' own checks, the attacker has a
//! connection without a name, which may do anything. Elsewhere its connection has a name.

use super::asks::Gate;
use super::*;
use crate::directory::message::DirectoryMessage;
use crate::engine::{Engine, Lane, Message, Subscription};
use crate::envelope::{Content, Envelope};
use crate::frame::MAX_FRAME;
use crate::groups::MAX_MEMBERS;
use crate::memory::MAX_PAYLOAD;
use crate::store::{Bucket, StoreError};
use crate::subject::{Identity, Subjects};
use bytes::Bytes;
use postroom::routing::{LinkMessage, Transport};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};

fn identity(node: &Node) -> Identity {
    Identity { name: node.cluster.name().to_owned(), id: node.cluster.id() }
}

fn subject(to: &Node, lane: Lane, from: &Identity) -> String {
    Subjects::of("bank").frame(&identity(to), lane, from)
}

/// Receives all frames from `from` to `to`.
fn overhear(nodes: &Nodes, to: &Node, from: &Node) -> (Receiver<Message>, Subscription) {
    let (sender, frames) = channel();
    let subject = subject(to, Lane::Data, &identity(from));
    let on_message = Box::new(move |message| drop(sender.send(message)));
    (frames, nodes.broker.connect().subscribe(Lane::Data, &subject, on_message).unwrap())
}

/// Publishes a message of the attacker, and waits until the broker has accepted it.
fn publish(attacker: &Client, subject: &str, payload: Bytes) {
    until("the broker takes it", || attacker.publish(Lane::Data, subject, payload.clone()).is_ok());
}

/// Makes ten deposits, and returns the frames that carried them.
fn deposits(nodes: &Nodes, from: &Node, to: &Node) -> (Address<Account>, Vec<Message>) {
    let account = start(from, to.cluster.name(), 0);
    let (frames, _overhears) = overhear(nodes, to, from);
    on(from, move || {
        (1..=10).for_each(|balance| assert_eq!(account.deposit(1).wait(), Ok(balance)));
    });
    let frames: Vec<_> = frames.try_iter().collect();
    assert!(frames.len() >= 10);
    (account, frames)
}

#[test]
fn a_frame_counts_once_and_in_its_session_only() {
    let (nodes, [one, two, _three]) = three();
    let (account, frames) = deposits(&nodes, &one, &two);
    let attacker = nodes.broker.connect();
    for Message { subject, payload } in frames.iter().chain(&frames) {
        publish(&attacker, subject, payload.clone());
    }
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(11));

    // Frames of an earlier session are sent in the next one.
    two.client.disconnect();
    until("it is lost", || one.cluster.members().len() == 1);
    until("it knows", || !two.cluster.is_member());
    two.client.reconnect();
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(2, Duration::from_secs(60)));
    }
    for Message { subject, payload } in &frames {
        publish(&attacker, subject, payload.clone());
    }
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(12));
    let statistics = two.cluster.statistics();
    assert_eq!((statistics.undecodable, statistics.broken_frames, statistics.forged_frames), (0, 0, 0));
    assert!(statistics.replayed_frames > 0, "{statistics:?}");
}

#[test]
fn a_frame_is_of_the_node_that_its_subject_names() {
    let (nodes, [one, two, three]) = three();
    let (account, frames) = deposits(&nodes, &one, &two);
    let attacker = nodes.broker.connect();
    let payload = frames.last().unwrap().payload.clone();
    let (first, third) = (identity(&one), identity(&three));
    // The first subject has the ID of one node under the name of another. The second only ends like a subject of the
    // first node.
    let mixed = subject(&two, Lane::Data, &Identity { name: third.name.clone(), id: first.id });
    publish(&attacker, &mixed, payload.clone());
    until("it is counted", || two.cluster.statistics().forged_frames == 1);
    let other_end =
        Subjects::of("bank").frame(&identity(&two), Lane::Data, &Identity { name: "x".into(), id: first.id });
    publish(&attacker, &other_end, payload.clone());
    until("it is counted", || two.cluster.statistics().forged_frames == 2);
    // Under the third node's own name, the frame does not belong to that node's session.
    publish(&attacker, &subject(&two, Lane::Data, &third), payload);
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(11));
    assert_eq!(on(&three, move || account.deposit(1).wait()), Ok(12), "its session goes on");
    assert_eq!(two.cluster.statistics().forged_frames, 2);
}

#[test]
fn frames_that_are_none_are_counted_and_cost_nothing_else() {
    let (nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 0);
    let attacker = nodes.broker.connect();
    let subject = subject(&two, Lane::Data, &identity(&one));
    let longest = Bytes::from(vec![1; MAX_PAYLOAD]);
    let names = {
        // A hello that claims a million names.
        let mut bytes = vec![1, 0];
        bytes.extend([0; 24]);
        bytes.extend([0xff; 64]);
        Bytes::from(bytes)
    };
    let bad = [Bytes::new(), Bytes::from_static(b"hello"), longest.slice(..MAX_FRAME + 1), longest, names];
    let count = bad.len() as u64;
    for payload in bad {
        publish(&attacker, &subject, payload);
    }
    until("all are counted", || two.cluster.statistics().broken_frames == count);
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(1));
}

/// A node that is not a member can send without limit. The number of its frames that wait for the driver is bounded,
/// and all further frames are counted.
#[test]
fn frames_of_strangers_have_a_limit() {
    let (nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 0);
    let attacker = nodes.broker.connect();
    let stranger = Identity { name: "stranger".into(), id: NodeId::new(77).unwrap() };
    let subject = subject(&two, Lane::Data, &stranger);
    until("some are dropped", || {
        while attacker.publish(Lane::Data, &subject, Bytes::from_static(b"x")).is_ok() {}
        two.cluster.statistics().dropped_strays > 0
    });
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(1));
}

#[test]
fn a_peer_speaks_for_its_own_processes_only() {
    let (nodes, [one, two, _three]) = three();
    let [account, other] = [start(&one, "eu-2", 0), start(&one, "eu-3", 0)];
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    observer.watch(account.pid()).wait().unwrap();
    // The third node reports that a process of the second has ended.
    let peer = nodes.lock().machines[2].driver.as_ref().unwrap().peer(one.cluster.id()).unwrap();
    let ended = LinkMessage::Exit(ExitReason::Killed);
    assert!(peer.send_link(account.pid(), observer.pid(), ended).is_ok());
    until("it is counted", || one.cluster.statistics().undecodable == 1);
    assert_eq!(on(&one, move || (account.deposit(1).wait(), other.deposit(1).wait())), (Ok(1), Ok(1)));
    assert!(observer.heard().wait().unwrap().is_empty());
    assert!(two.cluster.is_member());
}

/// A value of lists nested in lists.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Nested(Vec<Nested>);

impl Nested {
    fn so_deep(levels: usize) -> Self {
        (0..levels).fold(Self(Vec::new()), |inner, _| Self(vec![inner]))
    }
}

/// Accepts nested values.
#[process]
#[derive(Default)]
pub(super) struct Keeper;

#[process(remote)]
impl Keeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn keep(&mut self, nested: Nested) -> bool {
        nested.0.is_empty()
    }
}

/// A value that nests deeper than the limit would overflow the stack of the decoding thread.
#[test]
fn values_that_nest_too_deeply_are_refused() {
    let (_nodes, [one, two, _three]) = three();
    let keeper = one.cluster.node("eu-2").unwrap().start::<Keeper>("serve", payloads![]).wait().unwrap();
    on(&one, move || {
        // A list and its struct count as one level each.
        assert_eq!(keeper.keep(Nested::so_deep(crate::codec::MAX_DEPTH / 2 - 8)).wait(), Ok(false));
        let refused = keeper.keep(Nested::so_deep(crate::codec::MAX_DEPTH * 10)).wait();
        assert!(matches!(&refused, Err(CallError::Unreadable(text)) if text.contains("levels deep")), "{refused:?}");
        assert_eq!(keeper.keep(Nested::so_deep(0)).wait(), Ok(true));
    });
    assert_eq!(two.cluster.statistics().undecodable, 1);
}

/// Attacks on the store by a node with its own key.
#[test]
fn a_node_does_not_become_another_by_the_store() {
    let (nodes, [one, two, three]) = three();
    let account = start(&one, "eu-2", 0);
    let thief = nodes.broker.connect_as("bank", "eu-3");
    let victim = identity(&two);
    let write = |bucket, key: String, value: Bytes| {
        let (sender, answers) = channel();
        thief.create(bucket, &key, value, Box::new(move |answer| drop(sender.send(answer))));
        answers.recv_timeout(Duration::from_secs(60)).expect("an answer")
    };
    // The broker refuses the record and the lease of the other node.
    let record = crate::membership::Record::new("eu-2", 1).unwrap().encode();
    for bucket in [Bucket::Nodes, Bucket::Leases] {
        let key = format!("eu-2.{}", NodeId::new(99).unwrap());
        assert_eq!(write(bucket, key.clone(), record.clone()), Err(StoreError::Forbidden { key }));
    }
    assert_eq!(thief.refused(), 2);
    // The broker accepts the ID of the other node under the thief's own name, but the nodes refuse it.
    let record = crate::membership::Record::new("eu-3", 1).unwrap().encode();
    let claim = format!("eu-3.{}", victim.id);
    let claimed = write(Bucket::Nodes, claim.clone(), record).unwrap();
    for node in [&one, &two, &three] {
        until("the claim is counted", || node.cluster.statistics().claimed_ids == 1);
    }
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(1));
    // A lease under the claimed key is written and deleted again, as if the membership of the other node were over.
    two.cluster.register("acct-7", account).wait().unwrap();
    until("the name is known", || one.cluster.holder("acct-7").is_some());
    let epoch = nodes.lock().machines[1].driver.as_ref().unwrap().epoch().unwrap();
    let lease = write(Bucket::Leases, claim.clone(), Bytes::copy_from_slice(&epoch.0.to_be_bytes())).unwrap();
    for (bucket, revision) in [(Bucket::Leases, lease), (Bucket::Nodes, claimed)] {
        let (sender, answers) = channel();
        thief.delete(bucket, &claim, revision, Box::new(move |answer| drop(sender.send(answer))));
        answers.recv_timeout(Duration::from_secs(60)).expect("an answer").unwrap();
    }
    nodes.pass(Duration::from_secs(2));
    assert_eq!(one.cluster.holder("acct-7").map(|(pid, _)| pid), Some(account.pid()));
    assert_eq!(one.cluster.members().len(), 2);
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(2));
    assert_eq!([&one, &two, &three].map(|node| node.cluster.statistics().refused), [0; 3]);
}

/// A peer requests keys but takes no answers. The answers that wait for it have a limit. Beyond the limit, its session
/// ends. The next session has room again, and others are not affected.
#[test]
fn a_peer_that_takes_no_answers_about_keys_loses_its_session() {
    let (nodes, [one, two, three]) = three();
    let account = start(&three, "eu-2", 0);
    let peer = one.cluster.peer(two.cluster.id()).unwrap();
    // While the node has no delivery, no message that reaches it is handled.
    let delivery = nodes.lock().machines[0].delivery.take();
    // The refusal contains the name of the missing entry.
    let entry = "x".repeat(4_000);
    let mut number = 0;
    until("the session ends", || {
        // Sends as many as the session accepts.
        for _ in 0..100 {
            let (process, entry, key) = ("Account".into(), entry.clone(), "a".into());
            number += 1;
            let ask = DirectoryMessage::AskKey { number, process, entry, key };
            if peer.offer(&ask).is_err() {
                break;
            }
        }
        two.cluster.statistics().floods > 0
    });
    assert_eq!(on(&three, move || account.deposit(1).wait()), Ok(1));
    let statistics = two.cluster.statistics();
    assert_eq!((statistics.floods, statistics.undecodable, one.cluster.statistics().floods), (1, 0, 0));
    nodes.lock().machines[0].delivery = delivery;
    assert!(two.cluster.wait_for_members(2, Duration::from_secs(60)));
    let account = start(&one, "eu-2", 0);
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(1));
}

/// A peer reports more members than a node may have.
#[test]
fn a_peer_with_too_many_members_loses_its_session() {
    let (_nodes, [one, two, three]) = three();
    let member = start(&two, "eu-1", 0);
    one.cluster.group("a").join(member).unwrap();
    let members = |node: &Node| node.cluster.group("a").members().wait().unwrap();
    for node in [&two, &three] {
        until("the member is known", || members(node) == [member.pid()]);
    }
    let peer = one.cluster.peer(two.cluster.id()).unwrap();
    let members_of_one =
        (0..=MAX_MEMBERS).map(|slot| format!("<{}.0.{slot}.9>", one.cluster.id()).parse().unwrap()).collect();
    peer.offer(&DirectoryMessage::Members { group: "a".into(), members: members_of_one }).unwrap();
    until("its session has ended", || two.cluster.statistics().floods == 1);
    assert_eq!((three.cluster.statistics().floods, two.cluster.statistics().undecodable), (0, 0));
    until("the member is known again", || members(&two) == [member.pid()]);
}

/// The processes of a peer create more links and monitors than allowed. Each link and monitor then reports once that
/// the node is lost.
#[test]
fn a_peer_with_too_many_bonds_loses_its_session() {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.max_bonds(8)));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let account = start(&one, "eu-2", 0);
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    observer.tie(account.pid()).wait().unwrap();
    (0..7).for_each(|_| observer.watch(account.pid()).wait().unwrap());
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(1));
    assert_eq!((observer.heard().wait().unwrap(), two.cluster.statistics().floods), (Vec::new(), 0));
    observer.watch(account.pid()).wait().unwrap();
    until("the session ends", || two.cluster.statistics().floods == 1);
    until("all are heard of", || observer.heard().wait().unwrap().len() == 9);
    let heard = observer.heard().wait().unwrap();
    let downs = heard.iter().filter(|heard| *heard == "down: its node was lost").count();
    assert_eq!((downs, heard.iter().any(|heard| heard == "exit: its node was lost")), (8, true), "{heard:?}");
    assert_eq!(one.cluster.statistics().floods, 0);
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let another = start(&one, "eu-2", 0);
    assert_eq!(on(&one, move || another.deposit(1).wait()), Ok(1));
}

/// A type whose `Default` blocks.
#[process]
struct Heavy;

fn heavy_gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(Gate::default)
}

impl Default for Heavy {
    fn default() -> Self {
        heavy_gate().pass();
        Self
    }
}

#[process(remote)]
impl Heavy {
    #[entry]
    fn serve(&mut self, filling: String) {
        drop(filling);
    }
}

/// The starts that may wait are limited, in number and in bytes; any beyond that are refused and counted.
#[test]
fn starts_that_wait_have_a_limit() {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.export::<Heavy>()));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let peer = one.cluster.peer(two.cluster.id()).unwrap();
    let inputs = |length: usize| {
        let inputs = peer.agreement().unwrap().encode_inputs("Heavy", "serve", payloads!["x".repeat(length)]).unwrap();
        Content { message: inputs.id.0, bytes: inputs.bytes }
    };
    let (mut number, refused) = (1 << 40, || two.cluster.statistics().refused_starts);
    let mut flood = |count: usize, content: Content| {
        for _ in 0..count {
            number += 1;
            until("there is room", || !peer.owes_too_much());
            peer.say(Envelope::Start { number, content: content.clone() });
        }
    };
    flood(20, inputs(1 << 20));
    // Fifteen of them take less than 16 MiB, including their encoded lengths.
    until("those beyond the bytes are refused", || refused() == 5);
    flood(5_000, inputs(0));
    until("those beyond the number are refused", || refused() == 5 + 15 + 5_000 - 4_096);
    let account = one.cluster.node("eu-2").unwrap().start::<Account>("serve", payloads![1_i64]).wait();
    assert_eq!(account, Err(StartError::Full { node: "eu-2".into() }));
    heavy_gate().open();
    until("all are started", || two.runtime.statistics().processes.spawned >= 4_096);
    let account = start(&one, "eu-2", 0);
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(1));
    assert_eq!(refused(), 5 + 15 + 5_000 - 4_096 + 1);
    assert_eq!(two.cluster.statistics().floods, 0);
}
