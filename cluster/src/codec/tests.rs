//! Values survive a round trip. Anything that does not fit is refused with the reason. No bytes can do harm.
//!
//! Seen to fail if: the depth is not counted for one of struct, enum, list, map, option and unknown field (the stack
//! overflows), or the limit is one too high; a claimed length is passed on, or elements are not counted (decoding never
//! ends); bytes after a value, or another codec, are accepted; an answer is looked up by the message alone; the tables
//! are off by one name; the hash lacks the bit of the named codec; inputs are in another order; any limit on reasons is
//! left out; a variant of either kind of reason is read as another.
//!
//! Blind spot: types whose own code recurses without serde, or whose values are large on the stack, can overflow the
//! stack at any depth.

use super::*;
use crate::random::Random;
use postroom::error::{Cycle, Panic};
use postroom::prelude::*;
use postroom::remote::WireCodec;
use postroom::{CallError, ExitReason};
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error as _;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    Text(String),
    Pair(u64, i64),
    Fields { flag: bool, bytes: Vec<u8>, inner: Option<Box<Shape>> },
    Many(Vec<Shape>),
    Map(BTreeMap<String, Shape>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Refused {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tick(u32);

#[protocol(remote)]
trait Audited {
    fn audit(&self, auditor: String) -> usize;
}

#[process]
#[derive(Default)]
struct Account {
    balance: i64,
}

#[process(remote, protocols(Audited))]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64, owner: String) {
        self.balance = opening + owner.len() as i64;
    }

    #[message]
    fn deposit(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }

    #[message]
    fn draw(&mut self, shape: Shape) -> Result<Shape, Refused> {
        Ok(shape)
    }

    #[message(codec = "named")]
    fn draw_named(&mut self, shape: Shape, #[serde(default)] note: String) -> Result<Shape, Refused> {
        let _ = note;
        Ok(shape)
    }

    #[message]
    fn introduce(&mut self, pid: Pid, account: Address<Account>) -> Pid {
        let _ = account;
        pid
    }

    #[message(Tick)]
    fn tick(&mut self, tick: Tick) -> u32 {
        tick.0
    }

    #[message(local)]
    fn visit(&mut self, visit: fn()) {
        visit();
    }
}

#[process]
impl Audited for Account {
    fn audit(&self, auditor: String) -> usize {
        auditor.len()
    }
}

#[process]
struct Clock;

#[process(remote, protocols(Audited))]
impl Clock {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn tick(&mut self, tick: Tick) -> String {
        tick.0.to_string()
    }
}

#[process]
impl Audited for Clock {
    fn audit(&self, auditor: String) -> usize {
        auditor.len()
    }
}

fn codecs() -> Codecs {
    Codecs::builder().export::<Account>().export::<Clock>().build().unwrap()
}

/// Returns the agreements of two nodes of the same build, in both directions.
fn pair() -> (Agreement, Agreement) {
    let (here, there) = (codecs(), codecs());
    (here.agree(there.table()), there.agree(here.table()))
}

fn carried<M: Send + 'static>(from: &Agreement, to: &Agreement, message: M) -> (MessageId, M) {
    let mut payload = Payload::new(message);
    let sent = from.encode(&mut payload).unwrap();
    let (id, payload) = to.decode(sent.id, &sent.bytes).unwrap();
    (id, payload.take::<M>().unwrap_or_else(|payload| panic!("{payload:?}")))
}

fn answered<A: Send + 'static>(from: &Agreement, to: &Agreement, asked: MessageId, answer: A) -> A {
    let mut payload = Payload::new(answer);
    let sent = from.encode_answer(asked, &mut payload).unwrap();
    let payload = to.decode_answer(sent.id, &sent.bytes).unwrap();
    payload.take::<A>().unwrap_or_else(|payload| panic!("{payload:?}"))
}

fn random_text(random: &mut Random) -> String {
    (0..random.below(20)).filter_map(|_| char::from_u32(random.below(0x2000) as u32)).collect()
}

