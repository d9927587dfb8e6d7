//! `#[entry]`: a method that a process can be started at.
//!
//! The entries become methods of the spawn builder, by way of a struct it derefs to, and arms of the start by name.
//! A sync entry runs as the process's `init`; an async one is the life of the process, as a future that owns state and
//! context and gives both back at its end.

use crate::argument::parameters;
use crate::fault::Faults;
use crate::message::{docs, local};
use crate::naming;
use crate::output::Output;
use crate::process::{Method, Process, Subject};
use crate::text::text;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, LitStr, Meta, Type};

pub(crate) struct Entry {
    pub(crate) method: Method,
}

impl Entry {
    pub(crate) fn check(mut method: Method, faults: &mut Faults) -> Self {
        let before = faults.count();
        let name = method.ident.unraw().to_string();
        if let Some(why) = naming::reserved_for_entries(&name) {
            let what = format!("an entry cannot be called `{name}`: {why}");
            faults.on(&method.ident, what, format!("rename it, for instance `start_{name}`"));
        }
        if !matches!(method.marked.marker.meta, Meta::Path(_)) {
            faults.on(&method.marked.marker, "`#[entry]` has no options", "write `#[entry]`");
        }
        if !method.is_async && !gives_nothing(&method.output) {
            let what = "a sync entry prepares the process: it gives back nothing, or a `Result<(), …>`";
            faults.on(&method.returns, what, "remove it, or make the entry `async` to give back a result at its end");
        }
        method.sound &= faults.count() == before;
        Self { method }
    }

    fn name(&self) -> String {
        self.method.ident.unraw().to_string()
    }

