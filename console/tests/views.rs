//! Tests of each view, with programs in which every process is known.

use postroom::inspect::ProcessState;
use postroom::prelude::*;
use postroom_console::Console;
use postroom_tests::{eventually, soon};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A clerk that can call another clerk, which never answers.
#[process]
struct Clerk;

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn ask(&mut self, other: Address<Clerk>) -> Result<u64, CallError> {
        other.never().await
    }

    #[message]
    fn never(&mut self, reply: Reply<u64>) {
        std::mem::forget(reply);
    }

    #[message]
    fn count(&mut self, number: u64) -> u64 {
        number + 1
    }
}

/// A printer that blocks in each message until the sender of `go` is dropped.
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

/// An author that fills the mailbox of a printer.
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
            ctx.sleep(std::time::Duration::ZERO).await;
        }
    }
}

/// A process that spawns descendants, `levels` deep.
#[process]
struct Parent {
    levels: u64,
}

#[process]
impl Parent {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn bear(&mut self, ctx: &mut Context<Self>) {
        let _clerk = ctx.spawn(Clerk).label(format!("clerk of {}", self.levels)).serve().unwrap();
        if self.levels > 1 {
            let child = ctx.spawn(Parent { levels: self.levels - 1 }).label("child").serve().unwrap();
            child.bear().send().unwrap();
        }
    }
}

fn text(console: &Console, path: &str) -> String {
    let (address, token) = (console.address(), console.url().split_once("?token=").expect("a token").1);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it answers in HTTP");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}: {body}");
    body.to_owned()
}

fn ask(console: &Console, path: &str) -> Value {
    serde_json::from_str(&text(console, path)).expect("it is JSON")
}

fn of_process(console: &Console, pid: Pid) -> Value {
    ask(console, &format!("/api/process?pid={}", pid.to_string().replace('<', "%3C").replace('>', "%3E")))
}

fn is_idle(pid: Pid) -> bool {
    pid.info().is_some_and(|info| matches!(info.state, ProcessState::Idle))
}

/// Returns the values of a field in all rows.
fn column(view: &Value, field: &str) -> Vec<Value> {
    view["rows"].as_array().expect("rows").iter().map(|row| row[field].clone()).collect()
}

/// Spawns four clerks that have handled known numbers of messages, and a printer that is stuck with three messages in
/// its mailbox.
fn office(runtime: &Runtime) -> (Vec<Address<Clerk>>, Address<Printer>, Sender<()>) {
    let clerk = |number: usize| runtime.spawn(Clerk).label(format!("clerk {number}")).serve().unwrap();
    let clerks: Vec<_> = (0..4).map(clerk).collect();
    for (clerk, times) in clerks.iter().zip([3, 9, 1, 6]) {
        (0..times).for_each(|number| assert_eq!(clerk.count(number).wait(), Ok(number + 1)));
    }
    let (free, go) = channel();
    let printer = runtime.spawn(Printer { go }).named("the printer").serve().unwrap();
    (0..4).for_each(|number| printer.print(number).send().unwrap());
    eventually(|| printer.pid().info().is_some_and(|info| info.mailbox == 3));
    eventually(|| clerks.iter().all(|clerk| is_idle(clerk.pid())));
    (clerks, printer, free)
}

/// Returns whether this can be the length of the printer's mailbox. Besides the three messages, the mailbox may contain
/// the note with which the console measures how long a message waits.
fn is_queued(length: &Value) -> bool {
    [3, 4].contains(&length.as_u64().expect("a number"))
}

#[test]
fn processes_are_sorted_filtered_and_counted() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (_clerks, _printer, free) = office(&runtime);
        let console = Console::of(&runtime).start().unwrap();
        let labels = |query: &str| column(&ask(&console, &format!("/api/processes?{query}")), "label");
        let by_messages = ["clerk 1", "clerk 3", "clerk 0"];
        assert_eq!(labels("sort=messages&type=Clerk&count=3"), by_messages);
        // The number of messages that a step handles is not deterministic.
        let by_steps = column(&ask(&console, "/api/processes?sort=steps&type=Clerk"), "steps");
        assert!(
            by_steps.len() == 4 && by_steps.is_sorted_by(|more, fewer| more.as_u64() >= fewer.as_u64()),
            "{by_steps:?}"
        );
        let first = &ask(&console, "/api/processes")["rows"][0];
        assert!(first["type"] == "Printer" && is_queued(&first["mailbox"]), "sorted by mailbox: {first}");
        // A process is found by its name, its type, the place where it was spawned, or its PID.
        let pid = first["pid"].as_str().unwrap().trim_matches(['<', '>']);
        for filter in ["THE+printer", "Print", "views.rs", pid] {
            let found = ask(&console, &format!("/api/processes?filter={filter}"));
            assert!(column(&found, "type").contains(&"Printer".into()), "{filter}: {found}");
        }
        for (query, matching) in [
            ("filter=clerk", 4),
            ("filter=clerk+2", 1),
            ("filter=nobody", 0),
            ("type=Clerk", 4),
            ("type=Cler", 0),
            ("state=idle", 4),
            ("state=running", 1),
            ("state=idle&type=Printer", 0),
            ("state=idle&filter=clerk+3", 1),
        ] {
            let found = ask(&console, &format!("/api/processes?{query}&count=1"));
            assert_eq!((&found["total"], &found["matching"]), (&5.into(), &matching.into()), "{query}");
            assert_eq!(column(&found, "pid").len(), matching.min(1), "{query}");
        }
        drop(free);
    });
}