fn random_shape(random: &mut Random, depth: usize) -> Shape {
    let kinds = if depth == 0 { 3 } else { 6 };
    match random.below(kinds) {
        0 => Shape::Nothing,
        1 => Shape::Text(random_text(random)),
        2 => Shape::Pair(random.next() >> random.below(64), (random.next() as i64) >> random.below(64)),
        3 => Shape::Fields {
            flag: random.chance(50),
            bytes: (0..random.below(40)).map(|_| random.next() as u8).collect(),
            inner: random.chance(50).then(|| Box::new(random_shape(random, depth - 1))),
        },
        4 => Shape::Many((0..random.below(4)).map(|_| random_shape(random, depth - 1)).collect()),
        _ => Shape::Map((0..random.below(4)).map(|_| (random_text(random), random_shape(random, depth - 1))).collect()),
    }
}

#[test]
fn values_come_back_the_same() {
    let (to_there, to_here) = pair();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let shape = random_shape(&mut random, 5);
        let (asked, message) = carried(&to_there, &to_here, AccountDraw { shape: shape.clone() });
        assert_eq!(message.shape, shape);
        let note = random_text(&mut random);
        let named = AccountDrawNamed { shape: shape.clone(), note: note.clone() };
        let (asked_named, message) = carried(&to_there, &to_here, named);
        assert_eq!((message.shape, message.note), (shape.clone(), note));
        for asked in [asked, asked_named] {
            let answer: Result<Shape, Refused> =
                if random.chance(70) { Ok(shape.clone()) } else { Err(Refused { reason: random_text(&mut random) }) };
            assert_eq!(answered(&to_here, &to_there, asked, answer.clone()), answer);
        }
        let amount = random.next() as i64;
        let (asked, message) = carried(&to_there, &to_here, AccountDeposit { amount });
        assert_eq!(message.amount, amount);
        assert_eq!(answered(&to_here, &to_there, asked, Ok::<i64, Infallible>(amount)), Ok(amount));
    }
}

/// A process on the other node is started with inputs that arrived as bytes, and is then called with such a message.
#[test]
fn inputs_start_a_process_and_its_messages_reach_it() {
    let (to_there, to_here) = pair();
    let runtime = Runtime::new().unwrap();
    runtime.register_type::<Account>();
    let sent = to_there.encode_inputs("Account", "serve", payloads![100_u8, "Ada"]).unwrap();
    let DecodedStart { process, entry, inputs } = to_here.decode_inputs(sent.id, &sent.bytes).unwrap();
    let pid = runtime.start(process, entry, inputs).unwrap();
    let account: Address<Account> = runtime.address(pid).unwrap();

    let (_, message) = carried(&to_there, &to_here, AccountIntroduce { pid, account });
    assert_eq!((message.pid, message.account), (pid, account));
    let mut message = Payload::new(AccountIntroduce { pid, account });
    assert_eq!(to_there.encode(&mut message).unwrap().bytes.len(), 1 + 16 + 16);
    let (_, message) = carried(&to_there, &to_here, AccountDeposit { amount: 5 });
    assert_eq!(account.deposit(message.amount).wait(), Ok(108));

    let wrong = to_there.encode_inputs("Account", "serve", payloads!["Ada"]).unwrap_err();
    assert!(matches!(&wrong, CodecError::Inputs(_)) && wrong.to_string().contains("takes 2"), "{wrong}");
    let wrong = to_there.encode_inputs("Account", "serv", payloads![]).unwrap_err();
    assert!(wrong.to_string().contains("`Account` has no entry `serv`; it has `serve`"), "{wrong}");
}

