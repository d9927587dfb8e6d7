//! Encoding and decoding of one value, in either format.

use super::guard::{DecodeGuard, Limit};
use super::message::MAX_MESSAGE;
use bytes::Bytes;
use postroom::__private::discard_panic;
use postroom::remote::{RemoteValue, WireCodec};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Display;
use std::io::{self, Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The maximum length in bytes of an error's text. The text may quote received data.
const MAX_TEXT: usize = 200;

/// Why a value could not be encoded or decoded. The fault does not name the message, since only the caller knows that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The value takes this many bytes, more than a message may have.
    TooLong(usize),
    TooDeep,
    TooManyElements,
    /// This many bytes follow the value.
    Trailing(usize),
    /// The first byte names another codec.
    Codec {
        expected: u8,
        came: Option<u8>,
    },
    /// The error text of the format, or of the type's own code.
    Text(String),
    /// The type's own code panicked.
    Panicked(String),
}

/// Returns the byte that precedes an encoded value.
pub(super) fn codec_byte(codec: WireCodec) -> u8 {
    match codec {
        WireCodec::Compact => 1,
        WireCodec::Named => 2,
    }
}

/// Encodes a value after the byte of its codec.
pub(super) fn encode<T: Serialize>(value: &T, codec: WireCodec) -> Result<Bytes, Fault> {
    let mut out = Limited { bytes: vec![codec_byte(codec)], length: 1 };
    let written = contain(|| match codec {
        WireCodec::Compact => postcard::to_io(value, &mut out).map(drop).map_err(|error| text_of(&error, MAX_TEXT)),
        WireCodec::Named => {
            let mut serializer = rmp_serde::Serializer::new(&mut out).with_struct_map();
            value.serialize(&mut serializer).map_err(|error| text_of(&error, MAX_TEXT))
        }
    })?;
    if out.length > MAX_MESSAGE {
        return Err(Fault::TooLong(out.length));
    }
    written.map_err(Fault::Text)?;
    Ok(out.bytes.into())
}

/// Decodes a value. The value must take up all of the bytes.
pub(super) fn decode<T: RemoteValue>(bytes: &[u8], codec: WireCodec) -> Result<T, Fault> {
    decode_any(bytes, codec)
}

pub(super) fn decode_any<T: DeserializeOwned>(bytes: &[u8], codec: WireCodec) -> Result<T, Fault> {
    if bytes.len() > MAX_MESSAGE {
        return Err(Fault::TooLong(bytes.len()));
    }
    let expected = codec_byte(codec);
    let bytes = match bytes.split_first() {
        Some((&came, rest)) if came == expected => rest,
        other => return Err(Fault::Codec { expected, came: other.map(|(came, _)| *came) }),
    };
    let guard = DecodeGuard::new(bytes.len());
    // A refused value is dropped inside `contain`: its `drop` is the type's own code too.
    contain(|| {
        let (value, left) = match codec {
            WireCodec::Compact => {
                let mut input = postcard::Deserializer::from_bytes(bytes);
                let value = T::deserialize(guard.around(&mut input)).map_err(|error| text_of(&error, MAX_TEXT));
                (value, input.finalize().map_or(0, <[u8]>::len))
            }
            WireCodec::Named => {
                let mut input = rmp_serde::Deserializer::new(Cursor::new(bytes));
                let value = T::deserialize(guard.around(&mut input)).map_err(|error| text_of(&error, MAX_TEXT));
                (value, bytes.len().saturating_sub(input.position() as usize))
            }
        };
        match guard.reached() {
            Some(Limit::Depth) => return Err(Fault::TooDeep),
            Some(Limit::Elements) => return Err(Fault::TooManyElements),
            None => {}
        }
        let value = value.map_err(Fault::Text)?;
        if left > 0 { Err(Fault::Trailing(left)) } else { Ok(value) }
    })?
}

/// A buffer that holds at most one message of the maximum length. Bytes beyond it are only counted, for the error.
struct Limited {
    bytes: Vec<u8>,
    length: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length += bytes.len();
        if self.length <= MAX_MESSAGE {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes = Vec::new();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a type's own code and contains its panic. So a panic costs only the current message, and not the messages that
/// other processes wait for.
pub(super) fn contain<R>(run: impl FnOnce() -> R) -> Result<R, Fault> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => match panic.downcast::<&str>() {
                Ok(text) => text.to_string(),
                Err(panic) => {
                    discard_panic(panic);
                    "a value that is no text".to_owned()
                }
            },
        };
        Fault::Panicked(cut(&text, MAX_TEXT).to_owned())
    })
}

/// Returns at most `limit` bytes of an error's text. The error's `Display` may be user code.
pub(super) fn text_of(error: &dyn Display, limit: usize) -> String {
    match catch_unwind(AssertUnwindSafe(|| error.to_string())) {
        Ok(text) => cut(&text, limit).to_owned(),
        Err(panic) => {
            discard_panic(panic);
            "an error whose `Display` panics".to_owned()
        }
    }
}

/// Returns the beginning of a text, at most `limit` bytes.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    /// Panics when it is dropped. A decoded value is dropped if further bytes follow it.
    #[derive(Debug, Serialize, Deserialize)]
    struct Bomb(u8);

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "a drop");
        }
    }

    #[test]
    fn the_drop_of_a_value_that_is_refused_is_contained() {
        for codec in [WireCodec::Compact, WireCodec::Named] {
            let refused = decode::<Bomb>(&[codec_byte(codec), 5, 9], codec).map(std::mem::forget);
            assert!(matches!(&refused, Err(Fault::Panicked(text)) if text == "a drop"), "{refused:?}");
        }
    }
}
