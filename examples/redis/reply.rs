//! The protocol, as the server speaks it: replies into bytes.

use std::fmt::Display;

/// What a large reply needed is not kept for the small ones after it.
const KEPT: usize = 256 * 1024;

/// The replies to one client that have not been written yet.
#[derive(Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
}

impl Replies {
    /// They have been written.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
    }

    /// `+OK`
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `-ERR …`. What a client said may be quoted in it; the end of a line is none of that.
    pub fn error(&mut self, error: impl Display) {
        let text = format!("ERR {error}").replace(['\r', '\n'], " ");
        self.line(b'-', text.as_bytes());
    }

    /// `:1`
    pub fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    /// `$5`, and the bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', itoa::Buffer::new().format(bytes.len()).as_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// `$-1`: there is none.
    pub fn null(&mut self) {
        self.line(b'$', b"-1");
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
        self.line(b'*', itoa::Buffer::new().format(length).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
