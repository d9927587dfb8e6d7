//! The settings of the engine, [`Nats`], and their validation before anything is connected.

use crate::tls;
use async_nats::ConnectOptions;
use postroom_cluster::__private::{LONGEST_NAME, Subjects, is_name};
use postroom_cluster::store::Bucket;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// The port that is used if an address has none.
const DEFAULT_PORT: u16 = 4222;

/// Number of names of a cluster that the store has room for by default. At about 200 B each, they take 20 MB on a node.
const DEFAULT_MAX_NAMES: u64 = 100_000;

/// Maximum number of entries in the tables of nodes and of leases: those of the nodes, and those left over from their
/// earlier runs.
const MAX_RECORDS: u64 = 65_536;

/// The name that an engine without a name gives in its answers to probes.
const ANYONE: &str = "anyone";

/// The length of the seed of a user's nkey. Such a seed begins with `SU`.
const SEED_LENGTH: usize = 58;

/// Number of received messages that may wait for the callback of a subscription by default. It is the client's
/// default: a burst of small messages fills a shorter queue before the callback can run once.
const DEFAULT_SUBSCRIPTION_CAPACITY: usize = 65_536;

/// The servers of a cluster, and how to connect to them.
///
/// ```no_run
/// use postroom_cluster::engine::Engine;
/// use postroom_nats::Nats;
/// use std::time::Duration;
///
/// let engine = Nats::at("nats://127.0.0.1:4222").cluster("bank").start()?;
/// engine.wait(Duration::from_secs(5))?;
/// assert!(engine.is_connected());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Security
/// An address of another machine is refused unless TLS is required and there is an nkey or a JWT: otherwise any
/// program that reaches the server could read and forge the messages of the nodes.
#[derive(Clone)]
pub struct Nats {
    addresses: String,
    cluster: String,
    /// Empty if the engine has no name.
    node: String,
    replicas: usize,
    max_names: u64,
    subscription_capacity: usize,
    tls_required: bool,
    root_certificates: Vec<PathBuf>,
    secret: Secret,
}

#[derive(Clone)]
enum Secret {
    Nothing,
    Token(String),
    Nkey(String),
    Credentials(String),
}

/// Why an engine cannot be started with these settings.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// An address is not valid.
    #[error("`{address}` is not the address of a server: {reason}; write `nats://host:port` or `tls://host:port`")]
    BadAddress {
        /// The address.
        address: String,
        /// The error in the address.
        reason: &'static str,
    },
    /// The address belongs to another machine, and the connection would not be safe.
    #[error(
        "`{address}` is not an address of this machine, which needs TLS and an nkey or a JWT; add {}",
        missing(*.needs_tls, *.needs_key)
    )]
    Exposed {
        /// The address.
        address: String,
        /// Whether [`Nats::tls_required`] is missing.
        needs_tls: bool,
        /// Whether there is no key: [`Nats::nkey`] or [`Nats::credentials`] is missing. A token is not enough, since
        /// all nodes would have the same one.
        needs_key: bool,
    },
    /// The name of the cluster cannot be part of the names of the store's tables.
    #[error("`{name}` cannot be the name of a cluster; use 1 to {LONGEST_NAME} letters, digits, `-` and `_`")]
    BadCluster {
        /// The name.
        name: String,
    },
    /// The name of the node cannot be part of a subject.
    #[error("`{name}` cannot be the name of a node; use 1 to {LONGEST_NAME} letters, digits, `-` and `_`")]
    BadNode {
        /// The name.
        name: String,
    },
    /// The store needs room for at least one name.
    #[error("the store cannot have room for no name; use 1 or more")]
    NoNames,
    /// The store cannot have this number of replicas.
    #[error("the store cannot be kept {replicas} times; use 1 with one server, and 3 or 5 with as many or more")]
    BadReplicas {
        /// The number.
        replicas: usize,
    },
    /// The seed of the nkey is not valid.
    #[error("that is not the seed of a user's nkey, which has {SEED_LENGTH} characters and begins with `SU`")]
    BadNkey,
    /// The text of the credentials is not the content of a credentials file.
    #[error("these are not the contents of a credentials file: {reason}; pass the text, and not the file's name")]
    BadCredentials {
        /// The error that the client reports.
        reason: String,
    },
    /// A subscription needs room for at least one message.
    #[error("a subscription cannot have room for no message; use 1 or more")]
    NoCapacity,
    /// The engine's thread cannot be started.
    #[error("the engine's thread cannot be started: {0}; raise the limit of threads or of open files")]
    Thread(#[from] std::io::Error),
}

