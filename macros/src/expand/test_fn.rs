//! `#[postroom::test]`: a test that runs under many seeded schedules.
//!
//! The user's function is emitted unchanged inside the real test, which prepares a simulation and runs the function in
//! it.

use crate::check::diagnostics::Diagnostics;
use crate::parse::options::TestOptions;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{FnArg, ItemFn};

pub(crate) fn expand(options: TokenStream, item: ItemFn) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = TestOptions::read(options, &mut diagnostics);
    check(&item, &mut diagnostics);
    if diagnostics.count() > 0 {
        let diagnostics = diagnostics.to_tokens();
        return quote!(#diagnostics #[allow(dead_code)] #item);
    }
    let krate = &options.krate;
    let settings = &options.settings;
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.sig.ident);
    let (signature, block) = (&item.sig, &item.block);
    let run = if item.sig.asyncness.is_some() { quote!(run_async) } else { quote!(run) };
    quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() {
            #signature #block
            #krate::test::Simulation::new(::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)))
                #(#settings)*
                .#run(#name)
        }
    }
}

fn check(item: &ItemFn, diagnostics: &mut Diagnostics) {
    let signature = &item.sig;
    if !signature.generics.params.is_empty() {
        diagnostics.on(&signature.generics, "a test cannot be generic", "remove it");
    }
    let what = "a simulated test takes the simulation, on which it spawns its processes";
    match (signature.inputs.len(), signature.inputs.first()) {
        (1, Some(FnArg::Typed(_))) => {}
        (0, _) => diagnostics.at(Span::call_site(), what, "write `sim: Sim` as the parameter of the function"),
        _ => diagnostics.on(&signature.inputs, what, "write `sim: Sim`"),
    }
}
