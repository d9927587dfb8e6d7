//! A `nats-server` for the comparison.

use super::{Ends, Outcome};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) struct Server {
    _process: Ends,
    directory: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server with a store, on a free port.
    pub(crate) fn start() -> Outcome<Self> {
        let directory = std::env::temp_dir().join(format!("postroom-compare-{}", std::process::id()));
        let ports = directory.join("ports");
        std::fs::create_dir_all(&ports)?;
        let executable = executable()?;
        let process = Command::new(&executable)
            .args(["-a", "127.0.0.1", "-p", "-1", "-js", "-l"])
            .arg(directory.join("log"))
            .arg("-sd")
            .arg(directory.join("store"))
            .arg("--ports_file_dir")
            .arg(&ports)
            .spawn()?;
        let name = executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = ports.join(format!("{name}_{}.ports", process.id()));
        let mut server = Self { _process: Ends(process), directory, port: 0 };
        let begun = Instant::now();
        while server.port == 0 {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(format!("the server does not say its port in {file:?}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
            // The file contains `{"nats":["nats://127.0.0.1:PORT"]…}`.
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let port = text.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next());
            server.port = port.and_then(|port| port.parse().ok()).unwrap_or(0);
        }
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns the path of `nats-server`, found as in the tests of the cluster.
fn executable() -> Outcome<PathBuf> {
    if let Some(named) = std::env::var_os("NATS_SERVER") {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let mut found = std::env::split_paths(&path).chain([tools]).map(|folder| folder.join("nats-server"));
    found.find(|file| file.is_file()).ok_or_else(|| {
        "there is no `nats-server`: run `cluster/nats/tools/fetch-nats-server`, or set NATS_SERVER to its path".into()
    })
}
