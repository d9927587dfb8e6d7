//! Tests of the console with external programs: Prometheus, its `promtool`, a browser, and Perfetto.
//!
//! `console/tools/set-up` installs them in `target/tools`. Without them these tests fail, unless
//! `POSTROOM_CONSOLE_TOOLS=skip` is set; then they report that they were skipped.

use postroom::prelude::*;
use postroom_console::Console;
use postroom_tests::{eventually, soon, within};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

#[path = "outside/browser.rs"]
mod browser;
#[path = "outside/perfetto.rs"]
mod perfetto;
#[path = "outside/trace_view.rs"]
mod trace_view;

/// Returns the folder of the programs, or `None` if the tests are skipped.
fn tools() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    if std::env::var("POSTROOM_CONSOLE_TOOLS").is_ok_and(|value| value == "skip") {
        eprintln!("SKIPPED: the console was not tested against Prometheus and a browser (POSTROOM_CONSOLE_TOOLS=skip)");
        return None;
    }
    assert!(
        tools.join("promtool").exists()
            && tools.join("browser/bin/python").exists()
            && tools.join("perfetto/index.html").exists(),
        "the programs to test against are missing: run `console/tools/set-up`, or set POSTROOM_CONSOLE_TOOLS=skip"
    );
    Some(tools)
}

/// Returns an empty folder that no other test uses.
fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder for a test");
    path
}

/// An external program, which is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a GET request and returns the body of the response.
fn fetch(address: &str, path: &str, header: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{header}\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

#[process(inspect)]
struct Clerk;

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn stamp(&mut self, number: u64) -> u64 {
        number + 1
    }

    #[message]
    fn tear(&mut self) {
        panic!("torn in two");
    }
}

/// A printer that blocks its worker in each message until the sender of `go` is dropped.
#[process]
struct Printer {
    go: Receiver<()>,
}

#[process]
impl Printer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn print(&mut self, _number: u64) {
        let _ = self.go.recv();
    }
}

#[process]
struct Author {
    printer: Address<Printer>,
}

#[process]
impl Author {
    #[entry]
    async fn write(&mut self, ctx: &mut Context<Self>) {
        for number in 0.. {
            if self.printer.print(number).send().is_err() {
                return;
            }
            ctx.sleep(Duration::ZERO).await;
        }
    }
}

#[test]
fn promtool_has_nothing_to_say_about_the_metrics() {
    let Some(tools) = tools() else { return };
    soon(move || {
        let runtime = Runtime::new().unwrap();
        let clerk = runtime.spawn(Clerk).serve().unwrap();
        assert_eq!(clerk.stamp(1).wait(), Ok(2));
        let console = Console::of(&runtime).start().unwrap();
        let token = console.url().split_once("token=").unwrap().1;
        let bearer = format!("Authorization: Bearer {token}\r\n");
        let metrics = || fetch(&console.address().to_string(), "/metrics", &bearer).expect("the metrics");
        // Include the figures that are sampled only while someone looks: a wait, and the time of a message.
        let (go, until) = channel();
        let printer = runtime.spawn(Printer { go: until }).serve().unwrap();
        (0..3).for_each(|number| printer.print(number).send().unwrap());
        let has = |what: &str| metrics().contains(&format!("postroom_{what}_seconds_count{{"));
        eventually(|| {
            let row = fetch(&console.address().to_string(), "/api/processes?sort=wait&filter=Printer", &bearer);
            row.is_some_and(|row| !row.contains("\"wait\":null"))
        });
        drop(go);
        eventually(|| clerk.stamp(1).wait() == Ok(2) && has("mailbox_wait") && has("handling"));
        let text = metrics();
        let mut promtool = Command::new(tools.join("promtool"));
        let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut promtool = promtool.stdout(Stdio::piped()).spawn().expect("promtool runs");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
    });
}

