mod brief;
mod ends;
mod steps;
pub(crate) mod upgrade;
mod waking;
