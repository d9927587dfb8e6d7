//! The inputs of an entry or a message that is selected by name at run time, as values or as JSON.

use super::probe_macros::{answers, probe};
use crate::errors::{EntryError, describe};
use crate::{Payload, Payloads};
use std::fmt;

/// An input of an entry or of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputInfo {
    /// The name of the parameter.
    pub name: &'static str,
    /// The type, as written in the source.
    pub type_name: &'static str,
}

impl fmt::Display for InputInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.type_name)
    }
}

/// The inputs as passed by the caller. For generated code.
#[derive(Debug)]
pub struct Inputs(Given);

#[derive(Debug)]
enum Given {
    InOrder(Vec<Input>),
    #[cfg(feature = "serde")]
    ByName(serde_json::Map<String, serde_json::Value>),
}

#[derive(Debug)]
enum Input {
    Value(Payload),
    #[cfg(feature = "serde")]
    Json(serde_json::Value),
    /// Absent from the JSON object.
    #[cfg(feature = "serde")]
    Missing,
}

/// Inputs whose number has been checked, to be taken one by one. For generated code.
#[derive(Debug)]
pub struct CheckedInputs {
    process: &'static str,
    method: &'static str,
    expected: &'static [InputInfo],
    inputs: std::vec::IntoIter<Input>,
    taken: usize,
}

impl Inputs {
    /// Wraps values, in order.
    pub fn values(values: Payloads) -> Self {
        Self(Given::InOrder(values.into_iter().map(Input::Value).collect()))
    }

    #[cfg(feature = "serde")]
    pub(crate) fn json(values: Vec<serde_json::Value>) -> Self {
        Self(Given::InOrder(values.into_iter().map(Input::Json).collect()))
    }

    #[cfg(feature = "serde")]
    pub(crate) fn json_by_name(values: serde_json::Map<String, serde_json::Value>) -> Self {
        Self(Given::ByName(values))
    }

    /// Checks the number of the inputs, or their names, against the parameters of a method of `process`.
    pub fn check_for(
        self,
        process: &'static str,
        method: &'static str,
        expected: &'static [InputInfo],
    ) -> Result<CheckedInputs, EntryError> {
        #[cfg_attr(
            not(feature = "serde"),
            expect(clippy::infallible_destructuring_match, reason = "with `serde` it is none")
        )]
        let inputs = match self.0 {
            Given::InOrder(inputs) => inputs,
            #[cfg(feature = "serde")]
            Given::ByName(given) => in_order(given, process, method, expected)?,
        };
        if inputs.len() != expected.len() {
            return Err(EntryError::Count {
                process: process.to_string(),
                entry: method.to_string(),
                expected: expected.len(),
                came: inputs.len(),
                inputs: expected.iter().map(ToString::to_string).collect(),
            });
        }
        Ok(CheckedInputs { process, method, expected, inputs: inputs.into_iter(), taken: 0 })
    }
}

/// Puts named inputs in the order of the parameters, and refuses unknown names.
#[cfg(feature = "serde")]
fn in_order(
    mut given: serde_json::Map<String, serde_json::Value>,
    process: &'static str,
    method: &'static str,
    expected: &'static [InputInfo],
) -> Result<Vec<Input>, EntryError> {
    let inputs = expected.iter().map(|input| given.remove(input.name).map_or(Input::Missing, Input::Json)).collect();
    match given.keys().next() {
        None => Ok(inputs),
        Some(unknown) => Err(EntryError::UnknownInput {
            process: process.to_string(),
            entry: method.to_string(),
            input: unknown.chars().take(80).collect(),
            has: expected.iter().map(|input| input.name.to_string()).collect(),
        }),
    }
}

impl CheckedInputs {
    fn next(&mut self) -> Option<Input> {
        self.taken += 1;
        self.inputs.next()
    }

    fn last(&self) -> (String, String) {
        let input = self.expected.get(self.taken - 1);
        input.map_or_else(Default::default, |input| (input.name.to_string(), input.type_name.to_string()))
    }

