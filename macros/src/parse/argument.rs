//! The arguments of a marked method: `self`, the context, the message's fields, and the reply.
//!
//! Rule: they come in this order. The context is `&mut Context<Self>`; every field has a name and an owned type; a
//! reply comes last.

use super::generics::{occurs, without_self};
use super::inspect;
use super::marker::Role;
use super::output::Output;
use crate::check::attributes;
use crate::check::bare::{self, arguments, bare, bare_mut, last_segment};
use crate::check::diagnostics::Diagnostics;
use crate::check::owned;
use crate::check::self_type::SelfType;
use crate::check::text::text;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Attribute, FnArg, Ident, Pat, PatType, ReceiverKind, Signature, Type};

/// A field of a message, or an input of an entry.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: TokenStream,
    /// Attributes of the message's field: documentation, `#[serde(…)]`.
    pub(crate) attrs: Vec<Attribute>,
    /// The `#[inspect(skip)]` of the argument, if any.
    pub(crate) skip: Option<Attribute>,
}

/// A way to answer other than by returning.
pub(crate) enum Reply {
    /// `reply: Reply<T>`: one answer, now or later.
    Once { answer: Output },
    /// `replies: Replies<T>`: many answers. The message's field has the name of the argument.
    Stream { ident: Ident, item: TokenStream, ty: TokenStream },
}

#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) has_ctx: bool,
    pub(crate) carried: Vec<Argument>,
    pub(crate) reply: Option<Reply>,
}

impl Arguments {
    /// Returns the first `#[inspect(skip)]`.
    pub(crate) fn skip(&self) -> Option<&Attribute> {
        self.carried.iter().find_map(|argument| argument.skip.as_ref())
    }

