//! `#[process] impl`: reads the block, then generates everything from it.
//!
//! Rule: the user's block is emitted unchanged, without our attributes, and with a list of the generated methods in its
//! documentation. The message types, which the user can name, are emitted beside it; the rest is in a block of its own,
//! where names cannot clash. An invalid method is part of the generated types and signatures, so that code that uses it
//! still compiles, but it is never called.

use super::{actor, answers, client, docs, entries, handles, remote};
use crate::check::diagnostics::Diagnostics;
use crate::check::self_type::SelfType;
use crate::parse::process_impl::ProcessImpl;
use crate::parse::{marker, options};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{ImplItem, ItemImpl};

pub(crate) fn expand(options: TokenStream, mut item: ItemImpl) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = options::of_impl(options, item.trait_.is_some(), &mut diagnostics);
    options::twice(&mut item.attrs, &mut diagnostics);
    let Some(mut self_type) = SelfType::read(options.krate.clone(), &item, &mut diagnostics) else {
        strip(&mut item);
        let diagnostics = diagnostics.to_tokens();
        return quote!(#item #diagnostics);
    };
    if let Some((path, _)) = item.trait_.clone() {
        return answers::expand(self_type, path, item, diagnostics);
    }
    if options.remote {
        self_type.make_remote(&mut diagnostics);
    }
    let block = ProcessImpl::read(self_type, options, &mut item, &mut diagnostics);
    let entry_points = entries::items(&block);
    let messages = block.messages.iter().map(|message| handles::items(message, &block.self_type));
    let client = client::items(&block);
    let actor = actor::items(&block);
    let remote = remote::process(&block);
    item.attrs.extend(docs::methods(&block));
    let only = only_once(&block.self_type);
    let diagnostics = diagnostics.to_tokens();
    let cfgs = &block.self_type.cfgs;
    quote! {
        #item
        #diagnostics
        #only
        #(#messages)*
        #(#cfgs)*
        const _: () = { #client #entry_points #actor #remote };
    }
}

/// Returns an item that each block defines. Two blocks would define everything twice. The compiler's first error about
/// that shows the name of this item.
fn only_once(self_type: &SelfType) -> TokenStream {
    let name = format_ident!(
        "__postroom_{}_has_two_process_impls_write_one",
        self_type.ident.unraw(),
        span = self_type.ident.span().resolved_at(Span::call_site())
    );
    let cfgs = &self_type.cfgs;
    quote! {
        #(#cfgs)*
        struct #name;
    }
}

/// Removes our attributes and keeps the methods. Used when the type is invalid, so that nothing is generated.
fn strip(item: &mut ItemImpl) {
    let krate = syn::parse_quote!(postroom);
    for item in &mut item.items {
        if let ImplItem::Fn(method) = item {
            marker::take(&mut method.attrs, &krate, &mut Diagnostics::default());
        }
    }
}
