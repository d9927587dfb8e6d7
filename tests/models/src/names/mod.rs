//! The production modules of names.

#[path = "../../../../runtime/src/names/name.rs"]
pub(crate) mod name;
#[path = "../../../../runtime/src/names/table.rs"]
pub(crate) mod table;
