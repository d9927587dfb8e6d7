//! Access control: the token, and checks of a request's `Host` and `Origin`.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Minimum length of a token read from a file: the length of a generated one.
const LENGTH: usize = 32;

/// The secret that grants access: 128 random bits as hexadecimal text, or the content of a token file.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn draw() -> Result<Self, String> {
        let mut bytes = [0; LENGTH / 2];
        getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
        let mut text = String::with_capacity(LENGTH);
        bytes.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        Ok(Self(text))
    }

    /// Reads the token from a file, which is created if it does not exist. An error says what is wrong and how to fix
    /// it.
    pub(crate) fn of_file(path: &Path) -> Result<Self, String> {
        match Self::make_file(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::read_file(path),
            Err(error) => Err(format!("{error}; give a path in a folder that exists and can be written to")),
            Ok(token) => Ok(token),
        }
    }

    fn make_file(path: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let token = Self::draw().map_err(std::io::Error::other)?;
        writeln!(file, "{}", token.0)?;
        Ok(token)
    }

    fn read_file(path: &Path) -> Result<Self, String> {
        #[cfg(unix)]
        {
            let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
            if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
                return Err("others can read it; make it private with `chmod 600`".into());
            }
        }
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let token = text.trim();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if token.len() < LENGTH || !is_plain {
            return Err(format!(
                "it has no token; write at least {LENGTH} letters and digits, or delete the file, and one is made"
            ));
        }
        Ok(Self(token.to_owned()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Compares in constant time, so that the duration reveals nothing about the token.
    fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// The guard that decides which requests are allowed.
pub(crate) struct Guard {
    token: Token,
    /// Accepted values of the header `Host`.
    hosts: Vec<String>,
    /// The name of the cookie. It contains the port, since browsers send cookies to all ports of a machine.
    cookie: String,
}

impl Guard {
    pub(crate) fn new(token: Token, address: SocketAddr, more: Vec<String>) -> Self {
        let port = address.port();
        let mut hosts = more;
        hosts.push(address.to_string());
        if address.ip().is_loopback() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
        }
        Self { token, hosts, cookie: format!("postroom_console_{port}") }
    }

    /// Returns whether the request names this server in `Host`. A web page elsewhere can make its own name resolve to
    /// this machine (DNS rebinding), but the browser then sends that name in `Host`.
    pub(crate) fn is_addressed(&self, headers: &HeaderMap) -> bool {
        let host = single(headers, HOST).map(str::to_ascii_lowercase);
        host.is_some_and(|host| self.hosts.contains(&host))
    }

    /// Returns whether the request carries the token, in a cookie or as a bearer token.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let bearer = single(headers, AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        bearer.is_some_and(|token| self.token.is(token.trim()))
            || pairs.any(|(name, value)| name == self.cookie && self.token.is(value))
    }

    /// Returns whether the request comes from this server's own page or from a script. A request without `Origin`
    /// counts as a script only if it has no cookie: old browsers may omit `Origin`, so the cookie alone proves nothing.
    pub(crate) fn is_own(&self, headers: &HeaderMap) -> bool {
        if headers.get(ORIGIN).is_none() {
            return headers.get(COOKIE).is_none();
        }
        let origin = single(headers, ORIGIN).map(str::to_ascii_lowercase);
        let host = origin.as_deref().and_then(|origin| Some(origin.split_once("://")?.1));
        host.is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }

    /// Returns whether a text from the URL is the token.
    pub(crate) fn is_token(&self, text: &str) -> bool {
        self.token.is(text)
    }

    /// Returns the value of `Set-Cookie`: scripts cannot read the cookie, and pages of other sites cannot send it.
    pub(crate) fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token.0)
    }
}

/// Returns the value of a header, or `None` if it does not occur exactly once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