#[test]
fn a_real_prometheus_counts_what_the_statistics_count() {
    let Some(tools) = tools() else { return };
    within(Duration::from_secs(240), move || {
        let runtime = Runtime::new().unwrap();
        let folder = scratch("prometheus");
        let console = Console::of(&runtime).token_file(folder.join("token")).start().unwrap();
        // The port is free at this moment. If another program takes it before Prometheus does, Prometheus reports that
        // and the test fails.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n- job_name: postroom\n  authorization: {{ \
             credentials_file: {:?} }}\n  static_configs: [{{ targets: ['{}'] }}]\n",
            folder.join("token"),
            console.address()
        );
        fs::write(folder.join("prometheus.yml"), configuration).unwrap();
        let mut prometheus = Command::new(tools.join("prometheus"));
        prometheus
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap());
        let prometheus = Running(prometheus.spawn().expect("Prometheus runs"));
        let clerks: Vec<_> = (0..7).map(|_| runtime.spawn(Clerk).serve().unwrap()).collect();
        for number in 0..1_000 {
            assert_eq!(clerks[number as usize % 7].stamp(number).wait(), Ok(number + 1));
        }
        // While the runtime is idle, its statistics do not change, and Prometheus eventually has the same values.
        let ask = |query: &str| {
            let answer = fetch(&format!("127.0.0.1:{port}"), &format!("/api/v1/query?query={query}"), "")?;
            let answer: Value = serde_json::from_str(&answer).ok()?;
            answer["data"]["result"][0]["value"][1].as_str()?.parse::<u64>().ok()
        };
        eventually(|| ask("postroom_messages_total") == Some(runtime.statistics().messages()));
        eventually(|| ask("postroom_steps_total") == Some(runtime.statistics().steps()));
        assert_eq!(ask("postroom_spawned_total"), Some(7));
        assert_eq!(ask("postroom_processes%7Btype=%22Clerk%22%7D"), Some(7));
        assert_eq!(ask("postroom_mailbox_depth_count%7Btype=%22Clerk%22%7D"), Some(7));
        assert_eq!(ask("up"), Some(1));
        drop(prometheus);
        fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn a_browser_shows_every_view() {
    let Some(tools) = tools() else { return };
    within(Duration::from_secs(240), move || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (go, until) = channel();
        let printer = runtime.spawn(Printer { go: until }).named("printer").mailbox(Bound::Soft(4)).serve().unwrap();
        let author = runtime.spawn(Author { printer }).label("author <b>7</b>").write().unwrap();
        let author = author.pid();
        let clerks: Vec<_> = (0..30).map(|_| runtime.spawn(Clerk).serve().unwrap()).collect();
        let victims = ["light", "dark"].map(|name| runtime.spawn(Clerk).label(name).serve().unwrap().pid());
        let console = Console::of(&runtime).controls(true).start().unwrap();
        // Provide data for the view of ends: a process that fails, and a message without a handler.
        let unlucky = runtime.spawn(Clerk).label("unlucky").serve().unwrap();
        runtime.send(unlucky.pid(), "nobody's".to_string()).unwrap();
        let _failed = unlucky.tear().wait();
        unlucky.pid().join().wait();
        eventually(|| author.info().is_some_and(|info| info.state.to_string().starts_with("suspended")));

        // Send messages for the profile while the browser shows the page.
        let (alive, over) = channel::<()>();
        let stamped = clerks[0];
        let worker = std::thread::spawn(move || {
            while over.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                let _answered = stamped.stamp(1).wait();
            }
        });

        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console-pictures");
        fs::create_dir_all(&pictures).unwrap();
        let one = "processes?state=suspended: {…}Why it waits";
        let views = ["overview: Printer", "processes: author <b>7</b>", one, "types: stamp", "ends: torn in two"];
        let more = ["tree: author <b>7</b>", "waits: room in the mailbox"];
        let place = [console.url(), pictures.to_str().expect("a path of UTF-8")];
        let report = browser::run(&tools, "views", &[&place[..], &views, &more].concat());
        assert_eq!(report["faults"], Value::Array(Vec::new()));
        for scheme in ["light", "dark"] {
            let shown = |view: &str| report["shown"][format!("{scheme}-{view}")].as_str().expect(view).to_owned();
            assert!(shown("overview").contains("suspended at full mailboxes\n1\n"), "{}", shown("overview"));
            // The step that does not end is shown with its method.
            assert!(shown("overview").contains("Printer in print"), "{}", shown("overview"));
            // Markup in a label is shown as text.
            let processes = shown("processes");
            assert!(processes.contains("author <b>7</b>"), "{processes}");
            assert!(processes.contains("of 34 alive"), "{processes}");
            let one = shown("processes-one");
            assert!(
                one.contains("room in the mailbox of")
                    && one.contains("(Printer, ")
                    && one.contains(" queued): running"),
                "{one}"
            );
            assert!(shown("types").contains("Clerk") && shown("waits").contains("Author"));
            let ends = shown("ends");
            assert!(ends.contains("Abnormal ends: ") && ends.contains("unlucky"), "{ends}");
            assert!(ends.contains("Dead letters: 1") && ends.contains("no method"), "{ends}");
        }
        assert!(!victims.iter().any(|victim| victim.is_alive()));
        drop(alive);
        worker.join().unwrap();
        drop((go, clerks));
    });
}
