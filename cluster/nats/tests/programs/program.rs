//! The tests' side of a node's program: commands, answers, and events of the node.

use super::node::{NAME, TEST, URL};
use super::proxy::Proxy;
use super::support::server::Server;
use super::{GUARD, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A server for the nodes of one test.
pub(crate) struct Scene {
    server: Server,
}

impl Scene {
    /// Starts a server. Returns `None` if the tests are skipped.
    pub(crate) fn start() -> Option<Self> {
        Server::start().map(|server| Self { server })
    }

    /// Like `start`, with a server that checks its connections as the guide recommends.
    pub(crate) fn with_pings() -> Option<Self> {
        Server::with(&["-js"], "ping_interval: \"1s\"\nping_max: 2\n").map(|server| Self { server })
    }

    /// Kills the server, copies its stored data, and restarts it with that data.
    pub(crate) fn back_up(&mut self) {
        self.server.kill();
        self.server.back_up();
        self.server.restart();
    }

    /// Kills the server, and restarts it without data, or with the copy.
    pub(crate) fn replace_store(&mut self, has_copy: bool) {
        self.server.kill();
        if has_copy {
            self.server.restore()
        } else {
            self.server.forget()
        }
        self.server.restart();
    }

    /// Starts a node that reaches the server through its own proxy, and waits until it has joined.
    pub(crate) fn program(&self, name: &str) -> Program {
        Program::start(name, self.server.port())
    }

    /// Starts nodes, and waits until they have sessions with each other.
    pub(crate) fn programs<const N: usize>(&self, names: [&str; N]) -> [Program; N] {
        let programs = names.map(|name| self.program(name));
        for program in &programs {
            assert_eq!(program.ask(&format!("members {}", N - 1)), "true", "{}", program.name);
        }
        programs
    }
}

/// A node in a program of its own. The program is killed on drop.
pub(crate) struct Program {
    pub(crate) name: String,
    /// The node's ID.
    pub(crate) id: String,
    pub(crate) proxy: Proxy,
    child: Mutex<Child>,
    /// Kills the program when the test program ends, even if both were stopped or killed.
    guard: Mutex<Child>,
    input: Mutex<ChildStdin>,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    said: Mutex<Said>,
    more: Condvar,
}

#[derive(Default)]
struct Said {
    answers: Vec<String>,
    events: Vec<String>,
    has_ended: bool,
}

impl Program {
    fn start(name: &str, server: u16) -> Self {
        let proxy = Proxy::to(server);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(URL, format!("nats://127.0.0.1:{}", proxy.port()))
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let guard = Command::new("sh")
            .args(["-c", "read -r nothing; kill -s KILL \"$0\"", &child.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = Arc::<Output>::default();
        let (lines, reads) = (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&output));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut said = reads.said.lock().unwrap();
                match (line.strip_prefix("= "), line.strip_prefix("! ")) {
                    (Some(answer), _) => said.answers.push(answer.to_owned()),
                    (_, Some(event)) => said.events.push(event.to_owned()),
                    _ => continue,
                }
                reads.more.notify_all();
            }
            reads.said.lock().unwrap().has_ended = true;
            reads.more.notify_all();
        });
        let (child, guard, input) = (Mutex::new(child), Mutex::new(guard), Mutex::new(input));
        let mut program = Self { name: name.into(), id: String::new(), proxy, child, guard, input, output };
        program.id = program.answer("join");
        program
    }

    /// Sends a command to the node, and returns its answer.
    pub(crate) fn ask(&self, command: &str) -> String {
        writeln!(self.input.lock().unwrap(), "{command}").unwrap();
        self.answer(command)
    }

    fn answer(&self, command: &str) -> String {
        let said = self.output.said.lock().unwrap();
        let is_silent = |said: &mut Said| said.answers.is_empty() && !said.has_ended;
        let (mut said, _) = self.output.more.wait_timeout_while(said, GUARD, is_silent).unwrap();
        assert!(!said.answers.is_empty(), "{} does not answer `{command}`; it has heard {:?}", self.name, said.events);
        said.answers.remove(0)
    }

    /// Returns the events of the node.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.output.said.lock().unwrap().events.clone()
    }

    /// Waits until the node has reported an event this many times.
    pub(crate) fn hears(&self, event: &str, times: usize) {
        let said = self.output.said.lock().unwrap();
        let is_missing = |said: &mut Said| said.events.iter().filter(|said| said.starts_with(event)).count() < times;
        let (said, waited) = self.output.more.wait_timeout_while(said, GUARD, is_missing).unwrap();
        assert!(!waited.timed_out(), "{} has not heard `{event}` {times} times: {:?}", self.name, said.events);
    }

    pub(crate) fn kill(&self) {
        self.signal("KILL");
        self.child.lock().unwrap().wait().unwrap();
    }

    /// Stops all threads of the program.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.child.lock().unwrap().id());
        let is_stopped = |thread: std::fs::DirEntry| {
            let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        wait_until("it is stopped", || std::fs::read_dir(&threads).unwrap().flatten().all(is_stopped));
    }

    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.child.lock().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &process]).status().unwrap().success());
    }

    /// Waits for the end of the program. Returns whether it succeeded.
    pub(crate) fn ends(&self) -> bool {
        self.child.lock().unwrap().wait().unwrap().success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The guard is killed first: otherwise it might kill another program that gets the same process ID. Either may
        // have ended already.
        for process in [&self.guard, &self.child] {
            let mut process = process.lock().unwrap();
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
