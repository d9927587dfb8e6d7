//! Keys for the nodes of a cluster, and the server configuration that binds each key to the name of its node.
//!
//! [`Plan::make`] generates a key for each node, and [`NodeKeys::write_to`] writes the configuration and one file for
//! each seed into a folder. The program `postroom-nats keys` does both.

use nkeys::KeyPair;
use postroom_cluster::__private::{LONGEST_NAME, is_name};
use postroom_cluster::rights::Rights;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The longest message. It is many times longer than the sessions' frames of 64 KiB.
const MAX_PAYLOAD: &str = "1MB";

/// Number of connections that a node makes.
const CONNECTIONS: usize = 2;

/// Maximum number of subscriptions per connection: a node has two for its frames, two for answers, four for watches,
/// and one for each topic.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// The path of the certificate in the configuration, if no other is set.
const CERTIFICATE: &str = "/etc/nats/server.pem";
/// The path of the private key in the configuration, if no other is set.
const PRIVATE_KEY: &str = "/etc/nats/server-key.pem";

/// The cluster and the nodes to make keys for.
///
/// ```
/// use postroom_nats::keys::Plan;
///
/// let keys = Plan::new("bank", ["eu-1", "eu-2"]).make()?;
/// assert!(keys.configuration().contains("pr1.bank.n.*.*.*.eu-1.*"));
/// assert!(keys.seed("eu-1").is_some_and(|seed| seed.starts_with("SU")));
/// # Ok::<(), postroom_nats::keys::KeysError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: String,
    nodes: Vec<String>,
    tls: Option<Tls>,
    listen: String,
    store: String,
}

#[derive(Clone, Debug)]
struct Tls {
    certificate: String,
    key: String,
}

/// Why keys were not generated or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The name of the cluster cannot be part of a subject.
    #[error("`{name}` cannot name a cluster; use 1 to {LONGEST_NAME} letters, digits, `-` and `_`")]
    ClusterName {
        /// The name.
        name: String,
    },
    /// The name of a node cannot be part of a subject.
    #[error("`{name}` cannot name a node; use 1 to {LONGEST_NAME} letters, digits, `-` and `_`")]
    NodeName {
        /// The name.
        name: String,
    },
    /// A node is named twice.
    #[error("the node `{name}` is named twice; nodes of one name would have two keys: name each once")]
    Twice {
        /// The name.
        name: String,
    },
    /// There is no node.
    #[error("there is no node to make a key for; name one at least")]
    NoNodes,
    /// A value contains a character that would end the value in the configuration.
    #[error("`{value}` cannot stand in the configuration; use no quotation marks, backslashes and line breaks")]
    Text {
        /// The value.
        value: String,
    },
    /// A key cannot be generated.
    #[error("no key can be drawn: {reason}; check the system's source of random numbers")]
    Draw {
        /// The error of the library.
        reason: String,
    },
    /// A file exists already.
    #[error("`{}` is there already, and nothing was written; move it away, or name another folder", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("`{}` cannot be written: {error}; make the folder, or name another one", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

impl Plan {
    /// Returns a plan for the nodes of a cluster, given by name.
    pub fn new<N: Into<String>>(cluster: impl Into<String>, nodes: impl IntoIterator<Item = N>) -> Self {
        Self {
            cluster: cluster.into(),
            nodes: nodes.into_iter().map(Into::into).collect(),
            tls: None,
            listen: "0.0.0.0:4222".into(),
            store: "./jetstream".into(),
        }
    }

    /// Sets the files of the server's certificate and of its private key. Without them the configuration contains
    /// placeholder paths.
    pub fn tls(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.tls = Some(Tls { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Sets the address that the server listens on, `0.0.0.0:4222` by default.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = address.into();
        self
    }

    /// Sets the folder of the server's store, `./jetstream` by default.
    pub fn store(mut self, folder: impl Into<String>) -> Self {
        self.store = folder.into();
        self
    }

    /// Generates a key for each node.
    ///
    /// # Errors
    /// [`KeysError`] if a name is not valid, if a value would break the configuration, or if no key can be generated.
    pub fn make(self) -> Result<NodeKeys, KeysError> {
        if !is_name(&self.cluster) {
            return Err(KeysError::ClusterName { name: self.cluster });
        }
        if self.nodes.is_empty() {
            return Err(KeysError::NoNodes);
        }
        let mut seen = BTreeSet::new();
        for name in &self.nodes {
            if !is_name(name) {
                return Err(KeysError::NodeName { name: name.clone() });
            }
            if !seen.insert(name) {
                return Err(KeysError::Twice { name: name.clone() });
            }
        }
        let tls = self.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
        for value in tls.chain([&self.listen, &self.store]) {
            if value.contains(['"', '\\']) || value.contains(char::is_control) {
                return Err(KeysError::Text { value: value.clone() });
            }
        }
        let draw = |name: &String| {
            let refused = |error: nkeys::error::Error| KeysError::Draw { reason: error.to_string() };
            let pair = KeyPair::new_user();
            Ok(NodeKey { name: name.clone(), public: pair.public_key(), seed: pair.seed().map_err(refused)? })
        };
        let nodes = self.nodes.iter().map(draw).collect::<Result<_, _>>()?;
        Ok(NodeKeys { plan: self, nodes })
    }
}

struct NodeKey {
    name: String,
    public: String,
    seed: String,
}

/// The keys of the nodes of a cluster.
pub struct NodeKeys {
    plan: Plan,
    nodes: Vec<NodeKey>,
}

/// Omits the seeds.
impl std::fmt::Debug for NodeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(|node| (&node.name, &node.public)).collect();
        f.debug_struct("Keys").field("plan", &self.plan).field("nodes", &nodes).finish()
    }
}

