pub(crate) mod groups;
mod publish;
