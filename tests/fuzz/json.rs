//! Starts and messages by name, with inputs as JSON. An input has three lines: the name of the type, the name of the
//! entry or message, and the inputs.

use crate::driver::{Food, fuzz};
use postroom::error::{MessageError, StartError};
use postroom::prelude::*;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::{Discriminant, discriminant};
use std::sync::OnceLock;

type Seen = (u32, String, Option<Vec<i8>>);

#[process]
#[derive(Default)]
struct Clerk {
    seen: Option<Seen>,
}

#[process]
impl Clerk {
    #[entry]
    fn work(&mut self, number: u32, text: String, more: Option<Vec<i8>>) {
        self.seen = Some((number, text, more));
    }
    #[message]
    fn take(&mut self, number: u32, text: String, more: Option<Vec<i8>>) {
        self.seen = Some((number, text, more));
    }
    #[message]
    fn seen(&mut self) -> Option<Seen> {
        self.seen.take()
    }
}

/// Parses the inputs independently of the runtime.
fn read(text: &str) -> Option<Seen> {
    let (number, words, more) = match serde_json::from_str(text).ok()? {
        Value::Array(values) => <[Value; 3]>::try_from(values).ok()?.into(),
        Value::Object(mut values) => {
            let mut value = |name| values.remove(name);
            let all = (value("number")?, value("text")?, value("more").unwrap_or(Value::Null));
            values.is_empty().then_some(all)?
        }
        _ => return None,
    };
    let more = serde_json::from_value(more).ok()?;
    Some((serde_json::from_value(number).ok()?, serde_json::from_value(words).ok()?, more))
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Returns the kinds of an error and its cause.
fn start_kind(error: &StartError) -> (Discriminant<StartError>, u64) {
    let cause = match error {
        StartError::Spawn(SpawnError::Init(InitError::Entry(entry))) => hash(discriminant(&**entry)),
        StartError::Spawn(other) => hash(discriminant(other)),
        _ => 0,
    };
    (discriminant(error), cause)
}

pub fn target(data: &[u8]) -> u64 {
    static RUNTIME: OnceLock<(Runtime, Pid)> = OnceLock::new();
    let (runtime, clerk) = RUNTIME.get_or_init(|| {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        runtime.register_type::<Clerk>();
        let clerk = runtime.spawn(Clerk::default()).work(0, String::new(), None).expect("it starts").pid();
        (runtime, clerk)
    });
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let [process, method, inputs] = [(); 3].map(|()| lines.next().unwrap_or_default());
    let expected = read(inputs);
    let seen = |pid: Pid| runtime.address::<Clerk>(pid).expect("a clerk").seen().wait().expect("it lives");
    let live = runtime.statistics().processes.live;

    let started = match runtime.start_json(process, method, inputs) {
        Ok(pid) => {
            assert_eq!((process, method), ("Clerk", "work"));
            assert_eq!(seen(pid), expected);
            assert!(expected.is_some(), "{inputs}");
            let end = pid.join();
            pid.kill();
            end.wait();
            0
        }
        Err(error) => {
            assert!(expected.is_none() || (process, method) != ("Clerk", "work"), "{error}");
            assert!(error.to_string().len() < 1_000, "{error}");
            hash(start_kind(&error))
        }
    };
    let sent = match runtime.send_json(*clerk, method, inputs) {
        Ok(()) if method == "seen" => 1,
        Ok(()) => {
            assert_eq!(method, "take");
            assert_eq!(seen(*clerk), expected);
            assert!(expected.is_some(), "{inputs}");
            0
        }
        Err(error) => {
            assert!(expected.is_none() || method != "take", "{error}");
            assert!(error.to_string().len() < 1_000, "{error}");
            let cause = if let MessageError::Inputs(entry) = &error { hash(discriminant(&**entry)) } else { 0 };
            hash((discriminant(&error), cause))
        }
    };
    assert_eq!(runtime.statistics().processes.live, live, "what did not start, or has ended, is gone");
    hash((started, sent))
}

#[test]
fn json_inputs() {
    let corpus: &[&[u8]] = &[
        b"Clerk\nwork\n[1, \"a\", null]",
        b"Clerk\nwork\n{\"number\": 1, \"text\": \"a\", \"more\": [1, -2]}",
        b"Clerk\ntake\n{\"text\": \"\\u00e4\", \"number\": 4294967295}",
        b"Clerk\nseen\n[]",
        b"Clark\nwork\n{}",
    ];
    let words: &[&[u8]] = &[
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b":",
        b"\"",
        b"\\",
        b"null",
        b"\"number\": 2,",
        b"\"more\": null,",
        b"\"other\": 1,",
        b"1e400",
        b"-129",
        b"4294967296",
        b"\\ud800",
        b"[[[[[[[[[[[[[[[[",
    ];
    fuzz("json inputs", &Food { corpus, words }, target);
}
