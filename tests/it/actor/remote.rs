//! Checks that the description that `#[process(remote)]` gives a visitor is sufficient to convert messages, answers and
//! inputs to text and back.

use postroom::error::EntryError;
use postroom::prelude::*;
use postroom::remote::{Remote, RemoteEntry, RemoteMessage, RemoteProtocol, RemoteValue, RemoteVisitor, WireCodec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::convert::Infallible;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Refused {
    missing: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rate(f64);

#[protocol(remote)]
trait Audited {
    fn audit(&self, auditor: String) -> usize;
    #[message(local)]
    fn entries(&self, replies: Replies<i64>);
}

#[protocol]
trait Quiet {
    fn hush(&self) -> bool;
}

#[process(name = "account of the bank")]
#[derive(Default)]
struct Account {
    balance: i64,
    owner: Option<String>,
}

#[process(remote, protocols(Audited, Quiet))]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64, owner: Option<String>) {
        (self.balance, self.owner) = (opening, owner);
    }

    #[entry(local)]
    fn restore(&mut self, from: std::sync::mpsc::Receiver<i64>) {
        self.balance = from.iter().sum();
    }

    #[message]
    fn deposit(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }

    #[message(name = "bank.withdraw", codec = "named")]
    fn withdraw(
        &mut self,
        amount: i64,
        #[serde(default = "standard")] note: String,
        tag: Option<u8>,
    ) -> Result<i64, Refused> {
        let _ = (note, tag);
        match self.balance - amount {
            left @ 0.. => Ok(left),
            short => Err(Refused { missing: -short }),
        }
    }

    #[message]
    fn owner(&self, reply: Reply<Option<String>>) {
        reply.send(self.owner.clone());
    }

    #[message(Rate)]
    fn interest(&mut self, rate: Rate) -> Result<i64, Infallible> {
        Ok((self.balance as f64 * rate.0) as i64)
    }

    #[message(local)]
    fn visit(&mut self, visit: Box<dyn FnOnce(&mut Account) + Send>) {
        visit(self);
    }

    #[message]
    fn hide(&self, from: Address<Account>, and: Recipient<AccountDeposit, i64>) -> (Pid, Pid) {
        (from.pid(), and.pid())
    }
}

#[process]
impl Audited for Account {
    fn audit(&self, auditor: String) -> usize {
        auditor.len()
    }

    fn entries(&self, replies: Replies<i64>) {
        let _ = replies.send(self.balance);
    }
}

#[process]
impl Quiet for Account {
    fn hush(&self) -> bool {
        true
    }
}

fn standard() -> String {
    "none".into()
}

type Encode = fn(&mut Payload) -> Option<Value>;
type Decode = fn(Value) -> Result<Payload, String>;

fn encode<M: RemoteValue>(payload: &mut Payload) -> Option<Value> {
    payload.get_mut::<M>().map(|message| serde_json::to_value(message).expect("JSON has a form for it"))
}

fn decode<M: RemoteValue>(value: Value) -> Result<Payload, String> {
    serde_json::from_value::<M>(value).map(Payload::new).map_err(|error| error.to_string())
}

/// Encodes an infallible answer: only the value inside the payload's `Result` is sent.
fn encode_sure<T: RemoteValue>(payload: &mut Payload) -> Option<Value> {
    let value = payload.get_mut::<Result<T, Infallible>>()?.as_ref().ok()?;
    Some(serde_json::to_value(value).expect("JSON has a form for it"))
}

fn decode_sure<T: RemoteValue>(value: Value) -> Result<Payload, String> {
    serde_json::from_value::<T>(value)
        .map(|value| Payload::new(Ok::<T, Infallible>(value)))
        .map_err(|error| error.to_string())
}

struct Form {
    about: RemoteMessage,
    type_id: TypeId,
    message: (Encode, Decode),
    answer: (Encode, Decode),
}

type TakeInputs = dyn Fn(Payloads) -> Result<Value, EntryError>;

#[derive(Default)]
struct Tables {
    messages: BTreeMap<&'static str, Form>,
    entries: BTreeMap<&'static str, (&'static str, String)>,
    inputs: BTreeMap<&'static str, Box<TakeInputs>>,
}