#[test]
fn a_chain_of_waits_is_followed_to_its_end_and_the_most_awaited_is_first() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let clerks: Vec<_> = (0..4).map(|_| runtime.spawn(Clerk).serve().unwrap()).collect();
        let [first, second, third, last] = clerks[..] else { unreachable!() };
        first.ask(second).send().unwrap();
        second.ask(last).send().unwrap();
        third.ask(last).send().unwrap();
        let waits = |clerk: Address<Clerk>| clerk.pid().info().is_some_and(|info| info.waits_for.is_some());
        eventually(|| [first, second, third].into_iter().all(waits) && is_idle(last.pid()));
        let console = Console::of(&runtime).start().unwrap();

        let shown = of_process(&console, first.pid());
        let links: Vec<_> = shown["chain"].as_array().unwrap().iter().map(|link| link["waits_for"].clone()).collect();
        let never = |to: Address<Clerk>| json!({ "pid": to.pid(), "method": "Clerk::never" });
        assert_eq!(links, [never(second), never(last)]);
        assert_eq!((&shown["is_cycle"], &shown["awaited_by"]), (&false.into(), &0.into()));
        assert_eq!(shown["chain"][1]["process"]["pid"], json!(last.pid()));
        let shown = of_process(&console, last.pid());
        assert_eq!((&shown["chain"], &shown["awaited_by"]), (&json!([]), &2.into()), "not those behind them");
        assert_eq!(shown["waiter_rows"].as_array().unwrap().len(), 2);

        let waits = ask(&console, "/api/waits");
        assert_eq!(waits["total"], 3);
        assert_eq!(column(&waits, "pid"), [json!(last.pid()), json!(second.pid())]);
        assert_eq!(column(&waits, "behind"), [3, 1]);
        let waiters: BTreeSet<_> = waits["rows"][0]["waiters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|waiter| (waiter["process"]["pid"].to_string(), waiter["method"].to_string()))
            .collect();
        let expected = [second, third].map(|clerk| (json!(clerk.pid()).to_string(), "\"Clerk::never\"".to_owned()));
        assert_eq!(waiters, BTreeSet::from(expected));
    });
}

#[test]
fn one_suspended_at_a_full_mailbox_waits_for_its_process() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (free, go) = channel();
        let printer = runtime.spawn(Printer { go }).mailbox(Bound::Soft(2)).serve().unwrap();
        let author = runtime.spawn(Author { printer }).write().unwrap().pid();
        eventually(|| author.info().is_some_and(|info| matches!(info.state, ProcessState::Suspended { .. })));
        let console = Console::of(&runtime).start().unwrap();
        // Once a second, the author is released for one message.
        eventually(|| {
            let shown = of_process(&console, author);
            let waits_for = json!({ "pid": printer.pid(), "method": null });
            shown["row"]["state"] == "suspended" && shown["chain"][0]["waits_for"] == waits_for
        });
        eventually(|| ask(&console, "/api/waits")["rows"][0]["pid"] == json!(printer.pid()));
        eventually(|| ask(&console, "/api/overview")["suspended"] == 1);
        eventually(|| {
            let types = ask(&console, "/api/types");
            let of_author = types["rows"].as_array().unwrap().iter().find(|row| row["type"] == "Author").unwrap();
            (of_author["suspended"].as_u64(), of_author["active"].as_u64()) == (Some(1), Some(0))
        });
        eventually(|| {
            let metrics = text(&console, "/metrics");
            let has = |name: &str, value: &str| {
                metrics.lines().any(|line| line.starts_with(&format!("{name}{{host=")) && line.ends_with(value))
            };
            has("postroom_suspended", " 1") && !has("postroom_suspensions_total", " 0")
        });
        drop(free);
    });
}

