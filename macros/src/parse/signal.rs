//! `#[signal]`: a method that handles a signal from the runtime. The type of its argument selects the signal.

use super::method::Method;
use super::output::Output;
use crate::check::diagnostics::Diagnostics;
use crate::check::suggest;
use crate::check::text::text;
use proc_macro2::TokenStream;
use quote::quote;
use syn::Meta;

/// The kinds of signals.
const KINDS: &[&str] = &["Cancel", "Down", "Exit"];

pub(crate) struct SignalMethod {
    pub(crate) method: Method,
    kind: Option<&'static str>,
}

impl SignalMethod {
    pub(crate) fn check(mut method: Method, others: &[Self], diagnostics: &mut Diagnostics) -> Self {
        let before = diagnostics.count();
        if !matches!(method.marked.marker.meta, Meta::Path(_)) {
            let what = "`#[signal]` has no options: the argument's type says which signal it is";
            diagnostics.on(&method.marked.marker, what, "write `#[signal]`");
        }
        if !matches!(method.output, Output::Unit) {
            diagnostics.on(&method.returns, "a signal has no caller: nothing can receive this", "remove it");
        }
        let kind = kind(&method, method.sound, diagnostics);
        let conditional = method.present().is_some();
        let same = others.iter().find(|other| kind.is_some() && other.kind == kind);
        if let (Some(kind), Some(same)) = (kind, same)
            && !(conditional && same.method.present().is_some())
        {
            let what = format!("`{kind}` is already handled by `{}`", same.method.ident);
            diagnostics.on(&method.marked.marker, what, "remove it, and call this method from there");
        }
        method.sound &= diagnostics.count() == before;
        Self { method, kind }
    }

    /// Returns the name of the signal, for `SIGNALS`.
    pub(crate) fn listed(&self) -> Option<TokenStream> {
        let (cfgs, kind) = (self.method.cfgs(), self.kind?);
        Some(quote!(#(#cfgs)* #kind))
    }
}

fn kind(method: &Method, sound: bool, diagnostics: &mut Diagnostics) -> Option<&'static str> {
    let known = suggest::list(KINDS);
    let [argument] = method.arguments.carried.as_slice() else {
        if sound {
            let what = format!("a signal method takes one signal: {known}");
            diagnostics.on(
                &method.ident,
                what,
                format!("write `{}(&mut self, cancel: Cancel)`, or another of them", method.ident),
            );
        }
        return None;
    };
    let written = text(&argument.ty);
    let last = written.rsplit("::").next().unwrap_or_default().to_owned();
    let found = KINDS.iter().find(|kind| **kind == last).copied();
    if found.is_none() && sound {
        let meant = suggest::nearest(&last, KINDS).unwrap_or("Cancel");
        diagnostics.on(
            &argument.ty,
            format!("`{written}` is not a signal: it must be {known}"),
            format!("write `{meant}`"),
        );
    }
    found
}
