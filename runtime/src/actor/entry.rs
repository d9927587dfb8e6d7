//! How an entry is started by its name.

use super::context::Context;
use super::placement::Kept;
use crate::errors::{EntryError, InitError, ProcessError, describe};
use crate::payload::{Payload, Payloads};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

/// An entry of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its name.
    pub name: &'static str,
    /// What it takes, without the context.
    pub inputs: &'static [InputInfo],
    /// Whether it is async.
    pub is_async: bool,
}

/// An input of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type, as it is written.
    pub type_name: &'static str,
}

impl fmt::Display for EntryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.name, inputs.join(", "))
    }
}

impl fmt::Display for InputInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.type_name)
    }
}

/// What a future gives back. For generated code.
pub enum Finished<P> {
    /// An async method is over.
    Method(P, Context<P>, Option<ProcessError>),
    /// An async entry is over: its result, and what its error says if it is one.
    Entry(P, Context<P>, Payload, Option<String>),
}

pub(crate) type Pending<P> = Kept<'static, Finished<P>>;

/// What an async entry's future gives back: the struct, its context, and the result.
pub type EntryFuture<P, T, E> = Kept<'static, (P, Context<P>, Wire<T, E>)>;

/// An entry with its inputs, ready to start. For generated code.
pub struct Start<P> {
    /// Which of the process's entries.
    pub(crate) index: usize,
    pub(crate) begin: Begin<P>,
}

type BeginSync<P> = Box<dyn FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send>;

pub(crate) enum Begin<P> {
    Sync(BeginSync<P>),
    Future(Box<dyn FnOnce(P, Context<P>) -> Pending<P> + Send>),
}

impl<P: 'static> Start<P> {
    /// A sync entry.
    pub fn sync(
        index: usize,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send + 'static,
    ) -> Self {
        Self { index, begin: Begin::Sync(Box::new(begin)) }
    }

    /// An async entry.
    pub fn future<T: Send + 'static, E: Send + 'static>(
        index: usize,
        begin: impl FnOnce(P, Context<P>) -> EntryFuture<P, T, E> + Send + 'static,
    ) -> Self {
        Self { index, begin: Begin::Future(Box::new(move |process, context| pending(begin(process, context)))) }
    }
}

/// Turns an entry's future into what a machine polls.
pub(crate) fn pending<P: 'static, T: Send + 'static, E: Send + 'static>(future: EntryFuture<P, T, E>) -> Pending<P> {
    Box::pin(async move {
        let (process, context, Wire { result, error }) = future.await;
        Finished::Entry(process, context, Payload::new(result), error)
    })
}

/// What an async entry returned, and what its error says. For generated code.
#[derive(Debug)]
pub struct Wire<T, E> {
    /// What it returned.
    pub result: Result<T, E>,
    /// What its error says.
    pub error: Option<String>,
}

/// The result of an entry that returns no `Result`. For generated code.
pub fn wire<T>(value: T) -> Wire<T, Infallible> {
    Wire { result: Ok(value), error: None }
}

/// The result of an entry that returns a `Result`. For generated code.
pub fn wire_result<T, E>(result: Result<T, E>, describe: impl FnOnce(&E) -> String) -> Wire<T, E> {
    let error = result.as_ref().err().map(describe);
    Wire { result, error }
}

/// What a sync entry may return. For generated code.
#[diagnostic::on_unimplemented(
    message = "a sync entry returns nothing or `Result<(), E>`, not `{Self}`",
    note = "make the entry `async` if it is to have a result"
)]
pub trait InitOutcome {
    /// The same as what the start of a process comes to.
    fn into_init(self) -> Result<(), InitError>;
}