#[test]
fn the_tree_has_each_process_behind_its_parent() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let lone = runtime.spawn(Clerk).label("lone").serve().unwrap();
        let root = runtime.spawn(Parent { levels: 2 }).label("root").serve().unwrap();
        root.bear().send().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        eventually(|| ask(&console, "/api/tree")["total"] == 5);
        let tree = ask(&console, "/api/tree");
        let rows: Vec<_> = tree["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["depth"].clone(), row["label"].clone(), row["children"].clone()))
            .collect();
        let row = |depth: u64, label: &str, children: u64| (json!(depth), json!(label), json!(children));
        // Processes with children come first.
        let expected = [
            row(0, "root", 2),
            row(1, "child", 1),
            row(2, "clerk of 1", 0),
            row(1, "clerk of 2", 0),
            row(0, "lone", 0),
        ];
        assert_eq!(rows, expected);
        assert_eq!(tree["is_cut"], false);
        let shown = of_process(&console, root.pid());
        assert_eq!((&shown["children"], shown["child_rows"].as_array().unwrap().len()), (&2.into(), 2));
        assert_eq!(of_process(&console, lone.pid())["row"]["parent"], Value::Null);
        // A process whose parent has ended is shown as a root.
        let child = tree["rows"][1]["pid"].as_str().unwrap().parse::<Pid>().unwrap();
        root.pid().kill();
        root.pid().join().wait();
        eventually(|| ask(&console, "/api/tree")["total"] == 4);
        let tree = ask(&console, "/api/tree");
        assert_eq!((&tree["rows"][0]["pid"], &tree["rows"][0]["depth"]), (&json!(child), &0.into()), "{tree}");
    });
}

#[test]
fn types_and_metrics_add_up_their_processes() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).name("office").build().unwrap();
        let (clerks, _printer, free) = office(&runtime);
        runtime.send(clerks[0].pid(), "not handled".to_owned()).unwrap();
        eventually(|| runtime.statistics().dead_letters.unhandled == 1);
        let console = Console::of(&runtime).start().unwrap();
        let types = ask(&console, "/api/types");
        let row = |name: &str| types["rows"].as_array().unwrap().iter().find(|row| row["type"] == name).unwrap();
        let [clerks, printers] = ["Clerk", "Printer"].map(row);
        assert_eq!((&clerks["processes"], &clerks["messages"], &clerks["active"]), (&4.into(), &20.into(), &0.into()));
        assert!(is_queued(&printers["queued"]) && is_queued(&printers["longest_mailbox"]), "{types}");
        assert_eq!(printers["active"], 1);
        let metrics = text(&console, "/metrics");
        for line in [
            "postroom_processes{host=\"office\",type=\"Clerk\"} 4",
            // Buckets are cumulative.
            "postroom_mailbox_depth_bucket{host=\"office\",type=\"Printer\",le=\"1\"} 0",
            "postroom_mailbox_depth_bucket{host=\"office\",type=\"Printer\",le=\"10\"} 1",
            "postroom_mailbox_depth_bucket{host=\"office\",type=\"Clerk\",le=\"0\"} 4",
            "postroom_mailbox_depth_bucket{host=\"office\",type=\"Clerk\",le=\"+Inf\"} 4",
            "postroom_mailbox_depth_count{host=\"office\",type=\"Clerk\"} 4",
            "postroom_spawned_total{host=\"office\"} 5",
            "postroom_workers{host=\"office\"} 2",
            "postroom_names{host=\"office\"} 1",
            "postroom_dead_letters_total{host=\"office\",reason=\"unhandled\"} 1",
            "postroom_dead_letters_total{host=\"office\",reason=\"ended\"} 0",
            "postroom_dead_letters_total{host=\"office\",reason=\"overflow\"} 0",
        ] {
            assert!(metrics.lines().any(|other| other == line), "no `{line}` in\n{metrics}");
        }
        for figure in ["longest", "depth_sum"] {
            let start = format!("postroom_mailbox_{figure}{{host=\"office\",type=\"Printer\"}} ");
            let value = metrics.lines().find_map(|line| line.strip_prefix(&start)).expect(figure);
            assert!(is_queued(&value.parse::<u64>().unwrap().into()), "{metrics}");
        }
        drop(free);
    });
}

/// Names are a promise: the guide lists exactly the metrics that the program has.
#[test]
fn the_guide_lists_the_metrics_that_there_are() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let metrics = text(&console, "/metrics");
        let kinds = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let kinds: BTreeSet<(String, String)> = kinds.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
        let guide = include_str!("../../book/src/metrics.md");
        let rows = guide.lines().filter_map(|line| line.strip_prefix("| `postroom_"));
        // Rows of metrics have kinds in the second column; rows of alerts have a query in the first.
        let rows = rows.filter_map(|row| {
            let mut columns = row.split(" | ");
            let (names, kinds) = (format!("`postroom_{}", columns.next()?), columns.next()?.to_owned());
            let is_kind = |kind: &str| ["counter", "gauge", "histogram"].contains(&kind);
            kinds.split(", ").all(is_kind).then_some((names, kinds))
        });
        let listed: BTreeSet<(String, String)> = rows
            .flat_map(|(names, kinds)| {
                let names: Vec<String> = names
                    .split(", `")
                    .map(|name| name.trim_matches('`').split('{').next().unwrap_or_default().to_owned())
                    .collect();
                let kinds: Vec<String> = kinds.split(", ").map(str::to_owned).collect();
                let kinds = kinds.into_iter().cycle().take(names.len()).collect::<Vec<_>>();
                names.into_iter().zip(kinds).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(listed, kinds);
    });
}
