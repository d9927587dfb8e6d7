//! A method's comment on what is generated after it: the whole of it on a method, its first paragraph on a type.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, Lit, LitStr, Meta};

/// A method's comment for the method generated after it. Examples turn into plain text: they are tested once, where
/// they stand.
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

/// The first paragraph of a comment: the whole of it stands on the method. `otherwise` if there is none.
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
