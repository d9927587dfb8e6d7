//! The macros of Postroom. Use them through the crate [`postroom`](https://docs.rs/postroom), which documents the
//! traits that they implement. The guide lists all [attributes] with their options, and explains the [compile errors].
//!
//! From the bottom up: `check` validates user code and collects errors, `parse` reads signatures, options and markers,
//! and `expand` generates the code.
//!
#![doc = concat!("[attributes]: ", env!("CARGO_PKG_HOMEPAGE"), "/attributes.html")]
#![doc = concat!("[compile errors]: ", env!("CARGO_PKG_HOMEPAGE"), "/compile-errors.html")]

mod check;
mod expand;
mod parse;

use check::diagnostics::Diagnostics;
use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as TokenStream2};
use quote::quote;
use syn::Item;

/// Turns a struct or an enum and its `impl` block into a process. Both need the attribute.
///
/// # On the type
///
/// | option | effect |
/// |---|---|
/// | `name = "Text"` | the name in logs, statistics and starts by name; by default the type's name |
/// | `on_error = "report"` | the default: the `Err` of a message that was sent, not called, is logged |
/// | `on_error = "end"` | such an `Err` ends the process |
/// | `pinned` | the process runs on a thread of its own, and its state need not be `Send` |
/// | `skip_abandoned` | calls whose callers no longer wait are not handled |
/// | `inspect` | the state can be inspected with `Pid::describe`; `#[inspect(skip)]` omits a field |
/// | `crate = path` | the path of the crate `postroom`, for re-exports |
///
/// # On the `impl`
///
/// A process has exactly one such block, with at least one method marked `#[entry]`. Types and calls are generated for
/// these methods and for those marked `#[message]` or `#[signal]`; all of them remain ordinary methods.
///
/// | option | effect |
/// |---|---|
/// | `protocols(Storage, Audit)` | the protocols that the process implements |
/// | `remote` | its messages and entries may be used from other nodes; see below |
/// | `crate = path` | as above |
///
/// # Remote processes
///
/// With `remote`, and the feature `serde` of `postroom`, the generated message types implement serde's traits, and the
/// process implements the trait `postroom::remote::Remote`, from which a crate that connects nodes learns its messages
/// and entries. The crate with the process does not depend on serde itself, unless it derives serde's traits for its
/// types.
///
/// * The arguments of each message and the answer to it, and the inputs of each entry, implement serde's `Serialize`
///   and `Deserialize` and borrow nothing. PIDs, addresses and recipients implement both. A `Reply` as the last
///   argument is allowed; `Replies`, a stream of answers, is not.
/// * `#[message(local)]` and `#[entry(local)]` keep a method on its node and exempt it from these rules.
/// * Attributes of serde on arguments, such as `#[serde(default)]`, apply to the fields of the message.
/// * On all nodes a message is called `package::Type::method`. `#[message(name = "bank.deposit")]` gives it a name that
///   stays the same when one of the three changes. Modules are not part of the name.
/// * Fields are encoded in order, which is compact but requires the same fields on both nodes. With
///   `#[message(codec = "named")]`, they are encoded with their names: then nodes with different builds understand each
///   other if new fields have a `#[serde(default)]` or are an `Option`.
/// * The type has no parameters: `Cache<String>` and `Cache<u64>` would have messages of the same name.
/// * Protocols that the process lists are remote too if they have `#[protocol(remote)]`. The messages of the other
///   protocols stay on their node.
///
/// # On `impl Protocol for Type`
///
/// Implements the messages of a protocol, without `#[message]` on the methods. The only option is `crate = path`.
///
/// # Generated items
///
/// * `struct AccountDeposit { amount }`, the message type of each `#[message]`;
/// * `Address<Account>::deposit(amount)`, which returns a `Call`;
/// * `Spawn<Account>::serve(…)`, for each entry;
/// * implementations of the traits in `postroom::generic`.
///
/// The documentation of the crate `postroom` begins with an example.
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

/// Turns a trait into a protocol: messages that several process types answer, with `Address<dyn Storage>` as the
/// address.
///
/// Each method is a message; attributes below `#[message]` go to its type, and `#[message(Type)]` uses an existing
/// type. The arguments are owned, and `replies: Replies<T>` may come last. Each implementation decides whether a method
/// is `async`, and whether it takes a context or a `Reply`. The trait remains an ordinary one. A process type
/// implements it with `#[process] impl Storage for Disk`, and lists it on its own block,
/// `#[process(protocols(Storage))] impl Disk`.
///
/// Options: `crate = path`, and `remote`, which lets its messages come from other nodes if the process lists the
/// protocol in a `#[process(remote)]`. The requirements are described at [`process`](macro@process).
#[proc_macro_attribute]
pub fn protocol(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_on("`#[protocol]` goes on a trait", item, |item| crate::expand::protocol::expand(options.into(), item))
}

