//! `#[process]` on a struct or enum: its name, what an error does, and that the other half exists.

use crate::fault::Faults;
use crate::options::{self, Declaration};
use crate::owned;
use crate::subject::lifetime_fault;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Fields, GenericParam, Generics, Ident, ItemEnum, ItemStruct};

pub(crate) fn of_struct(options: TokenStream, mut item: ItemStruct) -> TokenStream {
    let mut faults = Faults::default();
    options::twice(&mut item.attrs, &mut faults);
    let fields = [&item.fields];
    expand(options, &item.ident, &item.generics, fields.into_iter(), &item.attrs, item.to_token_stream(), faults)
}

pub(crate) fn of_enum(options: TokenStream, mut item: ItemEnum) -> TokenStream {
    let mut faults = Faults::default();
    options::twice(&mut item.attrs, &mut faults);
    let fields = item.variants.iter().map(|variant| &variant.fields);
    expand(options, &item.ident, &item.generics, fields, &item.attrs, item.to_token_stream(), faults)
}

fn expand<'a>(
    options: TokenStream,
    ident: &Ident,
    generics: &Generics,
    fields: impl Iterator<Item = &'a Fields>,
    attrs: &[Attribute],
    item: TokenStream,
    mut faults: Faults,
) -> TokenStream {
    let options = Declaration::read(options, &mut faults);
    lifetimes(generics, fields, &mut faults);
    let krate = &options.krate;
    let name = options.name.map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let ends_on_error = options.ends_on_error;
    let placement = if options.pinned { quote!(OnItsThread) } else { quote!(OnWorkers) };
    let (parameters, arguments, clause) = generics.split_for_impl();
    let cfgs: Vec<&Attribute> = attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    // Of a generic type nothing is known here about its parameters; there the first `spawn` says that a half is
    // missing.
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
    let faults = faults.to_tokens();
    quote! {
        #item
        #faults
        #(#cfgs)*
        #[automatically_derived]
        impl #parameters #krate::__private::Declared for #ident #arguments #clause {
            const NAME: &'static str = #name;
            const ENDS_ON_ERROR: bool = #ends_on_error;
            type Placement = #krate::__private::#placement;
        }
        #check
    }
}

/// A process that borrows: the lifetime is a mistake, and so is every field that needs it.
fn lifetimes<'a>(generics: &Generics, fields: impl Iterator<Item = &'a Fields>, faults: &mut Faults) {
    let Some(first) = generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) else { return };
    let all_lifetimes = generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_)));
    let what = lifetime_fault(first);
    if all_lifetimes {
        faults.on(generics, what, "remove it");
    } else {
        faults.on(first, what, "remove it, and own what it borrows");
    }
    for field in fields.flat_map(Fields::iter) {
        owned::check(&field.ty, "a process's field", faults);
    }
}
