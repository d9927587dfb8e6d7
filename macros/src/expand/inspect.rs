//! `#[process(inspect)]` and `#[message(inspect)]`: code that shows the fields or arguments that are not skipped, each
//! by its own `Debug`.

use crate::check::attributes;
use crate::parse::argument::Reply;
use crate::parse::message::{Message, MessageKind};
use crate::parse::naming::local;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Fields, Ident, Index, Path};

/// A struct or a variant, and which of its fields are skipped.
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a Ident,
    /// The path before the braces of a pattern.
    pub(crate) path: TokenStream,
    pub(crate) fields: &'a Fields,
    pub(crate) skipped: &'a [bool],
}

/// Returns the items of `Declared` for a type with these shapes.
pub(crate) fn items<'a>(shapes: impl Iterator<Item = Shape<'a>>) -> TokenStream {
    let f = local("f");
    let arms: Vec<TokenStream> = shapes.map(|shape| arm(&shape, &f)).collect();
    let body = if arms.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) };
    quote! {
        const INSPECTED: ::core::primitive::bool = true;
        fn inspect(&self, #f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #body }
    }
}

fn arm(shape: &Shape<'_>, f: &Ident) -> TokenStream {
    let Shape { name, path, fields, skipped } = shape;
    let (name, out) = (name.to_string(), local("out"));
    let name = name.trim_start_matches("r#");
    let is_tuple = matches!(fields, Fields::Unnamed(_));
    let builder = if is_tuple { quote!(::core::fmt::DebugTuple) } else { quote!(::core::fmt::DebugStruct) };
    let (mut patterns, mut shown) = (Vec::new(), Vec::new());
    for (number, field) in fields.iter().enumerate() {
        let cfgs = attributes::cfgs(&field.attrs);
        if skipped[number] {
            if is_tuple {
                shown.push(quote!(#(#cfgs)* #builder::field(&mut #out, &::core::format_args!(".."));));
            }
            continue;
        }
        let member = match &field.ident {
            Some(ident) => ident.to_token_stream(),
            None => Index::from(number).to_token_stream(),
        };
        // If the type does not implement `Debug`, the error is reported at the type.
        let binding = Ident::new(&format!("__postroom_field_{number}"), Span::mixed_site().located_at(field.ty.span()));
        patterns.push(quote!(#(#cfgs)* #member: #binding));
        let text = field.ident.as_ref().map(|ident| ident.to_string().trim_start_matches("r#").to_owned());
        let name = text.map(|text| quote!(#text,));
        let call = quote_spanned!(field.ty.span()=> #builder::field(&mut #out, #name #binding));
        shown.push(quote!(#(#cfgs)* #call;));
    }
    let begin = if is_tuple { quote!(debug_tuple) } else { quote!(debug_struct) };
    let end = if !is_tuple && skipped.contains(&true) { quote!(finish_non_exhaustive) } else { quote!(finish) };
    quote! {
        #path { #(#patterns,)* .. } => {
            let mut #out = ::core::fmt::Formatter::#begin(#f, #name);
            #(#shown)*
            #builder::#end(&mut #out)
        }
    }
}

/// Returns the function that shows one of these `messages` or a message of the `protocols`. Returns no tokens if none
/// of these messages may be shown.
pub(crate) fn messages(messages: &[Message], protocols: &[Path], private: &TokenStream) -> TokenStream {
    if protocols.is_empty() && !messages.iter().any(|message| message.inspect) {
        return TokenStream::new();
    }
    let (mail, f, found, some) = (local("mail"), local("f"), local("found"), quote!(::core::option::Option::Some));
    let shown = messages.iter().filter(|message| message.inspect && message.method.sound).map(|message| {
        let (cfgs, ty, value, shown) = (message.method.cfgs(), message.ty(), pattern(message), shown(message, &f));
        quote!(#(#cfgs)* if let #some(#value) = #private::Mail::peek::<#ty>(#mail) { return #some(#shown); })
    });
    quote! {
        fn show_message(
            #mail: &mut #private::Mail<'_>,
            #f: &mut ::core::fmt::Formatter<'_>,
        ) -> ::core::option::Option<::core::fmt::Result> {
            #(#shown)*
            #(
                if let #some(#found) = <dyn #protocols as #private::Protocol>::show_message(#mail, #f) {
                    return #some(#found);
                }
            )*
            ::core::option::Option::None
        }
    }
}

/// Returns the name of an argument that is shown. If its type does not implement `Debug`, the error is reported at the
/// type.
fn binding(number: usize, ty: &TokenStream) -> Ident {
    Ident::new(&format!("__postroom_argument_{number}"), Span::mixed_site().located_at(ty.span()))
}

fn pattern(message: &Message) -> TokenStream {
    let carried = &message.method.arguments.carried;
    let shown = carried.iter().enumerate().filter(|(_, argument)| argument.skip.is_none());
    let bindings = shown.map(|(number, argument)| (&argument.ident, binding(number, &argument.ty)));
    match &message.kind {
        MessageKind::Own { ident, .. } => {
            let bindings = bindings.map(|(name, binding)| quote!(#name: #binding));
            quote!(#ident { #(#bindings,)* .. })
        }
        MessageKind::Existing(_) => {
            let binding = bindings.map(|(_, binding)| binding.to_token_stream()).next();
            binding.unwrap_or_else(|| quote!(_))
        }
    }
}

fn shown(message: &Message, f: &Ident) -> TokenStream {
    let (out, method) = (local("out"), &message.method);
    let carried = &method.arguments.carried;
    if let (MessageKind::Existing(_), [argument]) = (&message.kind, &carried[..]) {
        if argument.skip.is_some() {
            return quote!(::core::fmt::Formatter::write_str(#f, ".."));
        }
        let binding = binding(0, &argument.ty);
        return quote_spanned!(argument.ty.span()=> ::core::fmt::Debug::fmt(#binding, #f));
    }
    let fields =
        carried.iter().enumerate().filter(|(_, argument)| argument.skip.is_none()).map(|(number, argument)| {
            let (name, binding) = (argument.ident.unraw().to_string(), binding(number, &argument.ty));
            quote_spanned!(argument.ty.span()=> ::core::fmt::DebugStruct::field(&mut #out, #name, #binding);)
        });
    let has_more = method.arguments.skip().is_some() || matches!(method.arguments.reply, Some(Reply::Stream { .. }));
    let end = if has_more { quote!(finish_non_exhaustive) } else { quote!(finish) };
    let name = method.ident.unraw().to_string();
    quote!({
        let mut #out = ::core::fmt::Formatter::debug_struct(#f, #name);
        #(#fields)*
        ::core::fmt::DebugStruct::#end(&mut #out)
    })
}
