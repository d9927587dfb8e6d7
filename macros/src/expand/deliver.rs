//! `Actor::deliver` and `Actor::signal`: tries to open a message as each message type in turn, a signal as each kind,
//! and passes it to the method.

use crate::check::self_type::{SelfType, kept};
use crate::parse::argument::Reply;
use crate::parse::message::Message;
use crate::parse::method::Method;
use crate::parse::naming::local;
use crate::parse::output::describe;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

/// The owner of a method.
pub(crate) struct MethodOwner {
    /// The process, as a value: `self`.
    pub(crate) this: TokenStream,
    /// The path of its methods: `Self`.
    pub(crate) path: TokenStream,
    /// Its type: `Self`.
    pub(crate) process: TokenStream,
}

impl MethodOwner {
    /// The owner inside an `impl` of the process.
    pub(crate) fn own() -> Self {
        Self { this: quote!(self), path: quote!(Self), process: quote!(Self) }
    }
}

/// Returns the statement that passes the mail to one message method, or on.
pub(crate) fn message(message: &Message, owner: &MethodOwner, private: &TokenStream) -> Option<TokenStream> {
    let method = &message.method;
    if !method.sound {
        return None;
    }
    let (mail, caller, process) = (local("mail"), local("caller"), &owner.process);
    let (ty, value, cfgs) = (message.ty(), message.value(), method.cfgs());
    let handled = handled(method, owner, private);
    // A function's frame has room for everything that it may hold. So that other messages do not pay for a large one,
    // that is handled in a function of its own; and so are all without optimization, which does not remove dead
    // branches.
    let opened = local("opened");
    let held = quote! {
        if #mail.is::<#ty>() {
            return #private::apart::<#ty, _>(move || {
                let #opened = #private::open_held::<#process, #ty>(#mail);
                let ::core::option::Option::Some((#opened, #caller)) = #opened else {
                    return #private::Dispatched::Unhandled;
                };
                let (#value, #opened) = #opened.take();
                ::core::mem::drop(#opened);
                #handled
            });
        }
    };
    Some(quote! {
        #(#cfgs)*
        #[cfg(debug_assertions)]
        #held
        #(#cfgs)*
        #[cfg(not(debug_assertions))]
        if #private::is_in_block::<#ty>() {
            #held
        } else if let ::core::option::Option::Some((#value, #caller)) = #private::open::<#process, #ty>(#mail) {
            return #handled;
        }
    })
}

/// Returns the delivery: done at once, or pending until the method's future is.
pub(crate) fn handled(method: &Method, owner: &MethodOwner, private: &TokenStream) -> TokenStream {
    let MethodOwner { this, path, process } = owner;
    let (ctx, caller, out) = (local("ctx"), local("caller"), local("out"));
    let (name, names, passed) = (&method.ident, method.names(), method.ctx(&ctx));
    let dot_await = method.is_async.then(|| quote!(.await));
    let run = |reply: Option<TokenStream>| quote!(#path::#name(#this, #passed #(#names,)* #reply) #dot_await);
    let body = match &method.arguments.reply {
        Some(Reply::Once { answer }) => {
            let reply = if answer.is_fallible() {
                let (ok, error) = (answer.ok(), answer.error());
                quote!(#caller.into_reply_result::<#ok, #error>())
            } else {
                let ok = answer.ok();
                quote!(#caller.into_reply::<#ok>())
            };
            let (run, watch) = (run(Some(reply)), local("watch"));
            quote!({ let #watch = #caller.watch(); #run; #watch.over(); #private::Dispatched::Done })
        }
        Some(Reply::Stream { ident, .. }) => {
            let run = run(Some(quote!(#ident)));
            quote!({ #run; #caller.answer(()) })
        }
        None if method.output.is_fallible() => {
            let (run, error) = (run(None), local("error"));
            let text = describe(private, &error);
            quote!({
                let #out = #run;
                #caller.answer_result::<#process, _, _>(#out, |#error| #text)
            })
        }
        None => {
            let run = run(None);
            quote!({ let #out = #run; #caller.answer(#out) })
        }
    };
    if !method.is_async {
        return body;
    }
    // With the span of the method's name, for errors about a value that cannot wait.
    let at = name.span().resolved_at(Span::call_site());
    let kept = kept(private, process, &quote_spanned!(at=> async move #body), at);
    quote!(#private::Dispatched::Pending(#kept))
}

/// Returns the statement that passes the signal to one signal method, or on.
pub(crate) fn signal(method: &Method, self_type: &SelfType) -> Option<TokenStream> {
    let [argument] = method.arguments.carried.as_slice() else { return None };
    if !method.sound {
        return None;
    }
    let (ctx, signal) = (local("ctx"), local("signal"));
    let (krate, private) = (&self_type.krate, self_type.private());
    let (name, cfgs) = (&method.ident, method.cfgs());
    let (value, ty) = (&argument.ident, &argument.ty);
    let passed = method.ctx(&ctx);
    let call = quote!(Self::#name(self, #passed #value));
    let done = quote!(#private::Dispatched::Done);
    let handled = if method.is_async {
        let at = name.span().resolved_at(Span::call_site());
        let kept = kept(&private, &quote!(Self), &quote_spanned!(at=> async move { #call.await; #done }), at);
        quote!(#private::Dispatched::Pending(#kept))
    } else {
        quote!({ #call; #done })
    };
    Some(quote! {
        #(#cfgs)*
        let #signal = match <#ty as #krate::generic::SignalKind>::from_signal(#signal) {
            ::core::result::Result::Ok(#value) => return ::core::result::Result::Ok(#handled),
            ::core::result::Result::Err(#signal) => #signal,
        };
    })
}
