//! Messages and answers that cannot be sent, or are slow to encode and decode.

use super::asks::Gate;
use super::*;
use crate::codec::{CodecError, MAX_MESSAGE};
use crate::lease::Timing;
use crate::store::{Bucket, Change};
use crate::subject::Identity;
use postroom::Delivery;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::mpsc;

/// A value with its own serde code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Odd {
    Plain,
    FailsToWrite,
    PanicsToWrite,
    FailsToRead,
    PanicsToRead,
}

impl Serialize for Odd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::FailsToWrite => Err(S::Error::custom("it has no form")),
            Self::PanicsToWrite => panic!("it has no form"),
            other => serializer.serialize_u8(*other as u8),
        }
    }
}

impl<'de> Deserialize<'de> for Odd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            number if number == Self::FailsToRead as u8 => Err(D::Error::custom("it is no value")),
            number if number == Self::PanicsToRead as u8 => panic!("it is no value"),
            _ => Ok(Self::Plain),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Nest(Option<Box<Nest>>);

#[process]
#[derive(Default)]
struct Archive {
    count: u64,
}

#[process(remote)]
impl Archive {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    fn load(&mut self, text: String) {
        let _ = text;
    }

    #[message]
    fn put(&mut self, text: String) {
        let _ = text;
        self.count += 1;
    }

    #[message]
    fn filled(&mut self, length: u64) -> String {
        self.count += 1;
        "a".repeat(length as usize)
    }

    #[message]
    fn keep(&mut self, value: Odd) {
        let _ = value;
        self.count += 1;
    }

    #[message]
    fn nest(&mut self, value: Nest) {
        let _ = value;
        self.count += 1;
    }

    #[message]
    fn odd(&mut self, which: u8) -> Odd {
        self.count += 1;
        [Odd::Plain, Odd::FailsToWrite, Odd::PanicsToWrite, Odd::FailsToRead, Odd::PanicsToRead][usize::from(which)]
    }

    #[message]
    fn pass(&mut self, value: Slow) {
        let _ = value;
    }

    #[message]
    fn count(&mut self) -> u64 {
        self.count
    }
}

fn archive() -> (Nodes, [Node; 2], Address<Archive>) {
    let nodes = Nodes::new();
    let two = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.export::<Archive>()));
    for node in &two {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let archive = two[1].runtime.spawn(Archive::default()).serve().unwrap();
    (nodes, two, archive)
}

/// Catches: `NotRemote` ("write `#[process(remote)]`") for a message that is remote, but too long.
#[test]
fn a_message_that_is_too_long_says_how_long_it_is_and_how_long_it_may_be() {
    const LENGTH: usize = 20 << 20;
    let (_nodes, [one, _two], archive) = archive();
    let refused = on(&one, || archive.put("a".repeat(LENGTH)).send()).unwrap_err();
    let SendFailure::TooLong { bytes, limit } = refused.reason else { panic!("{}", refused.reason) };
    assert!((LENGTH + 1..LENGTH + 100).contains(&bytes) && limit == MAX_MESSAGE, "{bytes} bytes, {limit}");
    assert_eq!(refused.message.text.len(), LENGTH);
    let text = refused.reason.to_string();
    assert!(text.contains(&bytes.to_string()) && text.contains(&limit.to_string()) && text.contains("in parts"));
    let called = on(&one, || archive.put("a".repeat(LENGTH)).timeout(Duration::MAX).wait());
    assert_eq!(called, Err(CallError::TooLong { bytes, limit }));
    assert_eq!(archive.count().timeout(Duration::MAX).wait(), Ok(0));

    // Now the answer is too long: once for the codec's limit, and once only for the session's limit.
    for length in [LENGTH, MAX_MESSAGE - 8] {
        let lost = on(&one, || archive.filled(length as u64).timeout(Duration::MAX).wait()).unwrap_err();
        let CallError::AnswerTooLong { bytes, limit } = lost else { panic!("{lost}") };
        assert!((length..length + 100).contains(&bytes) && limit == MAX_MESSAGE, "{bytes} bytes, {limit}");
        assert_eq!(lost.delivery(), Delivery::Handled);
        let text = lost.to_string();
        assert!(
            text.contains(&bytes.to_string()) && text.contains("was handled") && text.contains("in parts"),
            "{text}"
        );
    }
    assert_eq!(archive.count().timeout(Duration::MAX).wait(), Ok(2));
    let filled = || archive.filled(MAX_MESSAGE as u64 - 200).timeout(Duration::MAX).wait();
    let length = on(&one, filled).map(|text| text.len());
    assert_eq!(length, Ok(MAX_MESSAGE - 200));

    // Starts do not wait behind messages, and have a lower limit.
    let node = one.cluster.node("eu-2").unwrap();
    let error = node.start::<Archive>("load", payloads!["a".repeat(2 << 20)]).wait().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StartError::Refused { .. }) && text.contains("1048576 travel at most"), "{text}");
}

