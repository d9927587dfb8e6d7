//! `#[message]`: a method that is called by sending.
//!
//! `#[message] fn deposit(&mut self, amount: i64)` makes the type `AccountDeposit { amount }`; `#[message(Tick)]` takes
//! a type that exists. Either way the process gets `Handles<that type>` with the types of its answer.

use crate::argument::Reply;
use crate::fault::Faults;
use crate::generics;
use crate::method::Method;
use crate::naming;
use crate::output::Output;
use crate::subject::Subject;
use crate::text::text;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Generics, Ident, Meta, Token, Type};

pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) kind: Kind,
    /// Another message has this type already, which is a mistake: it is not generated again.
    pub(crate) repeated: bool,
}

/// Where its type comes from.
pub(crate) enum Kind {
    /// Made here.
    Own { ident: Ident, generics: Generics },
    /// Of `#[message(Type)]`.
    Existing(Type),
}

impl Message {
    pub(crate) fn check(mut method: Method, subject: &Subject, others: &[Self], faults: &mut Faults) -> Self {
        let before = faults.count();
        let mut repeated = false;
        let name = method.ident.unraw().to_string();
        if let Some(why) = naming::reserved_for_messages(&name) {
            let what = format!("a message cannot be called `{name}`: {why}");
            faults.on(&method.ident, what, format!("rename it, for instance `do_{name}`"));
        }
        if matches!(method.output, Output::Never) {
            faults.on(&method.returns, "a message that never ends is never answered, nor is any after it", "remove it");
            method.output = Output::Unit;
        }
        if method.arguments.reply.is_some() && !matches!(method.output, Output::Unit) {
            faults.on(
                &method.returns,
                "a message is answered by its reply or by its return value, not by both",
                "remove it",
            );
        }
        let kind = match existing(&method, faults) {
            Some(ty) => {
                exactly_one(&method, &ty, faults);
                let same = others
                    .iter()
                    .find(|other| matches!(&other.kind, Kind::Existing(other) if text(other) == text(&ty)));
                if let Some(same) = same.filter(|same| same.method.present().is_none() || method.present().is_none()) {
                    let what = format!("`{}` is handled by `{}` already", text(&ty), same.method.ident);
                    faults.on(&ty, what, "handle it in one method, or write `#[message]` for a type of its own");
                    repeated = true;
                }
                Kind::Existing(ty)
            }
            None => {
                let ident = naming::message_type(&subject.ident, &method.ident);
                if let Some(same) = others.iter().find(|other| other.own_type() == Some(&ident))
                    && same.method.ident != method.ident
                {
                    let what = format!("`{}` and `{name}` would both be the message type `{ident}`", same.method.ident);
                    faults.on(&method.ident, what, format!("rename it, for instance `{name}_again`"));
                    repeated = true;
                }
                let fields: TokenStream =
                    method.arguments.fields().into_iter().map(|(_, ty, _)| quote!(#ty,)).collect();
                Kind::Own { ident, generics: generics::used_in(&subject.generics, &fields) }
            }
        };
        method.sound &= faults.count() == before;
        Self { method, kind, repeated }
    }

    /// The type made for this message, if one is.
    fn own_type(&self) -> Option<&Ident> {
        match &self.kind {
            Kind::Own { ident, .. } => Some(ident),
            Kind::Existing(_) => None,
        }
    }

    /// `AccountDeposit`, `CachePut<K, V>`, `Tick`.
    pub(crate) fn ty(&self) -> TokenStream {
        match &self.kind {
            Kind::Own { ident, generics } => {
                let (_, arguments, _) = generics.split_for_impl();
                quote!(#ident #arguments)
            }
            Kind::Existing(ty) => ty.to_token_stream(),
        }
    }

    /// Takes the message apart, or puts it together: `AccountDeposit { amount }`, `tick`.
    pub(crate) fn value(&self) -> TokenStream {
        match &self.kind {
            Kind::Own { ident, .. } => {
                let fields = self.method.arguments.fields().into_iter().map(|(name, ..)| name);
                quote!(#ident { #(#fields),* })
            }
            Kind::Existing(_) => {
                let names = self.method.names();
                names.first().map_or_else(|| quote!(_), |name| quote!(#name))
            }
        }
    }

    /// What an answer is made of: success and failure.
    pub(crate) fn answer(&self) -> (TokenStream, TokenStream) {
        (self.output().ok(), self.output().error())
    }

    fn output(&self) -> &Output {
        match &self.method.arguments.reply {
            Some(Reply::Once { answer }) => answer,
            Some(Reply::Stream { .. }) => &Output::Unit,
            None => &self.method.output,
        }
    }

    /// Has the compiler refuse an answer that is a `Result` by another name. (One that names parameters of the process
    /// is not known before these are.)
    pub(crate) fn refuse_alias(&self, subject: &Subject) -> Option<TokenStream> {
        let ty = self.output().suspect()?;
        if generics::names(&subject.generics).iter().any(|name| generics::occurs(name, ty)) {
            return None;
        }
        let (private, cfgs) = (subject.private(), self.method.cfgs().iter().chain(&subject.cfgs));
        let what = format!(
            "`{}::{}` answers with a `Result` by another name ({}), so that its error would be an answer: write `Result<…>`, or \
             name the alias `Result`",
            subject.ident.unraw(),
            self.method.ident.unraw(),
            text(ty),
        );
        let at = ty.span();
        Some(quote_spanned! {at=>
            #(#cfgs)*
            const _: () = {
                #[allow(unused_imports)]
                use #private::MayBeResult as _;
                ::core::assert!(!#private::AnswerType::<#ty>::IS_RESULT, #what);
            };
        })
    }
}

/// The type in `#[message(Type)]`.
fn existing(method: &Method, faults: &mut Faults) -> Option<Type> {
    let list = match &method.marked.marker.meta {
        Meta::Path(_) => return None,
        Meta::NameValue(wrong) => {
            faults.on(wrong, "`#[message]` is alone or names one type", "write `message`");
            return None;
        }
        Meta::List(list) => list,
    };
    let types = match list.parse_args_with(Punctuated::<Type, Token![,]>::parse_terminated) {
        Ok(types) => types,
        Err(_) => {
            faults.on(list, "`#[message]` is alone or names one type", "write `message`");
            return None;
        }
    };
    let mut types = types.into_iter();
    let Some(first) = types.next() else {
        faults.on(list, "`#[message()]` names no type", "write `message`");
        return None;
    };
    if types.next().is_some() {
        faults.on(&list.tokens, "a method handles one message type", format!("write `{}`", text(&first)));
    }
    Some(first)
}

/// A method for an existing type takes just this.
fn exactly_one(method: &Method, ty: &Type, faults: &mut Faults) {
    let marker = &method.marked.marker;
    if let Some(Reply::Stream { .. }) = &method.arguments.reply {
        let what =
            format!("`{}` has no place for `Replies`: only a type made here can be answered with a stream", text(ty));
        faults.on(marker, what, "write `#[message]`");
        return;
    }
    let [argument] = method.arguments.carried.as_slice() else {
        let what = format!("`#[message({0})]` handles a `{0}` and nothing else: it takes one argument", text(ty));
        faults.on(marker, what, "write `#[message]`");
        return;
    };
    let last = |ty: TokenStream| {
        text(ty).split('<').next().map(|path| path.rsplit(':').next().unwrap_or(path).trim().to_owned())
    };
    if last(argument.ty.clone()) != last(ty.to_token_stream()) {
        let what = format!("this method handles `{}`, as its `#[message(…)]` says", text(ty));
        faults.on(&argument.ty, what, format!("write `{}`", text(ty)));
    }
}
