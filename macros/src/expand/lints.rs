//! Lints in generated code.
//!
//! Rule: no `allow`, which would be an error in a crate that forbids the lint. The compiler and Clippy skip code in the
//! expansion of another crate's macro, so every generated name, visibility and keyword takes the span of the attribute,
//! relocated to the user's word. There are two exceptions. Lints that are reported even in such code are allowed where
//! they occur. So are Clippy's lints about types, because the types are the user's.

use crate::parse::method::Method;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Ident, Visibility};

/// Returns the `allow` attributes of a block that calls or repeats these methods.
pub(crate) fn allowed<'a>(methods: impl IntoIterator<Item = &'a Method>) -> TokenStream {
    let (mut deprecated, mut unreachable, mut unused) = (None, None, None);
    for method in methods {
        if !method.marked.deprecated.is_empty() {
            deprecated = Some(quote!(#[allow(deprecated)]));
        }
        if method.answer().is_endless() {
            unreachable = Some(quote!(#[allow(unreachable_code)]));
        }
        if !method.sound {
            unused = Some(quote!(#[allow(unreachable_code, unused_variables)]));
        }
    }
    quote! {
        #deprecated #unreachable #unused
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
    }
}

/// Returns the name as a token of the expansion, located at the user's name.
pub(crate) fn generated(name: &Ident) -> Ident {
    let mut name = name.clone();
    name.set_span(name.span().resolved_at(Span::call_site()));
    name
}

/// Returns the visibility as tokens of the expansion, located at the user's tokens.
pub(crate) fn generated_visibility(vis: &Visibility) -> TokenStream {
    let tokens = vis.to_token_stream().into_iter().map(|mut token| {
        token.set_span(token.span().resolved_at(Span::call_site()));
        token
    });
    tokens.collect()
}
