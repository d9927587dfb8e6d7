//! The protocol, as the server speaks it: replies into bytes.

use std::fmt::Display;
use std::io::Write;

/// The replies to one client that have not been written yet. A reply cannot fail: memory takes what is put there.
#[derive(Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
}

impl Replies {
    /// `+OK`
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// `-ERR …`. What a client said may be quoted in it; the end of a line is none of that.
    pub fn error(&mut self, error: impl Display) {
        let text = format!("ERR {error}").replace(['\r', '\n'], " ");
        self.line(b'-', text);
    }

    /// `:1`
    pub fn integer(&mut self, number: i64) {
        self.line(b':', number);
    }

    /// `$5`, and the bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// `$-1`: there is none.
    pub fn null(&mut self) {
        self.line(b'$', -1);
    }

    /// A bulk string, if there is one.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// `*2`: the next so many replies are one.
    pub fn array(&mut self, length: usize) {
        self.line(b'*', length);
    }

    fn line(&mut self, kind: u8, text: impl Display) {
        self.bytes.push(kind);
        let written = write!(self.bytes, "{text}\r\n");
        debug_assert!(written.is_ok(), "writing to memory does not fail");
    }
}
