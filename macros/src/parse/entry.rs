//! `#[entry]`: a method that a process can be started at.
//!
//! A sync entry runs as the process's `init`; an async one is the life of the process, as a future that owns state and
//! context and returns both at its end.

use super::method::Method;
use super::naming;
use super::output::Output;
use crate::check::diagnostics::Diagnostics;
use crate::check::text::text;
use syn::Meta;
use syn::ext::IdentExt;

pub(crate) struct Entry {
    pub(crate) method: Method,
    /// Other nodes can start the process at it.
    pub(crate) remote: bool,
}

impl Entry {
    /// Checks it; `remote` says that its process is.
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
        // Of others the compiler knows whether they are one.
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
