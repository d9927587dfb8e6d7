//! The type and const parameters that a message type needs, and the meaning of `Self` outside the impl.
//!
//! Both are found by looking at tokens: a parameter is used where its name occurs other than as the tail of a path.

use crate::check::bare;
use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{GenericParam, Generics, Token, Type, TypeParamBound, WherePredicate};

/// Returns the parameters that occur in `tokens`, with the bounds that mention only these.
pub(crate) fn used_in(generics: &Generics, tokens: &TokenStream) -> Generics {
    let names = names(generics);
    let (kept, dropped): (Vec<&Ident>, Vec<&Ident>) = names.into_iter().partition(|name| occurs(name, tokens));
    let speaks_of_kept_only =
        |bound: TokenStream| !contains_self(&bound) && !dropped.iter().any(|name| occurs(name, &bound));

    let mut out = Generics::default();
    for param in &generics.params {
        let (GenericParam::Type(_) | GenericParam::Const(_)) = param else { continue };
        if !kept.iter().any(|name| param_name(param) == Some(name)) {
            continue;
        }
        let mut param = param.clone();
        if let GenericParam::Type(param) = &mut param {
            param.bounds = retain(&param.bounds, |bound| speaks_of_kept_only(bound.to_token_stream()));
            (param.attrs, param.default) = (Vec::new(), None);
        }
        out.params.push(param);
    }
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        let WherePredicate::Type(of_type) = predicate else { continue };
        let tokens = of_type.bounded_ty.to_token_stream();
        if !kept.iter().any(|name| occurs(name, &tokens)) || !speaks_of_kept_only(tokens) {
            continue;
        }
        let mut of_type = of_type.clone();
        of_type.bounds = retain(&of_type.bounds, |bound| speaks_of_kept_only(bound.to_token_stream()));
        out.make_where_clause().predicates.push(WherePredicate::Type(of_type));
    }
    out
}

/// Returns the parameters that occur in `tokens`, without bounds.
pub(crate) fn names_used_in(generics: &Generics, tokens: &TokenStream) -> Generics {
    let mut out = used_in(generics, tokens);
    out.where_clause = None;
    for param in &mut out.params {
        match param {
            GenericParam::Type(param) => (param.colon_token, param.bounds) = (None, Punctuated::new()),
            GenericParam::Const(param) => param.default = None,
            GenericParam::Lifetime(_) => {}
        }
    }
    out
}

fn retain(
    bounds: &Punctuated<TypeParamBound, Token![+]>,
    keep: impl Fn(&TypeParamBound) -> bool,
) -> Punctuated<TypeParamBound, Token![+]> {
    bounds.iter().filter(|bound| keep(bound)).cloned().collect()
}

fn param_name(param: &GenericParam) -> Option<&Ident> {
    match param {
        GenericParam::Type(param) => Some(&param.ident),
        GenericParam::Const(param) => Some(&param.ident),
        _ => None,
    }
}

/// Returns the names of the type and const parameters.
pub(crate) fn names(generics: &Generics) -> Vec<&Ident> {
    generics.params.iter().filter_map(param_name).collect()
}

/// Returns whether `name` occurs in `tokens` other than as the tail of a path or the name of an associated type.
pub(crate) fn occurs(name: &Ident, tokens: &TokenStream) -> bool {
    let mut before = Before::default();
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| {
        let found = match token {
            TokenTree::Ident(ident) => before.may_name() && ident == name && !is_bound(&tokens[at + 1..]),
            TokenTree::Group(group) => occurs(name, &group.stream()),
            _ => false,
        };
        before.note(token);
        found
    })
}

/// The context in front of a token.
#[derive(Default)]
struct Before {
    colons: usize,
    is_word: bool,
    is_quote: bool,
}

impl Before {
    fn note(&mut self, token: &TokenTree) {
        let sign = match token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        self.colons = if sign == ':' { self.colons + 1 } else { 0 };
        self.is_word = matches!(token, TokenTree::Ident(_));
        self.is_quote = sign == '\'';
    }

    /// Returns whether a word here may be a parameter: it is neither the tail of a path nor a lifetime.
    fn may_name(&self) -> bool {
        self.colons < 2 && !self.is_quote
    }

