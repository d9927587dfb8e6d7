//! `#[process] impl Storage for Disk`: how one kind of process answers a protocol.
//!
//! The macro sees these methods, and not the trait. If they are as a protocol can say (no `async`, no context, no
//! `Reply`), the block is an ordinary `impl` of the trait and goes out as it came; the compiler compares it with the
//! trait, and what `#[protocol]` has generated hands the messages to it. If not, the methods are the process's own, and
//! each is found to be one of the protocol by the hash of its name.

use crate::argument::{self, Reply};
use crate::deliver::{self, Whose};
use crate::fault::Faults;
use crate::marker::{self, Marked, Role};
use crate::method::Method;
use crate::naming::{self, local};
use crate::output::Output;
use crate::protocol::{is_of_the_language, placed};
use crate::subject::{Subject, respan};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Generics, ImplItem, ItemImpl, Path, ReturnType, Visibility, parse_quote};

pub(crate) fn expand(subject: Subject, protocol: Path, mut item: ItemImpl, mut faults: Faults) -> TokenStream {
    if is_of_the_language(&protocol) {
        let what = "`#[process]` goes on the type's own `impl`, and on that of a protocol";
        faults.at(Span::call_site(), what, "remove it");
        let faults = faults.to_tokens();
        return quote!(#item #faults);
    }
    let is_plain = item.items.iter().all(|item| match item {
        ImplItem::Fn(method) => {
            method.sig.asyncness.is_none()
                && !argument::typed(&method.sig).any(|input| argument::is_context(input) || argument::is_reply_once(input))
        }
        _ => true,
    });
    let methods = read(&subject, &mut item, &mut faults);
    let block = Answers { subject, protocol, methods, is_plain };
    let (handles, serves, faults) = (block.handles(), block.serves(), faults.to_tokens());
    if !is_plain {
        own(&mut item);
    }
    let cfgs = &block.subject.cfgs;
    quote! {
        #item
        #faults
        #(#cfgs)*
        #[allow(trivial_bounds)]
        const _: () = { #(#handles)* #serves };
    }
}

/// Reads the methods, which are messages all of them.
fn read(subject: &Subject, item: &mut ItemImpl, faults: &mut Faults) -> Vec<Method> {
    let mut methods = Vec::new();
    for item in &mut item.items {
        let ImplItem::Fn(method) = item else { continue };
        let before = faults.count();
        let written = method.attrs.iter().any(|attribute| Role::of(attribute, &subject.krate).is_some());
        let marked = marker::take_message(&mut method.attrs, &subject.krate, faults);
        if written {
            faults.on(&marked.marker, "the protocol says which methods are messages", "remove it");
        }
        for attribute in &marked.of_message {
            faults.on(attribute, "the message type stands at the protocol: write this there", "remove it");
        }
        let marked = Marked { role: Role::Message, marker: parse_quote!(#[message]), ..marked };
        let mut read = Method::read(&mut method.sig, &Visibility::Inherited, marked, subject, faults);
        read.sound &= faults.count() == before;
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

struct Answers {
    subject: Subject,
    protocol: Path,
    methods: Vec<Method>,
    /// The block is an ordinary `impl` of the trait.
    is_plain: bool,
}

impl Answers {
    /// Where the protocol is named, for what the compiler says of it as a whole.
    fn place(&self) -> Span {
        self.protocol.segments.last().map_or_else(Span::call_site, |last| last.ident.span()).resolved_at(Span::call_site())
    }

    /// How the message of a method is found, in the protocol.
    fn finder(&self, at: usize) -> TokenStream {
        let private = self.subject.private();
        if self.is_plain {
            let place = placed(self.methods[..at].iter());
            quote!(#private::Nth<{ #place }>)
        } else {
            let hash = naming::hash(&self.methods[at].ident.unraw().to_string());
            quote!(#private::Named<#hash>)
        }
    }

    /// The type of the message of a method.
    fn message(&self, at: usize) -> TokenStream {
        let (protocol, finder) = (&self.protocol, self.finder(at));
        let name = self.methods[at].ident.span().resolved_at(Span::call_site());
        respan(quote!(<dyn #protocol as #finder>::Message), name)
    }

    /// `Handles`, with the answers that the protocol says.
    fn handles(&self) -> Vec<TokenStream> {
        let Subject { krate, ty, generics, .. } = &self.subject;
        let (parameters, _, clause) = generics.split_for_impl();
        let protocol = &self.protocol;
        let each = (0..self.methods.len()).map(|at| {
            let (message, cfgs) = (self.message(at), self.methods[at].cfgs());
            let handled = quote!(<dyn #protocol as #krate::Handles<#message>>);
            quote! {
                #(#cfgs)*
                #[automatically_derived]
                impl #parameters #krate::Handles<#message> for #ty #clause {
                    type Reply = #handled::Reply;
                    type Error = #handled::Error;
                }
            }
        });
        each.collect()
    }

    /// The parameters, under conditions that are asked where the protocol is named.
    fn conditions(&self) -> Generics {
        let (private, ty, protocol) = (self.subject.private(), &self.subject.ty, &self.protocol);
        let mut generics = self.subject.generics.clone();
        let mut conditions = vec![quote!(#ty: #private::Lists<dyn #protocol>)];
        conditions.push(if self.is_plain {
            quote!(dyn #protocol: #private::Plain<#ty>)
        } else {
            quote!(dyn #protocol: #private::Protocol)
        });
        for condition in conditions {
            let condition = respan(condition, self.place());
            generics.make_where_clause().predicates.push(parse_quote!(#condition));
        }
        generics
    }

    fn serves(&self) -> TokenStream {
        let Subject { krate, ty, .. } = &self.subject;
        let (private, protocol) = (self.subject.private(), &self.protocol);
        let generics = self.conditions();
        let (parameters, _, clause) = generics.split_for_impl();
        let (ctx, mail) = (local("ctx"), local("mail"));
        let plain = quote!(<dyn #protocol as #private::Plain<Self>>);
        let (understands, delivers) = if self.is_plain {
            (quote!(#plain::understands(#mail)), quote!(#plain::deliver(self, #mail)))
        } else {
            let knows = (0..self.methods.len()).map(|at| {
                let (cfgs, message) = (self.methods[at].cfgs(), self.message(at));
                quote!(#(#cfgs)* if #mail.is::<#message>() { return true; })
            });
            let delivers = (0..self.methods.len()).filter_map(|at| self.delivers(at));
            (quote!(#(#knows)* false), quote!(#(#delivers)* #private::Delivery::Unhandled))
        };
        let complete = (!self.is_plain).then(|| {
            let check = quote_spanned!(self.place()=> #private::complete::<Self, dyn #protocol>());
            quote!(const { #check };)
        });
        let asyncs: Vec<usize> = (0..self.methods.len()).filter(|at| self.methods[*at].is_async).collect();
        let is_async = asyncs.iter().map(|at| {
            let (cfgs, message) = (self.methods[*at].cfgs(), self.message(*at));
            quote!(#(#cfgs)* if #mail.is::<#message>() { return true; })
        });
        let any = asyncs.iter().map(|at| self.methods[*at].present().unwrap_or_else(|| quote!(true)));
        quote! {
            #[automatically_derived]
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, deprecated, unreachable_code, unused_variables)]
            impl #parameters #private::Serves<dyn #protocol> for #ty #clause {
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
                ) -> #private::Delivery<'a> {
                    #delivers
                }
            }
        }
    }

    /// The statement that hands the mail to one of the process's own methods or passes it on.
    fn delivers(&self, at: usize) -> Option<TokenStream> {
        let method = &self.methods[at];
        if !method.sound {
            return None;
        }
        let (private, protocol, krate) = (self.subject.private(), &self.protocol, &self.subject.krate);
        let (mail, caller, given) = (local("mail"), local("caller"), local("message"));
        let (message, finder, cfgs) = (self.message(at), self.finder(at), method.cfgs());
        let fields = method.arguments.fields();
        let (names, types): (Vec<_>, Vec<_>) = fields.iter().map(|(name, ty, _)| (*name, *ty)).unzip();
        let handled = deliver::handled(method, &Whose::own(), &private);
        // At the arguments and at the answer, for what the compiler says of types that differ from the protocol's.
        let carried = argument::typed_span(&fields).unwrap_or_else(|| method.ident.span()).resolved_at(Span::call_site());
        let parts = quote_spanned!(carried=> <dyn #protocol as #finder>::parts(#given));
        let answer = match &method.arguments.reply {
            Some(Reply::Once { answer }) => answer,
            Some(Reply::Stream { .. }) => &Output::Unit,
            None => &method.output,
        };
        let (ok, error) = (answer.ok(), answer.error());
        let said = quote!(<dyn #protocol as #krate::Handles<#message>>);
        let returned = match &method.returns {
            ReturnType::Type(_, ty) => ty.span(),
            ReturnType::Default => method.ident.span(),
        };
        let returned = returned.resolved_at(Span::call_site());
        let found = quote_spanned!(returned=> #private::Answer::<#ok, #error>::THIS);
        Some(quote! {
            #(#cfgs)*
            if let ::core::option::Option::Some((#given, #caller)) = #private::open::<#message>(#mail) {
                let (#(#names,)*): (#(#types,)*) = #parts;
                let _: #private::Answer<#said::Reply, #said::Error> = #found;
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
        assert_eq!(crate::text::text(&item.items[0]), "pub async fn get(&mut self) { }");
        assert!(item.trait_.is_none());
        assert_eq!(crate::text::text(&item.self_ty), "Disk");
    }
}
