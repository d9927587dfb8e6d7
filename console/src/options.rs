//! What a console is told before it starts.

use crate::error::ConsoleError;
use crate::server::Console;
use crate::token::Token;
use postroom::Host;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

/// A console that has not started: made by [`Console::of`].
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
    /// Begins a console of this host, or runtime.
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

    /// Sets the address to listen on; `127.0.0.1` and a free port unless it is said here.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = address.into();
        self
    }

    /// Takes the token from a file, for scripts and Prometheus. If there is none, one is made that only this user can
    /// read. Without this, each start draws a token.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// Allows an address that other machines can reach. It needs a [`token_file`](Self::token_file).
    pub fn allow_remote(mut self) -> Self {
        self.is_remote = true;
        self
    }

    /// Allows requests that name this host, with its port if it is not 80: that of a proxy in front. Other names are
    /// refused, since any page in a browser can have its own name lead to this machine.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Lets those who may look also stop, kill and tap processes. Each such act is logged, with the address that asked.
    pub fn controls(mut self, may_act: bool) -> Self {
        self.may_act = may_act;
        self
    }

    /// Starts the console, which runs until it is dropped.
    ///
    /// # Errors
    /// [`ConsoleError`], which says what to do. The program can go on without a console.
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
