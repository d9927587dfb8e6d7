//! `impl Actor`: the process's side of the runtime's interface.

use super::deliver::MethodOwner;
use super::{by_name, client, deliver, entries, inspect, lints};
use crate::check::self_type::{kept_away, place, respan};
use crate::parse::method::Method;
use crate::parse::naming::{hidden_type, local};
use crate::parse::process_impl::ProcessImpl;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse_quote;

pub(crate) fn items(block: &ProcessImpl) -> TokenStream {
    let (self_type, client, points) = (&block.self_type, client::handle(block), &block.entry_points);
    let (krate, private, ty) = (&self_type.krate, self_type.private(), &self_type.ty);
    let (parameters, arguments, clause) = self_type.generics.split_for_impl();
    let allowed = lints::allowed(methods(block));
    let parts = [constants(block), handles(block), by_name(block), delivery(block), signals(block), away(block)];
    let (listed, none) = (listed(block), hidden_type("NoMessage"));
    // `NoMessage` is a second message type. If there were only one, sending the wrong message would be an error about
    // mismatched types instead of an error about messages. It is local to this block, so that a second block for the
    // same type is reported once.
    quote_spanned! {whole(block)=>
        enum #none {}

        #[automatically_derived]
        impl #parameters #krate::generic::Handles<#none> for #ty #clause {
            type Answer = ();
            type Error = ::core::convert::Infallible;
        }

        #listed

        #[automatically_derived]
        #allowed
        impl #parameters #krate::generic::Actor for #ty #clause {
            type Client = #client;
            type Entries = #points #arguments;
            type Placement = <Self as #private::Declared>::Placement;

            #(#parts)*
        }
    }
}

/// Returns the span of the type's name in the user's `impl`. Generated code has this span, so that errors about the
/// process as a whole point to the name.
fn whole(block: &ProcessImpl) -> Span {
    block.self_type.ident.span().resolved_at(Span::call_site())
}

/// Returns the constants that list the process's entries, messages, protocols and signals, and say whether it has async
/// methods.
fn constants(block: &ProcessImpl) -> TokenStream {
    let (self_type, private) = (&block.self_type, block.self_type.private());
    let infos = block.entries.iter().map(|entry| entries::info(entry, self_type));
    let messages = block.messages.iter().map(|message| {
        let (cfgs, name) = (message.method.cfgs(), message.method.ident.unraw().to_string());
        quote!(#(#cfgs)* #name)
    });
    let protocols = block.protocols.iter().map(|path| quote!(<dyn #path as #private::Protocol>::INFO));
    let signals = block.signals.iter().filter_map(|signal| signal.listed());
    let (any_async, serves) = (any_async(block), serves(block));
    let (bool, str) = (quote!(::core::primitive::bool), quote!(::core::primitive::str));
    quote_spanned! {whole(block)=>
        const ENTRIES: &'static [#private::EntryInfo] = &[#(#infos),*];
        const MESSAGES: &'static [&'static #str] = &[#(#messages),*];
        const PROTOCOLS: &'static [#private::ProtocolInfo] = &[#(#protocols),*];
        const SIGNALS: &'static [&'static #str] = &[#(#signals),*];
        const ASYNC: #bool = #any_async #(|| #serves::ASYNC)*;
    }
}

/// Returns the functions that convert between a PID and the handle of addresses, and make the entry points.
fn handles(block: &ProcessImpl) -> TokenStream {
    let (self_type, client, points) = (&block.self_type, client::handle(block), &block.entry_points);
    let (krate, private) = (&self_type.krate, self_type.private());
    let (_, arguments, _) = self_type.generics.split_for_impl();
    let (pid, handle, spawn, entries) = (local("pid"), local("handle"), local("spawn"), local("entries"));
    let (constructor, handle_pid) = (client::constructor(block), client::pid(block, &handle));
    quote_spanned! {whole(block)=>
        fn client(#pid: #krate::Pid) -> Self::Client {
            #constructor
        }

        fn pid(#handle: &#client) -> #krate::Pid {
            #handle_pid
        }

        fn entries(#spawn: #private::SpawnCore<Self>) -> Self::Entries {
            #points { spawn: #spawn }
        }

        fn spawn_core(#entries: &mut #points #arguments) -> &mut #private::SpawnCore<Self> {
            &mut #entries.spawn
        }
    }
}

/// Returns the functions that start the process, and make messages for it, by method name.
fn by_name(block: &ProcessImpl) -> TokenStream {
    let (private, protocols) = (block.self_type.private(), &block.protocols);
    let (entry, inputs, found) = (local("entry"), local("inputs"), local("found"));
    let placed = entries::placed(&block.entries);
    let starts = placed.iter().filter_map(|(index, entry)| entries::arm(entry, index, block));
    let (named, name, process) = (by_name::messages(&block.messages, &private), local("name"), local("process"));
    let str = quote!(::core::primitive::str);
    quote_spanned! {whole(block)=>
        fn start_by_name(
            #entry: &#str,
            #inputs: #private::Inputs,
        ) -> ::core::result::Result<#private::Start<Self>, #private::EntryError> {
            match #entry {
                #(#starts)*
                _ => ::core::result::Result::Err(#private::no_such_entry::<Self>(#entry)),
            }
        }

        #[inline]
        fn message_by_name(#name: &#str, #inputs: #private::Inputs) -> #private::ByName {
            let #process = <Self as #private::Declared>::NAME;
            #named
            #(
                let #inputs = match
                    <dyn #protocols as #private::Protocol>::message_by_name(#process, #name, #inputs)
                {
                    #private::ByName::Continue(#inputs) => #inputs,
                    #found => return #found,
                };
            )*
            #private::ByName::Continue(#inputs)
        }
    }
}

/// Returns the functions that handle a message, tell whether its handling is async, and show its content.
fn delivery(block: &ProcessImpl) -> TokenStream {
    let (self_type, serves) = (&block.self_type, serves(block));
    let (krate, private) = (&self_type.krate, self_type.private());
    let (mail, ctx, bool) = (local("mail"), local("ctx"), quote!(::core::primitive::bool));
    let is_async = block.messages.iter().filter(|message| message.method.is_async).map(|message| {
        let (cfgs, ty) = (message.method.cfgs(), message.ty());
        quote!(#(#cfgs)* if #private::Mail::is::<#ty>(#mail) { return true; })
    });
    let delivers =
        block.messages.iter().filter_map(|message| deliver::message(message, &MethodOwner::own(), self_type));
    // The last protocol needs no check, because opening the message shows whether it belongs to that protocol.
    let delivered = match serves.split_last() {
        None => quote!(#private::Dispatched::Unhandled),
        Some((last, others)) => quote! {
            #(if #others::understands(#mail) { return #others::deliver(self, #ctx, #mail); })*
            #last::deliver(self, #ctx, #mail)
        },
    };
    let shows = inspect::messages(&block.messages, &block.protocols, &private);
    quote_spanned! {whole(block)=>
        fn is_async(#mail: &#private::Mail<'_>) -> #bool {
            #(#is_async)*
            #(if #serves::ASYNC && #serves::is_async(#mail) { return true; })*
            false
        }

        #[inline(always)]
        fn deliver<'__postroom>(
            &'__postroom mut self,
            #ctx: &'__postroom mut #krate::Context<Self>,
            #mail: &mut #private::Mail<'_>,
        ) -> #private::Dispatched<'__postroom> {
            #(#delivers)*
            #delivered
        }

        #shows
    }
}

/// Returns the function that handles a signal.
fn signals(block: &ProcessImpl) -> TokenStream {
    let (krate, private) = (&block.self_type.krate, block.self_type.private());
    let (ctx, signal) = (local("ctx"), local("signal"));
    let arms = block.signals.iter().filter_map(|signal| deliver::signal(&signal.method, &block.self_type));
    quote_spanned! {whole(block)=>
        fn signal<'__postroom>(
            &'__postroom mut self,
            #ctx: &'__postroom mut #krate::Context<Self>,
            #signal: #krate::Signal,
        ) -> ::core::result::Result<#private::Dispatched<'__postroom>, #krate::Signal> {
            #(#arms)*
            ::core::result::Result::Err(#signal)
        }
    }
}

