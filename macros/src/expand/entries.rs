//! Entries: methods of a struct that the spawn builder dereferences to, and match arms of the start by name.

use super::by_name;
use super::{docs, lints};
use crate::check::self_type::{SelfType, kept};
use crate::parse::entry::Entry;
use crate::parse::naming::local;
use crate::parse::output::{Asked, Output, describe};
use crate::parse::process_impl::ProcessImpl;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, LitStr};

/// Returns the struct that the spawn builder dereferences to.
pub(crate) fn items(block: &ProcessImpl) -> TokenStream {
    let (self_type, points) = (&block.self_type, &block.entry_points);
    let (private, ty, ident) = (self_type.private(), &self_type.ty, self_type.ident.unraw());
    let mut generics = self_type.generics.clone();
    // The where clause of the impl is needed because a field contains the state. In that clause, `Self` is the process,
    // not this struct.
    generics.where_clause =
        generics.where_clause.and_then(|clause| syn::parse2(crate::parse::generics::without_self(clause, ty)).ok());
    let (parameters, arguments, clause) = generics.split_for_impl();
    let doc = LitStr::new(&format!("The entries of `{ident}`, as methods of what `spawn` gives."), Span::call_site());
    let futures = block.entries.iter().map(|entry| future(entry, self_type));
    let placed = placed(&block.entries);
    let starters = placed.iter().map(|(index, entry)| starter(entry, index, block));
    let allowed = lints::allowed(block.entries.iter().map(|entry| &entry.method));
    quote! {
        #[doc = #doc]
        pub struct #points #generics #clause { spawn: #private::SpawnCore<#ty> }

        #allowed
        impl #parameters #points #arguments #clause {
            #(#futures)*
            #(#starters)*
        }
    }
}

