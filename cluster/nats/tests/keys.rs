//! The program `postroom-nats keys`, and a server that uses its output.

use postroom::{NodeId, Runtime};
use postroom_cluster::{Cluster, JoinError};
use postroom_nats::Nats;
use server::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

// This test uses only a part of the module.
#[allow(dead_code)]
#[path = "../src/tests/server.rs"]
mod server;

/// Guards against a hang, and measures nothing: on a machine with a load of forty, a wait has taken a minute.
const GUARD: Duration = Duration::from_secs(300);

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < GUARD, "it is not so after {GUARD:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A folder that is deleted on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(server::directory())
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_postroom-nats")).args(arguments).output().unwrap()
}

fn keys(folder: &Path, more: &[&str]) -> Output {
    let folder = folder.to_str().unwrap();
    run(&[&["keys", "--cluster", "bank", "--nodes", "eu-1, eu-2", "--out", folder], more].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_says_what_there_is() {
    for arguments in [&["--help"][..], &["keys", "--help"], &["keys", "--nodes", "x", "-h"]] {
        let output = run(arguments);
        let help = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty());
        for option in ["--cluster", "--nodes", "--out", "--tls-cert", "--tls-key", "--listen", "--store"] {
            assert!(help.contains(option), "{option}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let folder = Folder::new();
    let out = folder.0.to_str().unwrap();
    for (arguments, code, expected) in [
        (&[][..], 2, "there is no command"),
        (&["locks"], 2, "`locks` is no command"),
        (&["keys", "--nodes", "eu-1"], 2, "`--cluster` is missing"),
        (&["keys", "--cluster", "bank"], 2, "`--nodes` is missing"),
        (&["keys", "--cluster"], 2, "`--cluster` needs a value"),
        (&["keys", "--cluster", "a", "--cluster", "b"], 2, "`--cluster` is given twice"),
        (&["keys", "--colour", "red"], 2, "`--colour` is no option"),
        (&["keys", "--cluster", "a.b", "--nodes", "eu-1", "--out", out], 2, "`a.b` cannot name a cluster"),
        (&["keys", "--cluster", "bank", "--nodes", "eu-1,*", "--out", out], 2, "`*` cannot name a node"),
        (&["keys", "--cluster", "bank", "--nodes", "eu-1,eu-1", "--out", out], 2, "`eu-1` is named twice"),
        (&["keys", "--cluster", "bank", "--nodes", "eu-1", "--tls-cert", "x"], 2, "belong together"),
        (&["keys", "--cluster", "bank", "--nodes", "eu-1", "--out", "/nowhere"], 1, "make the folder"),
    ] {
        let output = run(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected) && output.stdout.is_empty(), "{arguments:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "nothing was written");
}

#[test]
fn files_are_their_owners_and_are_not_written_over() {
    let folder = Folder::new();
    let output = keys(&folder.0, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let files = ["bank.conf", "eu-1.nk", "eu-2.nk"];
    let before = files.map(|file| folder.read(file));
    for file in files {
        assert!(printed.contains(file));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = folder.0.join(file).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }
    for seed in [&before[1], &before[2]] {
        assert!(seed.starts_with("SU") && !printed.contains(seed.trim()) && !before[0].contains(seed.trim()));
    }
    // If one of the three files exists, the others are not left behind, and the existing one is unchanged.
    for kept in ["eu-2.nk", "bank.conf"] {
        for file in files.iter().filter(|file| **file != kept) {
            let _ = std::fs::remove_file(folder.0.join(file));
        }
        let kept_before = folder.read(kept);
        let output = keys(&folder.0, &[]);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains(kept) && error.contains("is there already"), "{error}");
        assert_eq!(folder.read(kept), kept_before);
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
        std::fs::remove_file(folder.0.join(kept)).unwrap();
        assert!(keys(&folder.0, &[]).status.success());
    }
}

fn join(node: &str, nats: Nats) -> Result<(Runtime, Cluster), JoinError> {
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
    let cluster = Cluster::builder("bank").node(node).join(&runtime, nats)?;
    Ok((runtime, cluster))
}

/// Covers everything from the keys to the nodes, except TLS, for which the engine's tests create certificates.
#[test]
fn a_server_with_the_configuration_takes_the_nodes_with_their_keys() {
    let folder = Folder::new();
    let store = folder.0.join("store").display().to_string();
    assert!(keys(&folder.0, &["--store", &store]).status.success());
    let configuration = folder.read("bank.conf");
    let (before, rest) = configuration.split_once("tls {").unwrap();
    let (_, after) = rest.split_once("}\n").unwrap();
    let Some(server) = Server::with(&[], &format!("{before}{after}")) else { return };
    let nats = |node: &str| server.nats().nkey(folder.read(&format!("{node}.nk")).trim());
    let nodes = ["eu-1", "eu-2"].map(|node| join(node, nats(node)).unwrap());
    for (_, cluster) in &nodes {
        assert!(cluster.wait_for_members(1, GUARD));
        assert_eq!(cluster.statistics().refused, 0);
    }
    let error = join("eu-2", nats("eu-1")).map(drop).unwrap_err();
    assert!(matches!(&error, JoinError::Broker { problem } if problem.contains("made for node `eu-2`")), "{error}");
}
