//! The serde form of an input that was left out.

use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};

/// Deserializes as a missing value: an `Option` becomes `None`, anything else fails.
pub(crate) struct LeftOut;

impl<'de> Deserializer<'de> for LeftOut {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("it is not there"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
