//! The options of a console.

use crate::error::ConsoleError;
use crate::server::Console;
use crate::token::Token;
use postroom::Host;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

/// A builder for a console, returned by [`Console::of`].
#[must_use = "call `start`"]
#[derive(Clone, Debug)]
pub struct Builder {
    host: Host,
    listen: String,
    token_file: Option<PathBuf>,
    is_remote: bool,
    hosts: Vec<String>,
    may_act: bool,
}

impl Console {
    /// Returns a builder for a console of this host or runtime.
    pub fn of(host: &Host) -> Builder {
        Builder::new(*host)
    }
}

impl Builder {
    fn new(host: Host) -> Self {
        Self {
            host,
            listen: "127.0.0.1:0".into(),
            token_file: None,
            is_remote: false,
            hosts: Vec::new(),
            may_act: false,
        }
    }

    /// Sets the address to listen on. The default is `127.0.0.1` and a free port.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = address.into();
        self
    }

    /// Reads the token from a file, for scripts and Prometheus. If the file does not exist, it is created with a new
    /// token and is readable only by this user. Without this option, each start generates a new token.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// Allows an address that other machines can reach. This also requires a [`token_file`](Self::token_file).
    pub fn allow_remote(mut self) -> Self {
        self.is_remote = true;
        self
    }

    /// Accepts requests whose header `Host` has this value, such as the name of a proxy in front of the console, with
    /// the port if it is not 80. Other names are refused, since any web page can make its own host name resolve to this
    /// machine.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Allows authorized users to stop, kill and tap processes, and to make recordings. Each such action is logged with
    /// the client's address.
    pub fn controls(mut self, may_act: bool) -> Self {
        self.may_act = may_act;
        self
    }

    /// Starts the console. It runs until it is dropped.
    ///
    /// # Errors
    /// Returns a [`ConsoleError`], whose text says how to fix the problem. The program can continue without a console.
    pub fn start(self) -> Result<Console, ConsoleError> {
        let failed = |source| ConsoleError::Listen { address: self.listen.clone(), source };
        let addresses: Vec<SocketAddr> = self.listen.to_socket_addrs().map_err(failed)?.collect();
        let may_be_reached = addresses.iter().find(|address| !address.ip().is_loopback());
        if let Some(&address) = may_be_reached
            && !(self.is_remote && self.token_file.is_some())
        {
            return Err(ConsoleError::NotLoopback { address });
        }
        let token = match self.token_file {
            Some(path) => Token::of_file(&path).map_err(|why| ConsoleError::TokenFile { path, why })?,
            None => Token::draw().map_err(ConsoleError::System)?,
        };
        let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
        Console::serve(self.host, listener, token, self.hosts, self.may_act)
    }
}
