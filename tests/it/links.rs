mod bound_spawns;
mod failures;
mod monitors;
pub(crate) mod stress;
