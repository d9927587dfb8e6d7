//! Messages that travel between nodes: the description of a type that `#[process(remote)]` generates, independent of
//! any instance and of any wire format.
//!
//! A crate that connects nodes implements [`RemoteVisitor`] and builds its tables from the items that it visits: from
//! the `TypeId` of a message to its encoder, and from a name to a decoder that makes a [`Payload`](crate::Payload).
//! The visitor receives the *types*, so that serde's generic code for each is instantiated in the crate that knows
//! the format.

use super::actor::Actor;
use crate::Payloads;
use crate::errors::EntryError;
use serde::{Deserializer, Serialize, Serializer, de::DeserializeOwned};
use std::convert::Infallible;
use std::marker::PhantomData;

/// A value that can travel to another node. Implemented for all types that serde can serialize and deserialize, and
/// that are `Send` and borrow nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel to another node: serde cannot write and read it",
    label = "not both `Serialize` and `Deserialize`",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it; most crates have a feature `serde` that does so",
    note = "or keep the method on this node: write `#[message(local)]` or `#[entry(local)]`"
)]
pub trait RemoteValue: Serialize + DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> RemoteValue for T {}

/// A process whose messages may come from other nodes. `#[process(remote)]` on its `impl` implements it.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::remote::{Remote, RemoteEntry, RemoteMessage, RemoteValue, RemoteVisitor};
///
/// #[process]
/// struct Account { balance: i64 }
///
/// #[process(remote)]
/// impl Account {
///     #[entry]
///     fn serve(&mut self, opening: i64) { self.balance = opening; }
///     #[message]
///     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
///     #[message(name = "bank.close")] // keeps its name when the method or the type is renamed
///     fn close(&mut self) -> Result<i64, String> { Err("not today".into()) }
///     #[message(local)] // never comes from another node, so it may carry anything
///     fn visit(&mut self, visit: Box<dyn FnOnce(&mut Self) + Send>) { visit(self) }
/// }
///
/// #[derive(Default)]
/// struct Names(Vec<String>);
///
/// impl RemoteVisitor for Names {
///     fn message<M: RemoteValue, T: RemoteValue>(&mut self, message: RemoteMessage) {
///         self.0.push(format!("{}{}", message.name, message.schema));
///     }
///     fn fallible_message<M: RemoteValue, T: RemoteValue, E: RemoteValue>(&mut self, message: RemoteMessage) {
///         self.0.push(format!("{}{}", message.name, message.schema));
///     }
///     fn entry<I: RemoteValue>(&mut self, entry: RemoteEntry<I>) {
///         self.0.push(format!("{}{}", entry.name, entry.schema));
///     }
/// }
///
/// let mut names = Names::default();
/// Account::describe(&mut names);
/// # names.0.iter_mut().for_each(|name| *name = name.replace(env!("CARGO_PKG_NAME"), "bank"));
/// assert_eq!(names.0, [
///     "bank::Account::serve(opening: i64)",
///     "bank::Account::deposit(amount: i64) -> i64",
///     "bank.close() -> Result<i64, String>",
/// ]);
/// ```
#[diagnostic::on_unimplemented(
    message = "the messages of `{Self}` cannot come from other nodes",
    label = "not a remote process",
    note = "write `#[process(remote)]` before `impl {Self}`"
)]
pub trait Remote: Actor {
    /// Passes the visitor the entries, then the messages in source order, then the messages of the protocols that are
    /// `#[protocol(remote)]`.
    fn describe<V: RemoteVisitor>(visitor: &mut V);
}

/// A protocol whose messages may come from other nodes. `#[protocol(remote)]` implements it for `dyn` of its trait.
#[diagnostic::on_unimplemented(
    message = "the messages of `{Self}` cannot come from other nodes",
    label = "not a remote protocol",
    note = "write `#[protocol(remote)]` before the trait"
)]
pub trait RemoteProtocol {
    /// Passes the visitor the messages, in source order.
    fn describe<V: RemoteVisitor>(visitor: &mut V);
}

/// A visitor of the messages and entries of a process, each with its types.
///
/// `M` is the type of the message in its [`Payload`](crate::Payload), and thus in a [`Package`](crate::Package), too.
/// The payload of the answer holds a `Result<T, E>`, or a `Result<T, Infallible>` if the method returns no `Result`:
/// see [`RemoteMessage`].
pub trait RemoteVisitor {
    /// Visits a message whose method cannot fail. The payload of the answer is a `Result<T, Infallible>`; only the
    /// `T` needs to travel.
    fn message<M: RemoteValue, T: RemoteValue>(&mut self, message: RemoteMessage);

    /// Visits a message whose method returns a `Result`. The payload of the answer is a `Result<T, E>`.
    fn fallible_message<M: RemoteValue, T: RemoteValue, E: RemoteValue>(&mut self, message: RemoteMessage);

