//! `#[protocol]` on a trait: its methods are messages, which several process types answer.
//!
//! Rule: the trait is emitted unchanged, without our attributes, and remains an ordinary one. It specifies messages and
//! answers, not how they are handled: no context, no `async`, no `Reply`, no bodies. Everything is generated for the
//! type `dyn Storage`, as for a process's struct.

use super::deliver::MethodOwner;
use super::{by_name, client, deliver, handles, inspect, lints, remote};
use crate::check::attributes;
use crate::check::diagnostics::Diagnostics;
use crate::check::self_type::{SelfType, lifetime_fault};
use crate::check::text::text;
use crate::parse::marker::{self, Marked, Role};
use crate::parse::message::Message;
use crate::parse::method::Method;
use crate::parse::naming::{self, hidden_type, local};
use crate::parse::{argument, generics, options};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{FnArg, GenericParam, Generics, ItemTrait, ReturnType, Signature, TraitItem, TraitItemFn, parse_quote};

pub(crate) fn expand(options: TokenStream, mut item: ItemTrait) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let (krate, is_remote) = options::of_protocol(options, &mut diagnostics);
    let messages;
    let Some(mut self_type) = self_type(krate, &item, &mut diagnostics) else {
        strip(&mut item);
        let diagnostics = diagnostics.to_tokens();
        return quote!(#item #diagnostics);
    };
    if is_remote {
        self_type.make_remote(&mut diagnostics);
    }
    (item.items, messages) = read(&item, &self_type, &mut diagnostics);
    let types = messages.iter().map(|message| handles::items(message, &self_type));
    let addressed = addressed(&self_type, &messages);
    let named = messages.iter().map(|message| found(message, &self_type));
    let chain = chain(&self_type, &messages);
    let plain = plain(&item, &self_type, &messages);
    let remote = remote::protocol(&self_type, &messages);
    if item.items.is_empty() {
        diagnostics.on(&item.ident, "a protocol without methods asks nothing", "add `fn …(&mut self);` to the trait");
    }
    let (diagnostics, cfgs) = (diagnostics.to_tokens(), &self_type.cfgs);
    let (parameters, _, clause) = self_type.generics.split_for_impl();
    let (krate, ty, none) = (&self_type.krate, &self_type.ty, hidden_type("NoMessage"));
    quote! {
        #item
        #diagnostics
        #(#types)*
        #(#cfgs)*
        const _: () = {
            enum #none {}

            #[automatically_derived]
            impl #parameters #krate::generic::Handles<#none> for #ty #clause {
                type Answer = ();
                type Error = ::core::convert::Infallible;
            }

            #addressed
            #chain
            #(#named)*
            #plain
            #remote
        };
    }
}

/// Removes our attributes and keeps the methods. Used when there is no valid type, so that nothing is generated.
fn strip(item: &mut ItemTrait) {
    let krate = parse_quote!(postroom);
    for item in &mut item.items {
        if let TraitItem::Fn(method) = item {
            marker::take_message(&mut method.attrs, &krate, &mut Diagnostics::default());
        }
    }
}