impl InitOutcome for () {
    fn into_init(self) -> Result<(), InitError> {
        Ok(())
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> InitOutcome for Result<(), E> {
    fn into_init(self) -> Result<(), InitError> {
        self.map_err(InitError::failed)
    }
}

/// The two sides of a `Result`, whatever alias it is written as. For generated code.
pub trait Fallible {
    /// What it is when all goes well.
    type Ok;
    /// What it is otherwise.
    type Err;
}

impl<T, E> Fallible for Result<T, E> {
    type Ok = T;
    type Err = E;
}

/// Tells whether an answer is a `Result`, whatever alias it is written as. For generated code, and in a constant: an item of the
/// type itself goes before one of a trait.
#[derive(Debug)]
pub struct AnswerType<T: ?Sized>(std::marker::PhantomData<T>);

impl<T, E> AnswerType<Result<T, E>> {
    /// It is one.
    pub const IS_RESULT: bool = true;
}

/// See [`AnswerType`].
pub trait MayBeResult {
    /// It is none.
    const IS_RESULT: bool = false;
}

impl<T: ?Sized> MayBeResult for AnswerType<T> {}

/// What an entry is to be started with. For generated code.
#[derive(Debug)]
pub struct Inputs(Vec<Input>);

#[derive(Debug)]
enum Input {
    Value(Payload),
    #[cfg(feature = "serde")]
    Json(serde_json::Value),
}

/// Inputs of the right number, taken one by one. For generated code.
#[derive(Debug)]
pub struct CheckedInputs {
    process: &'static str,
    entry: &'static EntryInfo,
    inputs: std::vec::IntoIter<Input>,
    taken: usize,
}

impl Inputs {
    pub(crate) fn values(values: Payloads) -> Self {
        Self(values.into_iter().map(Input::Value).collect())
    }

    #[cfg(feature = "serde")]
    pub(crate) fn json(values: Vec<serde_json::Value>) -> Self {
        Self(values.into_iter().map(Input::Json).collect())
    }
}

impl Inputs {
    /// Checks their number against an entry of `process`.
    pub(crate) fn check_for(
        self,
        process: &'static str,
        entry: &'static EntryInfo,
    ) -> Result<CheckedInputs, EntryError> {
        if self.0.len() != entry.inputs.len() {
            return Err(EntryError::Count {
                process: process.to_string(),
                entry: entry.name.to_string(),
                expected: entry.inputs.len(),
                came: self.0.len(),
                inputs: entry.inputs.iter().map(ToString::to_string).collect(),
            });
        }
        Ok(CheckedInputs { process, entry, inputs: self.0.into_iter(), taken: 0 })
    }
}

impl CheckedInputs {
    fn next(&mut self) -> Option<Input> {
        self.taken += 1;
        self.inputs.next()
    }

    fn wrong(&self, came: String) -> EntryError {
        let input = self.entry.inputs.get(self.taken - 1);
        EntryError::Type {
            process: self.process.to_string(),
            entry: self.entry.name.to_string(),
            input: input.map_or_else(String::new, |input| input.name.to_string()),
            expected: input.map_or_else(String::new, |input| input.type_name.to_string()),
            came,
        }
    }
}

/// Stands for the type of an input, so that how it is taken can depend on what the type can do. For generated code.
#[derive(Debug)]
pub struct InputOf<T>(PhantomData<T>);

impl<T> InputOf<T> {
    #[expect(clippy::new_without_default, reason = "only the macro makes one")]
    /// The only one.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// An input of any type: as a value.
pub trait TakeValue<T> {
    /// Takes the next input.
    fn take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError>;
}

impl<T: Send + 'static> TakeValue<T> for InputOf<T> {
    fn take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError> {
        match inputs.next() {
            Some(Input::Value(value)) => convert(value).map_err(|mut value| inputs.wrong(describe(&mut value))),
            #[cfg(feature = "serde")]
            Some(Input::Json(_)) => {
                Err(inputs.wrong("JSON, from which nothing that is not `Deserialize` can be made,".to_string()))
            }
            None => Err(inputs.wrong("nothing".to_string())),
        }
    }
}

/// An input of a type that can be read from JSON.
#[cfg(feature = "serde")]
pub trait TakeJson<T> {
    /// Takes the next input.
    fn take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError>;
}

#[cfg(feature = "serde")]
impl<T: Send + serde::de::DeserializeOwned + 'static> TakeJson<T> for &InputOf<T> {
    fn take(&self, inputs: &mut CheckedInputs) -> Result<T, EntryError> {
        match inputs.next() {
            Some(Input::Value(value)) => convert(value).map_err(|mut value| inputs.wrong(describe(&mut value))),
            Some(Input::Json(value)) => {
                // Both may quote the whole input, of which an error shows the beginning.
                let start = |text: String, length| text.chars().take(length).collect::<String>();
                T::deserialize(&value).map_err(|error| {
                    let (text, error) = (start(value.to_string(), 80), start(error.to_string(), 160));
                    inputs.wrong(format!("the JSON `{text}` ({error})"))
                })
            }
            None => Err(inputs.wrong("nothing".to_string())),
        }
    }
}

/// The value as a `T`, if it is one or if it is a number that loses nothing, or a `&'static str` for a `String`.
fn convert<T: Send + 'static>(value: Payload) -> Result<T, Payload> {
    let mut value = match value.take::<T>() {
        Ok(value) => return Ok(value),
        Err(value) => value,
    };
    let converted = match Number::of(&mut value) {
        Some(number) => number.into_type::<T>(),
        None => match value.get_mut::<&'static str>() {
            Some(text) => same::<String, T>((*text).to_string()),
            None => None,
        },
    };
    converted.ok_or(value)
}

