//! Why there is no connection, or no store.

use crate::settings::Nats;
use async_nats::{ConnectError, ConnectErrorKind};
use postroom_cluster::frame::MAX_FRAME;
use postroom_cluster::store::Bucket;
use std::error::Error;
use std::fmt;

/// The oldest server version whose store reports entries that it deletes because of their age.
pub(crate) const OLDEST_SERVER: (u64, u64) = (2, 12);

/// Why the engine is not connected, or has no store. The engine keeps trying, whatever the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No attempt has finished so far.
    #[error("there has been no answer so far; wait longer, or check the address and the network")]
    NoAnswer,
    /// The server cannot be reached.
    #[error("`{server}` cannot be reached: {reason}; start a server there, or correct the address")]
    Unreachable {
        /// The address of the server.
        server: String,
        /// The error of the operating system.
        reason: String,
    },
    /// TLS could not be established.
    #[error("there is no TLS with `{server}`: {reason}; check its certificate, and `.root_certificates(…)`")]
    Tls {
        /// The address of the server.
        server: String,
        /// The error of the library.
        reason: String,
    },
    /// The server rejects the secret, or requires one.
    #[error("`{server}` refuses this node; give it the `.nkey(…)`, `.credentials(…)` or `.token(…)` that it knows")]
    Refused {
        /// The address of the server.
        server: String,
    },
    /// The secret is not usable: its key has a wrong checksum, for example.
    #[error("this node cannot authenticate to `{server}`: {reason}; make the key anew")]
    BadKey {
        /// The address of the server.
        server: String,
        /// The error in the secret.
        reason: String,
    },
    /// The server knows the key, but the key belongs to another node.
    #[error(
        "the key of this node may not use `{subject}`; use the key that was made for node `{node}` of cluster \
         `{cluster}`, or join under the name that the key was made for"
    )]
    Forbidden {
        /// The subject that the server has refused.
        subject: String,
        /// The name of this node.
        node: String,
        /// The name of the cluster.
        cluster: String,
    },
    /// The server is too old.
    #[error(
        "the server has version {version}, and the store needs {}.{} or newer; update the server",
        OLDEST_SERVER.0,
        OLDEST_SERVER.1
    )]
    TooOld {
        /// The version of the server.
        version: String,
    },
    /// The longest message that the server accepts is shorter than a frame.
    #[error(
        "`{server}` takes messages of {limit} bytes, and nodes send frames of {MAX_FRAME}; raise `max_payload` in its \
         configuration, to its default of 1MB"
    )]
    SmallPayload {
        /// The address of the server.
        server: String,
        /// The server's `max_payload`.
        limit: usize,
    },
    /// The server has no store.
    #[error("the server has no JetStream, or none for this account; start it with `-js`, or enable it there")]
    NoStore,
    /// The store does not work at present: its servers have no leader, for example.
    #[error("the store does not work at present: {reason}; check that most of its servers run")]
    StoreDown {
        /// The server's reason.
        reason: String,
    },
    /// A table of the store cannot be created.
    #[error("the table {bucket:?} cannot be created: {reason}; correct `.replicas(…)`, or the server's limits")]
    BucketRefused {
        /// The table.
        bucket: Bucket,
        /// The server's reason.
        reason: String,
    },
    /// A table of the store exists, but its configuration is not the required one.
    #[error(
        "the table {bucket:?} has `{field}` {found}, and {wanted} is needed; use the `.replicas(…)` of the other \
         nodes, or edit the stream `{stream}`"
    )]
    BucketDiffers {
        /// The table.
        bucket: Bucket,
        /// The stream of the table.
        stream: String,
        /// The field of the stream's configuration.
        field: &'static str,
        /// The value of the field.
        found: String,
        /// The required value.
        wanted: String,
    },
}

