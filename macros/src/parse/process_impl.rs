//! The content of a `#[process] impl`, parsed and checked: its type and its marked methods.

use super::entry::Entry;
use super::marker::{self, Role};
use super::message::Message;
use super::method::Method;
use super::naming;
use super::options::ImplOptions;
use super::signal::SignalMethod;
use crate::check::diagnostics::Diagnostics;
use crate::check::self_type::SelfType;
use syn::{Ident, ImplItem, ItemImpl, Path};

pub(crate) struct ProcessImpl {
    pub(crate) self_type: SelfType,
    pub(crate) entries: Vec<Entry>,
    pub(crate) messages: Vec<Message>,
    pub(crate) signals: Vec<SignalMethod>,
    /// The protocols that the process answers, as its options name them.
    pub(crate) protocols: Vec<Path>,
    /// Whether the list of protocols could not be parsed, in which case any protocol counts as listed.
    pub(crate) names_any_protocol: bool,
    /// The type that addresses dereference to.
    pub(crate) client: Ident,
    /// The type that the spawn builder dereferences to.
    pub(crate) entry_points: Ident,
}

impl ProcessImpl {
    /// Reads the methods and removes our attributes. A method whose name is already taken is removed.
    pub(crate) fn read(
        self_type: SelfType,
        options: ImplOptions,
        item: &mut ItemImpl,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let (mut entries, mut messages, mut signals) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: Vec<(Ident, bool)> = Vec::new();
        item.items.retain_mut(|item| {
            let ImplItem::Fn(method) = item else { return true };
            let Some(marked) = marker::take(&mut method.attrs, &self_type.krate, diagnostics) else { return true };
            let (name, conditional) = (method.sig.ident.clone(), !marked.cfgs.is_empty());
            // There may be two methods of the same name if their conditions differ.
            if seen.iter().any(|(other, there)| *other == name && !(conditional && *there)) {
                diagnostics.on(
                    &name,
                    format!("`{name}` is already defined"),
                    format!("rename it, for instance `{name}_again`"),
                );
                return false;
            }
            seen.push((name, conditional));
            let role = marked.role;
            let method = Method::read(&mut method.sig, &method.vis, marked, &self_type, diagnostics);
            match role {
                Role::Entry => entries.push(Entry::check(method, self_type.remote, diagnostics)),
                Role::Message => messages.push(Message::check(method, &self_type, &messages, diagnostics)),
                Role::Signal => signals.push(SignalMethod::check(method, &signals, diagnostics)),
            }
            true
        });
        if entries.is_empty() {
            let what = format!("`{}` has no entry: nothing says how it starts", self_type.ident);
            diagnostics.on(&item.self_ty, what, "add `#[entry] pub fn serve(&mut self) {}` to the `impl`");
        }
        let client = naming::handle_type(&self_type.ident, "Client");
        let entry_points = naming::handle_type(&self_type.ident, "Entries");
        let ImplOptions { protocols, names_any_protocol, .. } = options;
        Self { self_type, entries, messages, signals, protocols, names_any_protocol, client, entry_points }
    }
}
