//! The error of starting a console.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a console could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The address is invalid, or the console cannot listen on it.
    #[error("cannot listen on `{address}`: {source}; give an address and a free port, such as `127.0.0.1:7766`")]
    Listen {
        /// The address.
        address: String,
        /// The error that the system reported.
        source: io::Error,
    },
    /// Other machines could reach the address.
    #[error(
        "`{address}` can be reached from other machines; add `.allow_remote()` and `.token_file(…)`, and put a \
         proxy with TLS in front, or listen on 127.0.0.1"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The token file cannot be used.
    #[error("the token file `{}` cannot be used: {why}", path.display())]
    TokenFile {
        /// The path of the file.
        path: PathBuf,
        /// The problem, and how to fix it.
        why: String,
    },
    /// The system could not provide a resource, such as a thread or random numbers.
    #[error("the system lacks something: {0}")]
    System(String),
}
