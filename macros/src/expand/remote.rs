//! `remote`: serde's derives on message types, and `impl Remote`, which shows messages and entries to a visitor.
//!
//! The derives come from the runtime, so that a crate with remote processes does not depend on serde itself. Each field
//! is serialized and deserialized by functions of the trait `RemoteField`. So if a type lacks serde's traits, the error
//! is reported at the field, with help. Both functions cause the same error, which the compiler shows once.

use super::entries::placed;
use super::{by_name, lints};
use crate::check::attributes;
use crate::check::bare;
use crate::check::self_type::{SelfType, respan};
use crate::check::text::text;
use crate::parse::argument::{Argument, Reply};
use crate::parse::entry::Entry;
use crate::parse::message::{Message, MessageKind, RemoteOptions};
use crate::parse::naming::{hidden_type, local};
use crate::parse::output::Output;
use crate::parse::process_impl::ProcessImpl;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, LitStr, Meta, Path, Token, Type};

/// Returns the derives of a message type, except for those in the user's attributes.
pub(crate) fn derive(attrs: &[Attribute], self_type: &SelfType) -> TokenStream {
    let private = self_type.private();
    let wanted = ["Serialize", "Deserialize"].into_iter().filter_map(|name| {
        let ident = format_ident!("{name}");
        attributes::unless(attrs, quote!(derive(#private::serde::#ident)), |meta| derives(meta, name))
    });
    let wanted: Vec<TokenStream> = wanted.collect();
    if wanted.is_empty() {
        return TokenStream::new();
    }
    let serde = LitStr::new(&text(quote!(#private::serde)), Span::call_site());
    quote!(#(#wanted)* #[serde(crate = #serde)])
}

fn derives(meta: &Meta, name: &str) -> bool {
    let Meta::List(list) = meta else { return false };
    let paths = list.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
    let is_it = |path: &Path| path.segments.last().is_some_and(|last| last.ident == name);
    list.path.is_ident("derive") && paths.is_ok_and(|paths| paths.iter().any(is_it))
}

/// Returns the attribute of a field of a remote message, unless the user's attributes define how it is encoded.
pub(crate) fn field(attrs: &[Attribute], ty: &TokenStream, self_type: &SelfType) -> Option<TokenStream> {
    const FORMS: [&str; 8] = [
        "borrow",
        "deserialize_with",
        "flatten",
        "serialize_with",
        "skip",
        "skip_deserializing",
        "skip_serializing",
        "with",
    ];
    // An `Option` is left to serde's own code, which accepts its absence from a message with named fields.
    if is_option(ty) {
        return None;
    }
    let has_form = |meta: &Meta| match meta {
        Meta::List(list) if list.path.is_ident("serde") => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parts.map_or(true, |parts| parts.iter().any(|part| FORMS.iter().any(|form| part.path().is_ident(form))))
        }
        _ => false,
    };
    let private = self_type.private();
    // These tokens have the span of the type, so that errors about the type point to it.
    let at = ty.span().resolved_at(Span::call_site());
    let [write, read] = ["write", "read"].map(|function| {
        let function = format_ident!("{function}");
        LitStr::new(&text(quote!(<#ty as #private::RemoteField>::#function)), at)
    });
    attributes::unless(attrs, quote!(serde(serialize_with = #write, deserialize_with = #read)), has_form)
}

fn is_option(ty: &TokenStream) -> bool {
    syn::parse2::<Type>(ty.clone()).is_ok_and(|ty| {
        bare::path(&ty).is_some_and(|path| path.path.segments.last().is_some_and(|last| last.ident == "Option"))
    })
}

/// Returns `impl Remote` of a process.
pub(crate) fn process(block: &ProcessImpl) -> TokenStream {
    let self_type = &block.self_type;
    if !self_type.travels {
        return TokenStream::new();
    }
    let (private, ty, visitor) = (self_type.private(), &self_type.ty, local("visitor"));
    let visits = hidden_type("Visitor");
    let (_, _, clause) = self_type.generics.split_for_impl();
    let entries = placed(&block.entries);
    let entries = entries.iter().filter_map(|(index, entry)| entry_of(entry, index, self_type));
    let messages = block.messages.iter().filter_map(|message| message_of(message, self_type));
    let protocols = &block.protocols;
    let allowed = lints::allowed([]);
    quote! {
        #[automatically_derived]
        #allowed
        impl #private::Remote for #ty #clause {
            fn describe<#visits: #private::RemoteVisitor>(#visitor: &mut #visits) {
                #(#entries)*
                #(#messages)*
                #({
                    use #private::{IsLocalProtocol as _, IsRemoteProtocol as _};
                    (&&#private::RemoteProtocolProbe::<dyn #protocols>::THIS).__postroom_describe(#visitor);
                })*
            }
        }
    }
}

/// Returns `impl RemoteProtocol` of a protocol.
pub(crate) fn protocol(self_type: &SelfType, messages: &[Message]) -> TokenStream {
    if !self_type.travels {
        return TokenStream::new();
    }
    let (private, ty, visitor) = (self_type.private(), &self_type.ty, local("visitor"));
    let visits = hidden_type("Visitor");
    let messages = messages.iter().filter_map(|message| message_of(message, self_type));
    let allowed = lints::allowed([]);
    quote! {
        #[automatically_derived]
        #allowed
        impl #private::RemoteProtocol for #ty {
            fn describe<#visits: #private::RemoteVisitor>(#visitor: &mut #visits) {
                #(#messages)*
            }
        }
    }
}

/// Returns the statement that shows a message to the visitor.
fn message_of(message: &Message, self_type: &SelfType) -> Option<TokenStream> {
    let method = &message.method;
    let options = message.remote.as_ref().filter(|_| method.sound && !message.repeated)?;
    let (private, cfgs, visitor) = (self_type.private(), method.cfgs(), local("visitor"));
    let name = match &options.name {
        Some(name) => quote!(#name),
        None => name(self_type, &method.ident.unraw().to_string()),
    };
    let RemoteOptions { named, .. } = options;
    let codec = if *named { quote!(Named) } else { quote!(Compact) };
    let schema = schema_of(message);
    let (ty, (ok, error), at) = (message.ty(), message.answer(self_type), place(message));
    // These tokens have the span of the answer's type, so that errors about the type point to it.
    let (ok, error) = (respan(ok, at), respan(error, at));
    let show = quote_spanned!(at=> #private::RemoteAnswer::<#error>::__postroom_show::<_, #ty, #ok, #error>);
    Some(quote! {
        #(#cfgs)*
        {
            use #private::FallibleRemoteAnswer as _;
            #show(
                #visitor,
                #private::RemoteMessage { name: #name, schema: #schema, codec: #private::WireCodec::#codec },
            );
        }
    })
}

/// Returns the span of the type of a message's answer.
fn place(message: &Message) -> Span {
    let first = message.method.answer().ty().into_iter().next();
    let at = match (first, &message.method.returns, &message.method.arguments.reply) {
        (Some(first), ..) if !matches!(message.method.answer(), Output::Unit) => first.span(),
        _ => message.method.ident.span(),
    };
    at.resolved_at(Span::call_site())
}

/// Returns the name of a message or entry on all nodes. The package is that of the user's crate.
fn name(self_type: &SelfType, method: &str) -> TokenStream {
    let rest = format!("::{}::{method}", self_type.ident.unraw());
    quote!(::core::concat!(::core::env!("CARGO_PKG_NAME"), #rest))
}

/// Returns the names and types of the fields, and the type of the answer, as written.
fn schema_of(message: &Message) -> String {
    let fields = match &message.kind {
        MessageKind::Own { .. } => fields(&message.method.arguments.carried),
        MessageKind::Existing(ty) => text(ty),
    };
    let answer = match &message.method.arguments.reply {
        Some(Reply::Once { answer }) => format!("-> {}", text(answer.ty())),
        _ => text(&message.method.returns),
    };
    format!("({fields}) {answer}").trim_end().to_owned()
}

fn is_of_serde(attribute: &&Attribute) -> bool {
    attributes::path(attribute).is_ident("serde")
}

fn fields(carried: &[Argument]) -> String {
    let each = carried.iter().map(|argument| {
        let forms = argument.attrs.iter().filter(is_of_serde).map(text);
        let field = format!("{}: {}", argument.ident.unraw(), text(&argument.ty));
        forms.chain([field]).collect::<Vec<_>>().join(" ")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the statement that shows an entry to the visitor.
fn entry_of(entry: &Entry, index: &TokenStream, self_type: &SelfType) -> Option<TokenStream> {
    let (method, private) = (&entry.method, self_type.private());
    if !entry.remote || !method.sound {
        return None;
    }
    let (cfgs, visitor, payloads, inputs) = (method.cfgs(), local("visitor"), local("payloads"), local("inputs"));
    let (carried, visits, held) = (&method.arguments.carried, hidden_type("Visitor"), hidden_type("Inputs"));
    let (name, entry) = (name(self_type, &entry.name()), entry.name());
    let schema = format!("({})", fields(carried));
    let (derive, names) = (derive(&[], self_type), method.names());
    let fields = carried.iter().map(|argument| {
        let (name, ty, attrs) = (&argument.ident, &argument.ty, &argument.attrs);
        let attrs = attrs.iter().filter(is_of_serde).collect::<Vec<_>>();
        let form = field(&argument.attrs, ty, self_type);
        quote!(#(#attrs)* #form #name: #ty)
    });
    let takes = by_name::takes(carried, &private);
    // Without arguments only the number of inputs is checked.
    let mutable = (!carried.is_empty()).then(|| quote!(mut));
    Some(quote! {
        #(#cfgs)*
        {
            #derive
            struct #held { #(#fields),* }
            <#visits as #private::RemoteVisitor>::entry::<#held>(
                #visitor,
                #private::RemoteEntry {
                    name: #name,
                    schema: #schema,
                    process: <Self as #private::Declared>::NAME,
                    entry: #entry,
                    from_payloads: |#payloads| {
                        let #inputs = #private::Inputs::values(#payloads);
                        let #mutable #inputs = #private::Inputs::check::<Self>(#inputs, #index)?;
                        #takes
                        ::core::result::Result::Ok(#held { #(#names),* })
                    },
                    into_payloads: |#held { #(#names),* }| {
                        ::core::iter::FromIterator::from_iter([#(#private::Payload::new(#names)),*])
                    },
                },
            );
        }
    })
}
