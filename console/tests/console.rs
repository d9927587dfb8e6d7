//! Tests of a console over its address, as a browser, a script and an attacker use it.

use postroom::prelude::*;
use postroom_console::{Console, ConsoleError};
use postroom_tests::{eventually, soon};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
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

    #[message]
    async fn ask(&mut self, other: Address<Clerk>) -> Result<u64, CallError> {
        other.never().await
    }

    /// Never answers: the reply is leaked.
    #[message]
    fn never(&mut self, reply: Reply<u64>) {
        std::mem::forget(reply);
    }
}

/// A parsed HTTP response.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).expect("it is JSON")
    }
}

/// Sends raw text, and reads until the console closes the connection.
fn raw(address: SocketAddr, text: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it answers in HTTP");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn get(console: &Console, path: &str, headers: &[&str]) -> Answer {
    let address = console.address();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"))
}

fn token(console: &Console) -> &str {
    console.url().split_once("?token=").expect("the URL has the token").1
}

/// Sends a GET request with the token, as a script does.
fn ask(console: &Console, path: &str) -> Answer {
    get(console, path, &[&format!("Authorization: Bearer {}", token(console))])
}

/// Returns a path that no other test uses, in the folder for test files.
fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

#[test]
fn the_url_gives_a_cookie_that_no_script_can_read_and_leads_to_a_page_without_the_token() {
    let runtime = Runtime::new().unwrap();
    let console = Console::of(&runtime).start().unwrap();
    let first = get(&console, &format!("/?token={}", token(&console)), &[]);
    assert_eq!((first.status, first.header("location")), (303, Some("/")));
    let cookie = first.header("set-cookie").expect("a cookie");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    let cookie = format!("Cookie: other=1; {}", cookie.split(';').next().unwrap());
    let page = get(&console, "/", &[&cookie]);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<title>Postroom console</title>") && !page.body.contains(token(&console)));
    for file in ["/page.js", "/page.css", "/icon.svg"] {
        assert!(page.body.contains(&format!("\"{file}\"")), "{file}");
        assert_eq!(get(&console, file, &[&cookie]).status, 200, "{file}");
    }
}

