//! Documentation of generated items. Methods get the whole comment of the user's method, and types its first paragraph.
//! The documentation of the user's block lists the methods of its addresses and its `spawn`, because rustdoc shows them
//! nowhere else.

use crate::check::text::text;
use crate::parse::argument::Reply;
use crate::parse::message::Message;
use crate::parse::method::Method;
use crate::parse::process_impl::ProcessImpl;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Expr, Lit, LitStr, Meta, Visibility, parse_quote};

/// Returns the attributes that list the public entries and messages, each with its arguments and its answer.
pub(crate) fn methods(block: &ProcessImpl) -> Vec<Attribute> {
    let ident = block.self_type.ident.unraw();
    let entries = block.entries.iter().map(|entry| (&entry.method, text(&entry.method.returns)));
    let entries = listed(&format!("Entries: `host.spawn({ident} {{ … }})` has the methods"), entries);
    let messages = block.messages.iter().map(|message| (&message.method, answer(message)));
    let messages =
        listed(&format!("Messages: an `Address<{ident}>` has the methods, each of which makes a call"), messages);
    entries.into_iter().chain(messages).collect()
}

fn answer(message: &Message) -> String {
    match &message.method.arguments.reply {
        None => text(&message.method.returns),
        Some(Reply::Stream { item, .. }) => format!("-> impl Stream<Item = {}>", text(item)),
        Some(Reply::Once { answer }) => format!("-> {}", text(answer.ty())),
    }
}

fn listed<'a>(head: &str, methods: impl Iterator<Item = (&'a Method, String)>) -> Vec<Attribute> {
    let mut lines = Vec::new();
    for (method, answer) in methods.filter(|(method, _)| matches!(method.vis, Visibility::Public(_))) {
        let carried = &method.arguments.carried;
        let arguments = carried.iter().map(|argument| format!("{}: {}", argument.ident.unraw(), text(&argument.ty)));
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let line = format!("* `{}({arguments}) {answer}", method.ident.unraw());
        let line = format!("{}`", line.trim_end());
        let conditions = method.cfgs().iter().filter_map(|cfg| Some(&cfg.meta.require_list().ok()?.tokens));
        lines.push(parse_quote!(#[cfg_attr(all(#(#conditions),*), doc = #line)]));
    }
    if !lines.is_empty() {
        lines.splice(0..0, [parse_quote!(#[doc = ""]), parse_quote!(#[doc = #head]), parse_quote!(#[doc = ""])]);
    }
    lines
}

/// Returns a method's comment for the method generated from it. Examples become plain text, since they are tested at
/// the user's method.
pub(crate) fn whole(docs: &[Attribute], otherwise: &str) -> TokenStream {
    if docs.is_empty() {
        return quote!(#[doc = #otherwise]);
    }
    let mut fenced = false;
    docs.iter()
        .map(|doc| {
            let Some(line) = doc_text(doc) else { return doc.to_token_stream() };
            let value = line.value();
            let lines: Vec<String> = value
                .split('\n')
                .map(|line| {
                    let Some(fence) = line.trim_start().strip_prefix("```") else { return line.to_owned() };
                    fenced = !fenced;
                    if fenced { format!("{}```text", &line[..line.len() - fence.len() - 3]) } else { line.to_owned() }
                })
                .collect();
            let text = LitStr::new(&lines.join("\n"), line.span());
            quote!(#[doc = #text])
        })
        .collect()
}

/// Returns the first paragraph of a comment, or `otherwise` if there is none. The whole comment is on the method.
pub(crate) fn summary(docs: &[Attribute], otherwise: &str) -> TokenStream {
    let lines: Vec<&Attribute> =
        docs.iter().take_while(|doc| doc_text(doc).is_none_or(|text| !text.value().trim().is_empty())).collect();
    if lines.is_empty() { quote!(#[doc = #otherwise]) } else { quote!(#(#lines)*) }
}

fn doc_text(doc: &Attribute) -> Option<&LitStr> {
    match &doc.meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::text::text;
    use syn::parse_quote;

    /// Returns the lines of documentation on a block.
    fn lines(block: proc_macro2::TokenStream) -> String {
        let expanded = super::super::process::expand(TokenStream::new(), syn::parse2(block).unwrap());
        let block: syn::ItemImpl = syn::parse2::<syn::File>(expanded)
            .unwrap()
            .items
            .into_iter()
            .find_map(|item| if let syn::Item::Impl(block) = item { Some(block) } else { None })
            .unwrap();
        block.attrs.iter().map(|attribute| text(attribute) + "\n").collect()
    }

    #[test]
    fn the_block_lists_entries_and_messages() {
        let said = lines(quote! {
            /// An account.
            impl Account {
                #[entry]
                pub fn serve(&mut self, limit: u32) {}
                #[message]
                pub fn deposit(&mut self, ctx: &mut Context<Self>, amount: u64) -> Result<Vec<u8>, Refused> {
                    Ok(Vec::new())
                }
                #[message]
                #[cfg(unix)]
                pub fn later(&mut self, reply: Reply<i64>) {}
                #[message]
                pub fn many(&mut self, replies: Replies<i64>) {}
                #[message]
                fn hidden(&mut self) {}
            }
        });
        for line in [
            "An account.",
            "`host.spawn(Account { … })` has the methods",
            "* `serve(limit: u32)`",
            "an `Address<Account>` has the methods",
            "* `deposit(amount: u64) -> Result<Vec<u8>, Refused>`",
            "unix), doc = \"* `later() -> i64`\"",
            "* `many() -> impl Stream<Item = i64>`",
        ] {
            assert!(said.contains(line), "no {line:?} in\n{said}");
        }
        assert!(!said.contains("hidden"), "{said}");
    }

    #[test]
    fn examples_are_not_tested_twice() {
        let written: Vec<Attribute> = vec![
            parse_quote!(#[doc = " Adds."]),
            parse_quote!(#[doc = " ```"]),
            parse_quote!(#[doc = " a"]),
            parse_quote!(#[doc = " ```"]),
        ];
        let expected: Vec<Attribute> = vec![
            parse_quote!(#[doc = " Adds."]),
            parse_quote!(#[doc = " ```text"]),
            parse_quote!(#[doc = " a"]),
            parse_quote!(#[doc = " ```"]),
        ];
        assert_eq!(text(whole(&written, "")), text(quote!(#(#expected)*)));
    }

    #[test]
    fn a_message_type_gets_the_first_paragraph() {
        let written: Vec<Attribute> =
            vec![parse_quote!(#[doc = " Adds."]), parse_quote!(#[doc = ""]), parse_quote!(#[doc = " More."])];
        assert_eq!(text(summary(&written, "")), text(quote!(#[doc = " Adds."])));
        assert_eq!(text(summary(&[], "Other.")), text(quote!(#[doc = "Other."])));
    }
}
