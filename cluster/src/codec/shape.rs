//! A hash of a type's structure as serde sees it without a value: the names of its fields and variants, in their order.
//!
//! [`shape_of`] has the type deserialize itself from a source that records each question and answers it with a harmless
//! value. If a type asks the same questions in two builds, both read the same bytes alike, as far as the questions
//! show: an enum shows the names of all variants, but the fields of only the first; a sequence shows one element; and a
//! type that contains itself, or rejects the harmless value, shows only what comes before that point.

use super::format::contain;
use serde::de::{DeserializeOwned, value::U32Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor, value::Error,
};
use std::cell::Cell;

/// Maximum nesting depth. A guess: more than any sensible event has.
const MAX_DEPTH: u32 = 16;
/// Maximum number of questions. Likewise a guess.
const MAX_QUESTIONS: u32 = 10_000;

/// Returns the hash of a type's shape. If the type's code panics, the shape consists of the questions before the panic.
pub(crate) fn shape_of<T: DeserializeOwned>() -> u64 {
    let trace = Trace { hash: Cell::new(0xcbf2_9ce4_8422_2325), questions: Cell::new(0) };
    let _ = contain(|| drop(T::deserialize(Tracer { trace: &trace, depth: 0 })));
    trace.hash.get()
}

struct Trace {
    /// An FNV-1a hash.
    hash: Cell<u64>,
    questions: Cell<u32>,
}

impl Trace {
    fn note(&self, text: &str) {
        let bytes = text.bytes().chain([0xff]);
        let hash = bytes.fold(self.hash.get(), |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        self.hash.set(hash);
    }
}

#[derive(Clone, Copy)]
struct Tracer<'a> {
    trace: &'a Trace,
    depth: u32,
}

impl<'a> Tracer<'a> {
    /// Records a question. Fails if there are too many questions, or if they nest too deeply.
    fn ask(self, what: &str) -> Result<(), Error> {
        self.trace.note(what);
        self.trace.questions.set(self.trace.questions.get() + 1);
        if self.depth > MAX_DEPTH || self.trace.questions.get() > MAX_QUESTIONS {
            return Err(Error::custom("enough"));
        }
        Ok(())
    }

    fn inner(self, left: usize) -> Elements<'a> {
        Elements { tracer: Self { depth: self.depth + 1, ..self }, left }
    }

    fn names(self, names: &'static [&'static str]) {
        names.iter().for_each(|name| self.trace.note(name));
    }
}

macro_rules! answers {
    ($($ask:ident $what:literal $visit:ident $($value:expr)?;)*) => {
        $(
            fn $ask<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
                self.ask($what)?;
                visitor.$visit($($value)?)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    answers! {
        deserialize_any "any" visit_unit ;
        deserialize_ignored_any "ignored" visit_unit ;
        deserialize_bool "bool" visit_bool false;
        deserialize_i8 "i8" visit_i8 1;
        deserialize_i16 "i16" visit_i16 1;
        deserialize_i32 "i32" visit_i32 1;
        deserialize_i64 "i64" visit_i64 1;
        deserialize_i128 "i128" visit_i128 1;
        deserialize_u8 "u8" visit_u8 1;
        deserialize_u16 "u16" visit_u16 1;
        deserialize_u32 "u32" visit_u32 1;
        deserialize_u64 "u64" visit_u64 1;
        deserialize_u128 "u128" visit_u128 1;
        deserialize_f32 "f32" visit_f32 0.0;
        deserialize_f64 "f64" visit_f64 0.0;
        deserialize_char "char" visit_char 'a';
        deserialize_str "str" visit_str "";
        deserialize_string "str" visit_str "";
        deserialize_identifier "identifier" visit_str "";
        deserialize_bytes "bytes" visit_bytes &[];
        deserialize_byte_buf "bytes" visit_bytes &[];
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.ask("unit")?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.ask("option")?;
        visitor.visit_some(self.inner(0).tracer)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.ask("unit struct")?;
        self.trace.note(name);
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.ask("newtype struct")?;
        self.trace.note(name);
        visitor.visit_newtype_struct(self.inner(0).tracer)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.ask("seq")?;
        visitor.visit_seq(self.inner(1))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.ask("tuple")?;
        visitor.visit_seq(self.inner(len))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.ask("tuple struct")?;
        self.trace.note(name);
        visitor.visit_seq(self.inner(len))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.ask("map")?;
        visitor.visit_map(self.inner(1))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.ask("struct")?;
        self.trace.note(name);
        self.names(fields);
        visitor.visit_seq(self.inner(fields.len()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.ask("enum")?;
        self.trace.note(name);
        self.names(variants);
        visitor.visit_enum(self.inner(0))
    }

    /// Returns false, like the codec of events.
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements inside a value.
struct Elements<'a> {
    tracer: Tracer<'a>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.tracer).map(Some)
    }
}

impl<'de> MapAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.tracer)
    }
}

impl<'de> EnumAccess<'de> for Elements<'_> {
    type Error = Error;
    type Variant = Self;

    /// Selects the first variant.
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let first: U32Deserializer<Error> = 0_u32.into_deserializer();
        Ok((seed.deserialize(first)?, self))
    }
}