    fn wrong(&self, came: String) -> EntryError {
        let (input, expected) = self.last();
        EntryError::Type { process: self.process.to_string(), entry: self.method.to_string(), input, expected, came }
    }

    #[cfg(feature = "serde")]
    fn missing(&self) -> EntryError {
        let (input, expected) = self.last();
        EntryError::Missing { process: self.process.to_string(), entry: self.method.to_string(), input, expected }
    }
}

probe! {
    /// Selects how an input is taken, by the traits that its type implements. For generated code.
    InputOf<T>
}

answers! {
    /// For a type that is not `Send`. The compiler reports the missing `Send` where the value is sent, and need not
    /// repeat it here.
    TakeNothing<T>: [T] InputOf<T> => fn __postroom_take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError> {
        let _unused = inputs.next();
        Err(inputs.wrong("a value, as it is not `Send`,".to_string()))
    }
    /// For any `Send` type: takes a value.
    TakeValue<T>: [T: Send + 'static] &InputOf<T> =>
    fn __postroom_take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError> {
        match inputs.next() {
            Some(Input::Value(value)) => convert(value).map_err(|mut value| inputs.wrong(describe(&mut value))),
            #[cfg(feature = "serde")]
            Some(Input::Json(_)) => {
                Err(inputs.wrong("JSON, as it is not `Deserialize`,".to_string()))
            }
            #[cfg(feature = "serde")]
            Some(Input::Missing) => Err(inputs.missing()),
            None => Err(inputs.wrong("nothing".to_string())),
        }
    }
}

#[cfg(feature = "serde")]
answers! {
    /// For a type that implements `Deserialize`: takes a value or JSON.
    TakeJson<T>: [T: Send + serde::de::DeserializeOwned + 'static] &&InputOf<T> =>
    fn __postroom_take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError> {
        match inputs.next() {
            Some(Input::Value(value)) => convert(value).map_err(|mut value| inputs.wrong(describe(&mut value))),
            Some(Input::Json(value)) => {
                // Both texts may quote the whole input; the error shows only its beginning.
                let start = |text: String, length| text.chars().take(length).collect::<String>();
                T::deserialize(&value).map_err(|error| {
                    let (text, error) = (start(value.to_string(), 80), start(error.to_string(), 160));
                    inputs.wrong(format!("the JSON `{text}` ({error})"))
                })
            }
            // Treated like an absent field of a struct: an `Option` becomes `None`.
            Some(Input::Missing) => T::deserialize(super::left_out::LeftOut).map_err(|_| inputs.missing()),
            None => Err(inputs.wrong("nothing".to_string())),
        }
    }
}

/// Converts the value to a `T`: unchanged, by a lossless number conversion, or from a `&'static str` to a `String`.
fn convert<T: Send + 'static>(value: Payload) -> Result<T, Payload> {
    let mut value = match value.take::<T>() {
        Ok(value) => return Ok(value),
        Err(value) => value,
    };
    let text = value.get_mut::<&'static str>().map(|text| text.to_string());
    text.map_or_else(|| convert_number(&mut value), same).ok_or(value)
}

fn same<A: Send + 'static, T: Send + 'static>(value: A) -> Option<T> {
    Payload::new(value).take().ok()
}

/// The limit up to which every integer is exact as a float: within it, floats without a fraction convert to integers,
/// and integers to floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

macro_rules! number_conversions {
    ($($integer:ty)*) => {
        /// Returns a number of another primitive type as a `T`, if `T` can hold it exactly.
        fn convert_number<T: Send + 'static>(value: &mut Payload) -> Option<T> {
            // An integer that does not fit into an `i128` fits only its own type.
            let integer = None$(.or(value.get_mut::<$integer>().and_then(|number| i128::try_from(*number).ok())))*;
            let float = value.get_mut::<f32>().map(|float| f64::from(*float)).or(value.get_mut::<f64>().copied());
            let is_exact = |float: &f64| float.fract() == 0.0 && float.abs() <= EXACT;
            let integer = integer.or(float.filter(is_exact).map(|float| float as i128));
            let exact = integer.filter(|number| number.unsigned_abs() <= EXACT as u128);
            let float = float.or(exact.map(|number| number as f64));
            $(if let Some(number) = integer.and_then(|number| <$integer>::try_from(number).ok())
                && let Some(number) = same::<$integer, T>(number) {
                return Some(number);
            })*
            let float = float?;
            let single = float as f32;
            let is_exact = f64::from(single) == float || float.is_nan();
            same(float).or_else(|| if is_exact { same(single) } else { None })
        }
    };
}
number_conversions!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_convert_where_nothing_is_lost() {
        assert_eq!(convert::<i64>(Payload::new(100_i32)).ok(), Some(100));
        assert_eq!(convert::<u8>(Payload::new(255_i64)).ok(), Some(255));
        assert_eq!(convert::<f64>(Payload::new(3_i32)).ok(), Some(3.0));
        assert_eq!(convert::<u128>(Payload::new(u128::MAX)).ok(), Some(u128::MAX));
        assert_eq!(convert::<f32>(Payload::new(0.5_f64)).ok(), Some(0.5));
        assert_eq!(convert::<i32>(Payload::new(4.0_f64)).ok(), Some(4));
        assert_eq!(convert::<String>(Payload::new("text")).ok(), Some("text".to_string()));
    }

    #[test]
    fn what_would_lose_something_comes_back() {
        assert!(convert::<u8>(Payload::new(256_i32)).is_err());
        assert!(convert::<u64>(Payload::new(-1_i32)).is_err());
        assert!(convert::<i64>(Payload::new(0.5_f64)).is_err());
        assert!(convert::<f32>(Payload::new(0.1_f64)).is_err());
        assert!(convert::<f64>(Payload::new(i64::MAX)).is_err());
        assert!(convert::<bool>(Payload::new(1_i32)).is_err());
    }

    /// Catches: a larger limit, or a limit in only one direction, would convert a float that stands for several
    /// integers to one of them.
    #[test]
    fn floats_are_whole_numbers_up_to_two_to_the_53rd() {
        const LAST: i64 = 1 << 53;
        for whole in [LAST - 1, LAST, 1 - LAST, -LAST] {
            assert_eq!(convert::<i64>(Payload::new(whole as f64)).ok(), Some(whole));
            assert_eq!(convert::<f64>(Payload::new(whole)).ok(), Some(whole as f64));
        }
        for beyond in [LAST + 1, LAST + 2, -LAST - 1, -LAST - 2, i64::MIN] {
            assert!(convert::<f64>(Payload::new(beyond)).is_err(), "{beyond}");
        }
        for beyond in [LAST + 2, -LAST - 2, i64::MIN] {
            assert!(convert::<i64>(Payload::new(beyond as f64)).is_err(), "{beyond}");
            assert!(convert::<i128>(Payload::new(beyond as f64)).is_err(), "{beyond}");
        }
        for float in [1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(convert::<i128>(Payload::new(float)).is_err(), "{float}");
            assert!(convert::<u128>(Payload::new(float)).is_err(), "{float}");
        }
    }

    /// A float of any size converts to each float type that holds it exactly. If the requested type cannot hold it, the
    /// value is returned.
    #[test]
    fn floats_of_any_size_convert_among_themselves() {
        assert_eq!(convert::<f64>(Payload::new(f32::MAX)).ok(), Some(f64::from(f32::MAX)));
        assert_eq!(convert::<f32>(Payload::new(f64::from(f32::MAX))).ok(), Some(f32::MAX));
        assert_eq!(convert::<f32>(Payload::new(f64::INFINITY)).ok(), Some(f32::INFINITY));
        assert!(convert::<f32>(Payload::new(f64::NAN)).is_ok_and(f32::is_nan));
        assert!(convert::<f32>(Payload::new(1e300_f64)).is_err());
    }
}
