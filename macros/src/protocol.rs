//! `#[protocol]` on a trait: its methods are messages, which several kinds of process answer.
//!
//! Rule: the trait goes out as it came, less our attributes, and stays an ordinary one. It says what is asked and what
//! is answered, and nothing of how: no context, no `async`, no `Reply`, no bodies. Everything generated is about the
//! type `dyn Storage`, as what a process gets is about its struct.

use crate::deliver::Whose;
use crate::fault::Faults;
use crate::marker::{self, Marked, Role};
use crate::message::Message;
use crate::method::Method;
use crate::naming::{self, local};
use crate::subject::{Subject, lifetime_fault};
use crate::text::text;
use crate::{argument, by_name, client, deliver, generics, handles, options};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{FnArg, GenericParam, Generics, ItemTrait, ReturnType, Signature, TraitItem, TraitItemFn, parse_quote};

pub(crate) fn expand(options: TokenStream, mut item: ItemTrait) -> TokenStream {
    let mut faults = Faults::default();
    let krate = options::of_protocol(options, &mut faults);
    let messages;
    let Some(subject) = subject(krate, &item, &mut faults) else {
        strip(&mut item);
        let faults = faults.to_tokens();
        return quote!(#item #faults);
    };
    (item.items, messages) = read(&item, &subject, &mut faults);
    let types = messages.iter().map(|message| handles::items(message, &subject));
    let addressed = addressed(&subject, &messages);
    let named = messages.iter().map(|message| found(message, &subject));
    let chain = chain(&subject, &messages);
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
            impl #parameters #krate::generic::Handles<Never> for #ty #clause {
                type Reply = ();
                type Error = ::core::convert::Infallible;
            }

            #addressed
            #chain
            #(#named)*
            #plain
        };
    }
}

/// Without a subject nothing is generated: the methods stay, our attributes go.
fn strip(item: &mut ItemTrait) {
    let krate = parse_quote!(postroom);
    for item in &mut item.items {
        if let TraitItem::Fn(method) = item {
            marker::take_message(&mut method.attrs, &krate, &mut Faults::default());
        }
    }
}

/// Whom everything generated is about: `dyn` and the trait. Nothing if that cannot be.
fn subject(krate: syn::Path, item: &ItemTrait, faults: &mut Faults) -> Option<Subject> {
    if let Some(lifetime) = item.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
        faults.on(&item.generics, lifetime_fault(lifetime), "remove it");
        return None;
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
    Some(Subject { krate, ident, ty, generics, cfgs })
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
        if !method.sig.generics.params.is_empty() {
            // So that the compiler need not say it again.
            method.sig.generics.make_where_clause().predicates.push(parse_quote!(Self: ::core::marker::Sized));
        }
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
        let what =
            "a protocol says what is asked and what is answered; whether to wait before that is up to each process";
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
            faults.on(&*ty, what, "name the type, or `Address<dyn …>` of this protocol");
            *ty = parse_quote!(());
        }
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
            FnArg::Typed(typed) if wrong(typed) => tell(quote!(#comma #typed), &typed.ty),
            other => kept.push((*other).clone()),
        }
        comma = after.copied();
    }
    if kept.len() < written.len() {
        signature.inputs = kept;
    }
}

/// The handle that addresses deref to, and what is known of the protocol.
fn addressed(subject: &Subject, messages: &[Message]) -> TokenStream {
    let (krate, private, ty) = (&subject.krate, subject.private(), &subject.ty);
    let (pid, handle) = (local("pid"), local("handle"));
    let client = naming::handle_type(&subject.ident, "Client");
    let linked = client::linked(subject, &client, messages);
    let (last, over_rest) = (
        client::over(&subject.generics, &client, &quote!(#private::End)),
        client::over(&subject.generics, &client, &quote!(__Rest)),
    );
    let (parameters, _, clause) = subject.generics.split_for_impl();
    let name = subject.ident.unraw().to_string();
    let names = messages.iter().map(|message| {
        let (cfgs, name) = (message.method.cfgs(), message.method.ident.unraw().to_string());
        quote!(#(#cfgs)* #name)
    });
    let (named, by_name, process, inputs) =
        (by_name::messages(messages, &private), local("name"), local("process"), local("inputs"));
    quote! {
        #linked

        #[automatically_derived]
        impl #parameters #krate::generic::Addressed for #ty #clause {
            type Handle = #last;
            const LABEL: &'static str = #name;
            const IS_PROTOCOL: bool = true;

            fn handle_of(#pid: #krate::Pid) -> Self::Handle {
                #private::Link::of(#pid)
            }

            fn pid_of(#handle: &Self::Handle) -> #krate::Pid {
                #private::Link::pid(#handle)
            }
        }

        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, deprecated, unused_variables)]
        impl #parameters #private::Protocol for #ty #clause {
            type Linked<__Rest: #private::Link> = #over_rest;
            const INFO: #private::ProtocolInfo = #private::ProtocolInfo {
                name: #name,
                messages: &[#(#names),*],
                type_id: ::core::any::TypeId::of::<Self>(),
            };

            #[inline]
            fn message_by_name(#process: &'static str, #by_name: &str, #inputs: #private::Inputs) -> #private::ByName {
                #named
                #private::ByName::Continue(#inputs)
            }
        }
    }
}

