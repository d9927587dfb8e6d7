//! The message type, where it is ours to make, and `Handles`: what the process answers to it.

use crate::docs;
use crate::message::{Kind, Message};
use crate::subject::Subject;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Generics, Ident};

/// Both for one message.
pub(crate) fn items(message: &Message, subject: &Subject) -> TokenStream {
    if message.repeated {
        return TokenStream::new();
    }
    let definition = match &message.kind {
        Kind::Own { ident, generics } => definition(message, ident, generics, subject),
        Kind::Existing(_) => TokenStream::new(),
    };
    let (krate, process, ty) = (&subject.krate, &subject.ty, message.ty());
    let cfgs = message.method.cfgs().iter().chain(&subject.cfgs);
    let (parameters, _, clause) = subject.generics.split_for_impl();
    let (answer, error) = message.answer();
    let no_alias = message.refuse_alias(subject);
    quote! {
        #definition
        #no_alias
        #(#cfgs)*
        #[automatically_derived]
        #[allow(trivial_bounds)]
        impl #parameters #krate::generic::Handles<#ty> for #process #clause {
            type Reply = #answer;
            type Error = #error;
        }
    }
}

/// The type: the arguments are its fields.
fn definition(message: &Message, ident: &Ident, generics: &Generics, subject: &Subject) -> TokenStream {
    let (vis, marked) = (&message.method.vis, &message.method.marked);
    let (cfgs, attrs) = (marked.cfgs.iter().chain(&subject.cfgs), &marked.of_message);
    let docs = docs::summary(
        &marked.docs,
        &format!("Calls `{}::{}` when sent.", subject.ident.unraw(), message.method.ident.unraw()),
    );
    let (_, _, clause) = generics.split_for_impl();
    let fields = message.method.arguments.fields();
    let body = if fields.is_empty() {
        quote!(;)
    } else {
        let fields = fields.iter().map(|(name, ty, attrs)| {
            let undocumented = !attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
            let doc =
                undocumented.then(|| format!("The argument `{}`.", name.unraw())).map(|text| quote!(#[doc = #text]));
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
