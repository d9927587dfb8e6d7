//! A stand-in for aliases.

pub(crate) mod alias;
