//! Why there is no connection, or no store.

use crate::engine::Bucket;
use async_nats::{ConnectError, ConnectErrorKind};
use std::error::Error;

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
    /// Returns whether somebody has to do something about it. The others can end by themselves.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::NoAnswer | Self::Unreachable { .. } | Self::StoreDown { .. })
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

/// A handshake that fails comes as an error of input and output, within which is that of TLS.
fn is_of_tls(error: &ConnectError) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    io.and_then(std::io::Error::get_ref).is_some_and(|inner| inner.is::<async_nats::rustls::Error>())
}