/// Returns the function that moves the struct into the future of an async method.
fn away(block: &ProcessImpl) -> TokenStream {
    let (krate, private) = (&block.self_type.krate, block.self_type.private());
    let (ctx, event) = (local("ctx"), local("event"));
    // A future that is never created need not be `Send`.
    let away = if may_be_away(block) {
        kept_away(&private, &quote!(self, #ctx, #event), block.self_type.ident.span())
    } else {
        quote!(#private::never_away(self, #ctx, #event))
    };
    quote_spanned! {whole(block)=>
        fn away(
            self,
            #ctx: #krate::Context<Self>,
            #event: #private::MethodEvent,
        ) -> #private::MethodFuture<'static, #private::FutureOutput<Self>> {
            #away
        }
    }
}

/// Returns, for each listed protocol, the type that serves it. The tokens have the span of the protocol's name, so that
/// a missing implementation is reported once.
fn serves(block: &ProcessImpl) -> Vec<TokenStream> {
    let (private, ty) = (block.self_type.private(), &block.self_type.ty);
    let serves = |path| respan(quote!(<#ty as #private::Serves<(dyn #path + 'static)>>), place(path));
    block.protocols.iter().map(serves).collect()
}

/// Returns the impls of `Lists` for the listed protocols, or for any protocol if the list could not be parsed.
fn listed(block: &ProcessImpl) -> TokenStream {
    let (private, ty) = (block.self_type.private(), &block.self_type.ty);
    let (parameters, _, clause) = block.self_type.generics.split_for_impl();
    if block.names_any_protocol {
        let (mut generics, any) = (block.self_type.generics.clone(), hidden_type("Any"));
        generics.params.push(parse_quote!(#any: ?::core::marker::Sized));
        let (parameters, _, clause) = generics.split_for_impl();
        return quote!(impl #parameters #private::Lists<#any> for #ty #clause {});
    }
    let each = block.protocols.iter().map(|path| {
        quote! {
            #[automatically_derived]
            impl #parameters #private::Lists<dyn #path> for #ty #clause {}
        }
    });
    each.collect()
}

/// Returns the async methods.
fn asyncs(block: &ProcessImpl) -> impl Iterator<Item = &Method> {
    methods(block).filter(|method| method.is_async)
}

/// Returns all marked methods.
fn methods(block: &ProcessImpl) -> impl Iterator<Item = &Method> {
    let entries = block.entries.iter().map(|entry| &entry.method);
    let messages = block.messages.iter().map(|message| &message.method);
    let signals = block.signals.iter().map(|signal| &signal.method);
    entries.chain(messages).chain(signals)
}

/// Returns whether the struct may ever be moved into a future: the value of `ASYNC` if all `cfg`s hold.
fn may_be_away(block: &ProcessImpl) -> bool {
    !block.protocols.is_empty() || asyncs(block).next().is_some()
}

/// Returns whether any method is async, evaluating `cfg`s where they apply.
fn any_async(block: &ProcessImpl) -> TokenStream {
    let conditions: Vec<Option<TokenStream>> = asyncs(block).map(Method::present).collect();
    if conditions.iter().any(Option::is_none) {
        return quote!(true);
    }
    quote!(false #(|| #conditions)*)
}