    /// Visits an entry with which a process can be started. The fields of `I` are its inputs.
    fn entry<I: RemoteValue>(&mut self, entry: RemoteEntry<I>);
}

/// The description of a message. Two nodes must agree on it in order to exchange the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMessage {
    /// The name in all nodes: `package::Type::method`, or the name set by `#[message(name = "…")]`.
    pub name: &'static str,
    /// Names and types of the fields and the type of the answer, as written in the source. Nodes whose texts differ may
    /// not understand each other.
    pub schema: &'static str,
    /// How a decoder finds the fields.
    pub codec: WireCodec,
}

/// How a format finds the fields of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WireCodec {
    /// By their order: compact, but only for nodes that have the same fields.
    #[default]
    Compact,
    /// By their names, as `#[message(codec = "named")]` requests: fields with `#[serde(default)]` may be missing, and
    /// unknown fields are skipped. Nodes with different fields understand each other as far as serde allows.
    Named,
}

/// An entry of a process, for starts that come from other nodes.
#[derive(Debug)]
pub struct RemoteEntry<I> {
    /// The name in all nodes: `package::Type::method`.
    pub name: &'static str,
    /// Names and types of the inputs, as written in the source.
    pub schema: &'static str,
    /// The name of the type in starts by name: [`Declared::NAME`](crate::generic::Declared::NAME).
    pub process: &'static str,
    /// The name of the entry in starts by name.
    pub entry: &'static str,
    /// Converts the inputs of a start by name, with the conversions and errors of such a start.
    pub from_payloads: fn(Payloads) -> Result<I, EntryError>,
    /// Converts back to the inputs of a start by name.
    pub into_payloads: fn(I) -> Payloads,
}

impl<I> Clone for RemoteEntry<I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for RemoteEntry<I> {}

/// A field of a remote message. This trait lacks the supertraits of [`RemoteValue`], because the compiler would report
/// each of them separately. For generated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel to another node: serde cannot write and read it",
    label = "not both `Serialize` and `Deserialize`",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it; most crates have a feature `serde` that does so",
    note = "or keep the method on this node: write `#[message(local)]` or `#[entry(local)]`"
)]
pub trait RemoteField: Sized {
    /// Serializes the field, as a function for `#[serde(serialize_with = "…")]`.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    /// Deserializes the field, as a function for `#[serde(deserialize_with = "…")]`.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

#[diagnostic::do_not_recommend]
impl<T: RemoteValue> RemoteField for T {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Passes a visitor a message whose error type is `E`. The method has a parameter for that type, too, so that the
/// compiler reports at the method which traits the type lacks. For generated code.
#[derive(Debug)]
pub struct RemoteAnswer<E>(PhantomData<E>);

impl RemoteAnswer<Infallible> {
    /// Visits a message that cannot fail: no error has to travel.
    pub fn __postroom_show<V: RemoteVisitor, M: RemoteValue, T: RemoteValue, E>(
        visitor: &mut V,
        message: RemoteMessage,
    ) {
        visitor.message::<M, T>(message);
    }
}

/// The fallback of [`RemoteAnswer`]: the message can fail. For generated code.
pub trait FallibleRemoteAnswer {
    /// Visits the message.
    fn __postroom_show<V, M, T, E>(visitor: &mut V, message: RemoteMessage)
    where
        V: RemoteVisitor,
        M: RemoteValue,
        T: RemoteValue,
        E: RemoteValue,
    {
        visitor.fallible_message::<M, T, E>(message);
    }
}

impl<E> FallibleRemoteAnswer for RemoteAnswer<E> {}

/// Describes the messages of a protocol if it is remote. For generated code.
#[derive(Debug)]
pub struct RemoteProtocolProbe<Q: ?Sized>(PhantomData<Q>);

impl<Q: ?Sized> RemoteProtocolProbe<Q> {
    /// The only value.
    pub const THIS: Self = Self(PhantomData);
}

/// Implemented if the protocol is remote: found first. For generated code.
pub trait IsRemoteProtocol {
    /// Describes the messages.
    fn __postroom_describe<V: RemoteVisitor>(&self, visitor: &mut V);
}

impl<Q: RemoteProtocol + ?Sized> IsRemoteProtocol for &RemoteProtocolProbe<Q> {
    fn __postroom_describe<V: RemoteVisitor>(&self, visitor: &mut V) {
        Q::describe(visitor);
    }
}

/// Implemented if the messages of the protocol stay on their node. For generated code.
pub trait IsLocalProtocol {
    /// Describes nothing.
    fn __postroom_describe<V: RemoteVisitor>(&self, _visitor: &mut V) {}
}

impl<Q: ?Sized> IsLocalProtocol for RemoteProtocolProbe<Q> {}
