//! `#[process]` on a struct or enum: implements `Declared`, and checks that the `impl` block exists.

use crate::check::attributes;
use crate::check::diagnostics::Diagnostics;
use crate::check::owned;
use crate::check::self_type::lifetime_fault;
use crate::expand::inspect::{self, Shape};
use crate::parse::inspect as parse_inspect;
use crate::parse::options::{self, TypeOptions};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Fields, GenericParam, Generics, Ident, ItemEnum, ItemStruct};

pub(crate) fn of_struct(options: TokenStream, mut item: ItemStruct) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    options::twice(&mut item.attrs, &mut diagnostics);
    let options = TypeOptions::read(options, &mut diagnostics);
    let skipped = parse_inspect::skipped(&mut item.fields, options.inspect, &mut diagnostics);
    let inspect = options.inspect.then(|| {
        let (name, fields, skipped) = (&item.ident, &item.fields, &skipped[..]);
        inspect::items([Shape { name, path: quote!(Self), fields, skipped }].into_iter())
    });
    let fields = [&item.fields];
    expand(
        Declared { options, inspect },
        &item.ident,
        &item.generics,
        fields.into_iter(),
        &item.attrs,
        item.to_token_stream(),
        diagnostics,
    )
}

pub(crate) fn of_enum(options: TokenStream, mut item: ItemEnum) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    options::twice(&mut item.attrs, &mut diagnostics);
    let options = TypeOptions::read(options, &mut diagnostics);
    let mut skipped = Vec::new();
    for variant in &mut item.variants {
        parse_inspect::not_on_variant(variant, &mut diagnostics);
        skipped.push(parse_inspect::skipped(&mut variant.fields, options.inspect, &mut diagnostics));
    }
    let inspect = options.inspect.then(|| {
        inspect::items(item.variants.iter().zip(&skipped).map(|(variant, skipped)| {
            let (name, fields) = (&variant.ident, &variant.fields);
            let cfgs = attributes::cfgs(&variant.attrs);
            Shape { name, path: quote!(#(#cfgs)* Self::#name), fields, skipped }
        }))
    });
    let fields = item.variants.iter().map(|variant| &variant.fields);
    expand(
        Declared { options, inspect },
        &item.ident,
        &item.generics,
        fields,
        &item.attrs,
        item.to_token_stream(),
        diagnostics,
    )
}

/// The options of the attribute.
struct Declared {
    options: TypeOptions,
    /// The items that show the state.
    inspect: Option<TokenStream>,
}

fn expand<'a>(
    declared: Declared,
    ident: &Ident,
    generics: &Generics,
    fields: impl Iterator<Item = &'a Fields>,
    attrs: &[Attribute],
    item: TokenStream,
    mut diagnostics: Diagnostics,
) -> TokenStream {
    let Declared { options, inspect } = declared;
    lifetimes(generics, fields, &mut diagnostics);
    let krate = &options.krate;
    let name = options.name.map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let (ends_on_error, skips_abandoned) = (options.ends_on_error, options.skips_abandoned);
    let placement = if options.pinned { quote!(OnItsThread) } else { quote!(OnWorkers) };
    let (parameters, arguments, clause) = generics.split_for_impl();
    let cfgs = attributes::cfgs(attrs);
    // Generic types cannot be checked here. For such a type, a missing `impl` block is reported at the first `spawn`.
    let check = generics.params.is_empty().then(|| {
        let at = ident.span().resolved_at(Span::call_site());
        let check = quote_spanned!(at=> process::<#ident>());
        quote! {
            #(#cfgs)*
            const _: () = {
                const fn process<P: #krate::generic::Actor>() {}
                #check
            };
        }
    });
    let diagnostics = diagnostics.to_tokens();
    quote! {
        #item
        #diagnostics
        #(#cfgs)*
        #[automatically_derived]
        impl #parameters #krate::__private::Declared for #ident #arguments #clause {
            const NAME: &'static ::core::primitive::str = #name;
            const ENDS_ON_ERROR: ::core::primitive::bool = #ends_on_error;
            const SKIPS_ABANDONED: ::core::primitive::bool = #skips_abandoned;
            type Placement = #krate::__private::#placement;
            #inspect
        }
        #check
    }
}

/// Reports a process that borrows: its lifetime, and every field that needs it.
fn lifetimes<'a>(generics: &Generics, fields: impl Iterator<Item = &'a Fields>, diagnostics: &mut Diagnostics) {
    let Some(first) = generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) else { return };
    let all_lifetimes = generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_)));
    let what = lifetime_fault(first);
    if all_lifetimes {
        diagnostics.on(generics, what, "remove it");
    } else {
        diagnostics.on(first, what, "remove it, and own what it borrows");
    }
    for field in fields.flat_map(Fields::iter) {
        owned::check(&field.ty, "a process's field", diagnostics);
    }
}
