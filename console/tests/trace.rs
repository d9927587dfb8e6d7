//! Tests of recordings made through the console, as by its page and scripts.

use postroom::prelude::*;
use postroom::record::Recording;
use postroom_console::Console;
use postroom_console::trace::{Analysis, ExplainError, Trace, TraceError};
use postroom_tests::{eventually, soon};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[process]
struct Clerk;

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn stamp(&mut self, number: u64) -> u64 {
        number + 1
    }
}

/// A customer that calls the clerk repeatedly, until a call fails.
#[process]
struct Customer {
    clerk: Address<Clerk>,
}

#[process]
impl Customer {
    #[entry]
    async fn shop(&mut self, ctx: &mut Context<Self>) {
        while self.clerk.stamp(1).await.is_ok() {
            ctx.sleep(Duration::from_micros(200)).await;
        }
    }
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("it is text")
    }

    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_str(self.text()).expect("it is JSON")
    }
}

fn ask(console: &Console, method: &str, path: &str) -> Answer {
    let (address, token) = (console.address(), console.url().split_once("?token=").expect("the URL has it").1);
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers have an end");
    let body = answer.split_off(end + 4);
    let head = String::from_utf8(answer).expect("headers are text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head, body }
}

#[test]
fn a_console_records_lists_the_slowest_takes_one_apart_and_gives_the_file() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let clerk = runtime.spawn(Clerk).serve().unwrap();
        let customer = runtime.spawn(Customer { clerk }).shop().unwrap();
        let console = Console::of(&runtime).controls(true).start().unwrap();
        let before = ask(&console, "GET", "/api/slow").json();
        assert_eq!((&before["state"], &before["rows"]), (&Value::from("none"), &Value::Array(Vec::new())));
        for path in ["/api/trace", "/api/slow?flow=1"] {
            let none = ask(&console, "GET", path);
            assert_eq!(none.status, 404);
            assert!(none.text().contains("make one by a POST to `/api/record`"), "{}", none.text());
        }
        let (mut list, mut row) = (Value::Null, Value::Null);
        // Repeat until a recording contains calls of the customer.
        eventually(|| {
            let begun = ask(&console, "POST", "/api/record?milliseconds=50");
            assert_eq!((begun.status, begun.text()), (202, "it records for 50 ms\n"));
            eventually(|| ask(&console, "GET", "/api/slow").json()["state"] == "made");
            list = ask(&console, "GET", "/api/slow").json();
            let found = list["rows"].as_array().unwrap().iter().find(|row| row["name"] == "Clerk::stamp").cloned();
            row = found.unwrap_or_default();
            row["slowest"][0]["took"].as_u64().is_some_and(|took| took > 0)
        });
        assert!(list["lost"] == 0 && list["events"].as_u64() > row["count"].as_u64(), "{list}");
        let flow = row["slowest"][0]["flow"].as_u64().unwrap();
        let one = ask(&console, "GET", &format!("/api/slow?flow={flow}")).json();
        assert_eq!((&one["whole"]["took"], &one["is_call"]), (&row["slowest"][0]["took"], &Value::Bool(true)));
        let sum: u64 =
            one["whole"]["parts"].as_array().unwrap().iter().map(|part| part["took"].as_u64().unwrap()).sum();
        // The parts that are not listed are summed up.
        let others = one["whole"]["others_took"].as_u64().unwrap();
        assert_eq!(one["whole"]["took"].as_u64(), Some(sum + others));
        let text = ask(&console, "GET", &format!("/api/slow?flow={flow}&as=text"));
        assert_eq!(text.text(), one["text"].as_str().unwrap());
        assert!(text.text().starts_with("The call Clerk::stamp of Clerk <"), "{}", text.text());

        let file = ask(&console, "GET", "/api/trace");
        assert_eq!(Some(file.body.len() as u64), list["file"].as_u64());
        assert!(file.head.contains(&format!("content-length: {}\r\n", file.body.len())), "{}", file.head);
        assert!(file.head.contains("attachment; filename=\"postroom.pftrace\""), "{}", file.head);
        assert!(file.body.windows(12).any(|window| window == b"Clerk::stamp"));
        customer.pid().kill();
    });
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let reading = Console::of(&runtime).start().unwrap();
        assert_eq!(ask(&reading, "POST", "/api/record").status, 403);
        let console = Console::of(&runtime).controls(true).start().unwrap();
        assert_eq!(ask(&console, "GET", "/api/record").status, 405);
        assert_eq!(ask(&console, "POST", "/api/slow").status, 405);
        assert_eq!(ask(&console, "POST", "/api/trace").status, 405);
        for wrong in ["0", "10001", "-1", "soon", "99999999999999999999999"] {
            let refused = ask(&console, "POST", &format!("/api/record?milliseconds={wrong}"));
            assert_eq!(refused.status, 400, "{wrong}");
            assert!(refused.text().contains("write a number from 1 to 10000"), "{}", refused.text());
        }
        // Two recordings are running already.
        let others = [(); 2].map(|()| runtime.record(Duration::from_secs(600)).start().unwrap());
        let refused = ask(&console, "POST", "/api/record");
        assert_eq!(refused.status, 409);
        assert!(refused.text().contains("end one of them first"), "{}", refused.text());
        drop(others);
        assert_eq!(ask(&console, "POST", "/api/record?milliseconds=1").status, 202);
        eventually(|| ask(&console, "GET", "/api/slow").json()["state"] == "made");
        assert_eq!(ask(&console, "GET", "/api/slow?flow=many").status, 400);
        assert_eq!(ask(&console, "GET", "/api/slow?flow=4000000000").status, 404);
    });
}

