//! A deserializer that wraps another one and limits two things: how deep values nest, and how many elements without
//! bytes a list may claim.
//!
//! All serde formats recurse for each level of nesting, so a few kilobytes of a hostile message could overflow the
//! stack, which no program survives. The guard stands between the format and the types: it wraps each deserializer,
//! visitor and access on the way down, and counts. It also hides the lengths that lists claim, since types would
//! reserve memory for them before the first element is read.

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// The maximum depth of nested values in a message: structs, enums, options, lists, maps and tuples count as one level
/// each. The limit is that of `serde_json`; a value that nests deeper is a list in disguise.
///
/// This many levels of a plain enum take less than 256 KiB of stack, or less than 512 KiB in a build without any
/// optimization. A type with large fields of its own takes more.
pub const MAX_DEPTH: usize = 128;

/// The maximum number of list elements that take no bytes, as in a `Vec<()>`. All other elements are limited by the
/// number of bytes.
const EMPTY_ELEMENTS: usize = 1_024;

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Depth,
    Elements,
}

/// The counts for one message.
pub(super) struct DecodeGuard {
    depth: Cell<usize>,
    elements: Cell<usize>,
    reached: Cell<Option<Limit>>,
}

impl DecodeGuard {
    /// Returns the guard for a message of this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { depth: Cell::new(0), elements: Cell::new(bytes + EMPTY_ELEMENTS), reached: Cell::new(None) }
    }

    /// Returns the limit that was reached, even if deserialization succeeded.
    pub(super) fn reached(&self) -> Option<Limit> {
        self.reached.get()
    }

    /// Wraps the deserializer of a message.
    pub(super) fn around<D>(&self, inner: D) -> Guarded<'_, D> {
        Guarded { inner, guard: self }
    }

    /// Counts a level until the returned value is dropped. It takes no closure, because the frame of a closure would
    /// cost stack on each level.
    fn enter<E: Error>(&self) -> Result<Level<'_>, E> {
        let depth = self.depth.get();
        if depth == MAX_DEPTH {
            self.reached.set(Some(Limit::Depth));
            return Err(E::custom("nested too deeply"));
        }
        self.depth.set(depth + 1);
        Ok(Level { guard: self, depth })
    }

    fn element<E: Error>(&self) -> Result<(), E> {
        let Some(left) = self.elements.get().checked_sub(1) else {
            self.reached.set(Some(Limit::Elements));
            return Err(E::custom("more elements than bytes"));
        };
        self.elements.set(left);
        Ok(())
    }
}

/// A level that is being deserialized.
struct Level<'g> {
    guard: &'g DecodeGuard,
    /// Number of enclosing levels.
    depth: usize,
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.guard.depth.set(self.depth);
    }
}

/// A guarded deserializer or seed.
pub(super) struct Guarded<'g, D> {
    inner: D,
    guard: &'g DecodeGuard,
}

macro_rules! flat {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )+};
}

macro_rules! nested {
    ($($method:ident($($argument:ident: $type:ty),*) is_list = $is_list:literal;)+) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let Self { inner, guard } = self;
            let _level = guard.enter()?;
            inner.$method($($argument,)* GuardedVisitor { inner: visitor, guard, is_list: $is_list })
        }
    )+};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guarded<'_, D> {
    type Error = D::Error;

    flat! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_unit deserialize_identifier
    }

    nested! {
        deserialize_any() is_list = true;
        deserialize_ignored_any() is_list = true;
        // Some formats pass lists of numbers to types that ask for bytes.
        deserialize_bytes() is_list = true;
        deserialize_byte_buf() is_list = true;
        deserialize_option() is_list = false;
        deserialize_unit_struct(name: &'static str) is_list = false;
        deserialize_newtype_struct(name: &'static str) is_list = false;
        deserialize_seq() is_list = true;
        deserialize_tuple(length: usize) is_list = false;
        deserialize_tuple_struct(name: &'static str, length: usize) is_list = false;
        deserialize_map() is_list = true;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) is_list = false;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) is_list = false;
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

struct GuardedVisitor<'g, V> {
    inner: V,
    guard: &'g DecodeGuard,
    /// Whether the number of elements comes from the message.
    is_list: bool,
}

macro_rules! visit {
    ($($method:ident: $type:ty,)+) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )+};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for GuardedVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool: bool,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_f32: f32, visit_f64: f64, visit_char: char,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(self.guard.around(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(self.guard.around(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(GuardedAccess { inner, guard: self.guard, is_list: self.is_list })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(GuardedAccess { inner, guard: self.guard, is_list: self.is_list })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(GuardedAccess { inner, guard: self.guard, is_list: false })
    }
}

/// A guarded access to the parts of a value.
struct GuardedAccess<'g, A> {
    inner: A,
    guard: &'g DecodeGuard,
    is_list: bool,
}

impl<A> GuardedAccess<'_, A> {
    fn element<E: Error>(&self) -> Result<(), E> {
        if self.is_list { self.guard.element() } else { Ok(()) }
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for GuardedAccess<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.element()?;
        self.inner.next_element_seed(self.guard.around(seed))
    }

    // No `size_hint`: the length that the message claims stays hidden.
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for GuardedAccess<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.element()?;
        self.inner.next_key_seed(self.guard.around(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(self.guard.around(seed))
    }
}

impl<'de, 'g, A: EnumAccess<'de>> EnumAccess<'de> for GuardedAccess<'g, A> {
    type Error = A::Error;
    type Variant = GuardedAccess<'g, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let Self { inner, guard, .. } = self;
        let (value, inner) = inner.variant_seed(guard.around(seed))?;
        Ok((value, GuardedAccess { inner, guard, is_list: false }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for GuardedAccess<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(self.guard.around(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, inner: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(length, GuardedVisitor { inner, guard: self.guard, is_list: false })
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], inner: V) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, GuardedVisitor { inner, guard: self.guard, is_list: false })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Guarded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(self.guard.around(inner))
    }
}
