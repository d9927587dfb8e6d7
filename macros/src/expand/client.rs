//! The handle that an address dereferences to, with one method per message.
//!
//! The handle has the process's parameters without their bounds, so that an address can be named wherever the process
//! can.

use super::{docs, lints};
use crate::check::self_type::{SelfType, place, respan};
use crate::parse::argument::Reply;
use crate::parse::message::Message;
use crate::parse::naming::{hidden_type, local};
use crate::parse::process_impl::ProcessImpl;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{GenericParam, Generics, Ident, parse_quote};

pub(crate) fn items(block: &ProcessImpl) -> TokenStream {
    let (self_type, client) = (&block.self_type, &block.client);
    if !block.protocols.is_empty() {
        return linked(self_type, client, &block.messages);
    }
    let (krate, ident) = (&self_type.krate, self_type.ident.unraw());
    let unbounded = unbounded(&self_type.generics);
    let (bare_parameters, arguments, _) = unbounded.split_for_impl();
    let (parameters, _, clause) = self_type.generics.split_for_impl();
    let marker = marker(&self_type.generics);
    let field = marker.map(|marker| quote!(, of: #marker));
    let doc = format!("The messages of `{ident}`, as methods of its address.");
    let calls = block.messages.iter().map(|message| call(message, self_type, &quote!(self.pid)));
    let clause = clause.map(|clause| crate::parse::generics::without_self(clause, &self_type.ty));
    let allowed = lints::allowed(block.messages.iter().map(|message| &message.method));
    quote! {
        #[doc = #doc]
        pub struct #client #unbounded { pid: #krate::Pid #field }

        #[automatically_derived]
        impl #bare_parameters ::core::clone::Clone for #client #arguments {
            fn clone(&self) -> Self { *self }
        }

        #[automatically_derived]
        impl #bare_parameters ::core::marker::Copy for #client #arguments {}

        #allowed
        impl #parameters #client #arguments #clause {
            #(#calls)*
        }
    }
}

