//! A `nats-server` for one test.

use super::{Nats, wait_until};
use std::fs::ReadDir;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Instructions for installing the server, as part of an error.
const INSTALL: &str = "run `cluster/nats/tools/fetch-nats-server`, which puts it into target/tools, or set NATS_SERVER \
                       to its path; POSTROOM_NATS=skip skips these tests";

/// A server. Dropping this value kills the server and deletes its files.
pub(crate) struct Server {
    process: Option<Child>,
    /// Kills the server when the test program ends, even if the test program was killed: the guard waits for the end of
    /// its input, which the test program holds.
    guard: Option<Child>,
    directory: PathBuf,
    port: u16,
    /// The port that reports the server's state, if the arguments request one.
    monitoring: Option<u16>,
    arguments: Vec<String>,
    /// Whether its configuration sets the folder of the store.
    has_store: bool,
}

impl Server {
    /// Starts a server with a store, at a port that the server chooses. Returns `None` if the tests are skipped.
    pub(crate) fn start() -> Option<Self> {
        Self::with(&["-js"], "")
    }

    /// Starts a server with these arguments and this configuration.
    pub(crate) fn with(arguments: &[&str], configuration: &str) -> Option<Self> {
        if std::env::var("POSTROOM_NATS").is_ok_and(|value| value == "skip") {
            // Bypasses the capture of the test's output.
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            let _ = writeln!(std::io::stderr(), "SKIPPED, because of POSTROOM_NATS=skip: {test}");
            return None;
        }
        let mut server = Self {
            process: None,
            guard: None,
            directory: directory(),
            port: 0,
            monitoring: None,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            has_store: configuration.contains("store_dir"),
        };
        if !configuration.is_empty() {
            let file = server.directory.join("server.conf");
            std::fs::write(&file, configuration).unwrap();
            server.arguments.extend(["-c".into(), file.display().to_string()]);
        }
        server.launch();
        Some(server)
    }

    /// Starts a server at this port. No other server may be running there.
    pub(super) fn at(port: u16) -> Option<Self> {
        let mut server = Self::start()?;
        server.kill();
        server.port = port;
        server.launch();
        Some(server)
    }

    fn launch(&mut self) {
        let ports = self.directory.join("ports");
        let _ = std::fs::remove_dir_all(&ports);
        std::fs::create_dir_all(&ports).unwrap();
        let port = if self.port == 0 { "-1".into() } else { self.port.to_string() };
        let mut command = Command::new(executable());
        if !self.has_store {
            command.arg("-sd").arg(self.directory.join("store"));
        }
        let process = command
            .args(["-a", "127.0.0.1", "-p", &port, "--ports_file_dir"])
            .arg(&ports)
            .arg("-l")
            .arg(self.directory.join("log"))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let file = ports.join(format!("{}_{}.ports", name(), process.id()));
        let guard = Command::new("sh")
            .args(["-c", "read -r nothing; kill -s KILL \"$0\"", &process.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        self.process = Some(process);
        self.guard = Some(guard);
        wait_until(|| {
            self.check_runs();
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let port = |what: &str| value[what][0].as_str()?.rsplit(':').next()?.parse().ok();
            self.monitoring = port("monitoring");
            port("nats").map(|port| self.port = port).is_some()
        });
    }

    fn check_runs(&mut self) {
        let log = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        if let Some(status) = self.process.as_mut().unwrap().try_wait().unwrap() {
            panic!("the server ended, {status}:\n{}", log());
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of connections of the server. The server must have the arguments `-m -1`.
    pub(super) fn connections(&self) -> u64 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.monitoring.unwrap())).unwrap();
        stream.write_all(b"GET /connz HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        value["num_connections"].as_u64().unwrap()
    }

    pub(super) fn nats(&self) -> Nats {
        Nats::at(format!("nats://127.0.0.1:{}", self.port))
    }

    /// Ends the server at once.
    pub(crate) fn kill(&mut self) {
        // The guard is killed first: otherwise it might kill another process that gets the same process ID.
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
        if let Some(mut process) = self.process.take() {
            // This kills the process even if it is stopped.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts the server again, with its stored data.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    /// Starts the server again, with other arguments.
    pub(super) fn restart_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(ToString::to_string).collect();
        self.restart();
    }

    /// Deletes the server's stored data. The server must not be running.
    pub(crate) fn forget(&self) {
        std::fs::remove_dir_all(self.directory.join("store")).unwrap();
    }

    /// Copies the server's stored data. The copy replaces an earlier one. The server must not be running.
    pub(crate) fn back_up(&self) {
        let copy = self.directory.join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        copy_all(&self.directory.join("store"), &copy);
    }

    /// Replaces the server's stored data with the copy. The server must not be running.
    pub(crate) fn restore(&self) {
        self.forget();
        copy_all(&self.directory.join("copy"), &self.directory.join("store"));
    }

    /// Pauses the server, as if its machine had stopped.
    pub(super) fn pause(&self) {
        self.signal("STOP");
        // Each thread stops some time after the signal. Where that cannot be observed, the tests may see one answer too
        // many.
        let threads = format!("/proc/{}/task", self.process.as_ref().unwrap().id());
        if Path::new("/proc/self/task").exists() {
            let all_are_stopped = |threads: ReadDir| threads.flatten().all(|thread| is_stopped(&thread.path()));
            wait_until(|| std::fs::read_dir(&threads).is_ok_and(all_are_stopped));
        }
    }

    pub(super) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &process]).status().unwrap().success());
    }
}

/// Starts servers that form a cluster. Returns `None` if the tests are skipped.
pub(super) fn cluster(size: usize) -> Option<Vec<Server>> {
    // Each server must know the ports of the others before it starts.
    let listeners: Vec<_> = (0..size).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    let ports: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    drop(listeners);
    let routes: Vec<_> = ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
    let start = |(at, port): (usize, &u16)| {
        let cluster = format!("nats://127.0.0.1:{port}");
        let name = format!("server-{at}");
        let arguments =
            ["-js", "-n", &name, "--cluster_name", "test", "--cluster", &cluster, "--routes", &routes.join(",")];
        Server::with(&arguments, "")
    };
    ports.iter().enumerate().map(start).collect()
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &copy),
            false => _ = std::fs::copy(entry.path(), copy).unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn is_stopped(thread: &Path) -> bool {
    let state = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

pub(super) fn directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("postroom-nats-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Returns `$NATS_SERVER`, or the first `nats-server` on the path, or the one in `target/tools`.
fn executable() -> PathBuf {
    if let Some(named) = std::env::var_os("NATS_SERVER") {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "NATS_SERVER is {named:?}, where there is no file: {INSTALL}");
        return named;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let found = std::env::split_paths(&path).chain([tools]).map(|folder| folder.join("nats-server"));
    found.into_iter().find(|file| file.is_file()).unwrap_or_else(|| panic!("there is no `nats-server`: {INSTALL}"))
}

/// Returns the file name of the executable; the file of ports is named after it.
fn name() -> String {
    executable().file_name().unwrap().to_string_lossy().into_owned()
}