/// Two processes answer the same message with different types. The encoded answer says which type it is.
#[test]
fn processes_may_answer_one_message_differently() {
    let (to_there, to_here) = pair();
    let (asked, tick) = carried(&to_there, &to_here, Tick(7));
    assert_eq!(tick, Tick(7));
    assert_eq!(answered(&to_here, &to_there, asked, Ok::<u32, Infallible>(7)), Ok(7));
    assert_eq!(answered(&to_here, &to_there, asked, Ok::<String, Infallible>("7".into())), Ok("7".to_owned()));
    let error = to_here.encode_answer(asked, &mut Payload::new(Ok::<u8, Infallible>(7))).unwrap_err();
    assert!(matches!(error, CodecError::Answer { .. }), "{error}");
    assert!(error.to_string().contains("not with a `core::result::Result<u8, core::convert::Infallible>`"), "{error}");
}

#[test]
fn what_was_not_exported_stays() {
    let (to_there, _) = pair();
    let mut payload = Payload::new(AccountVisit { visit: || {} });
    let error = to_there.encode(&mut payload).unwrap_err();
    assert!(matches!(error, CodecError::NotRemote { .. }), "{error}");
    assert!(error.to_string().contains("AccountVisit") && error.to_string().contains("#[process(remote)]"), "{error}");
    assert!(payload.is::<AccountVisit>());
}

mod old {
    use super::*;

    #[process]
    pub(super) struct Ledger;

    #[process(remote)]
    impl Ledger {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        pub(super) fn add(&mut self, amount: i32) {
            let _ = amount;
        }
        #[message(codec = "named")]
        pub(super) fn note(&mut self, text: String) {
            let _ = text;
        }
        #[message]
        pub(super) fn gone(&mut self) {}
        #[message]
        pub(super) fn same(&mut self, text: String) {
            let _ = text;
        }
    }
}

mod new {
    use super::*;

    #[process]
    pub(super) struct Ledger;

    #[process(remote)]
    impl Ledger {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        pub(super) fn add(&mut self, amount: i64) {
            let _ = amount;
        }
        #[message]
        pub(super) fn arrived(&mut self) {}
        #[message(codec = "named")]
        pub(super) fn note(
            &mut self,
            text: String,
            #[cfg_attr(all(), serde(default))] urgent: bool,
            by: Option<String>,
        ) {
            let _ = (text, urgent, by);
        }
        #[message]
        pub(super) fn same(&mut self, text: String) {
            let _ = text;
        }
    }
}

#[test]
fn two_builds_understand_each_other_as_far_as_they_can() {
    let old = Codecs::builder().export::<old::Ledger>().build().unwrap();
    let new = Codecs::builder().export::<new::Ledger>().build().unwrap();
    let (to_old, to_new) = (new.agree(old.table()), old.agree(new.table()));

    let error = to_old.encode(&mut Payload::new(new::LedgerAdd { amount: 1 })).unwrap_err();
    assert!(matches!(error, CodecError::Incompatible { here, there, .. } if here != there), "{error}");
    // A node that ignores the tables and sends such a message nevertheless is refused by the other node.
    let add = |codecs: &Codecs, name: &str| {
        MessageId(codecs.table().iter().position(|(other, _)| other.ends_with(name)).unwrap() as u16)
    };
    let error = to_old.decode(add(&old, "::add"), &[1, 2]).unwrap_err();
    assert!(matches!(error, CodecError::Incompatible { .. }), "{error}");

    let error = to_old.encode(&mut Payload::new(new::LedgerArrived)).unwrap_err();
    assert!(matches!(error, CodecError::Unknown { here: false, .. }), "{error}");
    let error = to_old.decode(add(&old, "::gone"), &[1]).unwrap_err();
    assert!(matches!(error, CodecError::Unknown { here: true, .. }), "{error}");
    let error = to_old.decode(MessageId(99), &[1]).unwrap_err();
    assert_eq!(error, CodecError::NoSuchId { id: MessageId(99), length: 5 });
    let error = to_old.decode(add(&old, "::serve"), &[1]).unwrap_err();
    assert!(matches!(error, CodecError::Kind { expected: "a message", .. }), "{error}");

    let note = new::LedgerNote { text: "a".into(), urgent: true, by: Some("b".into()) };
    let sent = to_old.encode(&mut Payload::new(note)).unwrap();
    let (_, note) = to_new.decode(sent.id, &sent.bytes).unwrap();
    assert_eq!(note.take::<old::LedgerNote>().ok().unwrap().text, "a");
    let sent = to_new.encode(&mut Payload::new(old::LedgerNote { text: "a".into() })).unwrap();
    let (_, note) = to_old.decode(sent.id, &sent.bytes).unwrap();
    let note = note.take::<new::LedgerNote>().ok().unwrap();
    assert_eq!((note.text.as_str(), note.urgent, note.by), ("a", false, None));

    let sent = to_new.encode(&mut Payload::new(old::LedgerSame { text: "a".into() })).unwrap();
    let (_, same) = to_old.decode(sent.id, &sent.bytes).unwrap();
    assert_eq!(same.take::<new::LedgerSame>().ok().unwrap().text, "a");
}

