//! The output of a method, according to its signature: nothing, a value, or a value or an error.
//!
//! Rule: a return type whose last path segment is `Result` counts as fallible. `Result<T, E>` is taken apart here; an
//! alias such as `io::Result<T>` is taken apart by the compiler, through `Fallible`. An alias of another name cannot be
//! distinguished from other types here; the compiler refuses it, through `MayBeResult`.

use super::generics::without_self;
use crate::check::diagnostics::Diagnostics;
use crate::check::owned;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{GenericArgument, Path, PathArguments, ReturnType, Type};

pub(crate) enum Output {
    Unit,
    /// `!`: an endless body.
    Never,
    Plain(TokenStream),
    Fallible {
        ok: TokenStream,
        error: TokenStream,
    },
}

/// What an error says: the more its type can do, the more references deep its way of saying it is found.
pub(crate) fn describe(private: &TokenStream, error: &Ident) -> TokenStream {
    quote! {{
        #[allow(unused_imports)]
        use #private::probe::{ByDebug as _, ByDisplay as _, ByType as _};
        (&&&#private::probe::ErrorText(#error)).text()
    }}
}

impl Output {
    /// Reads a return type. `what` is the answer's role: "an answer".
    pub(crate) fn read(
        output: &ReturnType,
        what: &str,
        krate: &Path,
        process: &TokenStream,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        match output {
            ReturnType::Default => Self::Unit,
            ReturnType::Type(_, ty) => Self::of(&owned::check(ty, what, diagnostics), krate, process),
        }
    }

    /// Returns the output for the type inside a `Reply<…>`.
    pub(crate) fn of(ty: &Type, krate: &Path, process: &TokenStream) -> Self {
        let whole = without_self(ty, process);
        match ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => Self::Unit,
            Type::Never(_) => Self::Never,
            Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Result") => {
                match arguments(path).as_slice() {
                    [ok, error] => {
                        Self::Fallible { ok: without_self(ok, process), error: without_self(error, process) }
                    }
                    _ => {
                        let part = |name: TokenStream| quote!(<#whole as #krate::__private::Fallible>::#name);
                        Self::Fallible { ok: part(quote!(Ok)), error: part(quote!(Err)) }
                    }
                }
            }
            _ => Self::Plain(whole),
        }
    }

    /// The type of success.
    pub(crate) fn ok(&self) -> TokenStream {
        match self {
            Self::Unit => quote!(()),
            Self::Never => quote!(::core::convert::Infallible),
            Self::Plain(ty) => ty.clone(),
            Self::Fallible { ok, .. } => ok.clone(),
        }
    }

    /// The type of failure.
    pub(crate) fn error(&self) -> TokenStream {
        match self {
            Self::Fallible { error, .. } => error.clone(),
            _ => quote!(::core::convert::Infallible),
        }
    }

    /// Returns the type of a plain answer that may be an alias of `Result`, whose error would be sent as an
    /// answer.
    pub(crate) fn suspect(&self) -> Option<&TokenStream> {
        const KNOWN: [&str; 21] = [
            "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
            "f32", "f64", "String", "Vec", "Option", "Box", "Arc",
        ];
        let Self::Plain(whole) = self else { return None };
        let Ok(Type::Path(path)) = syn::parse2(whole.clone()) else { return None };
        let is_known = path.path.segments.last().is_some_and(|last| KNOWN.iter().any(|known| last.ident == known));
        (!is_known).then_some(whole)
    }

    pub(crate) fn is_fallible(&self) -> bool {
        matches!(self, Self::Fallible { .. })
    }
}

/// The type arguments of a path's last segment.
pub(crate) fn arguments(path: &syn::TypePath) -> Vec<&Type> {
    let Some(PathArguments::AngleBracketed(arguments)) = path.path.segments.last().map(|last| &last.arguments) else {
        return Vec::new();
    };
    arguments
        .args
        .iter()
        .filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        })
        .collect()
}