    /// `EntryInfo` of this entry.
    pub(crate) fn info(&self, subject: &Subject) -> TokenStream {
        let (private, name, is_async, cfgs) =
            (subject.private(), self.name(), self.method.is_async, self.method.cfgs());
        let inputs = self.method.arguments.carried.iter().map(|argument| {
            let (name, type_name) = (argument.ident.unraw().to_string(), text(&argument.ty));
            quote!(#private::InputInfo { name: #name, type_name: #type_name })
        });
        quote!(#(#cfgs)* #private::EntryInfo { name: #name, inputs: &[#(#inputs),*], is_async: #is_async })
    }

    /// The closure that runs a sync entry.
    fn init(&self, subject: &Subject) -> TokenStream {
        let (this, ctx) = (local("this"), local("ctx"));
        let (private, process, name, names) = (subject.private(), &subject.ty, &self.method.ident, self.method.names());
        let passed = self.method.ctx(&ctx);
        // At the method's name, for what the compiler says of a result that is no outcome of an init.
        let at = name.span().resolved_at(Span::call_site());
        let run = quote_spanned!(at=> #private::InitOutcome::into_init(<#process>::#name(#this, #passed #(#names),*)));
        let krate = &subject.krate;
        quote!(move |#this: &mut #process, #ctx: &mut #krate::Context<#process>| #run)
    }

    /// The name of the function that makes an async entry's future.
    fn future_name(&self) -> Ident {
        format_ident!("__{}_future", self.method.ident.unraw(), span = Span::call_site())
    }

    /// That function: stated once, so that a future that is not `Send` is one error.
    fn future(&self, subject: &Subject) -> Option<TokenStream> {
        if !self.method.is_async || !self.method.sound {
            return None;
        }
        let (this, ctx, out) = (local("this"), local("ctx"), local("out"));
        let (krate, private, process, name) = (&subject.krate, subject.private(), &subject.ty, &self.method.ident);
        let (cfgs, names, inputs, future_name) =
            (self.method.cfgs(), self.method.names(), parameters(&self.method), self.future_name());
        let (ok, error) = (self.method.output.ok(), self.method.output.error());
        let passed = self.method.ctx(&ctx).map(|_| quote!(&mut #ctx,));
        let mutable = passed.is_some().then(|| quote!(mut));
        let result = match &self.method.output {
            Output::Fallible { .. } => quote!(#private::wire_result(#out, |error| #private::describe!(error))),
            _ => quote!(#private::wire(#out)),
        };
        let at = name.span().resolved_at(Span::call_site());
        // `!` turns into a value that cannot be, without a word about what can never run.
        let awaited = match &self.method.output {
            Output::Never => quote!(let #out: #ok = <#process>::#name(&mut #this, #passed #(#names),*).await;),
            _ => quote!(let #out = <#process>::#name(&mut #this, #passed #(#names),*).await;),
        };
        let boxed = quote_spanned!(at=> ::std::boxed::Box::pin(async move { #awaited (#this, #ctx, #result) }));
        Some(quote! {
            #(#cfgs)*
            fn #future_name(
                mut #this: #process,
                #mutable #ctx: #krate::Context<#process>,
                #inputs
            ) -> ::core::pin::Pin<::std::boxed::Box<dyn ::core::future::Future<
                Output = (#process, #krate::Context<#process>, #private::Wire<#ok, #error>)
            > + ::core::marker::Send>> {
                #boxed
            }
        })
    }

    /// The method of the spawn builder.
    fn starter(&self, index: &TokenStream, process: &Process) -> TokenStream {
        let subject = &process.subject;
        let (krate, ty, method) = (&subject.krate, &subject.ty, &self.method);
        let (cfgs, deprecated, vis, name, inputs) =
            (method.cfgs(), &method.marked.deprecated, &method.vis, &method.ident, parameters(method));
        let docs = docs(&method.marked.docs, &format!("Starts a `{}` at `{}`.", subject.ident.unraw(), self.name()));
        let started = if method.is_async {
            let (ok, error) = (method.output.ok(), method.output.error());
            quote!(#krate::Running<#ty, #ok, #error>)
        } else {
            quote!(#krate::Address<#ty>)
        };
        let private = subject.private();
        let body = if !method.sound {
            quote!(::core::unreachable!())
        } else if method.is_async {
            let run = self.run_future(subject, quote!(Self));
            quote!(#private::SpawnCore::start_async(&self.spawn, #index, #run))
        } else {
            let init = self.init(subject);
            quote!(#private::SpawnCore::start_sync(&self.spawn, #index, #init))
        };
        // At the user's line, for what the compiler says about calling it.
        let function = quote_spanned!(name.span().resolved_at(Span::call_site())=>
            #vis fn #name(&self, #inputs) -> ::core::result::Result<#started, #krate::SpawnError> { #body });
        quote! {
            #(#cfgs)* #docs #(#deprecated)*
            #[track_caller]
            #function
        }
    }

    fn run_future(&self, subject: &Subject, on: TokenStream) -> TokenStream {
        let (this, ctx, names, future) = (local("this"), local("ctx"), self.method.names(), self.future_name());
        let (krate, ty) = (&subject.krate, &subject.ty);
        quote!(move |#this: #ty, #ctx: #krate::Context<#ty>| #on::#future(#this, #ctx, #(#names),*))
    }

    /// The arm of the start by name.
    pub(crate) fn arm(&self, index: &TokenStream, process: &Process) -> Option<TokenStream> {
        if !self.method.sound {
            return None;
        }
        let subject = &process.subject;
        let (private, cfgs, entry) = (subject.private(), self.method.cfgs(), self.name());
        let inputs = local("inputs");
        // Without inputs there is only their number to check.
        let mutable = (!self.method.arguments.carried.is_empty()).then(|| quote!(mut));
        let takes = self.method.arguments.carried.iter().map(|argument| {
            let (name, ty) = (&argument.ident, &argument.ty);
            quote!(let #name = #private::take_input!(#inputs, #ty)?;)
        });
        let start = if self.method.is_async {
            let points = &process.entry_points;
            let (_, arguments, _) = subject.generics.split_for_impl();
            let run = self.run_future(subject, quote!(<#points #arguments>));
            quote!(<#private::Start<Self>>::future(#index, #run))
        } else {
            let init = self.init(subject);
            quote!(<#private::Start<Self>>::sync(#index, #init))
        };
        Some(quote! {
            #(#cfgs)*
            #entry => {
                let #mutable #inputs = #inputs.check::<Self>(#index)?;
                #(#takes)*
                ::core::result::Result::Ok(#start)
            }
        })
    }
}

/// `()`, `Result<(), E>`, or an alias that hides which.
fn gives_nothing(output: &Output) -> bool {
    match output {
        Output::Unit => true,
        Output::Fallible { ok, .. } => {
            let unit = syn::parse2::<Type>(ok.clone())
                .is_ok_and(|ty| matches!(&ty, Type::Tuple(unit) if unit.elems.is_empty()));
            unit || text(ok).ends_with("::Ok")
        }
        _ => false,
    }
}

/// Entries with their place in `ENTRIES`, which `#[cfg]` on the ones before may move.
pub(crate) fn placed(entries: &[Entry]) -> Vec<(TokenStream, &Entry)> {
    let (mut certain, mut conditional) = (0_usize, Vec::new());
    entries
        .iter()
        .map(|entry| {
            let index = quote!(#certain #(+ #conditional as usize)*);
            match entry.method.present() {
                Some(condition) => conditional.push(condition),
                None => certain += 1,
            }
            (index, entry)
        })
        .collect()
}

/// The struct that the spawn builder derefs to.
pub(crate) fn items(process: &Process) -> TokenStream {
    let (subject, points) = (&process.subject, &process.entry_points);
    let (private, ty, ident) = (subject.private(), &subject.ty, subject.ident.unraw());
    let mut generics = subject.generics.clone();
    // As the impl has them, since the state stands in a field; its `Self` is the process, not this struct.
    generics.where_clause =
        generics.where_clause.and_then(|clause| syn::parse2(crate::generics::without_self(clause, ty)).ok());
    let (parameters, arguments, clause) = generics.split_for_impl();
    let doc = LitStr::new(&format!("The entries of `{ident}`, as methods of what `spawn` gives."), Span::call_site());
    let futures = process.entries.iter().map(|entry| entry.future(subject));
    let placed = placed(&process.entries);
    let starters = placed.iter().map(|(index, entry)| entry.starter(index, process));
    quote! {
        #[doc = #doc]
        #[allow(dead_code, unreachable_pub, missing_debug_implementations)]
        pub struct #points #generics #clause { spawn: #private::SpawnCore<#ty> }

        #[allow(clippy::all, clippy::pedantic, clippy::nursery, dead_code, deprecated, private_interfaces, unreachable_code, unreachable_pub, unused_variables)]
        impl #parameters #points #arguments #clause {
            #(#futures)*
            #(#starters)*
        }
    }
}
