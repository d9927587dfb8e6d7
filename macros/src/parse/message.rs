//! `#[message]`: a method that is called by sending a message.
//!
//! `#[message] fn deposit(&mut self, amount: i64)` generates the type `AccountDeposit { amount }`; `#[message(Tick)]`
//! uses an existing type. In both cases the process implements `Handles` for the type, with the types of its answer.
//! The other options concern taps and other nodes.

use super::argument::Reply;
use super::generics;
use super::message_options::{self, MessageOptions};
use super::method::Method;
use super::naming;
use super::output::Output;
use crate::check::diagnostics::Diagnostics;
use crate::check::self_type::SelfType;
use crate::check::text::text;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Generics, Ident, Type};

pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) kind: MessageKind,
    /// Whether an earlier message has the same type. That is a mistake, and the type is not generated again.
    pub(crate) repeated: bool,
    /// How the message is named and encoded between nodes; `None` if it never leaves its node.
    pub(crate) remote: Option<RemoteOptions>,
    /// Whether taps may show the message.
    pub(crate) inspect: bool,
}

/// The properties of a message, besides its fields, on which nodes must agree.
pub(crate) struct RemoteOptions {
    /// The name, if it is not composed of the names of package, type and method.
    pub(crate) name: Option<String>,
    /// Whether fields are encoded with their names.
    pub(crate) named: bool,
}

/// The origin of the message type.
pub(crate) enum MessageKind {
    /// Generated for the method.
    Own { ident: Ident, generics: Generics },
    /// Given by `#[message(Type)]`.
    Existing(Type),
}

/// Reports an existing type if another method handles it already. Returns whether one does.
fn is_handled_already(ty: &Type, method: &Method, others: &[Message], diagnostics: &mut Diagnostics) -> bool {
    let is_same = |other: &&Message| matches!(&other.kind, MessageKind::Existing(other) if text(other) == text(ty));
    let is_beside = |same: &&Message| same.method.present().is_none() || method.present().is_none();
    let Some(same) = others.iter().find(is_same).filter(is_beside) else { return false };
    let what = format!("`{}` is already handled by `{}`", text(ty), same.method.ident);
    diagnostics.on(ty, what, "handle it in one method, or write `#[message]` for a type of its own");
    true
}

/// Reports a generated type if the type generated for another method has the same name. Returns whether it does.
fn is_named_already(ident: &Ident, method: &Method, others: &[Message], diagnostics: &mut Diagnostics) -> bool {
    let same = others.iter().find(|other| other.own_type() == Some(ident));
    let Some(same) = same.filter(|same| same.method.ident != method.ident) else { return false };
    let name = method.ident.unraw();
    let what = format!("`{}` and `{name}` would both be the message type `{ident}`", same.method.ident);
    diagnostics.on(&method.ident, what, format!("rename it, for instance `{name}_again`"));
    true
}

