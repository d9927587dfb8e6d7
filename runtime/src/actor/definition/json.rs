//! Inputs as JSON: an array in order, or an object by name.

use super::inputs::Inputs;
use serde_json::Value;

/// JSON inputs for [`Host::start_json`](crate::Host::start_json) and [`Host::send_json`](crate::Host::send_json): an
/// array of all inputs in order, or an object from names to inputs. They can be given as text or as a
/// [`serde_json::Value`].
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
