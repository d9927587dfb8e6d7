//! `#[process(inspect)]`: shows the fields that are not skipped, each by its own `Debug`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Fields, Ident, Index};

/// A struct, or a variant, with which of its fields are skipped.
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a Ident,
    /// Before the braces of a pattern.
    pub(crate) path: TokenStream,
    pub(crate) fields: &'a Fields,
    pub(crate) skipped: &'a [bool],
}

/// Returns the items of `Declared` for a type with these shapes.
pub(crate) fn items<'a>(shapes: impl Iterator<Item = Shape<'a>>) -> TokenStream {
    let f = Ident::new("f", Span::mixed_site());
    let arms: Vec<TokenStream> = shapes.map(|shape| arm(&shape, &f)).collect();
    let body = if arms.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) };
    quote! {
        const INSPECTED: bool = true;
        fn inspect(&self, #f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #body }
    }
}

fn arm(shape: &Shape<'_>, f: &Ident) -> TokenStream {
    let Shape { name, path, fields, skipped } = shape;
    let (name, out) = (name.to_string(), Ident::new("out", Span::mixed_site()));
    let name = name.trim_start_matches("r#");
    let is_tuple = matches!(fields, Fields::Unnamed(_));
    let (mut patterns, mut shown) = (Vec::new(), Vec::new());
    for (number, field) in fields.iter().enumerate() {
        let cfgs: Vec<_> = field.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
        if skipped[number] {
            if is_tuple {
                shown.push(quote!(#(#cfgs)* #out.field(&::core::format_args!(".."));));
            }
            continue;
        }
        let member = match &field.ident {
            Some(ident) => ident.to_token_stream(),
            None => Index::from(number).to_token_stream(),
        };
        // Where it is no `Debug`, the error is at its type.
        let binding = Ident::new(&format!("field_{number}"), Span::mixed_site().located_at(field.ty.span()));
        patterns.push(quote!(#(#cfgs)* #member: #binding));
        let text = field.ident.as_ref().map(|ident| ident.to_string().trim_start_matches("r#").to_owned());
        let name = text.map(|text| quote!(#text,));
        let call = quote_spanned!(field.ty.span()=> #out.field(#name #binding));
        shown.push(quote!(#(#cfgs)* #call;));
    }
    let begin = if is_tuple { quote!(debug_tuple) } else { quote!(debug_struct) };
    let end = if !is_tuple && skipped.contains(&true) { quote!(finish_non_exhaustive) } else { quote!(finish) };
    quote! {
        #path { #(#patterns,)* .. } => {
            #[allow(unused_mut)]
            let mut #out = #f.#begin(#name);
            #(#shown)*
            #out.#end()
        }
    }
}