#[test]
fn names_that_meet_are_refused() {
    let error = Codecs::builder().export::<old::Ledger>().export::<new::Ledger>().build().unwrap_err();
    assert!(matches!(error, ExportError::Message { .. }), "{error}");
    // A process that is exported twice is added once, and so is a message that several processes share.
    let twice = Codecs::builder().export::<Account>().export::<Account>().export::<Clock>().build().unwrap();
    assert_eq!(twice.table(), codecs().table());
    let names: Vec<_> = twice.table().iter().map(|(name, _)| name.rsplit_once("::").unwrap().1).collect();
    assert_eq!(
        names,
        ["deposit", "draw", "draw_named", "introduce", "serve", "tick", "audit", "serve", "tick"],
        "of Account, Audited and Clock"
    );
}

/// Structs, enums, options, lists and maps that contain themselves.
#[derive(Debug, Serialize, Deserialize)]
enum Nest {
    End,
    Next(Box<Nest>),
    List(Vec<Nest>),
    Map(BTreeMap<u8, Nest>),
    Struct { inner: Option<Box<Nest>> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Clear(Option<Box<Clear>>);

#[derive(Debug, Serialize, Deserialize)]
struct Lists(Vec<Lists>);

/// Calls `run` in a thread whose stack is far smaller than an unguarded decoder needs. The allowed levels take up to
/// 512 KiB without optimization.
fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap()
}

#[test]
fn deep_values_are_refused_before_they_overflow_the_stack() {
    const DEPTH: usize = 100_000;
    let compact = |level: &[u8]| [&[1], level.repeat(DEPTH).as_slice(), &[0]].concat();
    let fault = on_a_small_stack(move || {
        [
            // The levels of `Nest` are `Next`, a list of one element, a map with the key 0, and a struct with a value
            // inside.
            format::decode::<Nest>(&compact(&[1]), WireCodec::Compact).unwrap_err(),
            format::decode::<Nest>(&compact(&[2, 1]), WireCodec::Compact).unwrap_err(),
            format::decode::<Nest>(&compact(&[3, 1, 0]), WireCodec::Compact).unwrap_err(),
            format::decode::<Nest>(&compact(&[4, 1]), WireCodec::Compact).unwrap_err(),
            format::decode::<Clear>(&compact(&[1]), WireCodec::Compact).unwrap_err(),
            format::decode::<Lists>(&compact(&[1]), WireCodec::Compact).unwrap_err(),
        ]
    });
    assert_eq!(fault, [const { format::Fault::TooDeep }; 6]);

    // In MessagePack: {"Next": …}; lists; and an unknown field, whose value is skipped.
    let next = [&[2], b"\x81\xa4Next".repeat(DEPTH).as_slice(), b"\xa3End"].concat();
    let lists = [&[2], b"\x91".repeat(DEPTH).as_slice(), b"\x90"].concat();
    let unknown = [b"\x02\x82\xa7unknown".as_slice(), &b"\x91".repeat(DEPTH), b"\x90\xa6reason\xa1a"].concat();
    let fault = on_a_small_stack(move || {
        [
            format::decode::<Nest>(&next, WireCodec::Named).unwrap_err(),
            format::decode::<Lists>(&lists, WireCodec::Named).unwrap_err(),
            format::decode::<Refused>(&unknown, WireCodec::Named).unwrap_err(),
        ]
    });
    assert_eq!(fault, [const { format::Fault::TooDeep }; 3]);
}

/// Hostile bytes are refused in the form in which they would arrive: as a message to a process.
#[test]
fn a_deep_message_is_a_typed_error() {
    let (_, to_here) = pair();
    let sent = pair().0.encode(&mut Payload::new(AccountDraw { shape: Shape::Nothing })).unwrap();
    // Fields { flag, no bytes, Some(inner) }, repeated.
    let bytes = [&[1], [3, 0, 0, 1].repeat(100_000).as_slice(), &[0]].concat();
    let error = on_a_small_stack(move || to_here.decode(sent.id, &bytes).unwrap_err());
    assert_eq!(error, CodecError::TooDeep { name: "postroom-cluster::Account::draw".to_owned() });
    assert!(error.to_string().contains("more than 128 levels"), "{error}");
}

#[test]
fn values_as_deep_as_the_limit_come_through() {
    // Each enum counts as a level, including the innermost one, `End`.
    let nest = |depth: usize| [&[1], [1].repeat(depth).as_slice(), &[0]].concat();
    on_a_small_stack(move || {
        assert!(format::decode::<Nest>(&nest(MAX_DEPTH - 1), WireCodec::Compact).is_ok());
        let fault = format::decode::<Nest>(&nest(MAX_DEPTH), WireCodec::Compact).unwrap_err();
        assert_eq!(fault, format::Fault::TooDeep);
    });
}

/// Deserializes from a list, and records the length that the list announced.
#[derive(Debug, PartialEq, Serialize)]
struct Promised(Option<usize>);

impl<'de> Deserialize<'de> for Promised {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Looks;
        impl<'de> Visitor<'de> for Looks {
            type Value = Promised;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Promised, A::Error> {
                let promised = list.size_hint();
                while list.next_element::<u8>()?.is_some() {}
                Ok(Promised(promised))
            }
        }
        deserializer.deserialize_seq(Looks)
    }
}