impl Tables {
    fn of<P: Remote>() -> Self {
        let mut tables = Self::default();
        P::describe(&mut tables);
        tables
    }

    fn form<M: 'static>(&self) -> &Form {
        self.messages.values().find(|form| form.type_id == TypeId::of::<M>()).expect("the message is remote")
    }
}

impl RemoteVisitor for Tables {
    fn message<M: RemoteValue, T: RemoteValue>(&mut self, about: RemoteMessage) {
        let (message, answer): ((Encode, Decode), (Encode, Decode)) =
            ((encode::<M>, decode::<M>), (encode_sure::<T>, decode_sure::<T>));
        let form = Form { about, type_id: TypeId::of::<M>(), message, answer };
        assert!(self.messages.insert(about.name, form).is_none());
    }

    fn fallible_message<M: RemoteValue, T: RemoteValue, E: RemoteValue>(&mut self, about: RemoteMessage) {
        let (message, answer): ((Encode, Decode), (Encode, Decode)) =
            ((encode::<M>, decode::<M>), (encode::<Result<T, E>>, decode::<Result<T, E>>));
        let form = Form { about, type_id: TypeId::of::<M>(), message, answer };
        assert!(self.messages.insert(about.name, form).is_none());
    }

    fn entry<I: RemoteValue>(&mut self, entry: RemoteEntry<I>) {
        let RemoteEntry { from_payloads, into_payloads, .. } = entry;
        // Converts the payloads to inputs, back to payloads, and to inputs again.
        let inputs = move |payloads| {
            let inputs = from_payloads(into_payloads(from_payloads(payloads)?))?;
            Ok(serde_json::to_value(inputs).expect("JSON has a form for it"))
        };
        self.inputs.insert(entry.entry, Box::new(inputs));
        self.entries.insert(entry.name, (entry.process, format!("{}{}", entry.entry, entry.schema)));
    }
}

/// Calls `to` with `message`, and converts both the message and the answer to text and back, as a transport would.
fn carry<M: Send + 'static, T: Send + 'static, E: Send + 'static + std::fmt::Debug>(
    tables: &Tables,
    message: M,
    to: Pid,
) -> Result<T, CallError<E>> {
    let form = tables.form::<M>();
    let text = (form.message.0)(&mut Payload::new(message)).expect("it is of that type");
    let there = (form.message.1)(text).expect("its own text");
    let there = there.take::<M>().unwrap_or_else(|_| panic!("the message has another type"));
    let answer = Recipient::<M, T, E>::of(to).call(there).wait();
    // The caller on the other node expects a payload of exactly this type.
    let mut payload = match answer {
        Ok(value) => Payload::new(Ok::<T, E>(value)),
        Err(CallError::Failed(error)) => Payload::new(Err::<T, E>(error)),
        Err(other) => return Err(other),
    };
    let text = (form.answer.0)(&mut payload).expect("the answer is of that type");
    let back = (form.answer.1)(text).expect("its own text");
    back.take::<Result<T, E>>().unwrap_or_else(|_| panic!("the answer has another type")).map_err(CallError::Failed)
}

#[test]
fn a_visitor_is_shown_what_may_travel() {
    let tables = Tables::of::<Account>();
    let shown: Vec<_> = tables.messages.values().map(|form| (form.about.name, form.about.schema)).collect();
    assert_eq!(
        shown,
        [
            (
                "bank.withdraw",
                "(amount: i64, #[serde(default = \"standard\")] note: String, tag: Option<u8>) -> Result<i64, Refused>"
            ),
            ("postroom-tests::Account::deposit", "(amount: i64) -> i64"),
            (
                "postroom-tests::Account::hide",
                "(from: Address<Account>, and: Recipient<AccountDeposit, i64>) -> (Pid, Pid)"
            ),
            ("postroom-tests::Account::interest", "(Rate) -> Result<i64, Infallible>"),
            ("postroom-tests::Account::owner", "() -> Option<String>"),
            ("postroom-tests::Audited::audit", "(auditor: String) -> usize"),
        ]
    );
    for form in tables.messages.values() {
        let named = form.about.name == "bank.withdraw";
        assert_eq!(form.about.codec, if named { WireCodec::Named } else { WireCodec::Compact });
    }
    let (process, entry) = &tables.entries["postroom-tests::Account::serve"];
    assert_eq!((*process, entry.as_str()), ("account of the bank", "serve(opening: i64, owner: Option<String>)"));
    assert_eq!(tables.entries.len(), 1);
}