impl NodeKeys {
    /// Returns the secret of a node, for [`Nats::nkey`](crate::Nats::nkey).
    pub fn seed(&self, node: &str) -> Option<&str> {
        self.nodes.iter().find(|key| key.name == node).map(|key| key.seed.as_str())
    }

    /// Returns the public half of a node's key.
    pub fn public(&self, node: &str) -> Option<&str> {
        self.nodes.iter().find(|key| key.name == node).map(|key| key.public.as_str())
    }

    /// Returns the configuration of the server. It contains no secret.
    pub fn configuration(&self) -> String {
        let Plan { cluster, nodes, tls, listen, store } = &self.plan;
        let tls = tls.as_ref().map_or((CERTIFICATE, PRIVATE_KEY), |tls| (&tls.certificate, &tls.key));
        let connections = (nodes.len() * CONNECTIONS * 2).max(64);
        let users: String = self.nodes.iter().map(|node| user(cluster, node)).collect();
        format!(
            r#"# The NATS server of the Postroom cluster `{cluster}`: nats-server -c {cluster}.conf
# Written by `postroom-nats keys`. It has no secret in it; each node has its own in a file `<node>.nk`.

server_name: "{cluster}-nats-1"
listen: "{listen}"

# Each node makes {CONNECTIONS} connections; as many again may be left of nodes that have just been lost.
max_connections: {connections}
max_subscriptions: {MAX_SUBSCRIPTIONS}
max_payload: {MAX_PAYLOAD}
# A node whose machine fails without a word is noticed within 3 s.
ping_interval: "1s"
ping_max: 2

jetstream {{
  store_dir: "{store}"
  # A write that was confirmed is on the disk: it outlives a failure of the power.
  sync_interval: always
}}

tls {{
  cert_file: "{certificate}"
  key_file: "{key}"
  # Nodes accept nothing older.
  min_version: "1.3"
}}

authorization {{
  users = [
{users}  ]
}}
"#,
            certificate = tls.0,
            key = tls.1,
        )
    }

    /// Returns the names of the files that [`write_to`](Self::write_to) writes.
    pub fn files(&self) -> Vec<String> {
        let seeds = self.nodes.iter().map(|node| format!("{}.nk", node.name));
        [format!("{}.conf", self.plan.cluster)].into_iter().chain(seeds).collect()
    }

    /// Writes the configuration and one file for each node's seed into a folder. Only the owner of the files may read
    /// them.
    ///
    /// # Errors
    /// [`KeysError::Exists`] if one of the files exists: keys in use are never overwritten. After that error, or if a
    /// file cannot be written, the files that this call has written are removed.
    pub fn write_to(&self, folder: &Path) -> Result<Vec<PathBuf>, KeysError> {
        let seeds = self.nodes.iter().map(|node| format!("{}\n", node.seed));
        let contents = [self.configuration()].into_iter().chain(seeds);
        let mut written = Vec::new();
        for (name, content) in self.files().into_iter().zip(contents) {
            let path = folder.join(name);
            if let Err(error) = write_new(&path, &content) {
                for path in &written {
                    let _ = std::fs::remove_file(path);
                }
                return Err(match error.kind() {
                    std::io::ErrorKind::AlreadyExists => KeysError::Exists { path },
                    _ => KeysError::Write { path, error },
                });
            }
            written.push(path);
        }
        Ok(written)
    }
}

fn write_new(path: &Path, content: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = file.write_all(content.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Returns one entry of the list of users.
fn user(cluster: &str, node: &NodeKey) -> String {
    let rights = Rights::of(cluster, &node.name);
    let list = |patterns: &[String]| {
        patterns.iter().fold(String::new(), |mut text, pattern| {
            let _ = writeln!(text, "          \"{pattern}\"");
            text
        })
    };
    format!(
        "    {{ # {name}\n      nkey: {public}\n      permissions: {{\n        publish: {{ allow: [\n{publish}        \
         ] }}\n        subscribe: {{ allow: [\n{subscribe}        ] }}\n      }}\n    }}\n",
        name = node.name,
        public = node.public,
        publish = list(&rights.publish),
        subscribe = list(&rights.subscribe),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        let make = |cluster: &str, nodes: &[&str]| Plan::new(cluster, nodes.iter().copied()).make().map(drop);
        assert!(matches!(make("a.b", &["eu-1"]), Err(KeysError::ClusterName { .. })));
        assert!(matches!(make("bank", &[]), Err(KeysError::NoNodes)));
        for name in ["", "*", "a.b", "eu 1", "eu-1\"", &"x".repeat(65)] {
            assert!(matches!(make("bank", &[name]), Err(KeysError::NodeName { .. })), "{name}");
        }
        assert!(matches!(make("bank", &["eu-1", "eu-2", "eu-1"]), Err(KeysError::Twice { name }) if name == "eu-1"));
        let plan = || Plan::new("bank", ["eu-1"]);
        for bad in ["a\"b", "a\nb", "a\\b"] {
            for plan in [plan().listen(bad), plan().store(bad), plan().tls(bad, "b"), plan().tls("a", bad)] {
                assert!(matches!(plan.make(), Err(KeysError::Text { .. })), "{bad}");
            }
        }
    }

    #[test]
    fn seeds_are_not_printed() {
        let keys = Plan::new("bank", ["eu-1", "eu-2"]).make().unwrap();
        let [one, two] = ["eu-1", "eu-2"].map(|node| keys.seed(node).unwrap());
        assert_ne!(one, two);
        let text = format!("{keys:?}{}", keys.configuration());
        assert!(!text.contains(one) && !text.contains(two) && text.contains(keys.public("eu-1").unwrap()));
        assert_eq!(keys.seed("eu-3"), None);
    }
}
