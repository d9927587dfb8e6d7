//! `#[protocol]` on a trait: its methods are messages, which several kinds of process answer.
//!
//! Rule: the trait goes out as it came, less our attributes, and stays an ordinary one. It says what is asked and what is
//! answered, and nothing of how: no context, no `async`, no `Reply`, no bodies. Everything generated is about the type
//! `dyn Storage`, as what a process gets is about its struct.

use crate::deliver::Whose;
use crate::fault::Faults;
use crate::marker::{self, Marked, Role};
use crate::message::Message;
use crate::method::Method;
use crate::naming::{self, local};
use crate::subject::{Subject, lifetime_fault};
use crate::text::text;
use crate::{argument, client, deliver, generics, handles, options};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{GenericParam, ItemTrait, ReturnType, Signature, TraitItem, TraitItemFn, parse_quote};

pub(crate) fn expand(options: TokenStream, mut item: ItemTrait) -> TokenStream {
    let mut faults = Faults::default();
    let krate = options::of_protocol(options, &mut faults);
    let messages;
    let subject = subject(krate, &item, &mut faults);
    (item.items, messages) = read(&item, &subject, &mut faults);
    let types = messages.iter().map(|message| handles::items(message, &subject));
    let client = client(&subject, &messages);
    let named = messages.iter().enumerate().map(|(place, message)| found(message, place, &messages, &subject));
    let plain = plain(&item, &subject, &messages);
    if item.items.is_empty() {
        faults.on(&item.ident, "a protocol without methods asks nothing", "add `fn …(&mut self);` to the trait");
    }
    let (faults, cfgs) = (faults.to_tokens(), &subject.cfgs);
    let (parameters, _, clause) = subject.generics.split_for_impl();
    let (krate, ty) = (&subject.krate, &subject.ty);
    quote! {
        #item
        #faults
        #(#types)*
        #(#cfgs)*
        #[allow(trivial_bounds)]
        const _: () = {
            enum Never {}

            #[automatically_derived]
            impl #parameters #krate::Handles<Never> for #ty #clause {
                type Reply = ();
                type Error = ::core::convert::Infallible;
            }

            #client
            #(#named)*
            #plain
        };
    }
}

