//! `#[postroom::main]`: `main` inside a runtime.
//!
//! The user's function is emitted unchanged inside the real `main`, which builds the runtime and runs the function.

use crate::check::diagnostics::Diagnostics;
use crate::check::text::text;
use crate::parse::naming::local;
use crate::parse::options;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{FnArg, ItemFn, Pat, ReturnType, Type};

pub(crate) fn expand(options: TokenStream, item: ItemFn) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = options::MainOptions::read(options, &mut diagnostics);
    check(&item, &mut diagnostics);

    let krate = &options.krate;
    let workers = match &options.workers {
        Some(workers) => quote!(::core::option::Option::Some(#workers)),
        None => quote!(::core::option::Option::None),
    };
    let (attrs, vis, name, output) = (&item.attrs, &item.vis, &item.sig.ident, &item.sig.output);
    if item.sig.ident != "main" {
        let diagnostics = diagnostics.to_tokens();
        return quote!(#item #diagnostics);
    }
    if diagnostics.count() > 0 {
        let diagnostics = diagnostics.to_tokens();
        let body = if matches!(output, ReturnType::Default) { quote!() } else { quote!(::core::unreachable!()) };
        return quote!(#diagnostics #vis fn #name() #output { #[allow(dead_code)] #item #body });
    }
    let (signature, block) = (&item.sig, &item.block);
    let runtime = local("runtime");
    let passed = (!item.sig.inputs.is_empty()).then(|| quote!(&#runtime));
    let run = match item.sig.asyncness {
        Some(_) => quote!(#krate::Runtime::block_on(&#runtime, #name(#passed))),
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

fn check(item: &ItemFn, diagnostics: &mut Diagnostics) {
    let signature = &item.sig;
    if signature.ident != "main" {
        let what = "`#[postroom::main]` goes on the program's `main`";
        diagnostics.at(Span::call_site(), what, "remove it, or call the function `main`");
    }
    if !signature.generics.params.is_empty() {
        diagnostics.on(&signature.generics, "`main` cannot be generic", "remove it");
    }
    let what = "`main` takes the runtime or nothing";
    match signature.inputs.len() {
        0 => {}
        1 => {
            let Some(FnArg::Typed(input)) = signature.inputs.first() else {
                return diagnostics.on(&signature.inputs, what, "write `runtime: &Runtime`");
            };
            let right = matches!(&*input.ty, Type::Reference(reference)
                if reference.mutability.is_none() && text(&reference.elem).split("::").last() == Some("Runtime"));
            if !right {
                let name = match &*input.pat {
                    Pat::Ident(pat) => pat.ident.to_string(),
                    _ => "runtime".to_owned(),
                };
                diagnostics.on(input, what, format!("write `{name}: &Runtime`"));
            }
        }
        _ => diagnostics.on(&signature.inputs, what, "write `runtime: &Runtime`"),
    }
}