/// Returns the method of the spawn builder for an entry.
fn starter(entry: &Entry, index: &TokenStream, block: &ProcessImpl) -> TokenStream {
    let self_type = &block.self_type;
    let (krate, ty, method) = (&self_type.krate, &self_type.ty, &entry.method);
    let (cfgs, deprecated, inputs) = (method.cfgs(), &method.marked.deprecated, method.parameters());
    let (vis, name) = (lints::generated_visibility(&method.vis), lints::generated(&method.ident));
    let docs =
        docs::whole(&method.marked.docs, &format!("Starts a `{}` at `{}`.", self_type.ident.unraw(), entry.name()));
    let started = if method.is_async { running(&method.output, self_type) } else { quote!(#krate::Address<#ty>) };
    let private = self_type.private();
    let body = if !method.sound {
        quote!(::core::unreachable!())
    } else if method.is_async {
        let run = run_future(entry, self_type, quote!(Self));
        quote!(#private::SpawnCore::start_async(&self.spawn, #index, #run))
    } else {
        let init = init(entry, self_type);
        quote!(#private::SpawnCore::start_sync(&self.spawn, #index, #init))
    };
    // These tokens have the span of the user's method, so that errors about calling it point to that method.
    let function = quote_spanned!(name.span().resolved_at(Span::call_site())=>
        #vis fn #name(&self, #inputs) -> ::core::result::Result<#started, #krate::SpawnError> { #body });
    quote! {
        #(#cfgs)* #docs #(#deprecated)*
        #[track_caller]
        #function
    }
}

/// Returns the return type of a spawn at an async entry.
fn running(output: &Output, self_type: &SelfType) -> TokenStream {
    let (krate, private, process, ty) = (&self_type.krate, self_type.private(), &self_type.ty, output.ty());
    match output {
        Output::Asked(Asked { is_result, .. }) => quote!(#private::RunningOf<#process, #ty, #is_result>),
        _ => quote!(#krate::Running<#process, #ty>),
    }
}

/// Returns the type of an async entry's future.
fn entry_future(output: &Output, self_type: &SelfType) -> TokenStream {
    let (private, process, ty) = (self_type.private(), &self_type.ty, output.ty());
    match output {
        Output::Asked(Asked { is_result, .. }) => quote!(#private::EntryFutureOf<#process, #ty, #is_result>),
        _ => quote!(#private::EntryFuture<#process, #ty, ::core::convert::Infallible>),
    }
}

/// Returns the `EntryInfo` of this entry.
pub(crate) fn info(entry: &Entry, self_type: &SelfType) -> TokenStream {
    let (private, name, is_async, cfgs) =
        (self_type.private(), entry.name(), entry.method.is_async, entry.method.cfgs());
    let inputs = by_name::infos(&entry.method.arguments.carried, &private);
    quote!(#(#cfgs)* #private::EntryInfo { name: #name, inputs: &[#inputs], is_async: #is_async })
}

/// Returns the entries with their indices in `ENTRIES`. An index depends on the `#[cfg]`s of earlier entries.
pub(crate) fn placed(entries: &[Entry]) -> Vec<(TokenStream, &Entry)> {
    let (mut certain, mut conditional) = (0_usize, Vec::new());
    entries
        .iter()
        .map(|entry| {
            let index = quote!(#certain #(+ #conditional as ::core::primitive::usize)*);
            match entry.method.present() {
                Some(condition) => conditional.push(condition),
                None => certain += 1,
            }
            (index, entry)
        })
        .collect()
}

/// Returns the match arm that starts the process at this entry by name.
pub(crate) fn arm(entry: &Entry, index: &TokenStream, block: &ProcessImpl) -> Option<TokenStream> {
    if !entry.method.sound {
        return None;
    }
    let self_type = &block.self_type;
    let (private, cfgs, name) = (self_type.private(), entry.method.cfgs(), entry.name());
    let inputs = local("inputs");
    // Without arguments only the number of inputs is checked.
    let mutable = (!entry.method.arguments.carried.is_empty()).then(|| quote!(mut));
    let takes = by_name::takes(&entry.method.arguments.carried, &private);
    let start = if entry.method.is_async {
        let points = &block.entry_points;
        let (_, arguments, _) = self_type.generics.split_for_impl();
        let run = run_future(entry, self_type, quote!(<#points #arguments>));
        quote!(<#private::Start<Self>>::future(#index, #run))
    } else {
        let init = init(entry, self_type);
        quote!(<#private::Start<Self>>::sync(#index, #init))
    };
    Some(quote! {
        #(#cfgs)*
        #name => {
            let #mutable #inputs = #private::Inputs::check::<Self>(#inputs, #index)?;
            #takes
            ::core::result::Result::Ok(#start)
        }
    })
}

/// Returns the closure that runs a sync entry.
fn init(entry: &Entry, self_type: &SelfType) -> TokenStream {
    let (this, ctx) = (local("this"), local("ctx"));
    let (private, process, name, names) =
        (self_type.private(), &self_type.ty, &entry.method.ident, entry.method.names());
    let passed = entry.method.ctx(&ctx);
    // These tokens have the span of the method's name, so that errors about its return type point to the name.
    let at = name.span().resolved_at(Span::call_site());
    let run = quote_spanned!(at=> #private::InitOutcome::into_init(<#process>::#name(#this, #passed #(#names),*)));
    let krate = &self_type.krate;
    quote!(move |#this: &mut #process, #ctx: &mut #krate::Context<#process>| #run)
}

/// Returns the closure that runs an async entry, by calling its function on the type `on`.
fn run_future(entry: &Entry, self_type: &SelfType, on: TokenStream) -> TokenStream {
    let (this, ctx, names, future) = (local("this"), local("ctx"), entry.method.names(), future_name(entry));
    let (krate, ty) = (&self_type.krate, &self_type.ty);
    quote!(move |#this: #ty, #ctx: #krate::Context<#ty>| #on::#future(#this, #ctx, #(#names),*))
}

/// Returns the name of the function that makes an async entry's future.
fn future_name(entry: &Entry) -> Ident {
    format_ident!("__postroom_{}_future", entry.method.ident.unraw(), span = Span::call_site())
}

/// Returns the function that makes an async entry's future. It is generated once, so that a future that is not `Send`
/// is reported once.
fn future(entry: &Entry, self_type: &SelfType) -> Option<TokenStream> {
    if !entry.method.is_async || !entry.method.sound {
        return None;
    }
    let (this, ctx, out) = (local("this"), local("ctx"), local("out"));
    let (krate, private, process, name) = (&self_type.krate, self_type.private(), &self_type.ty, &entry.method.ident);
    let (cfgs, names, inputs, future_name) =
        (entry.method.cfgs(), entry.method.names(), entry.method.parameters(), future_name(entry));
    let gives = entry_future(&entry.method.output, self_type);
    let passed = entry.method.ctx(&ctx).map(|_| quote!(&mut #ctx,));
    let mutable = passed.is_some().then(|| quote!(mut));
    let result = match &entry.method.output {
        Output::Asked(asked) => {
            let (error, failure) = (local("error"), asked.part("Err", &private));
            let text = describe(&private, &error);
            quote!(#private::Outcome::end(#out, |#error: &#failure| #text))
        }
        _ => quote!(#private::EntryResult::plain(#out)),
    };
    let at = name.span().resolved_at(Span::call_site());
    let endless = matches!(&entry.method.output, Output::Never).then(|| quote!(#[allow(unreachable_code)]));
    let awaited = match &entry.method.output {
        Output::Never => {
            quote!(let #out: ::core::convert::Infallible = <#process>::#name(&mut #this, #passed #(#names),*).await;)
        }
        _ => quote!(let #out = <#process>::#name(&mut #this, #passed #(#names),*).await;),
    };
    let body = quote_spanned!(at=> async move { #awaited (#this, #ctx, #result) });
    let kept = kept(&private, process, &body, name.span());
    Some(quote! {
        #(#cfgs)* #endless
        fn #future_name(
            mut #this: #process,
            #mutable #ctx: #krate::Context<#process>,
            #inputs
        ) -> #gives {
            #kept
        }
    })
}
