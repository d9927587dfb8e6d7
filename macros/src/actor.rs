//! `impl Actor`: what the runtime asks of a process.

use crate::block::Block;
use crate::method::Method;
use crate::naming::local;
use crate::{client, deliver, entries};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;

pub(crate) fn items(block: &Block) -> TokenStream {
    let (subject, client, points) = (&block.subject, &block.client, &block.entry_points);
    let (krate, private, ty) = (&subject.krate, subject.private(), &subject.ty);
    let (parameters, arguments, clause) = subject.generics.split_for_impl();

    let (pid, handle, spawn, entries) = (local("pid"), local("handle"), local("spawn"), local("entries"));
    let (entry, inputs, mail) = (local("entry"), local("inputs"), local("mail"));
    let (ctx, signal) = (local("ctx"), local("signal"));

    let infos = block.entries.iter().map(|entry| entries::info(entry, subject));
    let messages = block.messages.iter().map(|message| {
        let (cfgs, name) = (message.method.cfgs(), message.method.ident.unraw().to_string());
        quote!(#(#cfgs)* #name)
    });
    let signals = block.signals.iter().filter_map(|signal| signal.listed());
    let any_async = any_async(block);
    let placed = entries::placed(&block.entries);
    let starts = placed.iter().filter_map(|(index, entry)| entries::arm(entry, index, block));
    let is_async = block.messages.iter().filter(|message| message.method.is_async).map(|message| {
        let (cfgs, ty) = (message.method.cfgs(), message.ty());
        quote!(#(#cfgs)* if #mail.is::<#ty>() { return true; })
    });
    let delivers = block.messages.iter().filter_map(|message| deliver::message(message, subject));
    let signal_arms = block.signals.iter().filter_map(|signal| deliver::signal(&signal.method, subject));
    let constructor = client::constructor(block);

    // `Never` is a second message type: with a single candidate, sending the wrong message would be an error about
    // mismatched types instead of one about messages. It is this block's own, so that a second one for the same type is
    // told once. All of it stands at the type's name in the user's `impl`, for what
    // the compiler says of the process as a whole, and says once.
    quote_spanned! {subject.ident.span().resolved_at(Span::call_site())=>
        enum Never {}

        #[automatically_derived]
        impl #parameters #krate::Handles<Never> for #ty #clause {
            type Reply = ();
            type Error = ::core::convert::Infallible;
        }

        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, deprecated, unreachable_code, unused_variables)]
        impl #parameters #krate::Actor for #ty #clause {
            type Client = #client #arguments;
            type Entries = #points #arguments;

            const ENTRIES: &'static [#private::EntryInfo] = &[#(#infos),*];
            const MESSAGES: &'static [&'static str] = &[#(#messages),*];
            const SIGNALS: &'static [&'static str] = &[#(#signals),*];
            const ASYNC: bool = #any_async;

            fn client(#pid: #krate::Pid) -> Self::Client {
                #constructor
            }

            fn pid(#handle: &#client #arguments) -> #krate::Pid {
                #handle.pid
            }

            fn entries(#spawn: #private::SpawnCore<Self>) -> Self::Entries {
                #points { spawn: #spawn }
            }

            fn spawn_core(#entries: &mut #points #arguments) -> &mut #private::SpawnCore<Self> {
                &mut #entries.spawn
            }

            fn start_by_name(
                #entry: &str,
                #inputs: #private::Inputs,
            ) -> ::core::result::Result<#private::Start<Self>, #private::EntryError> {
                match #entry {
                    #(#starts)*
                    _ => ::core::result::Result::Err(#private::no_such_entry::<Self>(#entry)),
                }
            }

            fn is_async(#mail: &#private::Mail<'_>) -> bool {
                #(#is_async)*
                false
            }

            #[inline(always)]
            fn deliver<'a>(
                &'a mut self,
                #ctx: &'a mut #krate::Context<Self>,
                #mail: &mut #private::Mail<'_>,
            ) -> #private::Delivery<'a> {
                #(#delivers)*
                #private::Delivery::Unhandled
            }

            fn signal<'a>(
                &'a mut self,
                #ctx: &'a mut #krate::Context<Self>,
                #signal: #krate::Signal,
            ) -> ::core::result::Result<#private::Delivery<'a>, #krate::Signal> {
                #(#signal_arms)*
                ::core::result::Result::Err(#signal)
            }
        }
    }
}

/// Whether any method has a future to keep, conditional ones counted where they are there.
fn any_async(block: &Block) -> TokenStream {
    let methods = block
        .entries
        .iter()
        .map(|entry| &entry.method)
        .chain(block.messages.iter().map(|message| &message.method))
        .chain(block.signals.iter().map(|signal| &signal.method))
        .filter(|method| method.is_async);
    let conditions: Vec<Option<TokenStream>> = methods.map(Method::present).collect();
    if conditions.iter().any(Option::is_none) {
        return quote!(true);
    }
    quote!(false #(|| #conditions)*)
}
