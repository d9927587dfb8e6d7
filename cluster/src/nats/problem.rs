//! Why there is no connection, or no store.

use super::settings::Nats;
use crate::engine::Bucket;
use crate::frame::MAX_FRAME;
use async_nats::{ConnectError, ConnectErrorKind};
use std::error::Error;
use std::fmt;

/// The oldest server whose store reports entries that it deletes because of their age.
pub(super) const OLDEST_SERVER: (u64, u64) = (2, 12);

/// Why the engine is not connected, or has no store. It goes on trying in any case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No attempt has come to an end so far.
    #[error("there has been no answer so far; wait longer, or check the address and the network")]
    NoAnswer,
    /// The server cannot be reached.
    #[error("`{server}` cannot be reached: {reason}; start a server there, or correct the address")]
    Unreachable {
        /// Its address.
        server: String,
        /// What the operating system says.
        reason: String,
    },
    /// TLS does not work.
    #[error("there is no TLS with `{server}`: {reason}; check its certificate, and `.root_certificates(…)`")]
    Tls {
        /// Its address.
        server: String,
        /// What the library says.
        reason: String,
    },
    /// The server does not accept the secret, or wants one.
    #[error("`{server}` refuses this node; give it the `.nkey(…)`, `.credentials(…)` or `.token(…)` that it knows")]
    Refused {
        /// Its address.
        server: String,
    },
    /// The secret cannot be used: its key has a wrong checksum, for example.
    #[error("this node cannot authenticate to `{server}`: {reason}; make the key anew")]
    BadKey {
        /// Its address.
        server: String,
        /// What is wrong.
        reason: String,
    },
    /// The server knows the key, and it is not that of this node.
    #[error(
        "the key of this node may not use `{subject}`; use the key that was made for node `{node}` of cluster \
         `{cluster}`, or join under the name that the key was made for"
    )]
    Forbidden {
        /// What the server has refused.
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
        /// Its version.
        version: String,
    },
    /// The server takes no message as long as a frame.
    #[error(
        "`{server}` takes messages of {limit} bytes, and nodes send frames of {MAX_FRAME}; raise `max_payload` in its \
         configuration, to its default of 1MB"
    )]
    SmallPayload {
        /// Its address.
        server: String,
        /// Its `max_payload`.
        limit: usize,
    },
    /// The server has no store.
    #[error("the server has no JetStream, or none for this account; start it with `-js`, or enable it there")]
    NoStore,
    /// The store does not work at present: its servers have no leader, for example.
    #[error("the store does not work at present: {reason}; check that most of its servers run")]
    StoreDown {
        /// What the server says.
        reason: String,
    },
    /// A table of the store cannot be created.
    #[error("the table {bucket:?} cannot be created: {reason}; correct `.replicas(…)`, or the server's limits")]
    BucketRefused {
        /// The table.
        bucket: Bucket,
        /// What the server says.
        reason: String,
    },
    /// A table of the store is there, and is not as it must be.
    #[error(
        "the table {bucket:?} has `{field}` {found}, and {wanted} is needed; use the `.replicas(…)` of the other \
         nodes, or edit the stream `{stream}`"
    )]
    BucketDiffers {
        /// The table.
        bucket: Bucket,
        /// The stream behind it.
        stream: String,
        /// The field of its configuration.
        field: &'static str,
        /// Its value.
        found: String,
        /// The value that is needed.
        wanted: String,
    },
}

impl Problem {
    /// Returns whether an operator has to do something about it. The others can end by themselves.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::NoAnswer | Self::Unreachable { .. } | Self::StoreDown { .. })
    }

    /// Returns whether nothing gets better before an operator has done something. Servers that are being started have
    /// no store for a while.
    pub(super) fn is_obstacle(&self) -> bool {
        self.is_lasting() && *self != Self::NoStore
    }

    pub(super) fn forbidden(settings: &Nats, subject: &str) -> Self {
        let (node, cluster) = (settings.node_name().into(), settings.name().into());
        Self::Forbidden { subject: subject.into(), node, cluster }
    }

    pub(super) fn of_connecting(server: &str, error: &ConnectError) -> Self {
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

/// What the server has refused because the node has no right to it. It comes beside the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) is_subscription: bool,
    pub(super) subject: String,
}

impl Violation {
    /// Reads what the server says: `Permissions Violation for Publish to "subject"`, or `for Subscription to`, which
    /// may have the name of a queue after it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("Permissions Violation for ")?;
        let (is_subscription, rest) = match rest.strip_prefix("Publish to \"") {
            Some(rest) => (false, rest),
            None => (true, rest.strip_prefix("Subscription to \"")?),
        };
        Some(Self { is_subscription, subject: rest.split('"').next()?.into() })
    }

    /// Returns whether a node cannot do without it: to be reached, to hear answers, and to ask the store.
    pub(super) fn is_of_need(&self, settings: &Nats) -> bool {
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

/// A handshake that fails comes as an error of input and output, within which is that of TLS.
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
