//! Sending a message by the name of its method, with the arguments as values or as JSON.

use postroom::error::{EntryError, MessageError, SendFailure};
use postroom::prelude::*;
use postroom::{Mailbox, Overflow};
use postroom_tests::face::{Log, builder, until, watched, with_runtime};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
struct Order {
    item: String,
    count: u32,
}

/// A type that cannot be read from JSON.
struct Token(u32);

#[protocol]
trait Stock<T: serde::de::DeserializeOwned> {
    fn put(&mut self, item: T, count: u32);
    fn count(&self) -> u32;
}

#[process]
#[derive(Default)]
struct Shop {
    seen: Log<String>,
}

#[process(protocols(Stock<String>))]
impl Shop {
    #[entry]
    fn serve(&mut self, seen: Log<String>) {
        self.seen = seen;
    }

    #[message]
    fn sell(&mut self, item: String, count: u32, customer: Option<String>) -> Result<u32, String> {
        self.seen.add(format!("{count} {item} to {customer:?}"));
        Ok(count)
    }

    #[message(Order)]
    fn order(&mut self, order: Order) {
        self.seen.add(format!("{order:?}"));
    }

    #[message]
    async fn later(&mut self, r#type: u8) {
        self.seen.add(format!("later {}", r#type));
    }

    #[message]
    fn ask(&mut self, number: u32, reply: Reply<u32>) {
        self.seen.add(format!("ask {number} {}", reply.is_abandoned()));
        reply.send(number);
    }

    #[message]
    fn list(&mut self, from: u32, lines: Replies<u32>) {
        self.seen.add(format!("list {from} {}", lines.is_abandoned()));
    }

    #[message]
    fn admit(&mut self, token: Token) {
        self.seen.add(format!("token {}", token.0));
    }

    #[message]
    fn close(&mut self) {
        self.seen.add("closed".to_string());
    }
}

#[process]
impl Stock<String> for Shop {
    fn put(&mut self, item: String, count: u32) {
        self.seen.add(format!("put {count} {item}"));
    }
    fn count(&self) -> u32 {
        0
    }
}

fn with_shop(body: impl FnOnce(&Runtime, Pid, &Log<String>) + Send + 'static) {
    with_runtime(|runtime| {
        runtime.register_type::<Shop>();
        let seen = Log::new();
        let shop = runtime.spawn(Shop::default()).serve(seen.clone()).unwrap().pid();
        body(runtime, shop, &seen);
    });
}

fn seen_within(seen: &Log<String>, expected: &[&str]) {
    until(|| seen.all().len() >= expected.len());
    assert_eq!(seen.all(), expected);
}

/// Catches: arguments in the wrong order, a kind of message without a match arm of its own, and types that are known
/// only if a process was started by name. (This one was spawned.)
#[test]
fn a_message_of_each_kind_is_sent_by_the_name_of_its_method() {
    with_shop(|runtime, shop, seen| {
        runtime.send_to_method(shop, "sell", payloads!["tea", 2, Some("Ada".to_string())]).unwrap();
        runtime.send_to_method(shop, "order", payloads![Order { item: "pot".into(), count: 1 }]).unwrap();
        runtime.send_to_method(shop, "admit", payloads![Token(3)]).unwrap();
        runtime.send_to_method(shop, "close", payloads![]).unwrap();
        runtime.send_json(shop, "sell", r#"["cup", 3, null]"#).unwrap();
        runtime.send_json(shop, "sell", json!({"count": 4, "item": "milk"})).unwrap();
        runtime.send_json(shop, "order", json!({"order": {"item": "jug", "count": 5}})).unwrap();
        runtime.send_json(shop, "later", r#"{"type": 6}"#).unwrap();
        runtime.send_json(shop, "ask", "[7]").unwrap();
        runtime.send_json(shop, "list", "[8]").unwrap();
        let expected = [
            "2 tea to Some(\"Ada\")",
            "Order { item: \"pot\", count: 1 }",
            "token 3",
            "closed",
            "3 cup to None",
            "4 milk to None",
            "Order { item: \"jug\", count: 5 }",
            "later 6",
            "ask 7 true",
            "list 8 true",
        ];
        seen_within(seen, &expected);
    });
}

/// Catches: a lookup that searches only the process's own methods.
#[test]
fn a_message_of_a_protocol_is_sent_by_the_name_of_its_method_too() {
    with_shop(|runtime, shop, seen| {
        let stock: Address<dyn Stock<String>> = runtime.address(shop).unwrap();
        runtime.send_json(stock, "put", json!({"item": "tea", "count": 9})).unwrap();
        runtime.send_to_method(stock, "count", payloads![]).unwrap();
        let error = runtime.send_json(shop, "put", "[9, 9]").unwrap_err().to_string();
        assert!(error.starts_with("input `item` of `Shop::put` is of type `T`"), "{error}");
        seen_within(seen, &["put 9 tea"]);
    });
}

#[test]
fn an_unknown_message_is_refused_with_the_existing_ones() {
    with_shop(|runtime, shop, seen| {
        let error = runtime.send_json(shop, "sel", "[]").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`Shop` has no message `sel`; it has `sell`, `order`, `later`, `ask`, `list`, `admit`, `close`, `put`, \
             `count`; did you mean `sell`?"
        );
        assert!(matches!(&error, MessageError::Unknown { has, .. } if has.len() == 9));
        // An entry is not a message.
        for name in ["", "serve", &"x".repeat(1 << 20)] {
            let error = runtime.send_to_method(shop, name, payloads![]).unwrap_err();
            assert!(matches!(error, MessageError::Unknown { .. }) && error.to_string().len() < 300, "{error}");
        }
        assert!(seen.all().is_empty());
    });
}

#[test]
fn wrong_arguments_of_a_message_are_refused_like_inputs_of_an_entry() {
    with_shop(|runtime, shop, seen| {
        let json = |message, inputs: &str| match runtime.send_json(shop, message, inputs) {
            Err(MessageError::Inputs(error)) => *error,
            other => panic!("{other:?}"),
        };
        let few = json("sell", "[1]");
        assert_eq!(
            few.to_string(),
            "`Shop::sell` takes 3 inputs (`item: String`, `count: u32`, `customer: Option<String>`), not 1"
        );
        assert!(matches!(json("close", "[1]"), EntryError::Count { expected: 0, came: 1, .. }));
        assert!(matches!(json("sell", r#"{"item": "tea"}"#), EntryError::Missing { input, .. } if input == "count"));
        assert!(matches!(json("order", r#"{"item": "tea", "count": 1}"#), EntryError::UnknownInput { .. }));
        assert!(matches!(json("later", "[256]"), EntryError::Type { input, .. } if input == "type"));
        assert!(json("admit", "[1]").to_string().contains("not `Deserialize`"));
        for text in ["", "1", "[1", "null"] {
            let error = runtime.send_json(shop, "sell", text).unwrap_err();
            assert!(matches!(error, MessageError::Json(_)), "{error}");
        }
        assert!(seen.all().is_empty());
    });
}

/// The process type is also found through the address of a supervised child. A refusal by the process itself is
/// returned as for any send.
#[test]
fn a_process_that_cannot_be_sent_to_by_name_gives_the_reason() {
    #[process]
    struct Unknown;
    #[process]
    impl Unknown {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn close(&mut self) {}
    }
    watched(|| {
        let runtime = builder().build().unwrap();
        let unknown = runtime.spawn(Unknown).serve().unwrap();
        let error = runtime.send_json(unknown, "close", "[]").unwrap_err();
        assert!(error.to_string().contains("register it with `runtime.register_type::<Unknown>()`"), "{error}");
        assert_eq!(error, MessageError::Unregistered { pid: unknown.pid(), process: "Unknown" });
        // The registration makes the type known to this host, however the process was started, but not to other
        // hosts.
        runtime.register_type_with("any name", || Unknown);
        assert_eq!(runtime.send_json(unknown, "close", "[]"), Ok(()));
        let other = builder().build().unwrap();
        assert!(matches!(other.send_json(unknown, "close", "[]"), Err(MessageError::Unregistered { .. })));

        let tree = Supervisor::one_for_one().child("only", |spawn| spawn.of(Unknown).serve()).spawn(&runtime).unwrap();
        let child: Address<Unknown> = tree.child("only").unwrap();
        assert_eq!(runtime.send_json(child, "close", "[]"), Ok(()));
        tree.stop();
        tree.join().wait();
        let stopped = runtime.send_json(child, "close", "[]").unwrap_err();
        assert_eq!(stopped, MessageError::Refused(SendFailure::Gone(child.pid())));

        unknown.pid().kill();
        unknown.pid().join().wait();
        let gone = runtime.send_json(unknown, "close", "[]").unwrap_err();
        assert_eq!(gone, MessageError::Refused(SendFailure::Gone(unknown.pid())));
        let mailbox = Mailbox::new().unwrap();
        let untyped = runtime.send_json(mailbox.pid(), "close", "[]").unwrap_err();
        assert_eq!(untyped, MessageError::Untyped(mailbox.pid()));

        // In a paused runtime the process handles nothing, so the second message finds its mailbox full.
        let paused = builder().paused().build().unwrap();
        paused.register_type_with("any name", || Unknown);
        let one = paused.spawn(Unknown).mailbox(Bound::Hard(1, Overflow::Refuse)).serve().unwrap();
        assert_eq!(paused.send_json(one, "close", "[]"), Ok(()));
        let full = paused.send_json(one, "close", "[]").unwrap_err();
        assert_eq!(full, MessageError::Refused(SendFailure::Full(one.pid())));
        assert!(full.is_retryable() && !gone.is_retryable());
    });
}