fn missing(needs_tls: bool, needs_key: bool) -> &'static str {
    match (needs_tls, needs_key) {
        (true, true) => "`.tls_required()`, and `.nkey(…)` or `.credentials(…)`",
        (true, false) => "`.tls_required()`",
        _ => "`.nkey(…)` or `.credentials(…)`",
    }
}

impl Nats {
    /// Returns settings for servers at these addresses: `nats://host:port`, several separated by commas. The port may
    /// be omitted if it is 4222. The scheme `tls://` requires TLS.
    pub fn at(addresses: impl Into<String>) -> Self {
        Self {
            addresses: addresses.into(),
            cluster: "postroom".into(),
            node: String::new(),
            replicas: 1,
            max_names: DEFAULT_MAX_NAMES,
            subscription_capacity: DEFAULT_SUBSCRIPTION_CAPACITY,
            tls_required: false,
            root_certificates: Vec::new(),
            secret: Secret::Nothing,
        }
    }

    /// Sets the name of the cluster, `postroom` by default. The names of its tables in the store begin with it.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets the name of the node, to which the server's permissions apply.
    /// [`Builder::join`](postroom_cluster::Builder::join) sets it and the cluster's name; use this method for engines
    /// that are started without a builder. Without a name the engine works only on servers that do not restrict
    /// permissions.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = name.into();
        self
    }

    /// Sets the number of names that the store has room for, 100,000 by default. The store has room for as many groups.
    /// The limit applies to messages, four for each name, so names that come and go quickly need a higher limit. The
    /// limit must be the same on all nodes of a cluster.
    pub fn max_names(mut self, names: u64) -> Self {
        self.max_names = names;
        self
    }

    /// Sets the number of servers that store a replica, 1 by default. This number must be the same on all nodes of a
    /// cluster.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Requires TLS. The version is always 1.3: a server with only older versions is refused.
    pub fn tls_required(mut self) -> Self {
        self.tls_required = true;
        self
    }

    /// Trusts the certificates of a PEM file instead of those of the operating system.
    pub fn root_certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.root_certificates.push(file.into());
        self
    }

    /// Authenticates with a JWT and its key: the contents of a credentials file. It replaces any other secret.
    pub fn credentials(mut self, contents: impl Into<String>) -> Self {
        self.secret = Secret::Credentials(contents.into());
        self
    }

    /// Authenticates with an nkey, given by its seed. It replaces any other secret.
    pub fn nkey(mut self, seed: impl Into<String>) -> Self {
        self.secret = Secret::Nkey(seed.into());
        self
    }

    /// Authenticates with a token. It replaces any other secret.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.secret = Secret::Token(token.into());
        self
    }

    /// Sets the number of received messages that may wait for the callback of a subscription, 65,536 by default.
    /// Further messages are lost, and [counted](crate::Counts::dropped).
    pub fn subscription_capacity(mut self, messages: usize) -> Self {
        self.subscription_capacity = messages;
        self
    }

    pub(crate) fn check(&self) -> Result<(), NatsError> {
        if !is_name(&self.cluster) {
            return Err(NatsError::BadCluster { name: self.cluster.chars().take(LONGEST_NAME).collect() });
        }
        if !self.node.is_empty() && !is_name(&self.node) {
            return Err(NatsError::BadNode { name: self.node.chars().take(LONGEST_NAME).collect() });
        }
        if self.max_names == 0 {
            return Err(NatsError::NoNames);
        }
        if ![1, 3, 5].contains(&self.replicas) {
            return Err(NatsError::BadReplicas { replicas: self.replicas });
        }
        if self.subscription_capacity == 0 {
            return Err(NatsError::NoCapacity);
        }
        match &self.secret {
            Secret::Nkey(seed) => {
                let is_legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
                if seed.len() != SEED_LENGTH || !seed.starts_with("SU") || !seed.chars().all(is_legal) {
                    return Err(NatsError::BadNkey);
                }
            }
            Secret::Credentials(contents) => {
                ConnectOptions::new()
                    .credentials(contents)
                    .map_err(|error| NatsError::BadCredentials { reason: error.to_string() })?;
            }
            Secret::Nothing | Secret::Token(_) => {}
        }
        if self.shows_secret() {
            let scheme = self.addresses.split_once("://").map_or("nats", |(scheme, _)| scheme);
            let address = if matches!(scheme, "nats" | "tls") { format!("{scheme}://…") } else { "…".into() };
            let reason = "a secret does not belong there, but into `.nkey(…)`, `.credentials(…)` or `.token(…)`";
            return Err(NatsError::BadAddress { address, reason });
        }
        for address in self.addresses.split(',') {
            let server = Server::parse(address.trim())?;
            let needs_tls = !(self.tls_required || server.requires_tls);
            let needs_key = !matches!(self.secret, Secret::Nkey(_) | Secret::Credentials(_));
            if !server.is_this_machine && (needs_tls || needs_key) {
                return Err(NatsError::Exposed { address: address.trim().into(), needs_tls, needs_key });
            }
        }
        Ok(())
    }

    /// Returns whether the addresses may contain a secret. If so, no part of them is shown, as the extent of the secret
    /// is unknown.
    fn shows_secret(&self) -> bool {
        self.addresses.contains('@')
    }

    /// Returns the addresses of the servers in the form that the client expects. Must be called after `check`.
    pub(crate) fn servers(&self) -> Vec<String> {
        self.addresses.split(',').filter_map(|address| Server::parse(address.trim()).ok()).map(|s| s.url).collect()
    }

    /// Returns the options of a connection.
    ///
    /// # Errors
    /// If the trusted certificates cannot be read.
    pub(crate) fn options(&self) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new()
            .require_tls(self.tls_required)
            .tls_client_config(tls::config(&self.root_certificates)?)
            .subscription_capacity(self.subscription_capacity)
            .skip_subject_validation(true);
        if !self.node.is_empty() {
            options = options.custom_inbox_prefix(self.subjects().inbox(&self.node));
        }
        Ok(match &self.secret {
            Secret::Nothing => options,
            Secret::Token(token) => options.token(token.clone()),
            Secret::Nkey(seed) => options.nkey(seed.clone()),
            Secret::Credentials(contents) => options.credentials(contents).expect("`check` has read them"),
        })
    }

    pub(crate) fn subjects(&self) -> Subjects {
        Subjects::of(&self.cluster)
    }

    /// Returns the name of this node; empty if it has none.
    pub(crate) fn node_name(&self) -> &str {
        &self.node
    }

    /// Returns the name of this node in answers to probes.
    pub(crate) fn answers_as(&self) -> &str {
        if self.node.is_empty() { ANYONE } else { &self.node }
    }

    /// Returns the number of entries that a table has room for.
    pub(crate) fn limit(&self, bucket: Bucket) -> u64 {
        match bucket {
            Bucket::Nodes | Bucket::Leases => MAX_RECORDS,
            Bucket::Names | Bucket::Groups => self.max_names,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.cluster
    }

    pub(crate) fn replica_count(&self) -> usize {
        self.replicas
    }
}

