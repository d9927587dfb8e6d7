//! `#[entry]`: a method at which a process can be started.
//!
//! A sync entry runs as the process's `init`. An async entry is the body of the process: a future that owns the state
//! and the context, and returns both when it ends.

use super::method::Method;
use super::naming;
use super::output::Output;
use crate::check::diagnostics::Diagnostics;
use crate::check::text::text;
use syn::Meta;
use syn::ext::IdentExt;

pub(crate) struct Entry {
    pub(crate) method: Method,
    /// Whether other nodes can start the process at this entry.
    pub(crate) remote: bool,
}

impl Entry {
    /// Checks an entry. `remote` says whether its process is remote.
    pub(crate) fn check(mut method: Method, remote: bool, diagnostics: &mut Diagnostics) -> Self {
        let before = diagnostics.count();
        let name = method.ident.unraw().to_string();
        if let Some(why) = naming::reserved_for_entries(&name) {
            let what = format!("an entry cannot be called `{name}`: {why}");
            diagnostics.on(&method.ident, what, format!("rename it, for instance `start_{name}`"));
        }
        let local = match &method.marked.marker.meta {
            Meta::Path(_) => false,
            Meta::List(list) if remote && text(&list.tokens) == "local" => true,
            _ => {
                let what = if remote {
                    "`#[entry]` has one option, `local`, for an entry that other nodes do not see"
                } else {
                    "`#[entry]` has no options"
                };
                diagnostics.on(&method.marked.marker, what, "write `#[entry]`");
                false
            }
        };
        // For other types, the compiler checks whether they are a `Result<(), …>`.
        if !method.is_async && matches!(method.output, Output::Plain(_) | Output::Never) {
            let what = "a sync entry prepares the process: it returns nothing or a `Result<(), …>`";
            diagnostics.on(&method.returns, what, "remove it, or make the entry `async` to return a result at its end");
        }
        method.sound &= diagnostics.count() == before;
        Self { method, remote: remote && !local }
    }

    pub(crate) fn name(&self) -> String {
        self.method.ident.unraw().to_string()
    }
}
