//! The output of a method: nothing, or a type. The compiler determines whether that type is a `Result`.
//!
//! Rule: the spelling of a type says nothing about it. A `Result` may have another name, come from a macro, or be in
//! parentheses, and a type called `Result` may be a different one. So the generated code asks the type (see `outcome`
//! in the runtime), unless the type is not a path, such as a tuple, an array or a function pointer.

use super::generics;
use crate::check::bare::{self, bare};
use crate::check::diagnostics::Diagnostics;
use crate::check::owned;
use crate::check::self_type::{SelfType, respan};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{ReturnType, Type};

pub(crate) enum Output {
    Unit,
    /// `!`: the body does not end.
    Never,
    /// A type that is not a `Result`.
    Plain(TokenStream),
    Asked(Asked),
}

/// A type that may be a `Result`.
pub(crate) struct Asked {
    pub(crate) ty: TokenStream,
    /// A constant that tells whether the type is a `Result`.
    pub(crate) is_result: TokenStream,
}

/// Returns an expression for the text of an error. Autoref specialization chooses the error's `Display` or, if it has
/// none, its `Debug` or, failing that, the name of its type.
pub(crate) fn describe(private: &TokenStream, error: &Ident) -> TokenStream {
    quote! {{
        use #private::probe::{ByDebug as _, ByDisplay as _, ByType as _};
        (&&&#private::probe::ErrorText(#error)).__postroom_text()
    }}
}

impl Output {
    /// Reads a return type. `what` is the answer's role: "an answer".
    pub(crate) fn read(output: &ReturnType, what: &str, self_type: &SelfType, diagnostics: &mut Diagnostics) -> Self {
        match output {
            ReturnType::Default => Self::Unit,
            ReturnType::Type(_, ty) => Self::of(&owned::check(ty, what, diagnostics), self_type),
        }
    }

    /// Returns the output for a type, such as the one inside a `Reply<…>`.
    pub(crate) fn of(ty: &Type, self_type: &SelfType) -> Self {
        let ty = bare(ty);
        let written = generics::without_self(ty, &self_type.ty);
        match ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => Self::Unit,
            Type::Never(_) => Self::Never,
            Type::Path(_) | Type::Macro(_) => {
                let is_result = is_result(&written, self_type);
                Self::Asked(Asked { ty: written, is_result })
            }
            _ => Self::Plain(written),
        }
    }

    /// Returns the type.
    pub(crate) fn ty(&self) -> TokenStream {
        match self {
            Self::Unit => quote!(()),
            Self::Never => quote!(::core::convert::Infallible),
            Self::Plain(ty) | Self::Asked(Asked { ty, .. }) => ty.clone(),
        }
    }

    /// Returns whether the type is `Infallible`, which has no values. Code after a call that returns it triggers the
    /// lint about unreachable code.
    pub(crate) fn is_endless(&self) -> bool {
        let Self::Asked(asked) = self else { return false };
        let ty = syn::parse2::<Type>(asked.ty.clone());
        ty.is_ok_and(|ty| bare::last_segment(&ty).as_deref() == Some("Infallible"))
    }

    /// Returns the types of success and failure.
    pub(crate) fn parts(&self, private: &TokenStream) -> (TokenStream, TokenStream) {
        match self {
            Self::Asked(asked) => (asked.part("Ok", private), asked.part("Err", private)),
            _ => (self.ty(), quote!(::core::convert::Infallible)),
        }
    }
}

impl Asked {
    /// Returns one of the two types. Its first and last tokens have the spans of the first and last tokens of the whole
    /// type, so that errors about it point to the whole type.
    pub(crate) fn part(&self, name: &str, private: &TokenStream) -> TokenStream {
        let Self { ty, is_result } = self;
        let mut spans = ty.clone().into_iter().map(|token| token.span().resolved_at(Span::call_site()));
        let first = spans.next().unwrap_or_else(Span::call_site);
        let last = spans.last().unwrap_or(first);
        let name = format_ident!("{name}", span = last);
        let open = quote_spanned!(first=> <);
        quote!(#open #ty as #private::AnswerParts<#is_result>>::#name)
    }
}

/// Returns the constant that tells whether the type is a `Result`.
fn is_result(ty: &TokenStream, self_type: &SelfType) -> TokenStream {
    let private = self_type.private();
    // Errors about the type are shown at its first token.
    let span = ty.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span());
    let span = span.resolved_at(Span::call_site());
    let probe = match generics::for_any(&self_type.generics, ty) {
        // A constant in a type cannot mention parameters.
        Some(ty) => quote_spanned!(span=> GenericAnswer::<for<'__postroom> fn(&'__postroom ()) -> #ty>),
        None => quote_spanned!(span=> AnswerType::<#ty>),
    };
    let private_there = respan(private.clone(), span);
    let probe = quote_spanned!(span=> #private_there::probe::#probe::__POSTROOM_IS_RESULT);
    quote!({
        use #private::probe::MayBeResult as _;
        #probe
    })
}
