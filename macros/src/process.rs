//! `#[process] impl`: read the block, then generate everything from what was read.
//!
//! Rule: the user's block goes out as it came, less our attributes. What the user can name, the message types, stands
//! beside it; the rest in a block of its own, where no name can clash. A faulty method takes part in the generated types
//! and signatures, so that code that uses it still compiles, but is never called.

use crate::argument::{self, Arguments};
use crate::entry::Entry;
use crate::fault::Faults;
use crate::marker::{self, Marked, Role};
use crate::message::Message;
use crate::naming;
use crate::options;
use crate::output::Output;
use crate::signal::SignalMethod;
use crate::{actor, client};
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{
    Attribute, GenericParam, Generics, Ident, ImplItem, ImplItemFn, ItemImpl, Path, PathArguments, ReturnType, Safety,
    Type, Visibility, WherePredicate, parse_quote,
};

/// Whom it is all about.
pub(crate) struct Subject {
    pub(crate) krate: Path,
    pub(crate) ident: Ident,
    /// `Account`, `Cache<K, V>`: the type with its parameters.
    pub(crate) ty: TokenStream,
    pub(crate) generics: Generics,
    /// Conditions of the whole block, where they stand under `#[process]`.
    pub(crate) cfgs: Vec<Attribute>,
}

impl Subject {
    /// Where the items live that only generated code uses.
    pub(crate) fn private(&self) -> TokenStream {
        let krate = &self.krate;
        quote!(#krate::__private)
    }
}

/// What entries, messages and signals have in common.
pub(crate) struct Method {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    pub(crate) marked: Marked,
    pub(crate) is_async: bool,
    pub(crate) arguments: Arguments,
    pub(crate) output: Output,
    pub(crate) returns: ReturnType,
    /// Nothing is wrong with it, so it can be called.
    pub(crate) sound: bool,
}

impl Method {
    fn read(item: &mut ImplItemFn, marked: Marked, subject: &Subject, faults: &mut Faults) -> Self {
        let role = marked.role;
        let before = faults.count();
        let signature = &mut item.sig;
        let modifiers: [Option<TokenStream>; 3] = [
            signature.constness.map(ToTokens::into_token_stream),
            (!matches!(signature.safety, Safety::Default)).then(|| signature.safety.to_token_stream()),
            signature.abi.as_ref().map(ToTokens::to_token_stream),
        ];
        for modifier in modifiers.into_iter().flatten() {
            let what =
                format!("{} is called by the runtime: it cannot be `{}`", role.what(), crate::text::text(&modifier));
            faults.on(modifier, what, "remove it");
        }
        let arguments = argument::read(signature, role, subject, faults);
        let answer = if role == Role::Entry { "an entry's result" } else { "an answer" };
        let output = Output::read(&signature.output, answer, &subject.krate, &subject.ty, faults);
        Self {
            ident: signature.ident.clone(),
            vis: item.vis.clone(),
            marked,
            is_async: signature.asyncness.is_some(),
            arguments,
            output,
            returns: signature.output.clone(),
            sound: faults.count() == before,
        }
    }

