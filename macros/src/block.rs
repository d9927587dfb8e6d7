//! What a `#[process] impl` says, read and checked: its type and its marked methods.

use crate::entry::Entry;
use crate::fault::Faults;
use crate::marker::{self, Role};
use crate::message::Message;
use crate::method::Method;
use crate::naming;
use crate::options::OfImpl;
use crate::signal::SignalMethod;
use crate::subject::Subject;
use syn::{Ident, ImplItem, ItemImpl, Path};

pub(crate) struct Block {
    pub(crate) subject: Subject,
    pub(crate) entries: Vec<Entry>,
    pub(crate) messages: Vec<Message>,
    pub(crate) signals: Vec<SignalMethod>,
    /// The protocols that the process answers, as its options name them.
    pub(crate) protocols: Vec<Path>,
    /// The options name protocols in a way that cannot be read.
    pub(crate) names_any_protocol: bool,
    /// The type that addresses deref to.
    pub(crate) client: Ident,
    /// The type that the spawn builder derefs to.
    pub(crate) entry_points: Ident,
}

impl Block {
    /// Reads the methods and takes our attributes off; one that is there already is taken out.
    pub(crate) fn read(subject: Subject, options: OfImpl, item: &mut ItemImpl, faults: &mut Faults) -> Self {
        let (mut entries, mut messages, mut signals) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: Vec<(Ident, bool)> = Vec::new();
        item.items.retain_mut(|item| {
            let ImplItem::Fn(method) = item else { return true };
            let Some(marked) = marker::take(&mut method.attrs, &subject.krate, faults) else { return true };
            let (name, conditional) = (method.sig.ident.clone(), !marked.cfgs.is_empty());
            // Two methods of one name may exist under two conditions.
            if seen.iter().any(|(other, there)| *other == name && !(conditional && *there)) {
                faults.on(
                    &name,
                    format!("`{name}` is there already"),
                    format!("rename it, for instance `{name}_again`"),
                );
                return false;
            }
            seen.push((name, conditional));
            let role = marked.role;
            let method = Method::read(&mut method.sig, &method.vis, marked, &subject, faults);
            match role {
                Role::Entry => entries.push(Entry::check(method, faults)),
                Role::Message => messages.push(Message::check(method, &subject, &messages, faults)),
                Role::Signal => signals.push(SignalMethod::check(method, &signals, faults)),
            }
            true
        });
        if entries.is_empty() {
            let what = format!("`{}` has no entry: nothing says how it starts", subject.ident);
            faults.on(&item.self_ty, what, "add `#[entry] pub fn serve(&mut self) {}` to the `impl`");
        }
        let client = naming::handle_type(&subject.ident, "Client");
        let entry_points = naming::handle_type(&subject.ident, "Entries");
        let OfImpl { protocols, names_any_protocol, .. } = options;
        Self { subject, entries, messages, signals, protocols, names_any_protocol, client, entry_points }
    }
}
