//! Where the servers are and what to show them: [`Nats`], and what it refuses before anything is connected.

use super::NatsEngine;
use async_nats::ConnectOptions;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 4222;

/// The longest name of a cluster.
const LONGEST_NAME: usize = 64;

/// The length of the seed of a user's nkey, which begins with `SU`.
const SEED_LENGTH: usize = 58;

/// How many messages that have arrived may wait for the callback of a subscription, unless it is set otherwise. It is
/// the client's default: a burst of small messages fills a shorter queue before the callback can run once.
const DEFAULT_SUBSCRIPTION_CAPACITY: usize = 65_536;

/// The servers of a cluster, and how to connect to them.
///
/// ```no_run
/// use postroom_cluster::engine::Engine;
/// use postroom_cluster::nats::Nats;
/// use std::time::Duration;
///
/// let engine = Nats::at("nats://127.0.0.1:4222").cluster("bank").start()?;
/// engine.wait(Duration::from_secs(5))?;
/// assert!(engine.is_connected());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Security
/// An address that is not of this machine is refused unless TLS is required and there is an nkey or a JWT: any program
/// that reaches the server could otherwise read and forge what the nodes say.
#[derive(Clone)]
pub struct Nats {
    addresses: String,
    cluster: String,
    replicas: usize,
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

/// Why an engine cannot be started with such settings.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// An address cannot be understood.
    #[error("`{address}` is not the address of a server: {reason}; write `nats://host:port` or `tls://host:port`")]
    BadAddress {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address is not of this machine, and the connection would not be safe.
    #[error(
        "`{address}` is not an address of this machine, which needs TLS and an nkey or a JWT; add {}",
        missing(*.needs_tls, *.needs_key)
    )]
    Exposed {
        /// The address.
        address: String,
        /// TLS is not required: [`Nats::tls_required`] is missing.
        needs_tls: bool,
        /// There is no key: [`Nats::nkey`] or [`Nats::credentials`] is missing. A token is not enough, since all nodes
        /// would have the same.
        needs_key: bool,
    },
    /// The name of the cluster cannot be part of the names of the store's tables.
    #[error("`{name}` cannot be the name of a cluster; use 1 to {LONGEST_NAME} letters, digits, `-` and `_`")]
    BadCluster {
        /// The name.
        name: String,
    },
    /// The store cannot be kept so often.
    #[error("the store cannot be kept {replicas} times; use 1 with one server, and 3 or 5 with as many or more")]
    BadReplicas {
        /// The number.
        replicas: usize,
    },
    /// The seed of the nkey is not one.
    #[error("that is not the seed of a user's nkey, which has {SEED_LENGTH} characters and begins with `SU`")]
    BadNkey,
    /// The text of the credentials is not that of a credentials file.
    #[error("these are not the contents of a credentials file: {reason}; pass the text, and not the file's name")]
    BadCredentials {
        /// What the client says about them.
        reason: String,
    },
    /// A subscription needs room for one message at least.
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
    /// be left out if it is 4222, `tls://` requires TLS.
    pub fn at(addresses: impl Into<String>) -> Self {
        Self {
            addresses: addresses.into(),
            cluster: "postroom".into(),
            replicas: 1,
            subscription_capacity: DEFAULT_SUBSCRIPTION_CAPACITY,
            tls_required: false,
            root_certificates: Vec::new(),
            secret: Secret::Nothing,
        }
    }

    /// Sets the name of the cluster, `postroom` by default: its tables in the store begin with it.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets on how many servers the store is kept, 1 by default. All nodes of a cluster must say the same.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Requires TLS.
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

    /// Sets how many messages that have arrived may wait for the callback of a subscription, 65,536 by default. What
    /// exceeds that is lost, and [counted](super::Counts::dropped).
    pub fn subscription_capacity(mut self, messages: usize) -> Self {
        self.subscription_capacity = messages;
        self
    }

    /// Starts the engine, which connects as soon as it can and again whenever it has lost the connection. This does
    /// not wait; [`NatsEngine::wait`] does.
    ///
    /// # Errors
    /// If the settings contradict each other or are not safe, or if there can be no thread.
    pub fn start(self) -> Result<NatsEngine, NatsError> {
        self.check()?;
        NatsEngine::start(self)
    }

    fn check(&self) -> Result<(), NatsError> {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.cluster.is_empty() || self.cluster.len() > LONGEST_NAME || !self.cluster.chars().all(is_legal) {
            return Err(NatsError::BadCluster { name: self.cluster.chars().take(LONGEST_NAME).collect() });
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

    /// Returns the addresses of the servers, as the client takes them. Called after `check`.
    pub(super) fn servers(&self) -> Vec<String> {
        self.addresses.split(',').filter_map(|address| Server::parse(address.trim()).ok()).map(|s| s.url).collect()
    }

    /// Returns the options of a connection.
    pub(super) fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .require_tls(self.tls_required)
            .subscription_capacity(self.subscription_capacity)
            .skip_subject_validation(true);
        for file in &self.root_certificates {
            options = options.add_root_certificates(file.clone());
        }
        match &self.secret {
            Secret::Nothing => options,
            Secret::Token(token) => options.token(token.clone()),
            Secret::Nkey(seed) => options.nkey(seed.clone()),
            Secret::Credentials(contents) => options.credentials(contents).expect("`check` has read them"),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.cluster
    }

    pub(super) fn replica_count(&self) -> usize {
        self.replicas
    }
}

/// Without the secret.
/// Starts the engine of the cluster that is joined.
impl crate::engine::Connect for Nats {
    type Engine = NatsEngine;

    fn connect(self, cluster: &str) -> Result<NatsEngine, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.cluster(cluster).start()?)
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = match self.secret {
            Secret::Nothing => "none",
            Secret::Token(_) => "token",
            Secret::Nkey(_) => "nkey",
            Secret::Credentials(_) => "credentials",
        };
        f.debug_struct("Nats")
            .field("addresses", &self.addresses)
            .field("cluster", &self.cluster)
            .field("replicas", &self.replicas)
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
        if rest.contains('@') {
            let reason = "a secret does not belong there, but into `.nkey(…)`, `.credentials(…)` or `.token(…)`";
            return Err(NatsError::BadAddress { address: format!("{scheme}://…"), reason });
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
        for address in ["nats://10.0.0.1", "nats://localhost.example", "0.0.0.0", "127.0.0.1, example:4222", "[::2]"] {
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
        let secret = Nats::at("nats://user:password@localhost").check().unwrap_err().to_string();
        assert!(!secret.contains("password") && secret.contains(".nkey"), "{secret}");
        let nats = || Nats::at("localhost");
        for name in ["", "a.b", "a b", &"x".repeat(LONGEST_NAME + 1)] {
            assert!(matches!(nats().cluster(name).check(), Err(NatsError::BadCluster { .. })), "{name}");
        }
        for replicas in [0, 2, 4, 6] {
            assert!(matches!(nats().replicas(replicas).check(), Err(NatsError::BadReplicas { .. })));
        }
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
