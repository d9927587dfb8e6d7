//! Code generation.
//!
//! * [`process`]: a `#[process] impl`, composed of [`actor`] (the runtime's trait), [`deliver`] (dispatch of messages),
//!   [`entries`] (methods of the spawn builder), [`client`] (methods of the address), [`handles`] (the messages'
//!   types), [`by_name`] (starts and sends by name), and [`remote`] (what other nodes may use), with the user's
//!   [`docs`], and [`lints`];
//! * [`declaration`]: `#[process]` on a struct or an enum, with [`inspect`]; [`protocol`]: `#[protocol]` on a trait;
//!   [`answers`]: an impl of one;
//! * [`main_fn`][] and [`test_fn`][]: the attributes `#[postroom::main]` and `#[postroom::test]`.

pub(crate) mod actor;
pub(crate) mod answers;
pub(crate) mod by_name;
pub(crate) mod client;
pub(crate) mod declaration;
pub(crate) mod deliver;
pub(crate) mod docs;
pub(crate) mod entries;
pub(crate) mod handles;
pub(crate) mod inspect;
pub(crate) mod lints;
pub(crate) mod main_fn;
pub(crate) mod process;
pub(crate) mod protocol;
pub(crate) mod remote;
pub(crate) mod test_fn;
