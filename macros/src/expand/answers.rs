//! `#[process] impl Storage for Disk`: how one kind of process answers a protocol.
//!
//! The macro sees these methods, and not the trait. If they are as a protocol can say (no `async`, no context, no
//! `Reply`), the block is an ordinary `impl` of the trait and goes out as it came; the compiler compares it with the
//! trait, and what `#[protocol]` has generated hands the messages to it. If not, the methods are the process's own, and
//! each is found to be one of the protocol by the hash of its name.

use super::client;
use super::deliver::{self, MethodOwner};
use super::protocol::is_of_the_language;
use crate::check::diagnostics::Diagnostics;
use crate::check::self_type::{SelfType, place, respan};
use crate::parse::argument::{self, Reply};
use crate::parse::generics;
use crate::parse::marker::{self, Marked, Role};
use crate::parse::method::Method;
use crate::parse::naming::{self, local};
use crate::parse::output::Output;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Generics, Ident, ImplItem, ItemImpl, Path, ReturnType, Visibility, parse_quote};

pub(crate) fn expand(
    self_type: SelfType,
    protocol: Path,
    mut item: ItemImpl,
    mut diagnostics: Diagnostics,
) -> TokenStream {
    if is_of_the_language(&protocol) {
        let what = "`#[process]` goes on the type's own `impl`, and on that of a protocol";
        diagnostics.at(Span::call_site(), what, "remove it");
        let diagnostics = diagnostics.to_tokens();
        return quote!(#item #diagnostics);
    }
    let is_plain = item.items.iter().all(|item| match item {
        ImplItem::Fn(method) => {
            method.sig.asyncness.is_none()
                && !argument::typed(&method.sig)
                    .any(|input| argument::is_context(input) || argument::is_reply_once(input))
        }
        _ => true,
    });
    let asks_for_list = diagnostics.count() == 0;
    let methods = read(&self_type, &mut item, &mut diagnostics);
    let block = Answers { self_type, protocol, methods, is_plain, asks_for_list };
    let (handles, serves, diagnostics) = (block.handles(), block.serves(), diagnostics.to_tokens());
    if !is_plain {
        own(&mut item);
    }
    let cfgs = &block.self_type.cfgs;
    quote! {
        #item
        #diagnostics
        #(#cfgs)*
        #[allow(trivial_bounds, unused_parens)]
        const _: () = { #handles #serves };
    }
}

/// Reads the methods, which are messages all of them.
fn read(self_type: &SelfType, item: &mut ItemImpl, diagnostics: &mut Diagnostics) -> Vec<Method> {
    let mut methods = Vec::new();
    for item in &mut item.items {
        let ImplItem::Fn(method) = item else { continue };
        let before = diagnostics.count();
        let written = method.attrs.iter().any(|attribute| Role::of(attribute, &self_type.krate).is_some());
        let marked = marker::take_message(&mut method.attrs, &self_type.krate, diagnostics);
        if written {
            diagnostics.on(&marked.marker, "the protocol says which methods are messages", "remove it");
        }
        for attribute in &marked.of_message {
            diagnostics.on(attribute, "the message type stands at the protocol: write this there", "remove it");
        }
        let marked = Marked { role: Role::Message, marker: parse_quote!(#[message]), ..marked };
        let mut read = Method::read(&mut method.sig, &Visibility::Inherited, marked, self_type, diagnostics);
        read.sound &= diagnostics.count() == before;
        methods.push(read);
    }
    methods
}

/// The block as one of the type's own.
fn own(item: &mut ItemImpl) {
    item.trait_ = None;
    item.attrs.push(parse_quote!(#[allow(dead_code, missing_docs, private_interfaces, unreachable_pub)]));
    for item in &mut item.items {
        if let ImplItem::Fn(method) = item {
            method.vis = parse_quote!(pub);
        }
    }
}

/// The alias for the messages from that place on.
fn rest(place: usize) -> Ident {
    format_ident!("__From{place}")
}

struct Answers {
    self_type: SelfType,
    protocol: Path,
    methods: Vec<Method>,
    /// The block is an ordinary `impl` of the trait.
    is_plain: bool,
    /// Whether the process is to name the protocol; not if it was named in the wrong place, which is told already.
    asks_for_list: bool,
}

impl Answers {
    /// Where the protocol is named, for what the compiler says of it as a whole.
    fn place(&self) -> Span {
        place(&self.protocol)
    }

    /// `dyn` and the protocol.
    fn asked(&self) -> TokenStream {
        let protocol = &self.protocol;
        respan(quote!((dyn #protocol + 'static)), self.place())
    }

    /// What the protocol says of the method of that name. All of it stands at the name, so that the compiler says once
    /// if there is none. In parentheses: next to another `<` its own would be one sign with it, at another place.
    fn named(&self, method: &Method, what: &str) -> TokenStream {
        let (private, protocol, ty) = (self.self_type.private(), &self.protocol, &self.self_type.ty);
        let hash = naming::hash(&method.ident.unraw().to_string());
        let name = method.ident.span().resolved_at(Span::call_site());
        let what = format_ident!("{what}");
        respan(quote!((<(dyn #protocol + 'static) as #private::Named<#hash, #ty>>::#what)), name)
    }

    /// `Handles`, with the answers that the protocol says.
    fn handles(&self) -> TokenStream {
        if self.is_plain { self.handles_by_place() } else { self.handles_by_name() }
    }

    fn handles_by_name(&self) -> TokenStream {
        let SelfType { krate, ty, generics, .. } = &self.self_type;
        let (parameters, _, clause) = generics.split_for_impl();
        let each = self.methods.iter().map(|method| {
            let (cfgs, name, message) = (method.cfgs(), method.ident.span(), self.named(method, "Message"));
            let (answer, error) = (self.named(method, "Reply"), self.named(method, "Error"));
            let name = name.resolved_at(Span::call_site());
            let handles = respan(quote!(#krate::generic::Handles<#message>), name);
            quote_spanned! {name=>
                #(#cfgs)*
                #[automatically_derived]
                impl #parameters #handles for #ty #clause {
                    type Reply = #answer;
                    type Error = #error;
                }
            }
        });
        each.collect()
    }

    /// In plain blocks the names are the compiler's to compare: it is enough that there are as many methods as
    /// messages.
    fn handles_by_place(&self) -> TokenStream {
        let SelfType { krate, ty, generics, .. } = &self.self_type;
        let (private, asked) = (self.self_type.private(), self.asked());
        let (parameters, _, clause) = generics.split_for_impl();
        // Of an alias the compiler asks nothing but that it uses its parameters.
        let used = generics::names_used_in(generics, &quote!(#asked #ty));
        let (declared, named) = (&used, client::arguments(&used));
        let at = self.place();
        let each = self.methods.iter().enumerate().map(|(place, method)| {
            let (from, next) = (rest(place), rest(place + 1));
            let of_chain = |what: &str| {
                let what = format_ident!("{what}");
                respan(quote!((<#from #named as #private::Chain<#ty>>::#what)), at)
            };
            let (message, answer, error, others) =
                (of_chain("Message"), of_chain("Reply"), of_chain("Error"), of_chain("Rest"));
            let cfgs = method.cfgs();
            let conditions: Vec<&TokenStream> =
                cfgs.iter().filter_map(|cfg| cfg.meta.require_list().ok().map(|list| &list.tokens)).collect();
            let handles = respan(quote!(#krate::generic::Handles<#message>), at);
            let without = (!conditions.is_empty())
                .then(|| quote!(#[cfg(not(all(#(#conditions),*)))] type #next #declared = #from #named;));
            quote_spanned! {at=>
                #(#cfgs)*
                type #next #declared = #others;
                #without
                #(#cfgs)*
                #[automatically_derived]
                impl #parameters #handles for #ty #clause {
                    type Reply = #answer;
                    type Error = #error;
                }
            }
        });
        let (first, all) = (rest(0), respan(quote!(<#asked as #private::MessagesFrom<0, #ty>>::Messages), at));
        quote! {
            type #first #declared = #all;
            #(#each)*
        }
    }

    /// The parameters, under conditions that are asked where the protocol is named.
    fn conditions(&self) -> Generics {
        let (private, ty, asked) = (self.self_type.private(), &self.self_type.ty, self.asked());
        let mut generics = self.self_type.generics.clone();
        let mut conditions = Vec::new();
        if generics.params.is_empty() {
            // Of a generic process the compiler would take the condition for all that it knows of the messages.
            conditions.push(quote!(#asked: #private::MessagesFrom<0, #ty>));
        }
        if self.is_plain {
            conditions.push(quote!(#asked: #private::Plain<#ty>));
        }
        if self.asks_for_list {
            conditions.push(quote!(#ty: #private::Lists<#asked>));
        }
        for condition in conditions {
            let condition = respan(condition, self.place());
            generics.make_where_clause().predicates.push(parse_quote!(#condition));
        }
        generics
    }

    fn serves(&self) -> TokenStream {
        let SelfType { krate, ty, .. } = &self.self_type;
        let (private, asked) = (self.self_type.private(), self.asked());
        let generics = self.conditions();
        let (parameters, _, clause) = generics.split_for_impl();
        let (ctx, mail) = (local("ctx"), local("mail"));
        let plain = quote!(<#asked as #private::Plain<Self>>);
        let (understands, delivers) = if self.is_plain {
            (quote!(#plain::understands(#mail)), quote!(#plain::deliver(self, #mail)))
        } else {
            let knows = self.methods.iter().map(|method| self.is_it(method, &mail));
            let delivers = self.methods.iter().filter_map(|method| self.delivers(method));
            (quote!(#(#knows)* false), quote!(#(#delivers)* #private::Dispatched::Unhandled))
        };
        let complete = (!self.is_plain).then(|| {
            let check = respan(quote!(#private::complete::<Self, #asked>()), self.place());
            quote!(const { #check };)
        });
        let asyncs: Vec<&Method> = self.methods.iter().filter(|method| method.is_async).collect();
        let is_async = asyncs.iter().map(|method| self.is_it(method, &mail));
        let any = asyncs.iter().map(|method| method.present().unwrap_or_else(|| quote!(true)));
        quote! {
            #[automatically_derived]
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, deprecated, unreachable_code, unused_variables)]
            impl #parameters #private::Serves<#asked> for #ty #clause {
                const ASYNC: bool = false #(|| #any)*;

                fn understands(#mail: &#private::Mail<'_>) -> bool {
                    #complete
                    #understands
                }

                fn is_async(#mail: &#private::Mail<'_>) -> bool {
                    #(#is_async)*
                    false
                }

                #[inline(always)]
                fn deliver<'a>(
                    &'a mut self,
                    #ctx: &'a mut #krate::Context<Self>,
                    #mail: &mut #private::Mail<'_>,
                ) -> #private::Dispatched<'a> {
                    #delivers
                }
            }
        }
    }

    /// The statement that says yes if the message is that of this method.
    fn is_it(&self, method: &Method, mail: &Ident) -> TokenStream {
        let (cfgs, message) = (method.cfgs(), self.named(method, "Message"));
        quote!(#(#cfgs)* if #mail.is::<#message>() { return true; })
    }

    /// The statement that hands the mail to one of the process's own methods or passes it on.
    fn delivers(&self, method: &Method) -> Option<TokenStream> {
        if !method.sound {
            return None;
        }
        let (private, message) = (self.self_type.private(), self.named(method, "Message"));
        let parts = self.named(method, "parts");
        let open = respan(quote!(#private::open::<#message>), method.ident.span().resolved_at(Span::call_site()));
        let (mail, caller, mut given) = (local("mail"), local("caller"), local("message"));
        given.set_span(given.span().located_at(method.ident.span()));
        let cfgs = method.cfgs();
        let fields = method.arguments.fields();
        let (names, types): (Vec<_>, Vec<_>) = fields.iter().map(|(name, ty, _)| (*name, *ty)).unzip();
        let handled = deliver::handled(method, &MethodOwner::own(), &private);
        // At the arguments and at the answer, for what the compiler says of types that differ from the protocol's.
        let carried =
            argument::typed_span(&fields).unwrap_or_else(|| method.ident.span()).resolved_at(Span::call_site());
        let expected = quote_spanned!(carried=> (#(#types,)*));
        let parts = quote_spanned!(carried=> #parts(#given));
        let answer = match &method.arguments.reply {
            Some(Reply::Once { answer }) => answer,
            Some(Reply::Stream { .. }) => &Output::Unit,
            None => &method.output,
        };
        let (ok, error) = (answer.ok(), answer.error());
        let returned = match &method.returns {
            ReturnType::Type(_, ty) => ty.span(),
            ReturnType::Default => method.ident.span(),
        };
        let returned = returned.resolved_at(Span::call_site());
        let found = respan(quote!(#private::Answer::<#ok, #error>::THIS), returned);
        let (answered, failed) = (self.named(method, "Reply"), self.named(method, "Error"));
        let said = respan(quote!(#private::Answer<#answered, #failed>), returned);
        Some(quote! {
            #(#cfgs)*
            if let ::core::option::Option::Some((#given, #caller)) = #open(#mail) {
                let (#(#names,)*): #expected = #parts;
                let _: #said = #found;
                return #handled;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_an_async_method_is_the_types_own() {
        let mut item: ItemImpl = parse_quote!(impl Storage for Disk { async fn get(&mut self) {} });
        own(&mut item);
        assert_eq!(crate::check::text::text(&item.items[0]), "pub async fn get(&mut self) {  }");
        assert!(item.trait_.is_none());
        assert_eq!(crate::check::text::text(&item.self_ty), "Disk");
    }
}