/// A number of any of the primitive types.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Large(u128),
    Float(f64),
}

/// `value`, if the two types are one.
fn same<A: Send + 'static, T: Send + 'static>(value: A) -> Option<T> {
    Payload::new(value).take().ok()
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {
        impl Number {
            fn of(value: &mut Payload) -> Option<Self> {
                $(if let Some(number) = value.get_mut::<$type>() {
                    return Some(match i128::try_from(*number) {
                        Ok(number) => Self::Whole(number),
                        Err(_) => Self::Large(u128::try_from(*number).ok()?),
                    });
                })*
                if let Some(number) = value.get_mut::<f32>() {
                    return Some(Self::Float(f64::from(*number)));
                }
                value.get_mut::<f64>().map(|number| Self::Float(*number))
            }

            /// The number as a `T`, if `T` is a number type that can hold it exactly.
            fn into_type<T: Send + 'static>(self) -> Option<T> {
                $(if let Some(number) = self.whole().and_then(|number| <$type>::try_from(number).ok())
                    && let Some(number) = same::<$type, T>(number) {
                    return Some(number);
                })*
                $(if let Self::Large(number) = self
                    && let Ok(number) = <$type>::try_from(number)
                    && let Some(number) = same::<$type, T>(number) {
                    return Some(number);
                })*
                let float = self.float()?;
                let single = float as f32;
                let exact = f64::from(single) == float || float.is_nan();
                same::<f64, T>(float).or_else(|| exact.then(|| same::<f32, T>(single)).flatten())
            }
        }
    };
}
whole_numbers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

impl Number {
    /// A float with no fraction counts as whole while every whole number of its size is exact.
    fn whole(self) -> Option<i128> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match self {
            Self::Whole(number) => Some(number),
            Self::Large(_) => None,
            Self::Float(number) if number.fract() == 0.0 && number.abs() <= EXACT => Some(number as i128),
            Self::Float(_) => None,
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(number),
            Self::Whole(number) => {
                Some(number as f64).filter(|&float| float as i128 == number && number.abs() <= 1 << 53)
            }
            Self::Large(_) => None,
        }
    }
}

/// Describes an error by `Display` if it has that, by `Debug` if it has only that, and by its type otherwise. For
/// generated code.
#[derive(Debug)]
pub struct ErrorText<'a, E>(pub &'a E);

/// An error with a `Display`. For generated code.
pub trait ByDisplay {
    /// What it says.
    fn text(&self) -> String;
}

impl<E: std::fmt::Display> ByDisplay for &&ErrorText<'_, E> {
    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// An error with a `Debug`. For generated code.
pub trait ByDebug {
    /// What it says.
    fn text(&self) -> String;
}

impl<E: std::fmt::Debug> ByDebug for &ErrorText<'_, E> {
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Any error. For generated code.
pub trait ByType {
    /// What it says.
    fn text(&self) -> String;
}

impl<E> ByType for ErrorText<'_, E> {
    fn text(&self) -> String {
        std::any::type_name::<E>().to_string()
    }
}

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

    /// With another limit, or one way without it, a float that stands for several whole numbers would become one of them.
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

    /// A float that its type holds stays what it was, however large; one that only the larger type holds comes back.
    #[test]
    fn floats_of_any_size_convert_among_themselves() {
        assert_eq!(convert::<f64>(Payload::new(f32::MAX)).ok(), Some(f64::from(f32::MAX)));
        assert_eq!(convert::<f32>(Payload::new(f64::from(f32::MAX))).ok(), Some(f32::MAX));
        assert_eq!(convert::<f32>(Payload::new(f64::INFINITY)).ok(), Some(f32::INFINITY));
        assert!(convert::<f32>(Payload::new(f64::NAN)).is_ok_and(f32::is_nan));
        assert!(convert::<f32>(Payload::new(1e300_f64)).is_err());
    }
}
