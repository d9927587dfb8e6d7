//! `Actor::deliver` and `Actor::signal`: try to open a message as each message type, or a signal as each kind, and pass
//! it to the method.

use crate::check::self_type::{SelfType, kept, respan};
use crate::parse::argument::Reply;
use crate::parse::message::Message;
use crate::parse::method::Method;
use crate::parse::naming::local;
use crate::parse::output::{Output, describe};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ReturnType;
use syn::spanned::Spanned;

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
    /// Returns the owner inside an `impl` of the process.
    pub(crate) fn own() -> Self {
        Self { this: quote!(self), path: quote!(Self), process: quote!(Self) }
    }
}

/// Returns a statement that passes the mail to this method if the mail is the method's message, and falls through
/// otherwise.
pub(crate) fn message(message: &Message, owner: &MethodOwner, self_type: &SelfType) -> Option<TokenStream> {
    let (method, private) = (&message.method, self_type.private());
    if !method.sound {
        return None;
    }
    let (mail, caller, process) = (local("mail"), local("caller"), &owner.process);
    let (ty, value, cfgs) = (message.ty(), message.value(), method.cfgs());
    let handled = handled(method, owner, &private, &message.answer(self_type), false);
    // A stack frame has room for the locals of every branch, so a large message is handled in a function of its own. In
    // unoptimized builds, which keep dead branches, so is every other message.
    let opened = local("opened");
    let held = quote! {
        if #private::Mail::is::<#ty>(#mail) {
            return #private::apart::<#ty, _>(move || {
                let #opened = #private::open_held::<#process, #ty>(#mail);
                let ::core::option::Option::Some((#opened, #caller)) = #opened else {
                    return #private::Dispatched::Unhandled;
                };
                let (#value, #opened) = #private::HeldMessage::take(#opened);
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

/// Returns the expression that calls the method and answers: immediately, or when the method's future is done. `answer`
/// contains the types of success and failure. With `is_checked`, a method that returns another type is an error.
pub(crate) fn handled(
    method: &Method,
    owner: &MethodOwner,
    private: &TokenStream,
    answer: &(TokenStream, TokenStream),
    is_checked: bool,
) -> TokenStream {
    let MethodOwner { this, path, process } = owner;
    let (ctx, caller, out) = (local("ctx"), local("caller"), local("out"));
    let (name, names, passed) = (&method.ident, method.names(), method.ctx(&ctx));
    let dot_await = method.is_async.then(|| quote!(.await));
    let run = |reply: Option<TokenStream>| quote!(#path::#name(#this, #passed #(#names,)* #reply) #dot_await);
    // An answer is examined only if its type may be a `Result`, or has to be checked.
    let is_asked = is_checked || matches!(method.answer(), Output::Asked(_));
    let outcome = outcome(method, private, answer);
    let answered = |out: TokenStream| {
        let (error, ok) = (local("error"), quote!(#private::Asked::answer(#caller, #out)));
        let text = describe(private, &error);
        if is_asked { quote!(#outcome::answer::<#process>(#out, #caller, |#error| #text)) } else { ok }
    };
    let body = match &method.arguments.reply {
        Some(Reply::Once { .. }) => {
            let reply =
                if is_asked { quote!(#outcome::reply(#caller)) } else { quote!(#private::Asked::into_reply(#caller)) };
            let (run, watch) = (run(Some(reply)), local("watch"));
            quote!({
                let #watch = #private::Asked::watch(&#caller);
                #run;
                #private::Watch::over(#watch);
                #private::Dispatched::Done
            })
        }
        Some(Reply::Stream { ident, .. }) => {
            let (run, answered) = (run(Some(quote!(#ident))), answered(quote!(())));
            quote!({ #run; #answered })
        }
        None => {
            let (run, answered) = (run(None), answered(quote!(#out)));
            quote!({ let #out = #run; #answered })
        }
    };
    if !method.is_async {
        return body;
    }
    // These tokens have the span of the method's name, so that an error about a value that cannot be held across an
    // await is shown at the method.
    let at = name.span().resolved_at(Span::call_site());
    let kept = kept(private, process, &quote_spanned!(at=> async move #body), at);
    quote!(#private::Dispatched::Pending(#kept))
}

/// Returns the method's answer as an `Outcome` of the expected types. It has the span of the return type, so that an
/// error about a wrong type points to that type.
fn outcome(method: &Method, private: &TokenStream, (answer, error): &(TokenStream, TokenStream)) -> TokenStream {
    let at = match &method.returns {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => method.ident.span(),
    };
    let at = at.resolved_at(Span::call_site());
    let ty = respan(method.answer().ty(), at);
    quote_spanned!(at=> <#ty as #private::Outcome<#answer, #error>>)
}

/// Returns a statement that passes the signal to this method if the signal is of the method's kind, and falls through
/// otherwise.
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