impl Problem {
    /// Returns whether an operator has to solve the problem. Other problems can disappear by themselves.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::NoAnswer | Self::Unreachable { .. } | Self::StoreDown { .. })
    }

    /// Returns whether only an operator can improve the situation. A missing store is not such a problem: servers that
    /// are starting have none for a while.
    pub(crate) fn is_obstacle(&self) -> bool {
        self.is_lasting() && *self != Self::NoStore
    }

    pub(crate) fn forbidden(settings: &Nats, subject: &str) -> Self {
        let (node, cluster) = (settings.node_name().into(), settings.name().into());
        Self::Forbidden { subject: subject.into(), node, cluster }
    }

    pub(crate) fn of_connecting(server: &str, error: &ConnectError) -> Self {
        let server = server.to_owned();
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation => Self::Refused { server },
            ConnectErrorKind::Authentication => Self::BadKey { server, reason },
            ConnectErrorKind::Tls => Self::Tls { server, reason },
            ConnectErrorKind::TimedOut => Self::Unreachable { server, reason: "it does not answer".into() },
            _ if is_of_tls(error) => Self::Tls { server, reason },
            _ => Self::Unreachable { server, reason },
        }
    }
}

/// A refusal of the server for lack of permission. It arrives separately from the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) is_subscription: bool,
    pub(crate) subject: String,
}

impl Violation {
    /// Parses the text of the server: `Permissions Violation for Publish to "subject"`, or `for Subscription to`,
    /// which may be followed by the name of a queue.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("Permissions Violation for ")?;
        let (is_subscription, rest) = match rest.strip_prefix("Publish to \"") {
            Some(rest) => (false, rest),
            None => (true, rest.strip_prefix("Subscription to \"")?),
        };
        Some(Self { is_subscription, subject: rest.split('"').next()?.into() })
    }

    /// Returns true if a node cannot work without the permission: a node has to be reachable, to receive answers, and
    /// to ask the store.
    pub(crate) fn is_of_need(&self, settings: &Nats) -> bool {
        let (cluster, node) = (settings.name(), settings.node_name());
        let begins = |prefix: String| self.subject.starts_with(&prefix);
        match self.is_subscription {
            true => begins(format!("pr1.{cluster}.n.{node}.")) || begins(format!("pr1.{cluster}.i.{node}.")),
            false => begins("$JS.API.".into()),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_subscription { "subscribe to" } else { "publish on" };
        write!(f, "this node may not {what} `{}`", self.subject)
    }
}

/// Returns whether TLS failed: a failed handshake is reported as an I/O error that contains the TLS error.
fn is_of_tls(error: &ConnectError) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    io.and_then(std::io::Error::get_ref).is_some_and(|inner| inner.is::<async_nats::rustls::Error>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_from_the_words_of_the_server() {
        let read = |text: &str| Violation::read(text).map(|refusal| (refusal.is_subscription, refusal.subject));
        assert_eq!(read("Permissions Violation for Publish to \"a.b\""), Some((false, "a.b".into())));
        assert_eq!(
            read("Permissions Violation for Subscription to \"a.*\" using queue \"q\""),
            Some((true, "a.*".into()))
        );
        assert_eq!(read("Stale Connection"), None);
    }

    #[test]
    fn a_node_cannot_do_without_its_own_subjects() {
        let settings = Nats::at("localhost").cluster("bank").node("eu-1");
        for (is_subscription, subject, expected) in [
            (true, "pr1.bank.n.eu-1.7f3a.d.*.*", true),
            (true, "pr1.bank.i.eu-1.x", true),
            (true, "pr1.bank.n.eu-2.21.d.*.*", false),
            (false, "$JS.API.STREAM.INFO.KV_bank_nodes", true),
            (false, "pr1.bank.n.eu-2.21.d.eu-3.5", false),
        ] {
            let refusal = Violation { is_subscription, subject: subject.into() };
            assert_eq!(refusal.is_of_need(&settings), expected, "{refusal}");
        }
    }
}