impl<'de> VariantAccess<'de> for Elements<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.tracer.ask("unit variant")
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.tracer.ask("newtype variant")?;
        seed.deserialize(self.tracer)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.tracer.ask("tuple variant")?;
        visitor.visit_seq(Self { left: len, ..self })
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.tracer.ask("struct variant")?;
        self.tracer.names(fields);
        visitor.visit_seq(Self { left: fields.len(), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    macro_rules! shape {
        ($($item:tt)*) => {{
            #[allow(dead_code)]
            mod inside {
                use super::*;
                $($item)*
            }
            shape_of::<inside::Price>()
        }};
    }

    #[test]
    fn the_same_text_has_the_same_shape_and_each_change_another() {
        let base = shape!(
            #[derive(Deserialize)]
            pub(super) struct Price {
                of: String,
                cents: i64,
            }
        );
        assert_eq!(
            base,
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: String,
                    cents: i64,
                }
            )
        );
        let others = [
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: String,
                    cents: u64,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: String,
                    euros: i64,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    cents: i64,
                    of: String,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: String,
                    cents: i64,
                    at: u8,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: Option<String>,
                    cents: i64,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: Vec<String>,
                    cents: i64,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: (String, u8),
                    cents: i64,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price(String, i64);
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price(String);
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price;
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) enum Price {
                    Of(String),
                    Cents(i64),
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) enum Price {
                    Of(i64),
                    Cents(i64),
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) enum Price {
                    Of,
                    Cents(i64),
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) enum Price {
                    Of { cents: i64 },
                    Cents(i64),
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) enum Price {
                    Of(String),
                    Cents(i64),
                    None,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: Inner,
                    cents: i64,
                }
                #[derive(Deserialize)]
                pub(super) struct Inner {
                    name: String,
                }
            ),
            shape!(
                #[derive(Deserialize)]
                pub(super) struct Price {
                    of: BTreeMap<String, u8>,
                    cents: i64,
                }
            ),
        ];
        let all: std::collections::BTreeSet<_> = others.into_iter().chain([base]).collect();
        assert_eq!(all.len(), 18);
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Chain {
        next: Option<Box<Self>>,
        others: Vec<Self>,
    }

    struct Panics;

    impl<'de> Deserialize<'de> for Panics {
        fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("a user's");
        }
    }

    #[test]
    fn a_type_that_contains_itself_or_panics_has_a_shape() {
        assert_eq!(shape_of::<Chain>(), shape_of::<Chain>());
        assert_ne!(shape_of::<Chain>(), shape_of::<(u8, Panics)>());
        assert_ne!(shape_of::<(u8, Panics)>(), shape_of::<(u16, Panics)>());
    }
}