#[test]
fn a_claimed_length_reserves_nothing_and_is_no_endless_loop() {
    assert_eq!(format::decode::<Promised>(&[1, 3, 0, 0, 0], WireCodec::Compact), Ok(Promised(None)));
    assert_eq!(format::decode::<Promised>(&[2, 0x93, 0, 0, 0], WireCodec::Named), Ok(Promised(None)));
    // 2^64 - 1 elements that take no bytes.
    let endless = [&[1], [0xff].repeat(9).as_slice(), &[1]].concat();
    let fault = format::decode::<Vec<()>>(&endless, WireCodec::Compact).unwrap_err();
    assert_eq!(fault, format::Fault::TooManyElements);
    assert!(matches!(format::decode::<Vec<u64>>(&endless, WireCodec::Compact).unwrap_err(), format::Fault::Text(_)));
    assert!(matches!(format::decode::<String>(&endless, WireCodec::Compact).unwrap_err(), format::Fault::Text(_)));
    let text = [2, 0xdb, 0xff, 0xff, 0xff, 0xff, b'a'];
    assert!(matches!(format::decode::<String>(&text, WireCodec::Named).unwrap_err(), format::Fault::Text(_)));
    assert_eq!(format::decode::<Vec<()>>(&[1, 100], WireCodec::Compact), Ok(vec![(); 100]));
}

