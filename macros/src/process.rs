//! `#[process] impl`: read the block, then generate everything from what was read.
//!
//! Rule: the user's block goes out as it came, less our attributes. What the user can name, the message types, stands
//! beside it; the rest in a block of its own, where no name can clash. A faulty method takes part in the generated
//! types and signatures, so that code that uses it still compiles, but is never called.

use crate::block::Block;
use crate::fault::Faults;
use crate::subject::Subject;
use crate::{actor, answers, client, entries, handles, marker, options};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{ImplItem, ItemImpl};

pub(crate) fn expand(options: TokenStream, mut item: ItemImpl) -> TokenStream {
    let mut faults = Faults::default();
    let options = options::of_impl(options, item.trait_.is_some(), &mut faults);
    options::twice(&mut item.attrs, &mut faults);
    let Some(subject) = Subject::read(options.krate.clone(), &item, &mut faults) else {
        strip(&mut item);
        let faults = faults.to_tokens();
        return quote!(#item #faults);
    };
    if let Some((path, _)) = item.trait_.clone() {
        return answers::expand(subject, path, item, faults);
    }
    let block = Block::read(subject, options, &mut item, &mut faults);
    let entry_points = entries::items(&block);
    let messages = block.messages.iter().map(|message| handles::items(message, &block.subject));
    let client = client::items(&block);
    let actor = actor::items(&block);
    let only = only_once(&block.subject);
    let faults = faults.to_tokens();
    let cfgs = &block.subject.cfgs;
    quote! {
        #item
        #faults
        #only
        #(#messages)*
        #(#cfgs)*
        #[allow(trivial_bounds)]
        const _: () = { #client #entry_points #actor };
    }
}

/// Two blocks would make everything twice. The first the compiler says of it is the name of this.
fn only_once(subject: &Subject) -> TokenStream {
    let name = format_ident!("{}_has_two_process_impls_write_one", subject.ident.unraw(), span = subject.ident.span());
    let cfgs = &subject.cfgs;
    quote! {
        #(#cfgs)*
        #[allow(dead_code, non_camel_case_types)]
        struct #name;
    }
}

/// Without a subject nothing is generated: the methods stay, our attributes go.
fn strip(item: &mut ItemImpl) {
    let krate = syn::parse_quote!(postroom);
    for item in &mut item.items {
        if let ImplItem::Fn(method) = item {
            marker::take(&mut method.attrs, &krate, &mut Faults::default());
        }
    }
}