fn record() -> Recording {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let clerk = runtime.spawn(Clerk).serve().unwrap();
    let active = runtime.record(Duration::from_secs(600)).start().unwrap();
    for number in 0..20 {
        assert_eq!(clerk.stamp(number).wait(), Ok(number + 1));
    }
    runtime.until_idle().unwrap();
    active.stop()
}

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_trace_that_cannot_be_written_leaves_nothing_and_says_why() {
    let (recording, folder) = (record(), folder("refused"));
    let path = folder.join("app.pftrace");
    let bytes = Trace::of(&recording).save(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    // The existing file stays until a complete trace replaces it.
    let error = Trace::of(&recording).limit(bytes - 1).save(&path).unwrap_err();
    assert!(matches!(error, TraceError::TooLarge { limit } if limit == bytes - 1), "{error}");
    assert!(error.to_string().contains("record for a shorter time"), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let missing = folder.join("missing/app.pftrace");
    let error = Trace::of(&recording).save(&missing).unwrap_err();
    assert!(matches!(&error, TraceError::File { path, .. } if *path == missing), "{error}");
    assert!(error.to_string().contains("name a file in a folder that exists"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A writer that fails or panics on the first write.
struct Broken {
    panics: bool,
}

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        assert!(!self.panics, "as the test wants");
        Err(io::Error::other("no room"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_reported_and_one_that_panics_is_its_callers() {
    let recording = record();
    let error = Trace::of(&recording).write(Broken { panics: false }).unwrap_err();
    assert!(matches!(&error, TraceError::Writer(source) if source.to_string() == "no room"), "{error}");
    let caught = std::panic::catch_unwind(|| Trace::of(&recording).write(Broken { panics: true }));
    assert!(caught.is_err());
    let mut bytes = Vec::new();
    assert_eq!(Trace::of(&recording).write(&mut bytes).unwrap(), bytes.len() as u64);
}

#[test]
fn flows_that_are_no_messages_are_refused() {
    let recording = record();
    let analysis = Analysis::of(&recording);
    let slowest = analysis.slowest();
    assert_eq!((slowest[0].count, slowest[0].slowest.len()), (20, 5));
    let is_listed = AtomicBool::new(false);
    for flow in 0..2_000 {
        match analysis.explain(flow) {
            Ok(explanation) => is_listed.store(explanation.flow == flow, Ordering::Relaxed),
            Err(error) => assert_eq!(error, ExplainError::NoSuchMessage { flow }),
        }
    }
    assert!(is_listed.load(Ordering::Relaxed));
}
