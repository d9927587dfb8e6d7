//! `#[message]`: a method that is called by sending.
//!
//! `#[message] fn deposit(&mut self, amount: i64)` makes the type `AccountDeposit { amount }`; `#[message(Tick)]` takes
//! a type that exists. Either way the process gets `Handles<that type>` with the types of its answer.

use crate::argument::Reply;
use crate::fault::Faults;
use crate::generics;
use crate::naming;
use crate::output::Output;
use crate::process::{Method, Subject};
use crate::text::text;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Generics, Ident, Lit, LitStr, Meta, Token, Type};

pub(crate) struct Message {
    pub(crate) method: Method,
    kind: Kind,
    /// Another message has this type already, which is a mistake: it is not generated again.
    repeated: bool,
}

enum Kind {
    Own { ident: Ident, generics: Generics },
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
                let fields: TokenStream = fields(&method).into_iter().map(|(_, ty, _)| quote!(#ty,)).collect();
                Kind::Own { ident, generics: generics::used_in(&subject.generics, &fields) }
            }
        };
        method.sound &= faults.count() == before;
        Self { method, kind, repeated }
    }

    /// The type made for this message, if one is.
    pub(crate) fn own_type(&self) -> Option<&Ident> {
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
                let fields = fields(&self.method).into_iter().map(|(name, ..)| name);
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
        let output = match &self.method.arguments.reply {
            Some(Reply::Once { answer }) => answer,
            Some(Reply::Stream { .. }) => &Output::Unit,
            None => &self.method.output,
        };
        (output.ok(), output.error())
    }

    /// The message type, if it is ours to make, and `Handles`.
    pub(crate) fn items(&self, subject: &Subject) -> TokenStream {
        if self.repeated {
            return TokenStream::new();
        }
        let definition = match &self.kind {
            Kind::Own { ident, generics } => self.definition(ident, generics, subject),
            Kind::Existing(_) => TokenStream::new(),
        };
        let (krate, process, ty) = (&subject.krate, &subject.ty, self.ty());
        let cfgs = self.method.cfgs().iter().chain(&subject.cfgs);
        let (parameters, _, clause) = subject.generics.split_for_impl();
        let (answer, error) = self.answer();
        quote! {
            #definition
            #(#cfgs)*
            #[automatically_derived]
            #[allow(trivial_bounds)]
            impl #parameters #krate::Handles<#ty> for #process #clause {
                type Reply = #answer;
                type Error = #error;
            }
        }
    }

    fn definition(&self, ident: &Ident, generics: &Generics, subject: &Subject) -> TokenStream {
        let (vis, marked) = (&self.method.vis, &self.method.marked);
        let (cfgs, attrs) = (marked.cfgs.iter().chain(&subject.cfgs), &marked.of_message);
        let docs = summary(
            &marked.docs,
            &format!("Calls `{}::{}` when sent.", subject.ident.unraw(), self.method.ident.unraw()),
        );
        let (_, _, clause) = generics.split_for_impl();
        let fields = fields(&self.method);
        let body = if fields.is_empty() {
            quote!(;)
        } else {
            let fields = fields.iter().map(|(name, ty, attrs)| {
                let undocumented = !attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
                let doc = undocumented
                    .then(|| format!("The argument `{}`.", name.unraw()))
                    .map(|text| quote!(#[doc = #text]));
                quote!(#doc #(#attrs)* #vis #name: #ty)
            });
            quote!(#clause { #(#fields),* })
        };
        quote! {
            #(#cfgs)* #docs #(#attrs)*
            #[allow(private_interfaces)]
            #vis struct #ident #generics #body
        }
    }
}

/// Name, type and attributes of the fields: the arguments, and the reply of a stream.
fn fields(method: &Method) -> Vec<(&Ident, &TokenStream, &[Attribute])> {
    let mut fields: Vec<(&Ident, &TokenStream, &[Attribute])> = Vec::new();
    for argument in &method.arguments.carried {
        fields.push((&argument.ident, &argument.ty, &argument.attrs));
    }
    if let Some(Reply::Stream { ident, ty, .. }) = &method.arguments.reply {
        fields.push((ident, ty, &[]));
    }
    fields
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

/// The first paragraph of a comment: the whole of it stands on the method. `otherwise` if there is none.
fn summary(docs: &[Attribute], otherwise: &str) -> TokenStream {
    let lines: Vec<&Attribute> =
        docs.iter().take_while(|doc| doc_text(doc).is_none_or(|text| !text.value().trim().is_empty())).collect();
    if lines.is_empty() { quote!(#[doc = #otherwise]) } else { quote!(#(#lines)*) }
}

fn doc_text(doc: &Attribute) -> Option<&LitStr> {
    match &doc.meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// A method's comment for the method generated after it. Examples turn into plain text: they are tested once, where
/// they stand.
pub(crate) fn docs(docs: &[Attribute], otherwise: &str) -> TokenStream {
    if docs.is_empty() {
        return quote!(#[doc = #otherwise]);
    }
    let mut fenced = false;
    docs.iter()
        .map(|doc| {
            let Some(line) = doc_text(doc) else { return doc.to_token_stream() };
            let value = line.value();
            let lines: Vec<String> = value
                .split('\n')
                .map(|line| {
                    let Some(fence) = line.trim_start().strip_prefix("```") else { return line.to_owned() };
                    fenced = !fenced;
                    if fenced { format!("{}```text", &line[..line.len() - fence.len() - 3]) } else { line.to_owned() }
                })
                .collect();
            let text = LitStr::new(&lines.join("\n"), line.span());
            quote!(#[doc = #text])
        })
        .collect()
}

/// A name for a local variable that no argument of the user can clash with.
pub(crate) fn local(name: &str) -> Ident {
    format_ident!("{name}", span = proc_macro2::Span::mixed_site())
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn examples_are_not_tested_twice() {
        let written: Vec<Attribute> = vec![
            parse_quote!(#[doc = " Adds."]),
            parse_quote!(#[doc = " ```"]),
            parse_quote!(#[doc = " a"]),
            parse_quote!(#[doc = " ```"]),
        ];
        let expected: Vec<Attribute> = vec![
            parse_quote!(#[doc = " Adds."]),
            parse_quote!(#[doc = " ```text"]),
            parse_quote!(#[doc = " a"]),
            parse_quote!(#[doc = " ```"]),
        ];
        assert_eq!(text(docs(&written, "")), text(quote!(#(#expected)*)));
    }

    #[test]
    fn a_message_type_gets_the_first_paragraph() {
        let written: Vec<Attribute> =
            vec![parse_quote!(#[doc = " Adds."]), parse_quote!(#[doc = ""]), parse_quote!(#[doc = " More."])];
        assert_eq!(text(summary(&written, "")), text(quote!(#[doc = " Adds."])));
        assert_eq!(text(summary(&[], "Other.")), text(quote!(#[doc = "Other."])));
    }
}