    /// The context as an argument, if the method takes it.
    pub(crate) fn ctx(&self, ctx: &Ident) -> Option<TokenStream> {
        self.arguments.has_ctx.then(|| quote!(#ctx,))
    }

    pub(crate) fn names(&self) -> Vec<&Ident> {
        self.arguments.carried.iter().map(|argument| &argument.ident).collect()
    }

    pub(crate) fn cfgs(&self) -> &[Attribute] {
        &self.marked.cfgs
    }

    /// The condition of `#[cfg]`, as an expression; nothing if it is always there.
    pub(crate) fn present(&self) -> Option<TokenStream> {
        let conditions: Vec<TokenStream> = self
            .marked
            .cfgs
            .iter()
            .filter_map(|cfg| cfg.meta.require_list().ok().map(|list| list.tokens.clone()))
            .collect();
        (!conditions.is_empty()).then(|| quote!(::core::cfg!(all(#(#conditions),*))))
    }
}

pub(crate) struct Process {
    pub(crate) subject: Subject,
    pub(crate) entries: Vec<Entry>,
    pub(crate) messages: Vec<Message>,
    pub(crate) signals: Vec<SignalMethod>,
    pub(crate) client: Ident,
    pub(crate) entry_points: Ident,
}

pub(crate) fn expand(options: TokenStream, mut item: ItemImpl) -> TokenStream {
    let mut faults = Faults::default();
    let krate = options::of_impl(options, &mut faults);
    twice(&mut item.attrs, &mut faults);
    let Some(subject) = subject(krate, &item, &mut faults) else {
        strip(&mut item);
        let faults = faults.to_tokens();
        return quote!(#item #faults);
    };
    let process = read(subject, &mut item, &mut faults);
    let entry_points = crate::entry::items(&process);
    let messages = process.messages.iter().map(|message| message.items(&process.subject));
    let client = client::items(&process);
    let actor = actor::items(&process);
    let only = only_once(&process.subject);
    let faults = faults.to_tokens();
    let cfgs = &process.subject.cfgs;
    quote! {
        #item
        #faults
        #only
        #(#messages)*
        #(#cfgs)*
        #[allow(trivial_bounds)]
        const _: () = { #client #entry_points #actor };
    }
}

/// Two blocks would make everything twice. The first the compiler says of it is the name of this.
fn only_once(subject: &Subject) -> TokenStream {
    let name = format_ident!("{}_has_two_process_impls_write_one", subject.ident.unraw(), span = subject.ident.span());
    let cfgs = &subject.cfgs;
    quote! {
        #(#cfgs)*
        #[allow(dead_code, non_camel_case_types)]
        struct #name;
    }
}

/// A second `#[process]` on the same item.
pub(crate) fn twice(attrs: &mut Vec<Attribute>, faults: &mut Faults) {
    attrs.retain(|attribute| {
        let again = attribute.path().segments.last().is_some_and(|last| last.ident == "process");
        if again {
            faults.on(attribute, "`#[process]` is said twice", "remove it");
        }
        !again
    });
}

/// The type of the block, if it is one that can be a process.
fn subject(krate: Path, item: &ItemImpl, faults: &mut Faults) -> Option<Subject> {
    if item.trait_.is_some() {
        faults.at(Span::call_site(), "`#[process]` goes on the type's own `impl`, not on that of a trait", "remove it");
        return None;
    }
    let ident = match &*item.self_ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|last| last.ident.clone()),
        _ => None,
    };
    let Some(ident) = ident else {
        faults.on(
            &item.self_ty,
            "a process is a struct or an enum of this crate",
            "write the `impl` for a struct or an enum",
        );
        return None;
    };
    let before = faults.count();
    if let Some(lifetime) = item.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
        faults.on(&item.generics, lifetime_fault(lifetime), "remove it");
    }
    if let Type::Path(path) = &*item.self_ty
        && let Some(PathArguments::AngleBracketed(arguments)) = path.path.segments.last().map(|last| &last.arguments)
        && let Some(lifetime) = arguments
            .args
            .iter()
            .find(|argument| matches!(argument, syn::GenericArgument::Lifetime(lifetime) if lifetime.ident != "static"))
    {
        faults.on(arguments, lifetime_fault(lifetime), "remove it");
    }
    if faults.count() > before {
        return None;
    }
    let cfgs = item.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
    let mut generics = item.generics.clone();
    if generics.params.is_empty() {
        generics.make_where_clause().predicates.push(declared(&krate, &ident, &item.self_ty));
    }
    Some(Subject { krate, ident, ty: item.self_ty.to_token_stream(), generics, cfgs })
}

/// That the struct has its `#[process]`, asked in one place: what is generated under this condition takes it for granted,
/// so that the compiler says once that it does not hold.
fn declared(krate: &Path, ident: &Ident, ty: &Type) -> WherePredicate {
    let at = ident.span().resolved_at(Span::call_site());
    let bound: TokenStream = respan(quote!(#ty: #krate::__private::Declared), at);
    parse_quote!(#bound)
}

/// The tokens, all of them in one place.
fn respan(tokens: TokenStream, at: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(group) = &token {
                token = TokenTree::Group(Group::new(group.delimiter(), respan(group.stream(), at)));
            }
            token.set_span(at);
            token
        })
        .collect()
}

pub(crate) fn lifetime_fault(lifetime: impl ToTokens) -> String {
    format!("a process outlives whoever spawned it: it cannot borrow for `{}`", crate::text::text(lifetime))
}

/// Without a subject nothing is generated: the methods stay, our attributes go.
fn strip(item: &mut ItemImpl) {
    let krate = syn::parse_quote!(postroom);
    for item in &mut item.items {
        if let ImplItem::Fn(method) = item {
            marker::take(method, &krate, &mut Faults::default());
        }
    }
}

fn read(subject: Subject, item: &mut ItemImpl, faults: &mut Faults) -> Process {
    let (mut entries, mut messages, mut signals) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen: Vec<(Ident, bool)> = Vec::new();
    item.items.retain_mut(|item| {
        let ImplItem::Fn(method) = item else { return true };
        let Some(marked) = marker::take(method, &subject.krate, faults) else { return true };
        let (name, conditional) = (method.sig.ident.clone(), !marked.cfgs.is_empty());
        // Two methods of one name may exist under two conditions.
        if seen.iter().any(|(other, there)| *other == name && !(conditional && *there)) {
            faults.on(&name, format!("`{name}` is there already"), format!("rename it, for instance `{name}_again`"));
            return false;
        }
        seen.push((name, conditional));
        let role = marked.role;
        let method = Method::read(method, marked, &subject, faults);
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
    Process { subject, entries, messages, signals, client, entry_points }
}