/// Whom everything generated is about: `dyn` and the trait.
fn subject(krate: syn::Path, item: &ItemTrait, faults: &mut Faults) -> Subject {
    if let Some(lifetime) = item.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
        faults.on(lifetime, lifetime_fault(lifetime), "remove it");
    }
    if let Some(unsafety) = &item.unsafety {
        faults.on(unsafety, "a protocol is called by the runtime: it cannot be `unsafe`", "remove it");
    }
    let ident = item.ident.clone();
    let (_, arguments, _) = item.generics.split_for_impl();
    let ty = quote!(dyn #ident #arguments);
    let mut generics = item.generics.clone();
    let types: Vec<_> = generics.type_params().map(|param| param.ident.clone()).collect();
    for param in types {
        // What a message carries goes to another thread, and `dyn` outlives every borrow.
        generics.make_where_clause().predicates.push(parse_quote!(#param: ::core::marker::Send + 'static));
    }
    let cfgs = item.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
    Subject { krate, ident, ty, generics, cfgs }
}

/// The items of the trait as they go out, and its messages.
fn read(item: &ItemTrait, subject: &Subject, faults: &mut Faults) -> (Vec<TraitItem>, Vec<Message>) {
    let (mut items, mut messages) = (Vec::new(), Vec::<Message>::new());
    for item_of in item.items.clone() {
        let mut method = match item_of {
            TraitItem::Fn(method) => method,
            TraitItem::Type(other) => {
                faults.on(&other, "`dyn` knows no associated types", "remove it, and name the type where it is used");
                continue;
            }
            TraitItem::Const(other) => {
                faults.on(&other, "`dyn` knows no constants", "remove it, and write it beside the trait");
                continue;
            }
            other => {
                faults.on(&other, "a protocol has methods and nothing else", "remove it");
                continue;
            }
        };
        let before = faults.count();
        only_asks(&mut method, faults);
        let mut marked = marker::take_message(&mut method.attrs, &subject.krate, faults);
        if marked.role != Role::Message {
            faults.on(&marked.marker, "every method of a protocol is a message", "remove it");
            marked = Marked { role: Role::Message, marker: parse_quote!(#[message]), ..marked };
        }
        let mut asked = Method::read(&mut method.sig, &item.vis, marked, subject, faults);
        asked.sound &= faults.count() == before;
        messages.push(Message::check(asked, subject, &messages, faults));
        items.push(TraitItem::Fn(method));
    }
    (items, messages)
}

/// Takes out of a method what is no matter of the protocol.
fn only_asks(method: &mut TraitItemFn, faults: &mut Faults) {
    if let Some(body) = method.default.take() {
        let what = "each kind of process answers in its own way: a method of a protocol has no body";
        faults.on(body, what, "write `;`");
        method.semi_token = Some(parse_quote!(;));
    }
    if let Some(asyncness) = method.sig.asyncness.take() {
        let what = "a protocol says what is asked and what is answered; whether to wait before that is up to each process";
        faults.on(asyncness, what, "remove it");
    }
    without(&mut method.sig, argument::is_context, |whole, _| {
        faults.on(whole, "a protocol says what is asked: a process that needs its context takes it", "remove it");
    });
    without(&mut method.sig, argument::is_reply_once, |whole, ty| {
        let answer = argument::answer_of(ty).unwrap_or_else(|| "()".to_owned());
        let what = "a protocol says what is answered, not when: a process that answers later takes the `Reply`";
        faults.on(whole, what, format!("remove it, and write `-> {answer}`"));
    });
    for token in method.sig.inputs.iter().skip(1).map(ToTokens::to_token_stream).chain([returned(&method.sig)]) {
        if generics::contains_self(&token) {
            let what = "`Self` is another type for each kind of process that answers";
            faults.on(token, what, "name the type, or `Address<dyn …>` of this protocol");
        }
    }
}

fn returned(signature: &Signature) -> TokenStream {
    match &signature.output {
        ReturnType::Default => TokenStream::new(),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    }
}

/// Takes out the arguments that are `wrong`, and tells of each, with its comma, and of its type.
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
            syn::FnArg::Typed(typed) if wrong(typed) => tell(quote!(#comma #typed), &typed.ty),
            other => kept.push((*other).clone()),
        }
        comma = after.copied();
    }
    if kept.len() < written.len() {
        signature.inputs = kept;
    }
}

/// The handle that addresses deref to, over another's.
fn client(subject: &Subject, messages: &[Message]) -> TokenStream {
    let (krate, private, ty) = (&subject.krate, subject.private(), &subject.ty);
    let client = naming::handle_type(&subject.ident, "Client");
    let (rest, pid, handle) = (quote!(__Rest), local("pid"), local("handle"));
    let mut unbounded = client::unbounded(&subject.generics);
    unbounded.params.push(parse_quote!(#rest));
    let mut linked = subject.generics.clone();
    linked.params.push(parse_quote!(#rest: #private::Link));
    let of = client::marker(&subject.generics);
    let (field, filled) = match &of {
        Some(marker) => (quote!(, of: #marker), quote!(, of: ::core::marker::PhantomData)),
        None => (TokenStream::new(), TokenStream::new()),
    };
    let (bare, arguments, _) = unbounded.split_for_impl();
    let (with_rest, _, clause_of_rest) = linked.split_for_impl();
    let (parameters, _, clause) = subject.generics.split_for_impl();
    let own = subject.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(param.ident.to_token_stream()),
        GenericParam::Const(param) => Some(param.ident.to_token_stream()),
        _ => None,
    });
    let own: Vec<TokenStream> = own.collect();
    let through = quote!(#private::Link::pid(&self.rest));
    let calls = messages.iter().map(|message| client::call(message, subject, &through));
    let (name, types) = (subject.ident.unraw().to_string(), chain(messages));
    let names = messages.iter().map(|message| {
        let (cfgs, name) = (message.method.cfgs(), message.method.ident.unraw().to_string());
        quote!(#(#cfgs)* #name)
    });
    let doc = format!("The messages of `{name}`, as methods of an address.");
    quote! {
        #[doc = #doc]
        #[allow(dead_code, unreachable_pub, missing_debug_implementations)]
        pub struct #client #unbounded { rest: #rest #field }

        #[automatically_derived]
        impl #with_rest ::core::clone::Clone for #client #arguments #clause_of_rest {
            fn clone(&self) -> Self { *self }
        }

        #[automatically_derived]
        impl #with_rest ::core::marker::Copy for #client #arguments #clause_of_rest {}

        #[automatically_derived]
        impl #bare ::core::ops::Deref for #client #arguments {
            type Target = #rest;
            fn deref(&self) -> &Self::Target { &self.rest }
        }

        #[automatically_derived]
        impl #with_rest #private::Link for #client #arguments #clause_of_rest {
            fn of(#pid: #krate::Pid) -> Self {
                #client { rest: #private::Link::of(#pid) #filled }
            }

            fn pid(&self) -> #krate::Pid {
                #private::Link::pid(&self.rest)
            }
        }

        #[allow(clippy::all, clippy::pedantic, clippy::nursery, dead_code, deprecated, private_interfaces, unreachable_pub)]
        impl #with_rest #client #arguments #clause_of_rest {
            #(#calls)*
        }

        #[automatically_derived]
        impl #parameters #krate::Addressed for #ty #clause {
            type Client = #client<#(#own,)* #private::End>;
            const LABEL: &'static str = #name;
            const IS_PROTOCOL: bool = true;

            fn client(#pid: #krate::Pid) -> Self::Client {
                #private::Link::of(#pid)
            }

            fn pid(#handle: &Self::Client) -> #krate::Pid {
                #private::Link::pid(#handle)
            }
        }

        #[automatically_derived]
        impl #parameters #private::Protocol for #ty #clause {
            type Linked<#rest: #private::Link> = #client<#(#own,)* #rest>;
            type Messages = #types;
            const INFO: #private::ProtocolInfo = #private::ProtocolInfo {
                name: #name,
                messages: &[#(#names),*],
                type_id: ::core::any::TypeId::of::<Self>(),
            };
        }
    }
}

/// The types of the messages, as a chain of pairs.
fn chain(messages: &[Message]) -> TokenStream {
    messages.iter().rev().filter(|message| !message.repeated && message.method.present().is_none()).fold(
        quote!(()),
        |rest, message| {
            let ty = message.ty();
            quote!((#ty, #rest))
        },
    )
}

/// How a message is found without its name: by its place, and by its method's name.
fn found(message: &Message, place: usize, messages: &[Message], subject: &Subject) -> TokenStream {
    if message.repeated {
        return TokenStream::new();
    }
    let (private, ty, message_ty) = (subject.private(), &subject.ty, message.ty());
    let (parameters, _, clause) = subject.generics.split_for_impl();
    let (cfgs, hash) = (message.method.cfgs(), naming::hash(&message.method.ident.unraw().to_string()));
    let place = placed(messages[..place].iter().map(|message| &message.method));
    let fields: Vec<_> = message.method.arguments.fields();
    let (types, names) =
        (fields.iter().map(|(_, ty, _)| ty).collect::<Vec<_>>(), fields.iter().map(|(name, ..)| name).collect::<Vec<_>>());
    let (value, given) = (message.value(), local("message"));
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        impl #parameters #private::Nth<{ #place }> for #ty #clause {
            type Message = #message_ty;
        }

        #(#cfgs)*
        #[automatically_derived]
        impl #parameters #private::Named<#hash> for #ty #clause {
            type Message = #message_ty;
            type Parts = (#(#types,)*);

            #[inline(always)]
            fn parts(#given: Self::Message) -> Self::Parts {
                let #value = #given;
                (#(#names,)*)
            }
        }
    }
}

/// The place after these methods, which `#[cfg]` on them may move.
pub(crate) fn placed<'a>(before: impl Iterator<Item = &'a Method>) -> TokenStream {
    let (mut certain, mut conditional) = (0_usize, Vec::new());
    for method in before {
        match method.present() {
            Some(condition) => conditional.push(condition),
            None => certain += 1,
        }
    }
    quote!(#certain #(+ #conditional as usize)*)
}

/// What is sent, handed to the methods of a process that has them as the trait says.
fn plain(item: &ItemTrait, subject: &Subject, messages: &[Message]) -> TokenStream {
    let (private, ty) = (subject.private(), &subject.ty);
    let (process, this, mail) = (quote!(__Process), local("this"), local("mail"));
    let (_, arguments, _) = item.generics.split_for_impl();
    let name = &item.ident;
    let mut generics = subject.generics.clone();
    generics.params.push(parse_quote!(#process: #name #arguments + #private::Declared));
    let (parameters, _, clause) = generics.split_for_impl();
    let whose = Whose {
        this: this.to_token_stream(),
        path: quote!(<#process as #name #arguments>),
        process: process.clone(),
    };
    let delivers = messages.iter().filter_map(|message| deliver::message(message, &whose, &private));
    let knows = messages.iter().map(|message| {
        let (cfgs, ty) = (message.method.cfgs(), message.ty());
        quote!(#(#cfgs)* if #mail.is::<#ty>() { return true; })
    });
    quote! {
        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, deprecated, unused_variables)]
        impl #parameters #private::Plain<#process> for #ty #clause {
            fn understands(#mail: &#private::Mail<'_>) -> bool {
                #(#knows)*
                false
            }

            #[inline(always)]
            fn deliver<'a>(#this: &'a mut #process, #mail: &mut #private::Mail<'_>) -> #private::Delivery<'a> {
                #(#delivers)*
                #private::Delivery::Unhandled
            }
        }
    }
}

/// What a trait of the standard library is told that has `#[process]` on one of its `impl`s.
pub(crate) fn is_of_the_language(path: &syn::Path) -> bool {
    const KNOWN: &[&str] = &[
        "AsMut", "AsRef", "Borrow", "BorrowMut", "Clone", "Copy", "Debug", "Default", "Deref", "DerefMut", "Display",
        "Drop", "Eq", "Error", "Extend", "From", "FromIterator", "FromStr", "Future", "Hash", "Index", "IndexMut",
        "Into", "IntoIterator", "Iterator", "Ord", "PartialEq", "PartialOrd", "Send", "Sync", "ToString", "TryFrom",
        "TryInto",
    ];
    path.segments.last().is_some_and(|last| KNOWN.contains(&text(&last.ident).as_str()))
}
