//! The attributes that apply to an item, including those in `cfg_attr`: an attribute macro receives the attributes of
//! its item before the compiler evaluates conditions.
//!
//! Rule: `#[cfg_attr(when, a, b)]` is read as `#[cfg_attr(when, a)] #[cfg_attr(when, b)]`. The first goes where `a`
//! would go, and the second where `b` would go. Similarly, `#[cfg_attr(when, cfg(there))]` is read as
//! `#[cfg(any(not(when), there))]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Path, Token, parse_quote_spanned, spanned::Spanned};

/// Splits the attributes so that each `cfg_attr` contains at most one attribute, and none contains a `cfg`.
pub(crate) fn flat(attrs: Vec<Attribute>) -> Vec<Attribute> {
    attrs.into_iter().flat_map(flat_one).collect()
}

fn flat_one(attribute: Attribute) -> Vec<Attribute> {
    let Some((when, metas)) = conditional(&attribute) else { return vec![attribute] };
    let at = attribute.span();
    let each = metas.into_iter().flat_map(|meta| match &meta {
        Meta::List(list) if meta.path().is_ident("cfg") => {
            let there = &list.tokens;
            vec![parse_quote_spanned!(at=> #[cfg(any(not(#when), #there))])]
        }
        Meta::List(list) if meta.path().is_ident("cfg_attr") => {
            let inner = &list.tokens;
            let inner: Attribute = parse_quote_spanned!(at=> #[cfg_attr(#inner)]);
            let Some((second, metas)) = conditional(&inner) else { return vec![inner] };
            let metas = metas.into_iter();
            flat_one(parse_quote_spanned!(at=> #[cfg_attr(all(#when, #second), #(#metas),*)]))
        }
        _ => vec![parse_quote_spanned!(at=> #[cfg_attr(#when, #meta)])],
    });
    each.collect()
}

/// Returns the condition and the content of a `cfg_attr`. The condition need not be a `Meta`: it can be `true`.
fn conditional(attribute: &Attribute) -> Option<(TokenStream, Vec<Meta>)> {
    if !attribute.path().is_ident("cfg_attr") {
        return None;
    }
    let parse = |input: ParseStream<'_>| {
        let mut when = TokenStream::new();
        while !input.is_empty() && !input.peek(Token![,]) {
            when.extend([input.parse::<TokenTree>()?]);
        }
        input.parse::<Option<Token![,]>>()?;
        let content = Punctuated::<Meta, Token![,]>::parse_terminated(input)?;
        Ok((when, content.into_iter().collect()))
    };
    attribute.parse_args_with(parse).ok()
}

/// An attribute without its condition, as [`flat`] returns it.
pub(crate) struct Applied {
    pub(crate) meta: Meta,
    when: Option<TokenStream>,
}

impl Applied {
    pub(crate) fn of(attribute: &Attribute) -> Self {
        match conditional(attribute) {
            Some((when, metas)) if metas.len() == 1 => {
                let meta = metas.into_iter().next().unwrap_or_else(|| attribute.meta.clone());
                Self { meta, when: Some(when) }
            }
            _ => Self { meta: attribute.meta.clone(), when: None },
        }
    }
}

/// Returns the path of an attribute without its condition.
pub(crate) fn path(attribute: &Attribute) -> Path {
    Applied::of(attribute).meta.path().clone()
}

/// Returns the `cfg`s of an item.
pub(crate) fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    flat(attrs.to_vec()).into_iter().filter(|attribute| attribute.path().is_ident("cfg")).collect()
}

/// Returns `added` unless an attribute satisfies `is_there`. If all such attributes are conditional, returns `added`
/// under the condition that none of them applies.
pub(crate) fn unless(attrs: &[Attribute], added: TokenStream, is_there: impl Fn(&Meta) -> bool) -> Option<TokenStream> {
    let there: Vec<Applied> = attrs.iter().map(Applied::of).filter(|one| is_there(&one.meta)).collect();
    if there.is_empty() {
        return Some(quote!(#[#added]));
    }
    let conditions: Option<Vec<TokenStream>> = there.into_iter().map(|one| one.when).collect();
    conditions.map(|conditions| quote!(#[cfg_attr(not(any(#(#conditions),*)), #added)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::text::text;
    use syn::parse_quote;

    fn flattened(attribute: Attribute) -> String {
        flat(vec![attribute]).iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_attribute_has_a_condition_of_its_own() {
        assert_eq!(flattened(parse_quote!(#[inline])), "#[inline]");
        assert_eq!(
            flattened(parse_quote!(#[cfg_attr(unix, derive(Clone), inline)])),
            "#[cfg_attr(unix, derive(Clone))] #[cfg_attr(unix, inline)]"
        );
        assert_eq!(flattened(parse_quote!(#[cfg_attr(true, derive(Clone))])), "#[cfg_attr(true, derive(Clone))]");
        assert_eq!(flattened(parse_quote!(#[cfg_attr(true, cfg(test))])), "#[cfg(any(not(true), test))]");
        assert_eq!(flattened(parse_quote!(#[cfg_attr(unix, cfg(test))])), "#[cfg(any(not(unix), test))]");
        assert_eq!(
            flattened(parse_quote!(#[cfg_attr(unix, cfg_attr(test, cfg(windows), inline))])),
            "#[cfg(any(not(all(unix, test)), windows))] #[cfg_attr(all(unix, test), inline)]"
        );
    }

    #[test]
    fn what_is_there_under_a_condition_is_added_under_its_opposite() {
        let is_inline = |meta: &Meta| meta.path().is_ident("inline");
        let added = |attrs: &[Attribute]| unless(attrs, quote!(inline), is_inline).map(text).unwrap_or_default();
        assert_eq!(added(&[parse_quote!(#[cold])]), "#[inline]");
        assert_eq!(added(&[parse_quote!(#[inline])]), "");
        assert_eq!(added(&[parse_quote!(#[cfg_attr(false, inline)])]), "#[cfg_attr(not(any(false)), inline)]");
        assert_eq!(added(&[parse_quote!(#[cfg_attr(unix, inline)])]), "#[cfg_attr(not(any(unix)), inline)]");
    }
}