/// Marks a method inside a `#[process] impl` as an entry: the process can be started at it.
///
/// The method takes `&mut self`, then optionally `ctx: &mut Context<Self>`, then any number of owned inputs.
///
/// | | `fn` | `async fn` |
/// |---|---|---|
/// | runs | before the spawn returns, on the spawner's thread | as the body of the process |
/// | returns | nothing, or `Result<(), E>` | any owned type, or `!` |
/// | the spawn returns | the `Address` | a `Running`, a future of the result |
///
/// After a sync entry, the process serves messages until it is stopped. With an async entry, the process serves
/// messages where the body says so, for example with `ctx.serve(self).await`, and ends when the body returns.
///
/// In a `#[process(remote)]`, `#[entry(local)]` hides an entry from other nodes.
#[proc_macro_attribute]
pub fn entry(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("entry", item)
}

/// Marks a method inside a `#[process] impl` as the handler of a message.
///
/// `#[message]` generates the message type: `AccountDeposit` for the method `deposit` of `Account`, with the arguments
/// as fields. `#[message(Tick)]` handles the existing type `Tick`, its only argument.
///
/// The method can be `async`. It takes `&mut self` or `&self`, then optionally `ctx: &mut Context<Self>`, then owned
/// arguments. The answer to a call is
///
/// * the value that the method returns; an `Err` is `CallError::Failed` for the caller;
/// * or what is sent through `reply: Reply<T>`, taken as the last argument, at any later time;
/// * or a stream of what is sent through `replies: Replies<T>`.
///
/// Attributes below `#[message]`, such as `#[derive(Clone)]`, go to the generated type.
///
/// With `#[message(inspect)]` or `#[message(Tick, inspect)]`, taps show the content of the message, formatted by the
/// `Debug` of its arguments; `#[inspect(skip)]` omits an argument. See `Pid::tap`.
///
/// In a `#[process(remote)]`, the options `name = "bank.deposit"`, `codec = "named"` and `local` are available; after a
/// type, they are written `#[message(Tick, local)]`. See [`process`](macro@process).
#[proc_macro_attribute]
pub fn message(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("message", item)
}

/// Marks a method inside a `#[process] impl` as the handler of a signal from the runtime. The type of its argument
/// selects the signal.
///
/// | argument | cause | effect of a handler |
/// |---|---|---|
/// | `Cancel` | the process is told to end | it ends only when it calls `ctx.stop()` |
/// | `Down` | a monitored process has ended | |
/// | `Exit` | a linked process has failed | it traps exits, and does not fail as well |
///
/// The method takes `&mut self` or `&self`, optionally the context, and the signal. It returns nothing, and can be
/// `async`.
#[proc_macro_attribute]
pub fn signal(_: TokenStream, item: TokenStream) -> TokenStream {
    outside("signal", item)
}

/// Reports an attribute outside a `#[process] impl`. `#[process]` removes these attributes from its methods, so any
/// that is expanded is in the wrong place.
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

/// Runs `main`, sync or async, inside a runtime: `#[postroom::main]` on `async fn main()` or
/// `fn main(runtime: &Runtime)`. Options: `workers = 4` (by default the value of `POSTROOM_WORKERS`, or one per core)
/// and `crate = path`.
///
/// When `main` returns, the runtime shuts down and discards queued messages. If the runtime cannot start, the program
/// prints the error and exits with status 2.
///
/// With the feature `tokio`, the runtime has its own reactor (`Builder::tokio`), for the processes and for `main`. A
/// program with `#[tokio::main]` keeps that attribute, and builds its runtime inside `main`, with
/// `Builder::tokio_handle`.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_on("`#[postroom::main]` goes on a function", item, |item| {
        crate::expand::main_fn::expand(options.into(), item)
    })
}

/// Turns a function into a test that runs under many seeded schedules, in virtual time: `#[postroom::test]` on
/// `fn name(sim: Sim)` or `async fn name(sim: Sim)`, which may return a `Result`. Needs the feature `test`.
///
/// Options: `seeds = 1000` (100 runs by default), `seed = 7` for one run, `strategy` (`"portfolio"`, `"random"`,
/// `"pct"`, `"rare"`, `"production"` or `"exhaustive"`), `max_time = "1h"` of virtual time, `max_turns`,
/// `faults = "none"` to disable all faults that the test asks for, and `crate = path`. The environment variables
/// `POSTROOM_SEEDS`, `POSTROOM_FIRST_SEED`, `POSTROOM_SEED`, `POSTROOM_STRATEGY` and `POSTROOM_REPLAY` take precedence.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_on("`#[postroom::test]` goes on a function", item, |item| {
        crate::expand::test_fn::expand(options.into(), item)
    })
}

/// Expands an attribute on an item, or reports `place` if the item is of the wrong kind.
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