/// Returns the type for which everything is generated, `dyn` of the trait. `None` if that is impossible.
fn self_type(krate: syn::Path, item: &ItemTrait, diagnostics: &mut Diagnostics) -> Option<SelfType> {
    if let Some(lifetime) = item.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
        diagnostics.on(&item.generics, lifetime_fault(lifetime), "remove it");
        return None;
    }
    if let Some(unsafety) = &item.unsafety {
        diagnostics.on(unsafety, "a protocol is called by the runtime: it cannot be `unsafe`", "remove it");
    }
    let ident = item.ident.clone();
    let (_, arguments, _) = item.generics.split_for_impl();
    let ty = quote!(dyn #ident #arguments);
    let mut generics = item.generics.clone();
    let types: Vec<_> = generics.type_params().map(|param| param.ident.clone()).collect();
    for param in types {
        // Messages move between threads, and the `dyn` type is `'static`.
        generics.make_where_clause().predicates.push(parse_quote!(#param: ::core::marker::Send + 'static));
    }
    let cfgs = attributes::cfgs(&item.attrs);
    Some(SelfType { krate, ident, ty, generics, cfgs, remote: false, travels: false })
}

/// Returns the items of the trait to emit, and its messages.
fn read(item: &ItemTrait, self_type: &SelfType, diagnostics: &mut Diagnostics) -> (Vec<TraitItem>, Vec<Message>) {
    let (mut items, mut messages) = (Vec::new(), Vec::<Message>::new());
    for item_of in item.items.clone() {
        let mut method = match item_of {
            TraitItem::Fn(method) => method,
            TraitItem::Type(other) => {
                diagnostics.on(
                    &other,
                    "a protocol has no associated types: it is used as `dyn`",
                    "remove it, and name the type where it is used",
                );
                continue;
            }
            TraitItem::Const(other) => {
                diagnostics.on(
                    &other,
                    "a protocol has no constants: it is used as `dyn`",
                    "remove it, and write it beside the trait",
                );
                continue;
            }
            other => {
                diagnostics.on(&other, "a protocol has methods and nothing else", "remove it");
                continue;
            }
        };
        let before = diagnostics.count();
        only_asks(&mut method, diagnostics);
        let mut marked = marker::take_message(&mut method.attrs, &self_type.krate, diagnostics);
        if marked.role != Role::Message {
            diagnostics.on(&marked.marker, "every method of a protocol is a message", "remove it");
            marked = Marked { role: Role::Message, marker: parse_quote!(#[message]), ..marked };
        }
        let mut asked = Method::read(&mut method.sig, &item.vis, marked, self_type, diagnostics);
        asked.sound &= diagnostics.count() == before;
        if !method.sig.generics.params.is_empty() {
            // This prevents a second error from the compiler.
            method.sig.generics.make_where_clause().predicates.push(parse_quote!(Self: ::core::marker::Sized));
        }
        messages.push(Message::check(asked, self_type, &messages, diagnostics));
        items.push(TraitItem::Fn(method));
    }
    (items, messages)
}

/// Removes, and reports, the parts of a method that a protocol cannot specify.
fn only_asks(method: &mut TraitItemFn, diagnostics: &mut Diagnostics) {
    if let Some(body) = method.default.take() {
        let what = "each kind of process answers in its own way: a method of a protocol has no body";
        diagnostics.on(body, what, "write `;`");
        method.semi_token = Some(parse_quote!(;));
    }
    if let Some(asyncness) = method.sig.asyncness.take() {
        let what =
            "a protocol says what is asked and what is answered; whether to wait before that is up to each process";
        diagnostics.on(asyncness, what, "remove it");
    }
    without(&mut method.sig, argument::is_context, |whole, _| {
        diagnostics.on(whole, "a protocol says what is asked: a process that needs its context takes it", "remove it");
    });
    without(&mut method.sig, argument::is_reply_once, |whole, ty| {
        let answer = argument::answer_of(ty).unwrap_or_else(|| "()".to_owned());
        let what = "a protocol says what is answered, not when: a process that answers later takes the `Reply`";
        diagnostics.on(whole, what, format!("remove it, and write `-> {answer}`"));
    });
    let carried = method.sig.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&mut *typed.ty),
        FnArg::Receiver(_) => None,
    });
    let answer = match &mut method.sig.output {
        ReturnType::Type(_, ty) => Some(&mut **ty),
        ReturnType::Default => None,
    };
    for ty in carried.chain(answer) {
        if generics::contains_self(&ty.to_token_stream()) {
            let what = "`Self` is another type for each kind of process that answers";
            diagnostics.on(&*ty, what, "name the type, or `Address<dyn …>` of this protocol");
            *ty = parse_quote!(());
        }
    }
}

/// Removes the arguments that are `wrong`, each with its comma, and reports each with its type.
fn without(
    signature: &mut Signature,
    wrong: impl Fn(&syn::PatType) -> bool,
    mut tell: impl FnMut(TokenStream, &syn::Type),
) {
    let written = signature.inputs.clone();
    let mut kept = syn::punctuated::Punctuated::new();
    let mut comma = None;
    for pair in written.pairs() {
        let (input, after) = (pair.value(), pair.punct());
        match input {
            FnArg::Typed(typed) if wrong(typed) => tell(quote!(#comma #typed), &typed.ty),
            other => kept.push((*other).clone()),
        }
        comma = after.copied();
    }
    if kept.len() < written.len() {
        signature.inputs = kept;
    }
}

/// Returns the handle type, which addresses dereference to, and the impls that describe the protocol.
fn addressed(self_type: &SelfType, messages: &[Message]) -> TokenStream {
    let (krate, private, ty) = (&self_type.krate, self_type.private(), &self_type.ty);
    let (pid, handle) = (local("pid"), local("handle"));
    let client = naming::handle_type(&self_type.ident, "Client");
    let linked = client::linked(self_type, &client, messages);
    let last = client::over(&self_type.generics, &client, &quote!(#private::End));
    let (parameters, _, clause) = self_type.generics.split_for_impl();
    let (name, bool, str) =
        (self_type.ident.unraw().to_string(), quote!(::core::primitive::bool), quote!(::core::primitive::str));
    let described = described(self_type, &client, messages);
    quote! {
        #linked

        #[automatically_derived]
        impl #parameters #krate::generic::Addressed for #ty #clause {
            type Handle = #last;
            const LABEL: &'static #str = #name;
            const IS_PROTOCOL: #bool = true;

            fn handle_of(#pid: #krate::Pid) -> Self::Handle {
                #private::Link::of(#pid)
            }

            fn pid_of(#handle: &Self::Handle) -> #krate::Pid {
                #private::Link::pid(#handle)
            }
        }

        #described
    }
}

/// Returns the impl that says which messages the protocol has.
fn described(self_type: &SelfType, client: &Ident, messages: &[Message]) -> TokenStream {
    let (private, ty, rest) = (self_type.private(), &self_type.ty, hidden_type("Rest"));
    let over_rest = client::over(&self_type.generics, client, &rest.to_token_stream());
    let (parameters, _, clause) = self_type.generics.split_for_impl();
    let name = self_type.ident.unraw().to_string();
    let shows = inspect::messages(messages, &[], &private);
    let allowed = lints::allowed(messages.iter().map(|message| &message.method));
    let names = messages.iter().map(|message| {
        let (cfgs, name) = (message.method.cfgs(), message.method.ident.unraw().to_string());
        quote!(#(#cfgs)* #name)
    });
    let (named, by_name, process, inputs) =
        (by_name::messages(messages, &private), local("name"), local("process"), local("inputs"));
    let str = quote!(::core::primitive::str);
    quote! {
        #[automatically_derived]
        #allowed
        impl #parameters #private::Protocol for #ty #clause {
            type Linked<#rest: #private::Link> = #over_rest;
            const INFO: #private::ProtocolInfo = #private::ProtocolInfo {
                name: #name,
                messages: &[#(#names),*],
                type_id: ::core::any::TypeId::of::<Self>(),
            };

            #[inline]
            fn message_by_name(
                #process: &'static #str,
                #by_name: &#str,
                #inputs: #private::Inputs,
            ) -> #private::ByName {
                #named
                #private::ByName::Continue(#inputs)
            }

            #shows
        }
    }
}

/// Returns the protocol's parameters, and one for the process; see the runtime's `protocol`.
fn asking(self_type: &SelfType) -> Generics {
    let (mut generics, asking) = (self_type.generics.clone(), hidden_type("Asking"));
    generics.params.push(parse_quote!(#asking));
    generics
}

/// Returns the messages as a chain of types: each message, and the chain of those that follow it.
fn chain(self_type: &SelfType, messages: &[Message]) -> TokenStream {
    let (private, ty) = (self_type.private(), &self_type.ty);
    let (generics, asking) = (asking(self_type), hidden_type("Asking"));
    let (parameters, _, clause) = generics.split_for_impl();
    let from = |place: usize, cfgs: TokenStream, messages: TokenStream| {
        quote! {
            #cfgs
            #[automatically_derived]
            impl #parameters #private::MessagesFrom<#place, #asking> for #ty #clause {
                type Messages = #messages;
            }
        }
    };
    let messages: Vec<&Message> = messages.iter().filter(|message| !message.repeated).collect();
    // The chain contains the answers themselves, not projections of `Handles`: each level counts towards the compiler's
    // recursion limit.
    let mut out = from(messages.len(), TokenStream::new(), quote!(()));
    for (place, message) in messages.into_iter().enumerate() {
        let (ty, (ok, error), cfgs, next) =
            (message.ty(), message.method.answer().parts(&private), message.method.cfgs(), place + 1);
        let rest = quote!(<Self as #private::MessagesFrom<#next, #asking>>::Messages);
        out.extend(from(place, quote!(#(#cfgs)*), quote!(((#ty, #ok, #error), #rest))));
        if !cfgs.is_empty() {
            let conditions = cfgs.iter().filter_map(|cfg| cfg.meta.require_list().ok().map(|list| &list.tokens));
            out.extend(from(place, quote!(#[cfg(not(all(#(#conditions),*)))]), rest));
        }
    }
    out
}

/// Returns the impl that finds a message by its method's name.
fn found(message: &Message, self_type: &SelfType) -> TokenStream {
    if message.repeated {
        return TokenStream::new();
    }
    let (private, ty, message_ty) = (self_type.private(), &self_type.ty, message.ty());
    let (generics, asking) = (asking(self_type), hidden_type("Asking"));
    let (parameters, _, clause) = generics.split_for_impl();
    let (cfgs, hash) = (message.method.cfgs(), naming::hash(&message.method.ident.unraw().to_string()));
    let fields: Vec<_> = message.method.arguments.fields();
    let (types, names) = (
        fields.iter().map(|(_, ty, _)| ty).collect::<Vec<_>>(),
        fields.iter().map(|(name, ..)| name).collect::<Vec<_>>(),
    );
    let (value, given, (ok, error)) = (message.value(), local("message"), message.answer(self_type));
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        impl #parameters #private::Named<#hash, #asking> for #ty #clause {
            type Message = #message_ty;
            type Answer = #ok;
            type Error = #error;
            type Parts = (#(#types,)*);

            #[inline(always)]
            fn parts(#given: Self::Message) -> Self::Parts {
                let #value = #given;
                (#(#names,)*)
            }
        }
    }
}

/// Returns the dispatch to the methods of a process that implements the trait directly.
fn plain(item: &ItemTrait, self_type: &SelfType, messages: &[Message]) -> TokenStream {
    let (private, ty) = (self_type.private(), &self_type.ty);
    let (process, this, mail) = (hidden_type("Process").to_token_stream(), local("this"), local("mail"));
    let bool = quote!(::core::primitive::bool);
    let (_, arguments, _) = item.generics.split_for_impl();
    let name = &item.ident;
    let mut generics = self_type.generics.clone();
    generics.params.push(parse_quote!(#process: #name #arguments + #private::Declared));
    let (parameters, _, clause) = generics.split_for_impl();
    let owner = MethodOwner {
        this: this.to_token_stream(),
        path: quote!(<#process as #name #arguments>),
        process: process.clone(),
    };
    let allowed = lints::allowed(messages.iter().map(|message| &message.method));
    let delivers = messages.iter().filter_map(|message| deliver::message(message, &owner, self_type));
    let knows = messages.iter().map(|message| {
        let (cfgs, ty) = (message.method.cfgs(), message.ty());
        quote!(#(#cfgs)* if #private::Mail::is::<#ty>(#mail) { return true; })
    });
    quote! {
        #[automatically_derived]
        #allowed
        impl #parameters #private::Plain<#process> for #ty #clause {
            fn understands(#mail: &#private::Mail<'_>) -> #bool {
                #(#knows)*
                false
            }

            #[inline(always)]
            fn deliver<'__postroom>(
                #this: &'__postroom mut #process,
                #mail: &mut #private::Mail<'_>,
            ) -> #private::Dispatched<'__postroom> {
                #(#delivers)*
                #private::Dispatched::Unhandled
            }
        }
    }
}

/// Returns whether the path names a trait of the standard library, which `#[process]` does not accept.
pub(crate) fn is_of_the_language(path: &syn::Path) -> bool {
    const KNOWN: &[&str] = &[
        "AsMut",
        "AsRef",
        "Borrow",
        "BorrowMut",
        "Clone",
        "Copy",
        "Debug",
        "Default",
        "Deref",
        "DerefMut",
        "Display",
        "Drop",
        "Eq",
        "Error",
        "Extend",
        "From",
        "FromIterator",
        "FromStr",
        "Future",
        "Hash",
        "Index",
        "IndexMut",
        "Into",
        "IntoIterator",
        "Iterator",
        "Ord",
        "PartialEq",
        "PartialOrd",
        "Send",
        "Sync",
        "ToString",
        "TryFrom",
        "TryInto",
    ];
    path.segments.last().is_some_and(|last| KNOWN.contains(&text(&last.ident).as_str()))
}
