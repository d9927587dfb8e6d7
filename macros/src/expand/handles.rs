//! The message type, unless it is the user's, and `Handles`, which defines the process's answer to it.

use super::{docs, lints, remote};
use crate::check::self_type::SelfType;
use crate::parse::message::{Message, MessageKind};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Generics, Ident};

/// Returns the message type and its `Handles`.
pub(crate) fn items(message: &Message, self_type: &SelfType) -> TokenStream {
    if message.repeated {
        return TokenStream::new();
    }
    let definition = match &message.kind {
        MessageKind::Own { ident, generics } => definition(message, ident, generics, self_type),
        MessageKind::Existing(_) => TokenStream::new(),
    };
    let (krate, process, ty) = (&self_type.krate, &self_type.ty, message.ty());
    let cfgs = message.method.cfgs().iter().chain(&self_type.cfgs);
    let (parameters, _, clause) = self_type.generics.split_for_impl();
    let (answer, error) = message.method.answer().parts(&self_type.private());
    quote! {
        #definition
        #(#cfgs)*
        #[automatically_derived]
        impl #parameters #krate::generic::Handles<#ty> for #process #clause {
            type Answer = #answer;
            type Error = #error;
        }
    }
}

/// Returns the message type, whose fields are the arguments.
fn definition(message: &Message, ident: &Ident, generics: &Generics, self_type: &SelfType) -> TokenStream {
    let (vis, marked) = (lints::generated_visibility(&message.method.vis), &message.method.marked);
    // An attribute for functions causes an error at the word `struct`. So the word has the span of that attribute,
    // where the error belongs.
    let is_other = |attribute: &&Attribute| !attribute.path().is_ident("derive") && !attribute.path().is_ident("serde");
    let at = marked.of_message.iter().find(is_other).map_or_else(Span::call_site, |attribute| attribute.span());
    let structure = quote_spanned!(at.resolved_at(Span::call_site())=> struct);
    let (cfgs, attrs) = (marked.cfgs.iter().chain(&self_type.cfgs), &marked.of_message);
    let docs = docs::summary(
        &marked.docs,
        &format!("Calls `{}::{}` when sent.", self_type.ident.unraw(), message.method.ident.unraw()),
    );
    let (_, _, clause) = generics.split_for_impl();
    let derive = message.remote.as_ref().map(|_| remote::derive(attrs, self_type));
    let fields = message.method.arguments.fields();
    let body = if fields.is_empty() {
        quote!(;)
    } else {
        let fields = fields.iter().map(|(name, ty, attrs)| {
            let undocumented = !attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
            let doc =
                undocumented.then(|| format!("The argument `{}`.", name.unraw())).map(|text| quote!(#[doc = #text]));
            let form = message.remote.as_ref().and_then(|_| remote::field(attrs, ty, self_type));
            quote!(#doc #(#attrs)* #form #vis #name: #ty)
        });
        quote!(#clause { #(#fields),* })
    };
    quote! {
        #(#cfgs)* #docs #derive #(#attrs)*
        #vis #structure #ident #generics #body
    }
}