impl Message {
    pub(crate) fn check(
        mut method: Method,
        self_type: &SelfType,
        others: &[Self],
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let before = diagnostics.count();
        let name = method.ident.unraw().to_string();
        if let Some(why) = naming::reserved_for_messages(&name) {
            let what = format!("a message cannot be called `{name}`: {why}");
            diagnostics.on(&method.ident, what, format!("rename it, for instance `do_{name}`"));
        }
        if matches!(method.output, Output::Never) {
            diagnostics.on(
                &method.returns,
                "a message that never ends is never answered, nor is any after it",
                "remove it",
            );
            method.output = Output::Unit;
        }
        if method.arguments.reply.is_some() && !matches!(method.output, Output::Unit) {
            diagnostics.on(
                &method.returns,
                "a message is answered by its reply or by its return value, not by both",
                "remove it",
            );
        }
        let options = message_options::read(&method.marked.marker, self_type.remote, diagnostics);
        let remote = remote(&method, &options, self_type, diagnostics);
        if let Some(skip) = method.arguments.skip().filter(|_| !options.inspect) {
            let what = "`#[inspect(skip)]` has no effect: the method does not say `#[message(inspect)]`";
            diagnostics.on(skip, what, "remove it");
        }
        let (kind, repeated) = match options.existing {
            Some(ty) => {
                exactly_one(&method, &ty, diagnostics);
                let repeated = is_handled_already(&ty, &method, others, diagnostics);
                (MessageKind::Existing(ty), repeated)
            }
            None => {
                let ident = naming::message_type(&self_type.ident, &method.ident);
                let repeated = is_named_already(&ident, &method, others, diagnostics);
                let fields: TokenStream =
                    method.arguments.fields().into_iter().map(|(_, ty, _)| quote!(#ty,)).collect();
                let generics = generics::used_in(&self_type.generics, &fields);
                (MessageKind::Own { ident, generics }, repeated)
            }
        };
        method.sound &= diagnostics.count() == before;
        Self { method, kind, repeated, remote, inspect: options.inspect }
    }

    /// Returns the type generated for this message, if any.
    fn own_type(&self) -> Option<&Ident> {
        match &self.kind {
            MessageKind::Own { ident, .. } => Some(ident),
            MessageKind::Existing(_) => None,
        }
    }

    /// Returns the message type, such as `AccountDeposit`, `CachePut<K, V>` or `Tick`.
    pub(crate) fn ty(&self) -> TokenStream {
        match &self.kind {
            MessageKind::Own { ident, generics } => {
                let (_, arguments, _) = generics.split_for_impl();
                quote!(#ident #arguments)
            }
            MessageKind::Existing(ty) => ty.to_token_stream(),
        }
    }

    /// Returns tokens that destructure the message as a pattern and construct it as an expression:
    /// `AccountDeposit { amount }`, or `tick`.
    pub(crate) fn value(&self) -> TokenStream {
        match &self.kind {
            MessageKind::Own { ident, .. } => {
                let fields = self.method.arguments.fields().into_iter().map(|(name, ..)| name);
                quote!(#ident { #(#fields),* })
            }
            MessageKind::Existing(_) => {
                let names = self.method.names();
                names.first().map_or_else(|| quote!(_), |name| quote!(#name))
            }
        }
    }

    /// Returns the types of the answer: success and failure. If the signature does not show them, they are projections
    /// of `Handles`, the only place where the compiler computes them.
    pub(crate) fn answer(&self, self_type: &SelfType) -> (TokenStream, TokenStream) {
        let output = self.method.answer();
        if !matches!(output, Output::Asked(_)) {
            return output.parts(&self_type.private());
        }
        let (krate, process, ty) = (&self_type.krate, &self_type.ty, self.ty());
        let handles = quote!(<#process as #krate::generic::Handles<#ty>>);
        (quote!(#handles::Answer), quote!(#handles::Error))
    }
}

/// Returns the properties of a remote message, or `None` for a local one. A stream of answers is an error, since it
/// would need a channel that stays open.
fn remote(
    method: &Method,
    options: &MessageOptions,
    self_type: &SelfType,
    diagnostics: &mut Diagnostics,
) -> Option<RemoteOptions> {
    if !self_type.remote || options.local {
        return None;
    }
    if let Some(Reply::Stream { .. }) = &method.arguments.reply {
        let what = "a stream of answers does not travel between nodes; the message can carry a `Recipient` for the \
                    items instead, or stay on its node";
        diagnostics.on(&method.marked.marker.meta, what, "write `message(local)`");
        return None;
    }
    let name = options.name.as_ref().map(syn::LitStr::value);
    self_type.travels.then_some(RemoteOptions { name, named: options.named })
}

/// Checks that a method for an existing type takes exactly one argument, of that type.
fn exactly_one(method: &Method, ty: &Type, diagnostics: &mut Diagnostics) {
    let marker = &method.marked.marker;
    if let Some(Reply::Stream { .. }) = &method.arguments.reply {
        let what =
            format!("`{}` has no place for `Replies`: only a type made here can be answered with a stream", text(ty));
        diagnostics.on(marker, what, "write `#[message]`");
        return;
    }
    let [argument] = method.arguments.carried.as_slice() else {
        let what = format!("`#[message({0})]` handles a `{0}` and nothing else: it takes one argument", text(ty));
        diagnostics.on(marker, what, "write `#[message]`");
        return;
    };
    let last = |ty: TokenStream| {
        text(ty).split('<').next().map(|path| path.rsplit(':').next().unwrap_or(path).trim().to_owned())
    };
    if last(argument.ty.clone()) != last(ty.to_token_stream()) {
        let what = format!("this method handles `{}`, as its `#[message(…)]` says", text(ty));
        diagnostics.on(&argument.ty, what, format!("write `{}`", text(ty)));
    }
}