#[test]
fn a_value_takes_all_of_its_bytes_and_no_more_than_a_message_may_have() {
    use format::Fault;
    assert_eq!(format::decode::<u8>(&[1, 7], WireCodec::Compact), Ok(7));
    assert_eq!(format::decode::<u8>(&[1, 7, 7, 7], WireCodec::Compact), Err(Fault::Trailing(2)));
    assert_eq!(format::decode::<u8>(&[2, 7, 7], WireCodec::Named), Err(Fault::Trailing(1)));
    assert_eq!(format::decode::<u8>(&[], WireCodec::Named), Err(Fault::Codec { expected: 2, came: None }));
    assert_eq!(format::decode::<u8>(&[1, 7], WireCodec::Named), Err(Fault::Codec { expected: 2, came: Some(1) }));
    assert!(matches!(format::decode::<u8>(&[1], WireCodec::Compact), Err(Fault::Text(_))));

    for codec in [WireCodec::Compact, WireCodec::Named] {
        // The codec byte, the length, the text.
        let longest = "a".repeat(MAX_MESSAGE - 1 - if codec == WireCodec::Compact { 4 } else { 5 });
        let bytes = format::encode(&longest, codec).unwrap();
        assert_eq!(bytes.len(), MAX_MESSAGE);
        assert_eq!(format::decode::<String>(&bytes, codec).as_ref(), Ok(&longest));
        assert_eq!(format::encode(&(longest + "a"), codec), Err(Fault::TooLong(MAX_MESSAGE + 1)));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(format::decode::<String>(&longer, codec), Err(Fault::TooLong(longer.len())));
    }
}

/// A type whose own code panics.
#[derive(Debug)]
struct Panics;

impl Serialize for Panics {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("not written");
    }
}

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        std::panic::panic_any(7_i32);
    }
}

#[test]
fn a_panic_of_the_types_own_code_is_an_error() {
    let fault = format::encode(&Panics, WireCodec::Compact).unwrap_err();
    assert_eq!(fault, format::Fault::Panicked("not written".to_owned()));
    let fault = format::decode::<Panics>(&[1], WireCodec::Compact).unwrap_err();
    assert_eq!(fault, format::Fault::Panicked("a value that is no text".to_owned()));
}

/// Almost valid bytes give an error or a value. They never cause a panic, or the error would be `CodecError::Panicked`.
#[test]
fn mangled_bytes_are_refused_or_are_another_value() {
    let (to_there, to_here) = pair();
    let (mut refused, mut read) = (0, 0);
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let shape = random_shape(&mut random, 4);
        let mut payload = if random.chance(50) {
            Payload::new(AccountDraw { shape })
        } else {
            Payload::new(AccountDrawNamed { shape, note: random_text(&mut random) })
        };
        let sent = to_there.encode(&mut payload).unwrap();
        let mut bytes = sent.bytes.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        match to_here.decode(sent.id, &bytes) {
            Ok(_) => read += 1,
            Err(CodecError::Panicked { text, .. }) => panic!("{text} at {bytes:?}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100 && read > 100, "{refused} refused, {read} read");
}

fn pid(slot: u64) -> Pid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(1_u64 << 16).to_be_bytes());
    bytes[8..].copy_from_slice(&(slot << 36).to_be_bytes());
    Pid::from_bytes(bytes).unwrap()
}

fn reasons() -> Vec<ExitReason> {
    let plain = vec![
        ExitReason::Normal,
        ExitReason::Shutdown,
        ExitReason::from("too slow"),
        ExitReason::Killed,
        ExitReason::error("disk full"),
        ExitReason::Panic(Arc::new(Panic { message: "index 5".into(), place: "a.rs:1:2".into() })),
        ExitReason::NodeLost,
        ExitReason::NoProcess,
    ];
    let linked = |reason: &ExitReason| ExitReason::Linked { pid: pid(7), reason: Arc::new(reason.clone()) };
    plain.iter().map(linked).chain(plain.clone()).collect()
}

#[test]
fn every_reason_of_an_end_comes_back() {
    for reason in reasons() {
        let back = decode_exit_reason(&encode_exit_reason(&reason)).unwrap();
        assert_eq!(back, reason);
        assert_eq!(back.to_string(), reason.to_string());
        assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&reason));
    }
}