    /// Returns whether a `<` here begins a path such as `<T as Trait>::Item`.
    fn begins_qualified(&self) -> bool {
        !self.is_word && self.colons == 0
    }
}

/// Returns the type `tokens` with placeholders in place of parameters, or `None` if no parameter occurs in it. Type
/// parameters, and paths that start at one, such as `T::Item` or `<T as Iterator>::Item`, become `&'__postroom ()`;
/// const parameters become a literal.
pub(crate) fn for_any(generics: &Generics, tokens: &TokenStream) -> Option<TokenStream> {
    let is_any = names(generics).into_iter().any(|name| occurs(name, tokens));
    is_any.then(|| substitute(generics, tokens))
}

fn substitute(generics: &Generics, tokens: &TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut out = TokenStream::new();
    let (mut before, mut at) = (Before::default(), 0);
    while let Some(token) = tokens.get(at) {
        match substitution(generics, &tokens, at, &before) {
            Some((instead, end)) => {
                out.extend(instead);
                at = end;
            }
            None => {
                out.extend([token.clone()]);
                at += 1;
            }
        }
        before.note(token);
    }
    out
}

/// Returns the replacement for the parameter, path or group that begins at `at`, and the position after the replaced
/// tokens.
fn substitution(generics: &Generics, tokens: &[TokenTree], at: usize, before: &Before) -> Option<(TokenStream, usize)> {
    let unit = || quote!(&'__postroom ());
    let end = at + 1;
    match &tokens[at] {
        TokenTree::Ident(ident) if before.may_name() && !is_bound(&tokens[end..]) => {
            generics.params.iter().find_map(|param| match param {
                GenericParam::Type(param) if param.ident == *ident => Some((unit(), end + tail(&tokens[end..]))),
                GenericParam::Const(param) if param.ident == *ident => Some((value_of(&param.ty), end)),
                _ => None,
            })
        }
        TokenTree::Group(group) => {
            let inner = Group::new(group.delimiter(), substitute(generics, &group.stream()));
            Some((TokenTree::Group(inner).into(), end))
        }
        TokenTree::Punct(punct) if punct.as_char() == '<' && before.begins_qualified() => {
            let end = at + qualified(&tokens[at..]);
            let inner = tokens[at..end].iter().cloned().collect();
            let is_ours = names(generics).into_iter().any(|name| occurs(name, &inner));
            is_ours.then(|| (unit(), end + tail(&tokens[end..])))
        }
        _ => None,
    }
}

/// Returns the length of the `<…>` at the beginning of the tokens.
fn qualified(tokens: &[TokenTree]) -> usize {
    let (mut depth, mut arrow) = (0_usize, false);
    for (at, token) in tokens.iter().enumerate() {
        let sign = match token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        match sign {
            '<' => depth += 1,
            '>' if !arrow => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
        arrow = sign == '-';
    }
    tokens.len()
}

/// Returns the length of `::Item::Of<u8>` at the beginning of the tokens.
fn tail(tokens: &[TokenTree]) -> usize {
    let is_sign = |at: usize, sign| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
    let mut length = 0;
    while is_sign(length, ':')
        && is_sign(length + 1, ':')
        && matches!(tokens.get(length + 2), Some(TokenTree::Ident(_)))
    {
        length += 3;
        if is_sign(length, '<') {
            length += qualified(&tokens[length..]);
        }
    }
    length
}

/// Returns whether the tokens begin with `=`, such as those after `K` in `Map<K = u8>`.
fn is_bound(tokens: &[TokenTree]) -> bool {
    let is_equals = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '=');
    tokens.first().is_some_and(is_equals)
}

/// Returns a value of the type of a const parameter.
fn value_of(ty: &Type) -> TokenStream {
    match bare::last_segment(ty).as_deref() {
        Some("bool") => quote!(false),
        Some("char") => quote!(' '),
        _ => quote!(0),
    }
}

/// Returns whether `Self` occurs in `tokens`.
pub(crate) fn contains_self(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "Self",
        TokenTree::Group(group) => contains_self(&group.stream()),
        _ => false,
    })
}

