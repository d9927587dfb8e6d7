//! The stand-in for spans that production uses without the feature `spans`.

#[path = "../../../../runtime/src/observe/no_spans.rs"]
pub(crate) mod spans;