/// Catches: an error of a type's own code that is reported as another error.
#[test]
fn code_that_does_not_write_or_read_a_value_is_named_to_its_caller() {
    let (_nodes, [one, _two], archive) = archive();
    for value in [Odd::FailsToWrite, Odd::PanicsToWrite] {
        let refused = on(&one, || archive.keep(value).send()).unwrap_err();
        let SendFailure::Unwritable { message } = refused.reason else { panic!("{}", refused.reason) };
        assert!(message.ends_with("Archive::keep"), "{message}");
        let called = on(&one, || archive.keep(value).wait());
        assert_eq!(called, Err(CallError::Unwritable { message }));
    }
    let deep = || (0..200).fold(Nest(None), |inner, _| Nest(Some(Box::new(inner))));
    let unread = [
        // The compact format does not keep the text of such an error.
        (on(&one, || archive.keep(Odd::FailsToRead).wait()), "cannot be read"),
        (on(&one, || archive.keep(Odd::PanicsToRead).wait()), "it is no value"),
        (on(&one, || archive.nest(deep()).wait()), "more than 128 levels deep"),
    ];
    for (called, why) in unread {
        let error = called.unwrap_err();
        assert!(matches!(&error, CallError::Unreadable(text) if text.contains(why)), "{error:?}");
        assert_eq!(error.delivery(), Delivery::NotDelivered);
    }
    assert_eq!(archive.count().wait(), Ok(0));
    for (which, why) in [(1, "cannot be written"), (2, "it has no form"), (3, "cannot be read"), (4, "it is no value")]
    {
        let error = on(&one, || archive.odd(which).wait()).unwrap_err();
        assert!(matches!(&error, CallError::AnswerLost(text) if text.contains(why)), "{error:?}");
        assert_eq!(error.delivery(), Delivery::Handled);
    }
    assert_eq!(archive.count().wait(), Ok(4));
    assert_eq!(on(&one, || archive.odd(0).wait()), Ok(Odd::Plain));
}

/// Each codec error is reported as what it is: only a message that is not exported is reported as `NotRemote`.
#[test]
fn of_all_errors_of_codecs_only_those_of_messages_that_are_not_exported_say_so() {
    let codecs = crate::codec::Codecs::builder().export::<Archive>().build().unwrap();
    let name = codecs.table().iter().find(|(name, _)| name.ends_with("::keep")).unwrap().0.to_owned();
    let to = Pid::from_bytes((7_u128 << 80).to_be_bytes()).unwrap();
    for (error, is_not_remote) in [
        (CodecError::NotRemote { type_name: "Order" }, true),
        (CodecError::Unknown { name: name.clone(), here: false }, false),
        (CodecError::Incompatible { name: name.clone(), here: 1, there: 2 }, false),
        (CodecError::TooLong { name: name.clone(), bytes: 17 << 20 }, false),
        (CodecError::Unwritable { name: name.clone(), text: "why".into() }, false),
        (CodecError::Panicked { name, text: "why".into() }, false),
    ] {
        let failure = codecs.failure(&error, to);
        assert_eq!(failure == SendFailure::NotRemote(to), is_not_remote, "{error}: {failure}");
    }
}

/// The loss of a node implies nothing about its processes: they may still live, and answer other nodes.
#[test]
fn a_call_to_a_process_of_a_node_that_is_cut_off_fails_by_the_loss_of_the_node() {
    let (_nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    two.client.disconnect();
    until("the loss is known", || on(&one, || account.deposit(1).send()).is_err());
    let failed = on(&one, || account.deposit(1).wait());
    assert_eq!(failed, Err(CallError::Gone(ExitReason::NodeLost)));
    assert_eq!(failed.unwrap_err().delivery(), Delivery::NotDelivered);
    assert!(account.deposit(0).wait().is_ok(), "it lives");
}

/// A value whose serde code waits at a gate, in both directions.
struct Slow;

static WRITES: Gate = Gate::new();
static READS: Gate = Gate::new();

impl Serialize for Slow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITES.pass();
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Slow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        READS.pass();
        <()>::deserialize(deserializer).map(|()| Self)
    }
}

/// A value may take longer to encode or decode than a lease lasts, because it is large or the code of its type is slow.
/// The sender's thread encodes it, and the delivery's thread decodes it, so that the driver renews the lease in the
/// meantime.
///
/// Not covered: a lock that is held while a value is encoded or decoded, and that the driver needs less often than it
/// renews the lease.
#[test]
fn a_value_that_takes_long_to_be_coded_holds_up_no_lease() {
    let broker = Broker::new();
    let _running = broker.run();
    let (sender, leases) = mpsc::channel();
    let on_change = Box::new(move |change| drop(sender.send(change)));
    let _watch = broker.connect().watch(Bucket::Leases, None, on_change).unwrap();
    let timing = Timing { renew: Duration::from_millis(50), attempt: Duration::from_millis(50), ..Timing::default() };
    let two = ["eu-1", "eu-2"].map(|name| {
        let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
        let builder = Cluster::builder("bank").node(name).export::<Archive>().lease(timing);
        let cluster = builder.join(&runtime, broker.connect()).unwrap();
        (cluster, runtime)
    });
    for (cluster, _) in &two {
        assert!(cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let archive = two[1].1.spawn(Archive::default()).serve().unwrap();
    // Discards earlier renewals from the channel, and then waits for several of each node.
    let renewed = || {
        let mut counts = [0; 2];
        leases.try_iter().for_each(drop);
        while counts.iter().any(|count| *count < 3) {
            if let Change::Put(entry) = leases.recv_timeout(Duration::from_secs(60)).expect("a renewal") {
                let name = Identity::parse(&entry.key).unwrap().name;
                counts[usize::from(name == "eu-2")] += 1;
            }
        }
    };
    let here = postroom::routing::Node::of(two[0].0.id()).unwrap();
    let called = std::thread::spawn(move || here.enter(|| archive.pass(Slow).timeout(Duration::MAX).wait()));
    for gate in [&WRITES, &READS] {
        until("it is being coded", || gate.waiting() == 1);
        renewed();
        gate.open();
    }
    assert_eq!(called.join().unwrap(), Ok(()));
}
