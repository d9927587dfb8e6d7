//! A stand-in for the guards around user code, since the models run none.

/// The sites of the production modules used here.
#[allow(clippy::enum_variant_names, reason = "the names are the runtime's")]
pub(crate) enum Site {
    ValueDrop,
    ReasonDrop,
    InheritedDrop,
}

/// Runs `body`.
pub(crate) fn ignore(_site: Site, body: impl FnOnce()) {
    body();
}