/// Omits the secret.
impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = match self.secret {
            Secret::Nothing => "none",
            Secret::Token(_) => "token",
            Secret::Nkey(_) => "nkey",
            Secret::Credentials(_) => "credentials",
        };
        f.debug_struct("Nats")
            .field("addresses", if self.shows_secret() { &"…" } else { &self.addresses })
            .field("cluster", &self.cluster)
            .field("node", &self.node)
            .field("replicas", &self.replicas)
            .field("max_names", &self.max_names)
            .field("subscription_capacity", &self.subscription_capacity)
            .field("tls_required", &self.tls_required)
            .field("root_certificates", &self.root_certificates)
            .field("secret", &secret)
            .finish()
    }
}

/// The address of a server.
struct Server {
    url: String,
    requires_tls: bool,
    is_this_machine: bool,
}

impl Server {
    fn parse(address: &str) -> Result<Self, NatsError> {
        let bad = |reason| NatsError::BadAddress { address: address.chars().take(80).collect(), reason };
        let (scheme, rest) = address.split_once("://").unwrap_or(("nats", address));
        if scheme != "nats" && scheme != "tls" {
            return Err(bad("its scheme is neither `nats` nor `tls`"));
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(|| bad("a `]` is missing"))?;
                (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, Some("")),
            },
        };
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_legal) {
            return Err(bad("it has no host"));
        }
        let port = match port {
            Some("") => DEFAULT_PORT,
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("its port is not a number"))?,
            None => return Err(bad("its port is not a number")),
        };
        let ip = host.parse::<IpAddr>();
        let is_this_machine = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
        let host = if host.contains(':') { format!("[{host}]") } else { host.into() };
        Ok(Self { url: format!("{scheme}://{host}:{port}"), requires_tls: scheme == "tls", is_this_machine })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";

    #[test]
    fn addresses_of_this_machine_need_nothing() {
        let all = ["nats://127.0.0.1:4222", "localhost", "nats://[::1]", "127.8.0.1:1", "tls://localhost, 127.0.0.1"];
        for addresses in all {
            Nats::at(addresses).check().unwrap();
        }
        let servers = Nats::at("[::1]:7, tls://localhost").servers();
        assert_eq!(servers, ["nats://[::1]:7", "tls://localhost:4222"]);
    }

    #[test]
    fn other_addresses_need_tls_and_a_key() {
        let refusal = |nats: Nats| match nats.check() {
            Err(error @ NatsError::Exposed { needs_tls, needs_key, .. }) => {
                Some((needs_tls, needs_key, error.to_string()))
            }
            result => {
                result.unwrap();
                None
            }
        };
        let addresses = [
            "nats://10.0.0.1",
            "nats://localhost.example",
            "0.0.0.0",
            "127.0.0.1, example:4222",
            "[::2]",
            "[::]",
            // A name may resolve to any address, so names are not resolved.
            "ip6-localhost",
            "127.0.0.1.example",
            // Not useful, and not recognized as an address of this machine.
            "[::ffff:127.0.0.1]",
        ];
        for address in addresses {
            let (needs_tls, needs_key, text) = refusal(Nats::at(address)).unwrap();
            assert!(needs_tls && needs_key, "{address}");
            assert!(text.contains("`.tls_required()`, and `.nkey(…)` or `.credentials(…)`"), "{text}");
            let refused = refusal(Nats::at(address).tls_required().token("secret")).unwrap();
            assert!(!refused.0 && refused.1 && refused.2.ends_with("add `.nkey(…)` or `.credentials(…)`"));
            let refused = refusal(Nats::at(address).nkey(SEED)).unwrap();
            assert!(refused.0 && !refused.1 && refused.2.ends_with("add `.tls_required()`"));
            assert_eq!(refusal(Nats::at(address).nkey(SEED).tls_required()), None);
        }
        assert_eq!(refusal(Nats::at("tls://10.0.0.1").nkey(SEED)), None);
        // Each address is checked separately.
        let mixed = "tls://10.0.0.1, nats://10.0.0.2:4222";
        let refused = Nats::at(mixed).nkey(SEED).check().unwrap_err().to_string();
        assert!(refused.contains("`nats://10.0.0.2:4222`") && refused.contains(".tls_required()"), "{refused}");
        let refused = refusal(Nats::at("tls://10.0.0.1")).unwrap();
        assert!(!refused.0 && refused.1, "tls:// is no key");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for address in [
            "",
            "http://localhost",
            "localhost:x",
            "localhost:0",
            "[::1",
            "[::1]x",
            ":4222",
            "a b",
            "localhost,,localhost",
        ] {
            assert!(matches!(Nats::at(address).check(), Err(NatsError::BadAddress { .. })), "{address}");
        }
        for address in ["nats://user:password@localhost", "tls://password@[::1]:4222", "user:password@localhost"] {
            let secret = Nats::at(format!("localhost, {address}")).check().unwrap_err().to_string();
            assert!(!secret.contains("password") && secret.contains(".nkey"), "{secret}");
        }
        for address in ["ws://user:password@localhost", "nats://user:password,password@localhost", "password://x@y"] {
            let (nats, shown) = (Nats::at(address), format!("{:?}", Nats::at(address)));
            let error = nats.check().unwrap_err().to_string();
            assert!(!error.contains("password") && error.contains(".nkey"), "{error}");
            assert!(!shown.contains("password"), "{shown}");
        }
        let nats = || Nats::at("localhost");
        for name in ["", "a.b", "a b", &"x".repeat(LONGEST_NAME + 1)] {
            assert!(matches!(nats().cluster(name).check(), Err(NatsError::BadCluster { .. })), "{name}");
        }
        for replicas in [0, 2, 4, 6] {
            assert!(matches!(nats().replicas(replicas).check(), Err(NatsError::BadReplicas { .. })));
        }
        for name in ["a.b", "a b", "*", &"x".repeat(LONGEST_NAME + 1)] {
            assert!(matches!(nats().node(name).check(), Err(NatsError::BadNode { .. })), "{name}");
        }
        assert!(matches!(nats().max_names(0).check(), Err(NatsError::NoNames)));
        assert!(matches!(nats().nkey("SUABC").check(), Err(NatsError::BadNkey)));
        assert!(matches!(nats().credentials("a file").check(), Err(NatsError::BadCredentials { .. })));
        assert!(matches!(nats().subscription_capacity(0).check(), Err(NatsError::NoCapacity)));
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = format!("{:?} {:?}", Nats::at("localhost").nkey(SEED), Nats::at("localhost").token("tok-1"));
        assert!(!text.contains(SEED) && !text.contains("tok-1") && text.contains("nkey"), "{text}");
    }
}