#[test]
fn without_the_token_there_is_nothing_to_see() {
    let runtime = Runtime::new().unwrap();
    let console = Console::of(&runtime).start().unwrap();
    let wrong = "0".repeat(32);
    for path in ["/", "/page.js", "/metrics", "/api/overview", "/api/watch?view=overview", "/nowhere"] {
        for headers in [
            vec![],
            vec![format!("Authorization: Bearer {wrong}")],
            vec![format!("Authorization: Bearer {}", &token(&console)[1..])],
            vec![format!("Authorization: Basic {}", token(&console))],
            // Two tokens are ambiguous.
            vec![format!("Authorization: Bearer {}", token(&console)), format!("Authorization: Bearer {wrong}")],
            vec![format!("Cookie: postroom_console={}", token(&console))],
        ] {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let answer = get(&console, path, &headers);
            assert_eq!(answer.status, 401, "{path} {headers:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    let with = get(&console, &format!("/?token={wrong}"), &[]);
    assert_eq!((with.status, with.header("set-cookie")), (401, None));
    // A token in the URL is accepted only for the page.
    assert_eq!(get(&console, &format!("/metrics?token={}", token(&console)), &[]).status, 401);
}

#[test]
fn two_consoles_have_two_tokens() {
    let runtime = Runtime::new().unwrap();
    let [one, other] = [(); 2].map(|()| Console::of(&runtime).start().unwrap());
    assert_eq!(token(&one).len(), 32);
    assert_ne!(token(&one), token(&other));
    assert_eq!(get(&one, "/metrics", &[&format!("Authorization: Bearer {}", token(&other))]).status, 401);
}

#[test]
fn a_name_that_leads_here_by_chance_or_malice_is_refused() {
    let runtime = Runtime::new().unwrap();
    let console = Console::of(&runtime).allow_host("Console.example.com").start().unwrap();
    let (address, port) = (console.address(), console.address().port());
    let status = |hosts: &str| {
        let bearer = token(&console);
        raw(address, &format!("GET /metrics HTTP/1.1\r\n{hosts}Authorization: Bearer {bearer}\r\n\r\n")).status
    };
    for host in [format!("127.0.0.1:{port}"), format!("LOCALHOST:{port}"), "console.example.com".into()] {
        assert_eq!(status(&format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in ["evil.example:80".into(), format!("evil.example:{port}"), "127.0.0.1".into(), String::new()] {
        assert_eq!(status(&format!("Host: {host}\r\n")), 421, "{host}");
    }
    assert_eq!(status(""), 421);
    assert_eq!(status(&format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n")), 421);
}

#[test]
fn only_the_page_and_scripts_may_act_and_only_if_the_program_says_so() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let [reads, acts] = [false, true].map(|may| Console::of(&runtime).controls(may).start().unwrap());
        let clerks: Vec<_> = (0..3).map(|_| runtime.spawn(Clerk).serve().unwrap().pid()).collect();
        let post = |console: &Console, path: &str, pid: Pid, headers: &str| {
            let (address, pid) = (console.address(), pid.to_string().replace('<', "%3C").replace('>', "%3E"));
            let head = format!("POST {path}?pid={pid} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n");
            raw(address, &format!("{head}{headers}\r\n"))
        };
        let bearer = |console: &Console| format!("Authorization: Bearer {}\r\n", token(console));
        let cookie = format!("Cookie: postroom_console_{}={}\r\n", acts.address().port(), token(&acts));
        let refused = post(&reads, "/api/kill", clerks[0], &bearer(&reads));
        assert!(refused.status == 403 && refused.body.contains(".controls(true)"), "{}", refused.body);
        assert_eq!(post(&acts, "/api/kill", clerks[0], "").status, 401);
        // A browser sends the cookie also with requests from pages elsewhere, and from pages that hide their origin.
        for origin in ["Origin: http://evil.example\r\n", "Origin: null\r\n", ""] {
            assert_eq!(post(&acts, "/api/kill", clerks[0], &format!("{cookie}{origin}")).status, 403, "{origin}");
        }
        let evil = format!("{}Origin: http://evil.example\r\n", bearer(&acts));
        assert_eq!(post(&acts, "/api/kill", clerks[0], &evil).status, 403);
        assert_eq!(ask(&acts, "/api/kill").status, 405);
        assert!(clerks.iter().all(|clerk| clerk.is_alive()));

        let own = format!("{cookie}Origin: http://{}\r\n", acts.address());
        assert_eq!(post(&acts, "/api/kill", clerks[0], &own).status, 202);
        assert_eq!(post(&acts, "/api/stop", clerks[1], &bearer(&acts)).status, 202);
        eventually(|| !clerks[0].is_alive() && !clerks[1].is_alive());
        assert!(clerks[2].is_alive());
        assert_eq!(post(&acts, "/api/kill", clerks[0], &own).status, 404);
        assert_eq!(post(&acts, "/api/steal", clerks[2], &own).status, 405);
    });
}

#[test]
fn nothing_but_reading_is_served_and_every_answer_has_its_policy() {
    let runtime = Runtime::new().unwrap();
    let console = Console::of(&runtime).start().unwrap();
    let address = console.address();
    let bearer = format!("Host: {address}\r\nAuthorization: Bearer {}\r\n", token(&console));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = raw(address, &format!("{method} /api/overview HTTP/1.1\r\n{bearer}Content-Length: 0\r\n\r\n"));
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")), "{method}");
    }
    for path in ["/", "/page.js", "/api/overview", "/metrics", "/nowhere", "/api/nothing"] {
        let answer = ask(&console, path);
        let policy = answer.header("content-security-policy").expect("a policy");
        let directives: BTreeSet<_> = policy.split("; ").collect();
        let own = ["script-src", "style-src", "connect-src", "img-src"].map(|kind| format!("{kind} 'self'"));
        let none = ["default-src", "base-uri", "form-action", "frame-ancestors"].map(|kind| format!("{kind} 'none'"));
        assert_eq!(directives, own.iter().chain(&none).map(String::as_str).collect(), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    // The policy forbids inline scripts and styles, so the page must not need any.
    let page = ask(&console, "/").body;
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" on"), "{page}");
}

#[test]
fn floods_are_cut_off_and_others_are_still_served() {
    let runtime = Runtime::new().unwrap();
    let console = Console::of(&runtime).start().unwrap();
    let address = console.address();
    // For headers without an end, and for a request line of a megabyte, the connection is closed or the request is
    // refused.
    for flood in [format!("GET / HTTP/1.1\r\nHost: {address}\r\nX: {}", "x".repeat(1 << 20)), "x".repeat(1 << 20)] {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(flood.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(ask(&console, &format!("/?{}", "x".repeat(8 << 10))).status, 414);
    // The console does not wait for a body without an end.
    let bearer = format!("Host: {address}\r\nAuthorization: Bearer {}\r\n", token(&console));
    let endless = raw(address, &format!("POST /api/kill HTTP/1.1\r\n{bearer}Content-Length: 1000000000000\r\n\r\nx"));
    assert_eq!(endless.status, 403);
    // Silent connections take all places; the rest wait in the system's queue, which has room for 128.
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut waits = TcpStream::connect(address).unwrap();
    waits.write_all(format!("GET /api/overview HTTP/1.1\r\n{bearer}\r\n").as_bytes()).unwrap();
    waits.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let refused = waits.read(&mut [0]).expect_err("there is no place");
    assert!(matches!(refused.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{refused}");
    drop(silent);
    waits.set_read_timeout(None).unwrap();
    let mut answer = String::new();
    waits.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_watch_reports_again_and_ends_with_its_reader() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        let address = console.address();
        let request = format!(
            "GET /api/watch?view=overview HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
            token(&console)
        );
        let open = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        /// Reads until `what` has occurred `times` times.
        fn read_until(stream: &mut TcpStream, what: &str, times: usize) -> String {
            let (mut text, mut part) = (String::new(), [0; 4096]);
            while text.matches(what).count() < times {
                let read = stream.read(&mut part).unwrap();
                assert_ne!(read, 0, "it ended with {text}");
                text += &String::from_utf8_lossy(&part[..read]);
            }
            text
        }
        let mut watches: Vec<_> = (0..8).map(|_| open()).collect();
        let head = read_until(&mut watches[0], "data: {", 2);
        assert!(head.contains("content-type: text/event-stream") && head.contains("\"workers\":["), "{head}");
        for watch in &mut watches[1..] {
            read_until(watch, "data: {", 1);
        }
        let ninth = ask(&console, "/api/watch?view=overview");
        assert_eq!(ninth.status, 503, "{}", ninth.body);
        // A place is free once the reader of its watch has gone.
        drop(watches);
        eventually(|| {
            let mut stream = open();
            let mut part = [0; 12];
            stream.read_exact(&mut part).is_ok() && part == *b"HTTP/1.1 200"
        });
    });
}

#[test]
fn the_views_show_what_the_program_does() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let boss = runtime.spawn(Clerk).label("boss").named("the boss").serve().unwrap();
        let clerks: Vec<_> = (0..20).map(|_| runtime.spawn(Clerk).serve().unwrap()).collect();
        let console = Console::of(&runtime).start().unwrap();
        for clerk in &clerks {
            assert_eq!(clerk.stamp(1).wait(), Ok(2));
        }
        // The first clerk asks the second, which asks the boss, which never answers.
        clerks[0].ask(clerks[1]).send().unwrap();
        clerks[1].ask(boss).send().unwrap();
        let first = format!("/api/process?pid={}", clerks[0].pid().to_string().replace('<', "%3C").replace('>', "%3E"));
        eventually(|| ask(&console, &first).json()["chain"].as_array().is_some_and(|chain| !chain.is_empty()));

        let overview = ask(&console, "/api/overview").json();
        assert_eq!(overview["live"], 21);
        assert_eq!(overview["awake_limit"], overview["workers"].as_array().unwrap().len());
        let all = ask(&console, "/api/processes?count=5&sort=messages").json();
        assert_eq!(
            (&all["total"], &all["matching"], all["rows"].as_array().unwrap().len()),
            (&21.into(), &21.into(), 5)
        );
        let boss_row = &ask(&console, "/api/processes?filter=BOSS").json()["rows"][0];
        assert_eq!((&boss_row["label"], &boss_row["names"][0]), (&"boss".into(), &"the boss".into()));
        assert!(boss_row["place"].as_str().unwrap().contains("console.rs"));
        let types = ask(&console, "/api/types").json();
        assert_eq!((&types["rows"][0]["processes"], &types["total"]), (&21.into(), &1.into()));
        assert_eq!(ask(&console, "/api/tree").json()["total"], 21);
    });
}

#[test]
fn what_is_asked_wrongly_is_explained() {
    let runtime = Runtime::new().unwrap();
    let console = Console::of(&runtime).start().unwrap();
    for (path, status, words) in [
        ("/api/nothing", 404, "there is no view `nothing`; there are overview, processes"),
        ("/api/watch?view=nothing", 404, "there is no view `nothing`"),
        ("/api/processes?sort=age", 400, "write mailbox, wait, cpu, rate, messages or steps"),
        ("/api/processes?count=0", 400, "a number from 1 to 1000"),
        ("/api/processes?count=99999999999999999999", 400, "a number from 1 to 1000"),
        ("/api/ends?count=1001", 400, "a number from 1 to 1000"),
        ("/api/processes?state=dead", 400, "write ready, running"),
        ("/api/process", 400, "`pid` is missing; give a PID"),
        ("/api/process?pid=12", 400, "give a PID"),
        ("/api/process?pid=%3C000000000001.0.1.1%3E", 404, "is not alive in this program"),
    ] {
        let answer = ask(&console, path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(words), "{path}: {}", answer.body);
    }
}

#[test]
fn metrics_are_what_the_statistics_say() {
    let runtime = Runtime::builder().name("a \"host\"").build().unwrap();
    let clerk = runtime.spawn(Clerk).serve().unwrap();
    for number in 0..10 {
        assert_eq!(clerk.stamp(number).wait(), Ok(number + 1));
    }
    let console = Console::of(&runtime).start().unwrap();
    // Threads count delivered messages at the end of a time slice.
    runtime.until_idle().unwrap();
    let answer = ask(&console, "/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let value = |start: &str| {
        let line = answer.body.lines().find(|line| line.starts_with(start)).expect(start);
        line.rsplit(' ').next().unwrap().parse::<u64>().expect("a number")
    };
    let statistics = runtime.statistics();
    assert_eq!(value("postroom_messages_total{"), statistics.messages());
    assert_eq!(value("postroom_spawned_total{"), 1);
    assert_eq!(value("postroom_workers{"), runtime.workers() as u64);
    assert!(answer.body.contains("postroom_processes{host=\"a \\\"host\\\"\",type=\"Clerk\"} 1\n"), "{}", answer.body);
    // Each family has its help text once, before its samples.
    let mut told = BTreeSet::new();
    for line in answer.body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(told.insert(rest.split(' ').next().unwrap()), "twice: {line}");
        } else if !line.starts_with('#') {
            let name = line.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(told.contains(family) || told.contains(name), "no help: {line}");
        }
    }
}

/// Checks only the names of metrics, not that Grafana displays the dashboard.
#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let runtime = Runtime::new().unwrap();
    let _clerk = runtime.spawn(Clerk).serve().unwrap();
    let console = Console::of(&runtime).start().unwrap();
    let metrics = ask(&console, "/metrics").body;
    let dashboard: Value = serde_json::from_str(include_str!("../grafana.json")).expect("it is JSON");
    let mut names = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            let words = query.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
            names.extend(words.filter(|word| word.starts_with("postroom_")));
        }
    }
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(metrics.lines().any(|line| line.starts_with(&format!("{name}{{"))), "no {name}");
    }
}

