mod bound_spawns;
mod failures;
mod monitors;
mod stress;
