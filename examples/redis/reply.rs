//! The server's side of the protocol: replies as bytes.

use std::fmt::Display;

/// Maximum memory that is kept for later replies.
const KEPT: usize = 256 * 1024;

/// The replies to one client that have not been written yet.
#[derive(Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
}

impl Replies {
    /// Removes the replies after they have been written.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
    }

    /// Adds a simple string, such as `+OK`.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Adds an error: `-ERR …`. It may quote the client's text, but without line ends.
    pub fn error(&mut self, error: impl Display) {
        let text = format!("ERR {error}").replace(['\r', '\n'], " ");
        self.line(b'-', text.as_bytes());
    }

    /// Adds an integer, such as `:1`.
    pub fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds a bulk string: its length, such as `$5`, and the bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', itoa::Buffer::new().format(bytes.len()).as_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds `$-1`, which means no value.
    pub fn null(&mut self) {
        self.line(b'$', b"-1");
    }

    /// Adds a bulk string, or `$-1` for no value.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Begins an array of this many replies, such as `*2`.
    pub fn array(&mut self, length: usize) {
        self.line(b'*', itoa::Buffer::new().format(length).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
