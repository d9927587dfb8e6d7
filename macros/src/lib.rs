//! The macros of Postroom. Use them through the crate `postroom`, which documents what they generate by its traits.
//!
//! From the bottom up: `check` judges what the user wrote and keeps the errors, `parse` reads signatures, options and
//! markers, and `expand` writes the generated code.

mod check;
mod expand;
mod parse;

use check::diagnostics::Diagnostics;
use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as TokenStream2};
use quote::quote;
use syn::Item;

/// Makes a process of a struct or an enum and its `impl` block. It stands on both.
///
/// On the type: the options `name = "Text"` (for starts by name; otherwise the type's), `on_error = "end"` (a sent
/// message that fails ends the process) or `"report"` (the default: it is reported and the process lives), and
/// `crate = path` (where `postroom` is).
///
/// On the `impl`: methods marked `#[entry]`, `#[message]` or `#[signal]` get their types and calls; they and all others
/// stay ordinary methods. The option is `crate = path`.
#[proc_macro_attribute]
pub fn process(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = TokenStream2::from(options);
    let original = TokenStream2::from(item.clone());
    let mut diagnostics = Diagnostics::default();
    let what = match syn::parse::<Item>(item) {
        Ok(Item::Struct(item)) => return crate::expand::declaration::of_struct(options, item).into(),
        Ok(Item::Enum(item)) => return crate::expand::declaration::of_enum(options, item).into(),
        Ok(Item::Impl(item)) => return crate::expand::process::expand(options, item).into(),
        Ok(Item::Union(_)) => "a union",
        Ok(Item::Trait(_)) => "a trait",
        Ok(Item::Fn(_)) => "a function",
        Ok(Item::Mod(_)) => "a module",
        Ok(Item::Type(_)) => "a type alias",
        Ok(Item::Const(_)) => "a constant",
        Ok(Item::Static(_)) => "a static",
        Ok(_) => "this item",
        Err(error) => {
            diagnostics.parse(error);
            let diagnostics = diagnostics.to_tokens();
            return quote!(#original #diagnostics).into();
        }
    };
    diagnostics.at(
        Span::call_site(),
        format!("`#[process]` goes on a struct, an enum or their `impl` block, not on {what}"),
        "remove it",
    );
    let diagnostics = diagnostics.to_tokens();
    quote!(#original #diagnostics).into()
}

/// Makes a protocol of a trait: messages that several kinds of process answer.
///
/// Each method is a message; what stands under `#[message]` goes to its type, and `#[message(Type)]` takes a type that
/// exists. The trait stays an ordinary one. A kind of process answers it by `#[process] impl Storage for Disk`, and
/// names it at its own `#[process(protocols(Storage))] impl Disk`. The option is `crate = path`.
#[proc_macro_attribute]
pub fn protocol(options: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse(item.clone()) {
        Ok(item) => crate::expand::protocol::expand(options.into(), item).into(),
        Err(_) => {
            let mut diagnostics = Diagnostics::default();
            diagnostics.at(Span::call_site(), "`#[protocol]` goes on a trait", "remove it");
            let (item, diagnostics) = (TokenStream2::from(item), diagnostics.to_tokens());
            quote!(#item #diagnostics).into()
        }
    }
}

/// Marks a method, inside a `#[process] impl`, that the process can be started at.
#[proc_macro_attribute]
pub fn entry(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("entry", item)
}

/// Marks a method, inside a `#[process] impl`, that is called by sending a message.
#[proc_macro_attribute]
pub fn message(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("message", item)
}

/// Marks a method, inside a `#[process] impl`, for something the runtime says.
#[proc_macro_attribute]
pub fn signal(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("signal", item)
}

/// `#[process]` takes these attributes off the methods it reads; one that is expanded stands elsewhere.
fn outside(name: &str, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    diagnostics.at(
        Span::call_site(),
        format!("`#[{name}]` goes on a method inside a `#[process] impl`"),
        "write `#[process]` above the `impl`, or remove this attribute",
    );
    let (item, diagnostics) = (TokenStream2::from(item), diagnostics.to_tokens());
    quote!(#item #diagnostics).into()
}

/// Runs `main`, sync or async, inside a runtime: `#[postroom::main]` on `async fn main()` or `fn main(runtime:
/// &Runtime)`. Options: `workers = 4` and `crate = path`.
///
/// With the feature `tokio` the runtime has a reactor of its own (`Builder::tokio`), for the processes and for `main`.
/// A program that has `#[tokio::main]` already keeps it, and makes its runtime inside, with `Builder::tokio_handle`.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse(item.clone()) {
        Ok(item) => crate::expand::main_fn::expand(options.into(), item).into(),
        Err(_) => {
            let mut diagnostics = Diagnostics::default();
            diagnostics.at(Span::call_site(), "`#[postroom::main]` goes on a function", "remove it");
            let (item, diagnostics) = (TokenStream2::from(item), diagnostics.to_tokens());
            quote!(#item #diagnostics).into()
        }
    }
}
