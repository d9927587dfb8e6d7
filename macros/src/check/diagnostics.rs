//! Errors in user code.
//!
//! Rule: all errors are reported at once, each at the tokens that are wrong. The first line says what is wrong, and the
//! `help` line says what to write instead; the code in the `help` line, pasted over the marked tokens, compiles
//! (tests/ui checks that). The user's item is always emitted, so that nothing else in the program breaks.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use std::fmt::Display;
use syn::Error;

#[derive(Default)]
pub(crate) struct Diagnostics {
    errors: Vec<Error>,
}

impl Diagnostics {
    /// Reports an error that covers all of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, what: impl Display, help: impl Display) {
        self.errors.push(Error::new_spanned(tokens, message(what, help)));
    }

    /// Reports an error at one span.
    pub(crate) fn at(&mut self, span: Span, what: impl Display, help: impl Display) {
        self.errors.push(Error::new(span, message(what, help)));
    }

    /// Reports a parser's error.
    pub(crate) fn parse(&mut self, error: Error) {
        self.errors.push(error);
    }

    pub(crate) fn count(&self) -> usize {
        self.errors.len()
    }

    pub(crate) fn to_tokens(&self) -> TokenStream {
        let mut errors = self.errors.iter().cloned();
        let Some(mut all) = errors.next() else { return TokenStream::new() };
        errors.for_each(|error| all.combine(error));
        all.into_compile_error()
    }
}

fn message(what: impl Display, help: impl Display) -> String {
    format!("{what}\nhelp: {help}")
}
