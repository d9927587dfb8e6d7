//! `#[postroom::main]`: `main` inside a runtime.
//!
//! The user's function goes inside the real `main`, as it was written; the real one makes the runtime and runs it.

use crate::fault::Faults;
use crate::naming::local;
use crate::options;
use crate::text::text;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{FnArg, ItemFn, Pat, ReturnType, Type};

pub(crate) fn expand(options: TokenStream, item: ItemFn) -> TokenStream {
    let mut faults = Faults::default();
    let options = options::Main::read(options, &mut faults);
    check(&item, &mut faults);

    let krate = &options.krate;
    let workers = match &options.workers {
        Some(workers) => quote!(::core::option::Option::Some(#workers)),
        None => quote!(::core::option::Option::None),
    };
    let (attrs, vis, name, output) = (&item.attrs, &item.vis, &item.sig.ident, &item.sig.output);
    if item.sig.ident != "main" {
        let faults = faults.to_tokens();
        return quote!(#item #faults);
    }
    if faults.count() > 0 {
        let faults = faults.to_tokens();
        let body = if matches!(output, ReturnType::Default) { quote!() } else { quote!(::core::unreachable!()) };
        return quote!(#faults #vis fn #name() #output { #[allow(dead_code)] #item #body });
    }
    let (signature, block) = (&item.sig, &item.block);
    let runtime = local("runtime");
    let passed = (!item.sig.inputs.is_empty()).then(|| quote!(&#runtime));
    let run = match item.sig.asyncness {
        Some(_) => quote!(#runtime.block_on(#name(#passed))),
        None => quote!(#name(#passed)),
    };
    quote! {
        #(#attrs)*
        #vis fn #name() #output {
            #signature #block
            let #runtime = #krate::__private::main_runtime(#workers);
            #run
        }
    }
}

fn check(item: &ItemFn, faults: &mut Faults) {
    let signature = &item.sig;
    if signature.ident != "main" {
        let what = "`#[postroom::main]` goes on the program's `main`";
        faults.at(Span::call_site(), what, "remove it, or call the function `main`");
    }
    if !signature.generics.params.is_empty() {
        faults.on(&signature.generics, "`main` cannot be generic", "remove it");
    }
    let what = "`main` gets the runtime or nothing";
    match signature.inputs.len() {
        0 => {}
        1 => {
            let Some(FnArg::Typed(input)) = signature.inputs.first() else {
                return faults.on(&signature.inputs, what, "write `runtime: &Runtime`");
            };
            let right = matches!(&*input.ty, Type::Reference(reference)
                if reference.mutability.is_none() && text(&reference.elem).split("::").last() == Some("Runtime"));
            if !right {
                let name = match &*input.pat {
                    Pat::Ident(pat) => pat.ident.to_string(),
                    _ => "runtime".to_owned(),
                };
                faults.on(input, what, format!("write `{name}: &Runtime`"));
            }
        }
        _ => faults.on(&signature.inputs, what, "write `runtime: &Runtime`"),
    }
}