#[test]
fn only_loopback_is_listened_on_unless_it_is_said() {
    let runtime = Runtime::new().unwrap();
    let refused = Console::of(&runtime).listen("0.0.0.0:0").start().unwrap_err();
    assert!(matches!(refused, ConsoleError::NotLoopback { .. }));
    let text = refused.to_string();
    assert!(
        text.contains("`0.0.0.0:0`") && text.contains(".allow_remote()") && text.contains(".token_file("),
        "{text}"
    );
    assert!(Console::of(&runtime).listen("0.0.0.0:0").allow_remote().start().is_err());
    let path = scratch("remote");
    let console = Console::of(&runtime).listen("0.0.0.0:0").allow_remote().token_file(&path).start().unwrap();
    // The console cannot know which names lead to this address, so each name must be allowed explicitly.
    let answer = raw(SocketAddr::from(([127, 0, 0, 1], console.address().port())), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(answer.status, 421);
    let taken = Console::of(&runtime).listen(console.address().to_string()).allow_remote().token_file(&path).start();
    assert!(taken.unwrap_err().to_string().contains("a free port"));
    assert!(Console::of(&runtime).listen("nonsense").start().unwrap_err().to_string().contains("127.0.0.1:7766"));
}

#[cfg(unix)]
#[test]
fn a_token_file_is_private_and_is_used_again() {
    use std::os::unix::fs::PermissionsExt;
    let runtime = Runtime::new().unwrap();
    let path = scratch("token");
    let start = || Console::of(&runtime).token_file(&path).start();
    let first = start().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap().trim(), token(&first));
    assert_eq!(token(&start().unwrap()), token(&first));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(start().unwrap_err().to_string().contains("chmod 600"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "short").unwrap();
    assert!(start().unwrap_err().to_string().contains("at least 32 letters and digits"));
    fs::remove_file(&path).unwrap();
    let nowhere = Console::of(&runtime).token_file(path.join("deep")).start();
    assert!(nowhere.unwrap_err().to_string().contains("a folder that exists"));
}

#[test]
fn it_answers_while_all_workers_are_stuck_and_is_gone_when_it_is_dropped() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (stuck, free) = std::sync::mpsc::channel::<()>();
        let handle = runtime.spawn(Stuck(Some(free))).serve().unwrap();
        handle.wait_there().send().unwrap();
        let console = Console::of(&runtime).start().unwrap();
        eventually(|| {
            let overview = ask(&console, "/api/overview").json();
            overview["threads"].as_array().unwrap().iter().any(|thread| thread["runs"]["type"] == "Stuck")
        });
        drop(stuck);
        let address = console.address();
        console.stop();
        assert!(TcpStream::connect(address).is_err());
    });
}

