//! Who may look: the token, and where a request may come from.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use subtle::ConstantTimeEq;

/// The least length of a token from a file: that of one that is drawn.
const LENGTH: usize = 32;

/// What those who may look know: 128 random bits as text.
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

    /// Reads the token from a file, which is made if there is none. The error says what is wrong and what to do.
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

    /// Compares in a time that says nothing about the token.
    fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// Decides about requests.
pub(crate) struct Guard {
    token: Token,
    /// What the header `Host` may say.
    hosts: Vec<String>,
    /// The name of the cookie: browsers send cookies to all ports of a machine.
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

    /// Whether the request names this server. A page elsewhere may have its own name lead to this machine (DNS
    /// rebinding), and the browser then sends what it has for that name; but it says the name.
    pub(crate) fn is_addressed(&self, headers: &HeaderMap) -> bool {
        let host = single(headers, HOST).map(str::to_ascii_lowercase);
        host.is_some_and(|host| self.hosts.contains(&host))
    }

    /// Whether the request has the token, as a cookie or by itself.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let bearer = single(headers, AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        bearer.is_some_and(|token| self.token.is(token.trim()))
            || pairs.any(|(name, value)| name == self.cookie && self.token.is(value))
    }

    /// Whether the request comes from this server's own page, or from a script, which says nothing of a page. The
    /// cookie alone is no proof for old browsers.
    pub(crate) fn is_own(&self, headers: &HeaderMap) -> bool {
        if headers.get(ORIGIN).is_none() {
            return headers.get(COOKIE).is_none();
        }
        let origin = single(headers, ORIGIN).map(str::to_ascii_lowercase);
        let host = origin.as_deref().and_then(|origin| Some(origin.split_once("://")?.1));
        host.is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }

    /// Whether this is the token, from the URL.
    pub(crate) fn is_token(&self, text: &str) -> bool {
        self.token.is(text)
    }

    /// Returns the value of `Set-Cookie`: no script can read it, and no other site's page can send it.
    pub(crate) fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token.0)
    }
}

/// Returns the value of a header that must occur once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
