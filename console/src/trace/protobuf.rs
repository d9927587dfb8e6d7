//! Encoding of protocol buffers, as far as a trace needs it.

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

/// A message that is being encoded.
#[derive(Default)]
pub(super) struct ProtobufMessage {
    bytes: Vec<u8>,
}

impl ProtobufMessage {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the content and keeps the allocation.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Writes an integer as a varint. For an `int64`, pass its bits.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    pub(super) fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.key(field, LENGTH);
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes a nested message.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH);
        let start = self.bytes.len();
        write(self);
        // The length precedes the content but is known only afterward. Most messages are short, so the rotation moves
        // little.
        let end = self.bytes.len();
        self.varint((end - start) as u64);
        let prefix = self.bytes.len() - end;
        self.bytes[start..].rotate_right(prefix);
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples in the specification of the encoding, and a message whose length takes more than one byte.
    #[test]
    fn values_lie_as_the_format_says() {
        let mut message = ProtobufMessage::default();
        message.number(1, 150);
        message.text(2, "testing");
        message.message(3, |inner| inner.number(1, 150));
        message.fixed(4, 0x0102_0304_0506_0708);
        let expected =
            b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x21\x08\x07\x06\x05\x04\x03\x02\x01".as_slice();
        assert_eq!(message.bytes(), expected);
        message.clear();
        message.message(60, |inner| inner.text(2, &"x".repeat(200)));
        assert_eq!(message.bytes()[..7], [0xe2, 0x03, 0xcb, 0x01, 0x12, 0xc8, 0x01]);
        assert_eq!(message.bytes().len(), 7 + 200);
        message.clear();
        message.number(30, u64::MAX);
        assert_eq!(message.bytes(), b"\xf0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    }
}