#[process]
struct Stuck(Option<std::sync::mpsc::Receiver<()>>);

#[process]
impl Stuck {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn wait_there(&mut self) {
        let _ = self.0.take().map(|free| free.recv());
    }
}

#[cfg(feature = "metrics")]
#[test]
fn the_recorder_of_the_program_gets_the_same_figures() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let runtime = Runtime::builder().name("shop").build().unwrap();
    let _clerks: Vec<_> = (0..3).map(|_| runtime.spawn(Clerk).serve().unwrap()).collect();
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || postroom_console::publish_metrics(&runtime));
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let value = |name: &str, labels: &[(&str, &str)]| {
        let mut found = snapshot.iter().filter(|(key, ..)| {
            let own: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
            key.key().name() == name && own == labels
        });
        let (_, _, help, value) = found.next().unwrap_or_else(|| panic!("no {name} {labels:?}"));
        assert!(help.as_ref().is_some_and(|help| help.ends_with('.')));
        match value {
            DebugValue::Counter(value) => *value,
            DebugValue::Gauge(value) => value.into_inner() as u64,
            DebugValue::Histogram(_) => panic!("{name} is a histogram"),
        }
    };
    assert_eq!(value("postroom_spawned_total", &[("host", "shop")]), 3);
    assert_eq!(value("postroom_processes", &[("host", "shop"), ("type", "Clerk")]), 3);
    assert_eq!(value("postroom_workers", &[("host", "shop")]), runtime.workers() as u64);
    assert_eq!(value("postroom_dead_letters_total", &[("host", "shop"), ("reason", "ended")]), 0);
}
