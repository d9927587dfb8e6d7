//! The macros of Postroom. Use them through the crate `postroom`, which documents the traits that they implement.
//!
//! From the bottom up: `check` validates what the user wrote and collects errors, `parse` reads signatures, options and
//! markers, and `expand` generates the code.

mod check;
mod expand;
mod parse;

use check::diagnostics::Diagnostics;
use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as TokenStream2};
use quote::quote;
use syn::Item;

/// Makes a process of a struct or an enum and its `impl` block; goes on both.
///
/// On the type: the options `name = "Text"` (for starts by name; by default the type's name), `on_error = "end"` (a
/// sent message that fails ends the process) or `"report"` (the default: the error is reported and the process
/// continues), `pinned` (a thread of its own), `skip_abandoned` (calls whose callers no longer wait are not handled),
/// and `crate = path` (the path of `postroom`).
///
/// On the `impl`: types and calls are generated for methods marked `#[entry]`, `#[message]` or `#[signal]`; they and
/// all others remain ordinary methods. The option is `crate = path`.
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

/// Makes a protocol of a trait: messages that several process types answer.
///
/// Each method is a message; attributes below `#[message]` go to its type, and `#[message(Type)]` uses an existing
/// type. The trait remains an ordinary one. A process type implements it with `#[process] impl Storage for Disk`, and
/// lists it on its own `#[process(protocols(Storage))] impl Disk`. The option is `crate = path`.
#[proc_macro_attribute]
pub fn protocol(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_on("`#[protocol]` goes on a trait", item, |item| crate::expand::protocol::expand(options.into(), item))
}

/// Marks a method, inside a `#[process] impl`, as an entry: the process can be started at it.
#[proc_macro_attribute]
pub fn entry(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("entry", item)
}

/// Marks a method, inside a `#[process] impl`, as the handler of a message.
#[proc_macro_attribute]
pub fn message(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("message", item)
}

/// Marks a method, inside a `#[process] impl`, as the handler of a signal of the runtime.
#[proc_macro_attribute]
pub fn signal(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("signal", item)
}

/// `#[process]` removes these attributes from its methods; one that is expanded is in the wrong place.
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
/// With the feature `tokio` the runtime has its own reactor (`Builder::tokio`), for the processes and for `main`. A
/// program with `#[tokio::main]` keeps that, and makes its runtime inside, with `Builder::tokio_handle`.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_on("`#[postroom::main]` goes on a function", item, |item| {
        crate::expand::main_fn::expand(options.into(), item)
    })
}

/// Makes a test that runs under many seeded schedules, in virtual time: `#[postroom::test]` on `fn name(sim: Sim)` or
/// `async fn name(sim: Sim)`, which may return a `Result`. Needs the feature `test`.
///
/// Options: `seeds = 1000` (100 runs by default), `seed = 7` for one run, `strategy` (`"portfolio"`, `"random"`,
/// `"pct"` or `"exhaustive"`), `max_time = "1h"` of the simulation's time, `max_turns`, `faults = "none"` to leave out
/// all that the test asks for, and `crate = path`. The environment variables `POSTROOM_SEEDS`, `POSTROOM_SEED` and
/// `POSTROOM_STRATEGY` take precedence.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_on("`#[postroom::test]` goes on a function", item, |item| {
        crate::expand::test_fn::expand(options.into(), item)
    })
}

/// Expands an attribute on an item of the kind that it is for, or says what that is.
fn expand_on<I: syn::parse::Parse>(
    place: &str,
    item: TokenStream,
    expand: impl FnOnce(I) -> TokenStream2,
) -> TokenStream {
    match syn::parse(item.clone()) {
        Ok(item) => expand(item).into(),
        Err(_) => {
            let mut diagnostics = Diagnostics::default();
            diagnostics.at(Span::call_site(), place, "remove it");
            let (item, diagnostics) = (TokenStream2::from(item), diagnostics.to_tokens());
            quote!(#item #diagnostics).into()
        }
    }
}