#[test]
fn messages_and_answers_keep_their_types_on_the_way() {
    let (runtime, tables) = (Runtime::new().unwrap(), Tables::of::<Account>());
    let account = runtime.spawn(Account::default()).serve(100, Some("Ada".into())).unwrap();
    let to = account.pid();
    assert_eq!(carry::<_, i64, Infallible>(&tables, AccountDeposit { amount: 5 }, to), Ok(105));
    let message = |amount| AccountWithdraw { amount, note: String::new(), tag: None };
    assert_eq!(carry::<_, i64, Refused>(&tables, message(5), to), Ok(100));
    assert_eq!(carry::<_, i64, Refused>(&tables, message(110), to), Err(CallError::Failed(Refused { missing: 5 })));
    assert_eq!(carry::<_, Option<String>, Infallible>(&tables, AccountOwner, to), Ok(Some("Ada".into())));
    assert_eq!(carry::<_, i64, Infallible>(&tables, Rate(0.1), to), Ok(10));
    assert_eq!(carry::<_, usize, Infallible>(&tables, AuditedAudit { auditor: "Bo".into() }, to), Ok(2));
    let hide = AccountHide { from: account, and: account.into() };
    assert_eq!(carry::<_, (Pid, Pid), Infallible>(&tables, hide, to), Ok((to, to)));
}

/// Serde's attributes and rules for struct fields apply to arguments, although the generated message type serializes
/// its fields through functions of its own.
#[test]
fn fields_that_are_left_out_take_their_defaults() {
    let tables = Tables::of::<Account>();
    let decode = tables.messages["bank.withdraw"].message.1;
    let message = decode(serde_json::json!({ "amount": 7 })).unwrap().take::<AccountWithdraw>().ok().unwrap();
    assert_eq!((message.amount, message.note.as_str(), message.tag), (7, "none", None));
    let error = decode(serde_json::json!({})).unwrap_err();
    assert!(error.contains("missing field `amount`"), "{error}");
}

#[test]
fn inputs_of_an_entry_are_converted_and_checked_as_in_a_start_by_name() {
    let tables = Tables::of::<Account>();
    let inputs = &tables.inputs["serve"];
    let owner = Some("Ada".to_string());
    assert_eq!(inputs(payloads![100_u8, owner]).unwrap(), serde_json::json!({ "opening": 100, "owner": "Ada" }));
    let count = inputs(payloads![100_i64]).unwrap_err();
    assert!(matches!(count, EntryError::Count { expected: 2, came: 1, .. }), "{count}");
    let wrong = inputs(payloads!["text", None::<String>]).unwrap_err();
    assert!(matches!(&wrong, EntryError::Type { input, .. } if input == "opening"), "{wrong}");
}

#[test]
fn a_protocol_can_be_described_alone() {
    let mut tables = Tables::default();
    <dyn Audited as RemoteProtocol>::describe(&mut tables);
    assert_eq!(tables.messages.keys().collect::<Vec<_>>(), [&"postroom-tests::Audited::audit"]);
}

#[test]
fn pids_and_addresses_are_text_or_sixteen_bytes() {
    let runtime = Runtime::new().unwrap();
    let account = runtime.spawn(Account::default()).serve(1, None).unwrap();
    let recipient: Recipient<AccountDeposit, i64> = account.into();
    let text = serde_json::to_value(account.pid()).unwrap();
    assert_eq!(text, account.pid().to_string());
    assert_eq!(serde_json::to_value(account).unwrap(), text);
    assert_eq!(serde_json::to_value(recipient).unwrap(), text);
    assert_eq!(serde_json::from_value::<Address<Account>>(text.clone()).unwrap(), account);
    assert_eq!(serde_json::from_value::<Recipient<AccountDeposit, i64>>(text).unwrap(), recipient);
    assert!(serde_json::from_value::<Address<Account>>("<0.0.0.0>".into()).is_err());
}