    /// Returns name, type and attributes of the message type's fields, including the reply of a stream.
    pub(crate) fn fields(&self) -> Vec<(&Ident, &TokenStream, &[Attribute])> {
        let mut fields: Vec<(&Ident, &TokenStream, &[Attribute])> = Vec::new();
        for argument in &self.carried {
            fields.push((&argument.ident, &argument.ty, &argument.attrs));
        }
        if let Some(Reply::Stream { ident, ty, .. }) = &self.reply {
            fields.push((ident, ty, &[]));
        }
        fields
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ArgumentKind {
    Receiver,
    Context,
    Carried,
    Reply,
}

/// Reads the arguments and removes their attributes, which have no meaning on a function.
pub(crate) fn read(
    signature: &mut Signature,
    role: Role,
    self_type: &SelfType,
    diagnostics: &mut Diagnostics,
) -> Arguments {
    receiver(signature, role, diagnostics);
    let generic = generics(signature, role, diagnostics);
    let mut out = Arguments::default();
    let mut kinds = Vec::new();
    let written = signature.clone();
    for (at, input) in signature.inputs.iter_mut().enumerate() {
        let FnArg::Typed(input) = input else {
            kinds.push(ArgumentKind::Receiver);
            continue;
        };
        let kind = kind(input);
        // The argument with the comma before it, so that the rest still parses when both are removed.
        let whole = || {
            let comma = at
                .checked_sub(1)
                .and_then(|before| written.inputs.pairs().nth(before)?.punct().map(ToTokens::to_token_stream));
            let arg = &written.inputs[at];
            quote!(#comma #arg)
        };
        match kind {
            ArgumentKind::Receiver => {}
            ArgumentKind::Context if out.has_ctx => diagnostics.on(whole(), "a method takes one context", "remove it"),
            ArgumentKind::Context => {
                context(input, self_type, diagnostics);
                out.has_ctx = true;
            }
            ArgumentKind::Reply if role != Role::Message => {
                diagnostics.on(whole(), format!("{} has no caller to answer", role.what()), "remove it");
            }
            ArgumentKind::Reply if out.reply.is_some() => {
                diagnostics.on(whole(), "a message is answered in one way", "remove it")
            }
            ArgumentKind::Reply => out.reply = reply(input, self_type, diagnostics),
            ArgumentKind::Carried => {
                let argument = carried(input, at, role, self_type, &generic, diagnostics);
                out.carried.push(argument);
            }
        }
        kinds.push(kind);
    }
    order(&written, &kinds, diagnostics);
    out
}

fn receiver(signature: &Signature, role: Role, diagnostics: &mut Diagnostics) {
    let what = format!("{} is a method", role.what());
    let needed = if role == Role::Entry { "`&mut self`" } else { "`&mut self` or `&self`" };
    let Some(receiver) = signature.receiver() else {
        let what = format!("{what}: it needs {needed}");
        return match signature.inputs.first() {
            Some(first) => diagnostics.on(first, what, format!("write `&mut self, {}`", text(first))),
            None => diagnostics.at(signature.paren_token.span.join(), what, "write `(&mut self)`"),
        };
    };
    let fault = match &receiver.kind {
        ReceiverKind::Reference(_, None, Some(_)) => return,
        ReceiverKind::Reference(_, None, None) if role != Role::Entry => return,
        ReceiverKind::Reference(_, None, None) => {
            "an entry may change the state it starts with: it takes `&mut self`".to_owned()
        }
        ReceiverKind::Reference(..) => {
            format!("{} borrows its process for as long as it runs, no lifetime needed", role.what())
        }
        ReceiverKind::Typed(_, ty) if is_borrowed_self(ty, role) => return,
        ReceiverKind::Typed(_, ty) if matches!(bare(ty), Type::Reference(_)) => {
            format!("{} takes {needed}", role.what())
        }
        _ => format!("`self` by value would move the state out of its process: {} takes {needed}", role.what()),
    };
    diagnostics.on(receiver, fault, "write `&mut self`");
}

/// Returns whether this is `&mut Self`, or `&Self` where that is allowed.
fn is_borrowed_self(ty: &Type, role: Role) -> bool {
    let Type::Reference(reference) = bare(ty) else { return false };
    let is_unnamed = reference.lifetime.is_none() && text(&reference.elem) == "Self";
    is_unnamed && (reference.mutability.is_some() || role != Role::Entry)
}

/// Reports generic parameters. Returns their names, which no generated type may mention.
fn generics(signature: &Signature, role: Role, diagnostics: &mut Diagnostics) -> Vec<Ident> {
    if let Some(clause) = &signature.generics.where_clause {
        let what = format!("{} belongs to the whole process: it has no `where` of its own", role.what());
        diagnostics.on(clause, what, "remove it, or write it on the `impl`");
    }
    if signature.generics.params.is_empty() {
        return Vec::new();
    }
    let names = crate::parse::generics::names(&signature.generics).into_iter().cloned().collect::<Vec<_>>();
    let params = &signature.generics;
    match names.first() {
        Some(name) => {
            let what = format!("{} has one type: it cannot be generic by itself", role.what());
            diagnostics.on(quote!(#params), what, format!("name the type, or write `{name}` at the head of the block"));
        }
        None => {
            let what = format!("{} outlives the caller: it cannot have lifetimes", role.what());
            diagnostics.on(quote!(#params), what, "remove it");
        }
    }
    names
}

fn kind(input: &PatType) -> ArgumentKind {
    let named_ctx = matches!(&*input.pat, Pat::Ident(pat) if pat.ident == "ctx" || pat.ident == "context");
    let borrowed = matches!(bare(&input.ty), Type::Reference(_));
    match last_segment(&input.ty).as_deref() {
        Some("Context") => ArgumentKind::Context,
        Some("Reply" | "Replies") => ArgumentKind::Reply,
        _ if named_ctx && borrowed => ArgumentKind::Context,
        _ => ArgumentKind::Carried,
    }
}

/// Returns the arguments other than `self`.
pub(crate) fn typed(signature: &Signature) -> impl Iterator<Item = &PatType> {
    signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    })
}

pub(crate) fn is_context(input: &PatType) -> bool {
    kind(input) == ArgumentKind::Context
}

pub(crate) fn is_reply_once(input: &PatType) -> bool {
    last_segment(&input.ty).as_deref() == Some("Reply")
}

/// Returns the answer type of a reply, as it is written.
pub(crate) fn answer_of(ty: &Type) -> Option<String> {
    arguments(bare::path(ty)?).first().map(text)
}

/// Returns the span of the first field's type.
pub(crate) fn typed_span(fields: &[(&Ident, &TokenStream, &[Attribute])]) -> Option<Span> {
    fields.first().map(|(_, ty, _)| syn::spanned::Spanned::span(ty))
}

fn context(input: &mut PatType, self_type: &SelfType, diagnostics: &mut Diagnostics) {
    let name = match &*input.pat {
        Pat::Ident(pat) => pat.ident.clone(),
        Pat::Wild(_) => format_ident!("_ctx"),
        _ => format_ident!("ctx"),
    };
    let Some(what) = fault_of_context(&input.ty, self_type) else { return };
    diagnostics.on(&*input, what, format!("write `{name}: &mut Context<Self>`"));
    if let Type::Reference(reference) = bare_mut(&mut input.ty)
        && let Some(path) = bare::path(&reference.elem)
        && arguments(path).is_empty()
        && last_segment(&reference.elem).as_deref() == Some("Context")
    {
        // The parameter is added, because otherwise the compiler would report the missing one as a second error.
        let krate = &self_type.krate;
        *reference.elem = syn::parse_quote!(#krate::Context<Self>);
    }
}

/// Returns what is wrong with the type of a context, if anything.
fn fault_of_context(ty: &Type, self_type: &SelfType) -> Option<&'static str> {
    let is_mutable = |reference: &&syn::TypeReference| reference.mutability.is_some() && reference.lifetime.is_none();
    let reference = if let Type::Reference(reference) = bare(ty) { Some(reference) } else { None };
    let Some(reference) = reference.filter(is_mutable) else {
        return Some("the context is borrowed mutably, for as long as the method runs");
    };
    match bare(&reference.elem) {
        Type::Path(path) if last_segment(&reference.elem).as_deref() == Some("Context") => {
            let is_own = |of: &Type| text(of) == "Self" || text(of) == text(&self_type.ty);
            let is_right = matches!(arguments(path).as_slice(), [of] if is_own(of));
            (!is_right).then_some("a method takes the context of its own process")
        }
        _ => Some("this is not the type of the context"),
    }
}

fn reply(input: &mut PatType, self_type: &SelfType, diagnostics: &mut Diagnostics) -> Option<Reply> {
    let (Pat::Ident(pat), Type::Path(path)) = (&*input.pat, bare(&input.ty)) else {
        let named = last_segment(&input.ty).unwrap_or_default();
        diagnostics.on(&*input, "the reply is taken by value, under a name", format!("write `reply: {named}<()>`"));
        return None;
    };
    let many = last_segment(&input.ty).as_deref() == Some("Replies");
    let types = arguments(path);
    let [answer] = types.as_slice() else {
        let what = "the reply needs the type of the answer";
        diagnostics.on(path, what, format!("write `{}<()>`", if many { "Replies" } else { "Reply" }));
        if types.is_empty() {
            *input.ty = syn::parse_quote!(#path<()>);
        }
        return None;
    };
    let answer = owned::check(answer, "an answer", diagnostics);
    Some(if many {
        let item = without_self(&answer, &self_type.ty);
        let krate = &self_type.krate;
        Reply::Stream { ident: pat.ident.clone(), ty: quote!(#krate::Replies<#item>), item }
    } else {
        Reply::Once { answer: Output::of(&answer, self_type) }
    })
}

fn carried(
    input: &mut PatType,
    at: usize,
    role: Role,
    self_type: &SelfType,
    generic: &[Ident],
    diagnostics: &mut Diagnostics,
) -> Argument {
    let ident = match &*input.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
        pattern => {
            let word = if matches!(pattern, Pat::Wild(_)) { "_unused" } else { "input" };
            let what = "an argument needs a name: the message's field takes it";
            diagnostics.on(pattern, what, format!("write `{word}`"));
            format_ident!("input{at}")
        }
    };
    let ty = if generic.iter().any(|name| occurs(name, &input.ty.to_token_stream())) {
        syn::parse_quote!(())
    } else {
        let what = if role == Role::Entry { "an entry's input" } else { "a message's argument" };
        let ty = owned::check(&input.ty, what, diagnostics);
        // An unsized argument is replaced in the method as well, because otherwise the compiler would report a second
        // error.
        if owned::is_unsized(&input.ty) {
            *input.ty = ty.clone();
        }
        ty
    };
    let is_conditional = |attribute: &&Attribute| !attributes::cfgs(std::slice::from_ref(attribute)).is_empty();
    if let Some(cfg) = input.attrs.iter().find(is_conditional) {
        diagnostics.on(cfg, "an argument cannot be conditional", "remove it, or write it on the method");
    }
    let attrs = attributes::flat(std::mem::take(&mut input.attrs)).into_iter();
    let attrs = attrs.filter(|attribute| !attribute.path().is_ident("cfg"));
    let (keep, attrs): (Vec<_>, Vec<_>) = attrs.partition(|attribute| {
        let path = attributes::path(attribute);
        ["allow", "deny", "expect", "forbid", "warn"].iter().any(|word| path.is_ident(word))
    });
    input.attrs = keep;
    let (mut skips, attrs): (Vec<_>, _) =
        attrs.into_iter().partition(|attribute| attributes::path(attribute).is_ident("inspect"));
    if let Some(wrong) = skips.iter().find(|skip| !inspect::is_skip(skip)) {
        diagnostics.on(wrong, "an argument is shown, or left out", "write `#[inspect(skip)]`");
    }
    let skip = skips.pop();
    if let Some(skip) = skip.as_ref().filter(|_| role != Role::Message) {
        diagnostics.on(skip, "`#[inspect(skip)]` has no effect: only messages are shown", "remove it");
    }
    Argument { ident, ty: without_self(ty, &self_type.ty), attrs, skip }
}

fn order(written: &Signature, kinds: &[ArgumentKind], diagnostics: &mut Diagnostics) {
    if kinds.is_sorted() || kinds.first() != Some(&ArgumentKind::Receiver) {
        return;
    }
    let misplaced_ctx =
        kinds.iter().skip_while(|kind| **kind <= ArgumentKind::Context).any(|kind| *kind == ArgumentKind::Context);
    let what = if misplaced_ctx { "the context comes right after `self`" } else { "the reply comes last" };
    let mut sorted: Vec<_> = kinds.iter().zip(&written.inputs).collect();
    sorted.sort_by_key(|(kind, _)| **kind);
    let inputs = sorted.iter().map(|(_, input)| text(input)).collect::<Vec<_>>().join(", ");
    // It would suffice to replace the arguments from the first misplaced one on, but the whole list is easier to read.
    diagnostics.on(&written.inputs, what, format!("write `{inputs}`"));
}