/// The parameters, and one for the process that asks: see the runtime's `protocol`.
fn asking(subject: &Subject) -> Generics {
    let mut generics = subject.generics.clone();
    generics.params.push(parse_quote!(__Asking));
    generics
}

/// The messages as a chain: each one, before those that follow it.
fn chain(subject: &Subject, messages: &[Message]) -> TokenStream {
    let (private, ty) = (subject.private(), &subject.ty);
    let asking = asking(subject);
    let (parameters, _, clause) = asking.split_for_impl();
    let from = |place: usize, cfgs: TokenStream, messages: TokenStream| {
        quote! {
            #cfgs
            #[automatically_derived]
            impl #parameters #private::MessagesFrom<#place, __Asking> for #ty #clause {
                type Messages = #messages;
            }
        }
    };
    let messages: Vec<&Message> = messages.iter().filter(|message| !message.repeated).collect();
    let mut out = from(messages.len(), TokenStream::new(), quote!(()));
    for (place, message) in messages.into_iter().enumerate() {
        let (ty, (ok, error), cfgs, next) = (message.ty(), message.answer(), message.method.cfgs(), place + 1);
        let rest = quote!(<Self as #private::MessagesFrom<#next, __Asking>>::Messages);
        out.extend(from(place, quote!(#(#cfgs)*), quote!(((#ty, #ok, #error), #rest))));
        if !cfgs.is_empty() {
            let conditions = cfgs.iter().filter_map(|cfg| cfg.meta.require_list().ok().map(|list| &list.tokens));
            out.extend(from(place, quote!(#[cfg(not(all(#(#conditions),*)))]), rest));
        }
    }
    out
}

/// How a message is found by its method's name.
fn found(message: &Message, subject: &Subject) -> TokenStream {
    if message.repeated {
        return TokenStream::new();
    }
    let (private, ty, message_ty) = (subject.private(), &subject.ty, message.ty());
    let asking = asking(subject);
    let (parameters, _, clause) = asking.split_for_impl();
    let (cfgs, hash) = (message.method.cfgs(), naming::hash(&message.method.ident.unraw().to_string()));
    let fields: Vec<_> = message.method.arguments.fields();
    let (types, names) = (
        fields.iter().map(|(_, ty, _)| ty).collect::<Vec<_>>(),
        fields.iter().map(|(name, ..)| name).collect::<Vec<_>>(),
    );
    let (value, given, (ok, error)) = (message.value(), local("message"), message.answer());
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        impl #parameters #private::Named<#hash, __Asking> for #ty #clause {
            type Message = #message_ty;
            type Reply = #ok;
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

/// What is sent, handed to the methods of a process that has them as the trait says.
fn plain(item: &ItemTrait, subject: &Subject, messages: &[Message]) -> TokenStream {
    let (private, ty) = (subject.private(), &subject.ty);
    let (process, this, mail) = (quote!(__Process), local("this"), local("mail"));
    let (_, arguments, _) = item.generics.split_for_impl();
    let name = &item.ident;
    let mut generics = subject.generics.clone();
    generics.params.push(parse_quote!(#process: #name #arguments + #private::Declared));
    let (parameters, _, clause) = generics.split_for_impl();
    let whose =
        Whose { this: this.to_token_stream(), path: quote!(<#process as #name #arguments>), process: process.clone() };
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
            fn deliver<'a>(#this: &'a mut #process, #mail: &mut #private::Mail<'_>) -> #private::Dispatched<'a> {
                #(#delivers)*
                #private::Dispatched::Unhandled
            }
        }
    }
}

/// What a trait of the standard library is told that has `#[process]` on one of its `impl`s.
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