#[test]
fn every_error_of_a_call_comes_back() {
    let mut errors: Vec<CallError> = vec![
        CallError::Timeout,
        CallError::Full,
        CallError::Restarting,
        CallError::Cycle(Cycle { calls: vec![(pid(1), "Account::deposit"), (pid(2), "Audit::look")] }),
        CallError::Dropped,
        CallError::Unhandled,
        CallError::Mismatch { expected: "i64", found: "alloc::string::String" },
        CallError::UnknownName,
        CallError::Shutdown,
    ];
    errors.extend(reasons().into_iter().flat_map(|reason| [CallError::Gone(reason.clone()), CallError::Died(reason)]));
    for error in errors {
        let back = decode_call_error(&encode_call_error(&error)).unwrap();
        assert_eq!(back, error);
        assert_eq!(back.delivery(), error.delivery());
    }
}

#[test]
fn long_chains_and_texts_are_cut() {
    let chain = |length: u64| {
        (0..length).fold(ExitReason::from("first"), |reason, slot| ExitReason::Linked {
            pid: pid(slot),
            reason: Arc::new(reason),
        })
    };
    let links = |mut reason: &ExitReason| {
        let mut pids = Vec::new();
        while let ExitReason::Linked { pid, reason: inner } = reason {
            pids.push(*pid);
            reason = inner;
        }
        (pids, reason.to_string())
    };
    let back = decode_exit_reason(&encode_exit_reason(&chain(500))).unwrap();
    assert_eq!(links(&back), ((484..500).rev().map(pid).collect(), "cancelled: first".to_owned()));
    assert_eq!(decode_exit_reason(&encode_exit_reason(&chain(16))).unwrap(), chain(16));

    let long = "ä".repeat(5_000);
    let panic = ExitReason::Panic(Arc::new(Panic { message: long.clone(), place: String::new() }));
    for (reason, kind) in
        [(ExitReason::error(long.clone()), "error"), (long.clone().into(), "cancelled"), (panic, "panic")]
    {
        let back = decode_exit_reason(&encode_exit_reason(&reason)).unwrap();
        assert_eq!(back.to_string(), format!("{kind}: {}", &long[..4_096]));
    }
}

/// A user error whose `Display` panics travels with a substitute text.
#[test]
fn an_error_without_a_text_travels_all_the_same() {
    #[derive(Debug)]
    struct Mute;
    impl std::fmt::Display for Mute {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no text")
        }
    }
    impl std::error::Error for Mute {}
    assert!(Mute.source().is_none());
    let back = decode_exit_reason(&encode_exit_reason(&ExitReason::error(Mute))).unwrap();
    assert_eq!(back.to_string(), "error: an error whose `Display` panics");
    assert_eq!(as_text(&ExitReason::error(Mute)), back, "as it would arrive");
}

#[test]
fn what_is_no_reason_is_refused() {
    for bytes in [&[][..], &[1], &[2, 0], &[1, 0, 99], &[1, 0, 0, 0], &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
        assert!(decode_exit_reason(bytes).is_err(), "{bytes:?}");
        assert!(decode_call_error(&[bytes, &[99]].concat()).is_err(), "{bytes:?}");
    }
}

/// Errors hold names from other nodes. Such names are kept forever, so their number and length are limited.
#[test]
fn names_of_other_nodes_cannot_fill_the_memory() {
    let mut names = reason::KeptNames(Default::default());
    for at in 0..1_024 {
        assert_eq!(names.keep(&format!("Type{at}")), format!("Type{at}"));
    }
    assert_eq!(names.keep("Type1024"), "a name of another node");
    assert_eq!(names.keep("Type7"), "Type7");
    let mut names = reason::KeptNames(Default::default());
    assert_eq!(names.keep(&"a".repeat(256)), "a".repeat(256));
    assert_eq!(names.keep(&"a".repeat(257)), "a name of another node");
}
