//! The error of a start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a console has not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The address is none, or cannot be listened on.
    #[error("cannot listen on `{address}`: {source}; give an address and a free port, such as `127.0.0.1:7766`")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Others could reach the address.
    #[error(
        "`{address}` can be reached from other machines; add `.allow_remote()` and `.token_file(…)`, and put a \
         proxy with TLS in front, or listen on 127.0.0.1"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The file of the token cannot be used.
    #[error("the token file `{}` cannot be used: {why}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The system gives no thread, or no random numbers.
    #[error("the system lacks something: {0}")]
    System(String),
}
