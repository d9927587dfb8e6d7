//! The type of a `#[process] impl`, and the reasons why it cannot be a process.

use super::attributes;
use super::bare::bare;
use super::diagnostics::Diagnostics;
use super::text::text;
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, GenericArgument, GenericParam, Generics, Ident, ItemImpl, Path, PathArguments, Type, WherePredicate,
    parse_quote,
};

/// The type for which code is generated.
pub(crate) struct SelfType {
    pub(crate) krate: Path,
    pub(crate) ident: Ident,
    /// The type with its parameters: `Account`, `Cache<K, V>`.
    pub(crate) ty: TokenStream,
    pub(crate) generics: Generics,
    /// The `cfg`s of the whole block that are below `#[process]`.
    pub(crate) cfgs: Vec<Attribute>,
    /// Whether the user has asked for messages from other nodes.
    pub(crate) remote: bool,
    /// Whether messages can come from other nodes.
    pub(crate) travels: bool,
}

impl SelfType {
    /// Reads the head of the block. `None` if its type cannot be a process.
    pub(crate) fn read(krate: Path, item: &ItemImpl, diagnostics: &mut Diagnostics) -> Option<Self> {
        let ty = bare(&item.self_ty);
        let ident = match ty {
            Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|last| last.ident.clone()),
            _ => None,
        };
        let Some(ident) = ident else {
            diagnostics.on(
                &item.self_ty,
                "a process is a struct or an enum of this crate",
                "write the `impl` for a struct or an enum",
            );
            return None;
        };
        let before = diagnostics.count();
        if let Some(lifetime) = item.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
            diagnostics.on(&item.generics, lifetime_fault(lifetime), "remove it");
        }
        if let Type::Path(path) = ty
            && let Some(PathArguments::AngleBracketed(arguments)) =
                path.path.segments.last().map(|last| &last.arguments)
            && let Some(lifetime) = arguments
                .args
                .iter()
                .find(|argument| matches!(argument, GenericArgument::Lifetime(lifetime) if lifetime.ident != "static"))
        {
            diagnostics.on(arguments, lifetime_fault(lifetime), "remove it");
        }
        if diagnostics.count() > before {
            return None;
        }
        let cfgs = attributes::cfgs(&item.attrs);
        let mut generics = item.generics.clone();
        if generics.params.is_empty() {
            generics.make_where_clause().predicates.push(declared(&krate, &ident, ty));
        }
        Some(Self { krate, ident, ty: ty.to_token_stream(), generics, cfgs, remote: false, travels: false })
    }

    /// Lets messages come from other nodes, if they can have the same name and form on all nodes.
    pub(crate) fn make_remote(&mut self, diagnostics: &mut Diagnostics) {
        self.remote = true;
        if self.generics.params.is_empty() {
            // Without the feature, the runtime lacks items that the generated code needs. The missing feature is
            // reported elsewhere.
            self.travels = cfg!(feature = "serde");
            return;
        }
        let (parameters, ..) = self.generics.split_for_impl();
        let what = "messages have one name and one form in all nodes, which those of a generic type have not";
        diagnostics.on(parameters, what, "remove the parameters and name the types, or remove `remote`");
    }

    /// Returns the path of the items that are for generated code only.
    pub(crate) fn private(&self) -> TokenStream {
        let krate = &self.krate;
        quote!(#krate::__private)
    }
}

/// Returns the expression that wraps a future of the process: confined to its thread if the process is pinned,
/// otherwise required to be `Send`. All tokens have the same span, at which the compiler reports a future that is not
/// `Send`.
pub(crate) fn kept(private: &TokenStream, process: &TokenStream, future: &TokenStream, at: Span) -> TokenStream {
    let at = at.resolved_at(Span::call_site());
    let place = place_of(private, process, at);
    quote_spanned! {at=> {
        use #private::probe::{IsNotSend as _, IsPinned as _, IsSend as _};
        (&&&#place).__postroom_wrapper().hold_only_what_is_send_or_write_process_pinned(#future)
    }}
}

/// Like [`kept`], but for the struct and its context, which the future of an async method contains.
pub(crate) fn kept_away(private: &TokenStream, what: &TokenStream, at: Span) -> TokenStream {
    let at = at.resolved_at(Span::call_site());
    let place = place_of(private, &quote!(Self), at);
    quote_spanned! {at=> {
        use #private::probe::{IsAny as _, IsPinned as _};
        (&&&#place).__postroom_wrapper().let_the_state_be_send_or_write_process_pinned(#what)
    }}
}

/// Returns the probe for the placement of the process.
fn place_of(private: &TokenStream, process: &TokenStream, at: Span) -> TokenStream {
    quote_spanned!(at=> #private::probe::PlacementOf::<#process, <#process as #private::Declared>::Placement>::new())
}

/// Returns the bound that requires the attribute `#[process]` on the type itself. All its tokens have the same span.
/// All generated code is under this bound, so that the compiler reports a missing attribute once.
fn declared(krate: &Path, ident: &Ident, ty: &Type) -> WherePredicate {
    let at = ident.span().resolved_at(Span::call_site());
    let bound: TokenStream = respan(quote!(#ty: #krate::__private::Declared), at);
    parse_quote!(#bound)
}

/// Sets the span of all tokens.
pub(crate) fn respan(tokens: TokenStream, at: Span) -> TokenStream {
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

/// Returns the span of a protocol's name.
pub(crate) fn place(path: &Path) -> Span {
    path.segments.last().map_or_else(Span::call_site, |last| last.ident.span()).resolved_at(Span::call_site())
}

/// Returns the text of the error for a lifetime, on the type or on its block.
pub(crate) fn lifetime_fault(lifetime: impl ToTokens) -> String {
    format!("a process outlives its spawner: it cannot borrow for `{}`", text(lifetime))
}
