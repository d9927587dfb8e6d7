//! The encoding of messages, each of which is declared once.
//!
//! [`messages!`] declares an enum. Each variant declares the byte that it begins with on the wire, and its fields. The
//! types of the fields implement [`Field`]. The fields are encoded one after the other, in the order of their
//! declaration. So a new kind of message is a new variant.
//!
//! | field | bytes |
//! |---|---|
//! | number | big-endian, of fixed size |
//! | text | length u16, UTF-8 |
//! | PID | 16, as [`Pid::to_bytes`] |
//! | [`Bytes`], content, a list of PIDs, an exit reason | all that are left, so only the last field can be one |
//! | enum declared by [`codes!`] | u8 |
//!
//! **The decoder trusts no byte.** It never panics, reserves no more memory than there are bytes, and accepts only
//! bytes to which the decoded message would be encoded again. The content of a message is checked by its codec.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use postroom::Pid;

/// Why bytes are not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end too early.
    #[error("an envelope is too short; update the older of the two nodes")]
    Truncated,
    /// There are bytes after the end.
    #[error("an envelope has {bytes} bytes after its end; update the older of the two nodes")]
    TooLong {
        /// The number of surplus bytes.
        bytes: usize,
    },
    /// A byte that selects a variant has an unknown value.
    #[error("an envelope has code {code} for {what}, which this node does not know; update the older of the two nodes")]
    Kind {
        /// The type of the field that the byte belongs to.
        what: &'static str,
        /// The byte.
        code: u8,
    },
    /// A PID is not valid.
    #[error("an envelope has a PID without a node; check who may publish to this node")]
    Pid,
    /// A text is not UTF-8, or a name is not valid.
    #[error("a text in an envelope is not UTF-8; check who may publish to this node")]
    NotText,
}

/// A value that can be a field of a message.
pub(crate) trait Field: Sized {
    /// Returns the approximate number of bytes that [`put`](Self::put) writes, for reserving a buffer.
    fn length(&self) -> usize;
    /// Writes the value.
    fn put(&self, to: &mut BytesMut);
    /// Takes a value from the front.
    fn take(from: &mut Bytes) -> Result<Self, WireError>;
}

macro_rules! numbers {
    ($($number:ident $put:ident $take:ident)*) => {$(
        impl Field for $number {
            fn length(&self) -> usize {
                size_of::<Self>()
            }

            fn put(&self, to: &mut BytesMut) {
                to.$put(*self);
            }

            fn take(from: &mut Bytes) -> Result<Self, WireError> {
                from.$take().map_err(|_| WireError::Truncated)
            }
        }
    )*};
}

numbers! {
    u8 put_u8 try_get_u8
    u16 put_u16 try_get_u16
    u64 put_u64 try_get_u64
    u128 put_u128 try_get_u128
}

impl Field for Pid {
    fn length(&self) -> usize {
        16
    }

    fn put(&self, to: &mut BytesMut) {
        to.put_slice(&self.to_bytes());
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        Self::from_bytes(u128::take(from)?.to_be_bytes()).ok_or(WireError::Pid)
    }
}

/// A text of more than 65,535 bytes is cut. Names are shorter, and for a text that people read, the beginning is
/// enough.
impl Field for String {
    fn length(&self) -> usize {
        2 + self.len()
    }

    fn put(&self, to: &mut BytesMut) {
        put_text(self, to);
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        let length = usize::from(u16::take(from)?);
        if length > from.len() {
            return Err(WireError::Truncated);
        }
        Self::from_utf8(from.split_to(length).into()).map_err(|_| WireError::NotText)
    }
}

/// Writes a text as the field of a message.
pub(crate) fn put_text(text: &str, to: &mut BytesMut) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    to.put_u16(text.len() as u16);
    to.put_slice(text.as_bytes());
}

impl Field for Bytes {
    fn length(&self) -> usize {
        self.len()
    }

    fn put(&self, to: &mut BytesMut) {
        to.put_slice(self);
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        Ok(std::mem::take(from))
    }
}

impl Field for Vec<Pid> {
    fn length(&self) -> usize {
        16 * self.len()
    }

    fn put(&self, to: &mut BytesMut) {
        self.iter().for_each(|pid| pid.put(to));
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        let mut pids = Self::with_capacity(from.len() / 16);
        while !from.is_empty() {
            pids.push(Pid::take(from)?);
        }
        Ok(pids)
    }
}

/// Declares an enum whose variants have no fields, with the byte of each variant.
macro_rules! codes {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        $vis enum $name { $($(#[$variant_meta])* $variant = $code,)* }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl $crate::wire::Field for $name {
            fn length(&self) -> usize {
                1
            }

            fn put(&self, to: &mut bytes::BytesMut) {
                (*self as u8).put(to);
            }

            fn take(from: &mut bytes::Bytes) -> Result<Self, $crate::wire::WireError> {
                let code = u8::take(from)?;
                let found = Self::ALL.iter().find(|variant| **variant as u8 == code);
                found.copied().ok_or($crate::wire::WireError::Kind { what: stringify!($name), code })
            }
        }
    };
}

/// Declares an enum of messages, with the byte that each message begins with, and generates `encode` and `decode`. The
/// enum must have a method `check`. `decode` calls it to check what the fields do not check themselves.
macro_rules! messages {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $code:literal {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        },)*
    }) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$variant_meta])* $variant { $($(#[$field_meta])* $field: $type,)* },)*
        }

        impl $name {
            /// Encodes the message.
            $vis fn encode(&self) -> bytes::Bytes {
                use $crate::wire::Field;
                match self {
                    $(Self::$variant { $($field),* } => {
                        let mut out = bytes::BytesMut::with_capacity(1 $(+ Field::length($field))*);
                        u8::put(&$code, &mut out);
                        $(Field::put($field, &mut out);)*
                        out.freeze()
                    })*
                }
            }

            /// Decodes a message.
            ///
            /// # Errors
            /// If the bytes are not exactly one message.
            $vis fn decode(mut bytes: bytes::Bytes) -> Result<Self, $crate::wire::WireError> {
                use $crate::wire::{Field, WireError};
                let message = match u8::take(&mut bytes)? {
                    $($code => Self::$variant { $($field: <$type as Field>::take(&mut bytes)?,)* },)*
                    code => return Err(WireError::Kind { what: stringify!($name), code }),
                };
                if !bytes.is_empty() {
                    return Err(WireError::TooLong { bytes: bytes.len() });
                }
                message.check()?;
                Ok(message)
            }
        }
    };
}

pub(crate) use {codes, messages};