/// Returns the handle of a protocol, or of a process with protocols, on top of another handle. Its own methods come
/// first, then those of `Rest`. `Rest` is a parameter, so the handle needs no bounds and is as visible as its argument.
pub(crate) fn linked(self_type: &SelfType, client: &Ident, messages: &[Message]) -> TokenStream {
    let (krate, private, ident) = (&self_type.krate, self_type.private(), self_type.ident.unraw());
    let (rest, pid) = (hidden_type("Rest"), local("pid"));
    let mut unbounded = unbounded(&self_type.generics);
    unbounded.params.push(parse_quote!(#rest));
    let mut bounded = self_type.generics.clone();
    bounded.params.push(parse_quote!(#rest: #private::Link));
    let (field, filled) = match marker(&self_type.generics) {
        Some(marker) => (quote!(, of: #marker), quote!(, of: ::core::marker::PhantomData)),
        None => (TokenStream::new(), TokenStream::new()),
    };
    let (bare, arguments, _) = unbounded.split_for_impl();
    let (parameters, _, clause) = bounded.split_for_impl();
    let clause = clause.map(|clause| crate::parse::generics::without_self(clause, &self_type.ty));
    let through = quote!(#private::Link::pid(&self.rest));
    let calls = messages.iter().map(|message| call(message, self_type, &through));
    let doc = format!("The messages of `{ident}`, as methods of an address.");
    let allowed = lints::allowed(messages.iter().map(|message| &message.method));
    quote! {
        #[doc = #doc]
        pub struct #client #unbounded { rest: #rest #field }

        #[automatically_derived]
        impl #parameters ::core::clone::Clone for #client #arguments #clause {
            fn clone(&self) -> Self { *self }
        }

        #[automatically_derived]
        impl #parameters ::core::marker::Copy for #client #arguments #clause {}

        #[automatically_derived]
        impl #bare ::core::ops::Deref for #client #arguments {
            type Target = #rest;
            fn deref(&self) -> &#rest { &self.rest }
        }

        #[automatically_derived]
        impl #parameters #private::Link for #client #arguments #clause {
            fn of(#pid: #krate::Pid) -> Self {
                #client { rest: #private::Link::of(#pid) #filled }
            }

            fn pid(&self) -> #krate::Pid {
                #private::Link::pid(&self.rest)
            }
        }

        #allowed
        impl #parameters #client #arguments #clause {
            #(#calls)*
        }
    }
}

/// Returns the type of the handle on top of `rest`.
pub(crate) fn over(generics: &Generics, client: &Ident, rest: &TokenStream) -> TokenStream {
    let own = generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(&param.ident),
        GenericParam::Const(param) => Some(&param.ident),
        GenericParam::Lifetime(_) => None,
    });
    quote!(#client<#(#own,)* #rest>)
}

/// Returns the type `Actor::Client`.
pub(crate) fn handle(block: &ProcessImpl) -> TokenStream {
    let (generics, client) = (&block.self_type.generics, &block.client);
    if block.protocols.is_empty() {
        let (_, arguments, _) = generics.split_for_impl();
        return quote!(#client #arguments);
    }
    over(generics, client, &rest(block))
}

/// Returns the type of the protocols' handles, stacked on one another.
fn rest(block: &ProcessImpl) -> TokenStream {
    let private = block.self_type.private();
    block.protocols.iter().rev().fold(quote!(#private::End), |rest, protocol| {
        respan(quote!(<dyn #protocol as #private::Protocol>::Linked<#rest>), place(protocol))
    })
}

/// Returns the parameters without bounds, defaults and lifetimes.
fn unbounded(generics: &Generics) -> Generics {
    let mut out = Generics::default();
    for param in &generics.params {
        match param {
            GenericParam::Type(param) => {
                let ident = &param.ident;
                out.params.push(parse_quote!(#ident: ?::core::marker::Sized));
            }
            GenericParam::Const(param) => {
                let mut param = param.clone();
                param.default = None;
                out.params.push(GenericParam::Const(param));
            }
            _ => {}
        }
    }
    out
}

/// Returns the names of the parameters, as arguments.
pub(crate) fn arguments(generics: &Generics) -> TokenStream {
    let (_, arguments, _) = generics.split_for_impl();
    quote!(#arguments)
}

/// Returns a type that uses every type parameter and is `Send`, `Sync` and `Copy` for all of them.
fn marker(generics: &Generics) -> Option<TokenStream> {
    let types: Vec<_> = generics.type_params().map(|param| &param.ident).collect();
    (!types.is_empty()).then(|| quote!(::core::marker::PhantomData<fn() -> (#(::core::marker::PhantomData<#types>,)*)>))
}

/// Returns the method that makes a call to `pid`.
fn call(message: &Message, self_type: &SelfType, pid: &TokenStream) -> TokenStream {
    let (krate, private, method) = (&self_type.krate, self_type.private(), &message.method);
    let (cfgs, deprecated) = (method.cfgs(), &method.marked.deprecated);
    let (vis, name) = (lints::generated_visibility(&method.vis), lints::generated(&method.ident));
    let label = format!("{}::{}", self_type.ident.unraw(), name.unraw());
    let docs = docs::whole(&method.marked.docs, &format!("Calls `{label}`."));
    let (ty, value, (ok, error)) = (message.ty(), message.value(), message.answer(self_type));
    let inputs = method.parameters();
    // These tokens have the span of the user's method, so that errors about calling it point to that method.
    let at = name.span().resolved_at(Span::call_site());
    let (gives, body) = match &method.arguments.reply {
        Some(Reply::Stream { ident, item, .. }) => {
            let make = if method.sound { quote!(move |#ident| #value) } else { quote!(|_| ::core::unreachable!()) };
            (
                quote_spanned!(at=> #krate::future::Streaming<#ty, #item>),
                quote!(#krate::future::Streaming::new(#pid, #label, #make)),
            )
        }
        _ => {
            // A method with an invalid `#[message(Type)]` may have no argument to pass on, or several.
            let value = if method.sound { value } else { quote!(::core::unreachable!()) };
            (
                quote_spanned!(at=> #krate::Call<#ty, #ok, #error>),
                quote!(#krate::Call::made(#pid, #label, #private::MessagePlace::new(), #value)),
            )
        }
    };
    let function = quote_spanned!(at=> #vis fn #name(&self, #inputs) -> #gives { #body });
    quote! {
        #(#cfgs)* #docs #(#deprecated)*
        #[inline]
        #function
    }
}

/// Returns the body of `Actor::pid`.
pub(crate) fn pid(block: &ProcessImpl, handle: &Ident) -> TokenStream {
    if block.protocols.is_empty() {
        return quote!(#handle.pid);
    }
    let private = block.self_type.private();
    quote!(#private::Link::pid(#handle))
}

/// Returns the body of `Actor::client`.
pub(crate) fn constructor(block: &ProcessImpl) -> TokenStream {
    let (client, pid) = (&block.client, local("pid"));
    let of = marker(&block.self_type.generics).map(|_| quote!(, of: ::core::marker::PhantomData));
    if block.protocols.is_empty() {
        return quote!(#client { pid: #pid #of });
    }
    let private = block.self_type.private();
    quote!(#private::Link::of(#pid))
}
