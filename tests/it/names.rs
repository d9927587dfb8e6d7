pub(crate) mod addresses;
pub(crate) mod holders;
