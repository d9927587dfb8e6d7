//! Inputs as JSON: an array in order, or an object by name.

use super::inputs::Inputs;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};
use serde_json::Value;

/// JSON inputs for [`Host::start_json`](crate::Host::start_json) and [`Host::send_json`](crate::Host::send_json): an
/// array of all inputs in order, or an object with one for each name; as text or [`serde_json::Value`].
///
/// An object may omit inputs of type `Option`, which are then `None`.
#[derive(Clone, Debug)]
pub struct JsonInputs(Result<Value, String>);

impl JsonInputs {
    pub(crate) fn read(self) -> Result<Inputs, String> {
        match self.0? {
            Value::Array(values) => Ok(Inputs::json(values)),
            Value::Object(values) => Ok(Inputs::json_by_name(values)),
            other => Err(format!("`{}` came", other.to_string().chars().take(80).collect::<String>())),
        }
    }
}

impl From<&str> for JsonInputs {
    fn from(text: &str) -> Self {
        Self(serde_json::from_str(text).map_err(|error| error.to_string()))
    }
}

impl From<&String> for JsonInputs {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for JsonInputs {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Value> for JsonInputs {
    fn from(value: Value) -> Self {
        Self(Ok(value))
    }
}

impl From<&Value> for JsonInputs {
    fn from(value: &Value) -> Self {
        Self(Ok(value.clone()))
    }
}

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