/// Returns whether a lifetime occurs in `tokens`.
pub(crate) fn names_lifetime(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == '\'',
        TokenTree::Group(group) => names_lifetime(&group.stream()),
        _ => false,
    })
}

/// Returns `tokens` with `Self` replaced by its type, and `Self::` by `<the type>::`.
pub(crate) fn without_self(tokens: impl ToTokens, process: &TokenStream) -> TokenStream {
    let mut tokens = tokens.into_token_stream().into_iter().peekable();
    let mut out = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                let in_path = matches!(tokens.peek(), Some(TokenTree::Punct(punct))
                    if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
                out.extend(if in_path { quote!(<#process>) } else { process.clone() });
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_self(group.stream(), process));
                inner.set_span(group.span());
                out.extend([TokenTree::Group(inner)]);
            }
            other => out.extend([other]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::text::text;
    use syn::parse_quote;

    fn used(generics: Generics, tokens: TokenStream) -> String {
        let used = used_in(&generics, &tokens);
        let (_, _, clause) = used.split_for_impl();
        text(quote!(#used #clause))
    }

    #[test]
    fn keeps_only_what_occurs() {
        let generics: Generics = parse_quote!(<K: Hash + Into<V>, V: Clone, const N: usize>);
        assert_eq!(used(generics.clone(), quote!(key: K)), "<K: Hash>");
        assert_eq!(used(generics.clone(), quote!(key: K, value: Option<V>)), "<K: Hash + Into<V>, V: Clone>");
        assert_eq!(used(generics.clone(), quote!(bytes: [u8; N])), "<const N: usize>");
        assert_eq!(used(generics, quote!(other: module::K)), "");
    }

    #[test]
    fn keeps_only_clauses_that_speak_of_what_occurs() {
        let mut generics: Generics = parse_quote!(<K, V>);
        generics.where_clause = Some(parse_quote!(where K: Hash + Into<V>, V: Send, Vec<K>: Debug, Self: Sized));
        assert_eq!(used(generics, quote!(K)), "<K> where K: Hash, Vec<K>: Debug");
    }

    #[test]
    fn puts_a_placeholder_for_each_parameter() {
        let generics: Generics = parse_quote!(<K, V: Iterator, const N: usize, const B: bool>);
        let any = |tokens| for_any(&generics, &tokens).map(text).unwrap_or_default().replace("&'__postroom()", "_");
        assert_eq!(any(quote!(Vec<module::K>)), "");
        assert_eq!(any(quote!(for<'K> fn(&'K u8))), "");
        assert_eq!(any(quote!(Outcome<K>)), "Outcome<_>");
        assert_eq!(any(quote!(Grid<V, N, B>)), "Grid<_, 0, false>");
        assert_eq!(any(quote!([K; N + 1])), "[_; 0 + 1]");
        assert_eq!(any(quote!(Outcome<V::Item>)), "Outcome<_>");
        assert_eq!(any(quote!(Outcome<<V as Iterator>::Item, u8>)), "Outcome<_, u8>");
        assert_eq!(any(quote!(Result<V::Of<u8, Vec<K>>, K>)), "Result<_, _>");
        assert_eq!(any(quote!(<V as Family<K>>::Of<'static>::Item)), "_");
        assert_eq!(any(quote!(Vec<u8>::Of<V>)), "Vec<u8>::Of<_>");
        assert_eq!(any(quote!(Box<dyn Map<K = u8>>)), "");
        assert_eq!(any(quote!(Box<dyn Map<K = V>>)), "Box<dyn Map<K = _>>");
        assert_eq!(any(quote!(Box<dyn Fn(K) -> <u8 as Add>::Output>)), "Box<dyn Fn(_) -> <u8 as Add>::Output>");
    }

    #[test]
    fn replaces_self() {
        let process = quote!(Account<T>);
        assert_eq!(text(without_self(quote!(Vec<Self>), &process)), "Vec<Account<T>>");
        assert_eq!(text(without_self(quote!([u8; Self::SIZE]), &process)), "[u8; <Account<T>>::SIZE]");
    }
}
