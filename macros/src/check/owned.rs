//! Types that a message can carry: messages, answers and inputs of entries are owned.
//!
//! `check` reports a type that borrows, is hidden or unsized, and names the owned type to write instead.

use super::bare::bare;
use super::diagnostics::Diagnostics;
use super::text::text;
use quote::quote;
use syn::{GenericArgument, Lifetime, PathArguments, Type, TypeParamBound, TypePath, parse_quote};

/// Returns the type or, if it is wrong, the type to write instead. `what` is the role of the type, such as "a message's
/// argument".
pub(crate) fn check(ty: &Type, what: &str, diagnostics: &mut Diagnostics) -> Type {
    match fault(ty, what) {
        None => ty.clone(),
        Some((what, instead)) => {
            diagnostics.on(ty, what, format!("write `{}`", text(&instead)));
            instead
        }
    }
}

/// Returns the error in a type, and the type to write instead.
pub(crate) fn fault(ty: &Type, what: &str) -> Option<(String, Type)> {
    let why = match ty {
        Type::Reference(_) => "cannot borrow: it outlives the call",
        Type::ImplTrait(_) => "needs a type with a name",
        _ if is_unsized(ty) => "needs a type with a size",
        _ => "cannot borrow, not even inside its type: it outlives the call",
    };
    let instead = owned(ty)?;
    Some((format!("{what} {why}"), instead))
}

pub(crate) fn is_unsized(ty: &Type) -> bool {
    match bare(ty) {
        Type::TraitObject(_) | Type::Slice(_) => true,
        Type::Path(path) => path.path.is_ident("str"),
        _ => false,
    }
}

/// Returns the owned type nearest to `ty`, or `None` if `ty` is owned.
fn owned(ty: &Type) -> Option<Type> {
    match ty {
        Type::Reference(reference) if is_static(reference.lifetime.as_ref()) => None,
        Type::Reference(reference) => {
            let target = reference.elem.as_ref();
            Some(owned(target).unwrap_or_else(|| unsized_text(target).unwrap_or_else(|| target.clone())))
        }
        Type::ImplTrait(hidden) => Some(named(hidden.bounds.iter().cloned().collect())),
        Type::TraitObject(object) => {
            let bounds = &object.bounds;
            Some(parse_quote!(Box<dyn #bounds + Send>))
        }
        Type::Slice(slice) => {
            let elem = owned(&slice.elem).unwrap_or_else(|| (*slice.elem).clone());
            Some(parse_quote!(Vec<#elem>))
        }
        Type::Path(_) if is_unsized(ty) => Some(parse_quote!(String)),
        Type::Path(path) => owned_path(path),
        Type::Tuple(tuple) => {
            let mut tuple = tuple.clone();
            let replaced = tuple.elems.iter_mut().filter_map(|elem| replace(elem).then_some(())).count();
            (replaced > 0).then_some(Type::Tuple(tuple))
        }
        Type::Array(array) => {
            let mut array = array.clone();
            replace(&mut array.elem).then_some(Type::Array(array))
        }
        Type::Paren(paren) => owned(&paren.elem),
        Type::Group(group) => owned(&group.elem),
        _ => None,
    }
}

fn replace(ty: &mut Type) -> bool {
    let Some(instead) = owned(ty) else { return false };
    *ty = instead;
    true
}

fn is_static(lifetime: Option<&Lifetime>) -> bool {
    lifetime.is_some_and(|lifetime| lifetime.ident == "static")
}

/// Returns the owned type for a type of borrowed text, such as `Path`. The type is recognized by its usual name.
fn unsized_text(target: &Type) -> Option<Type> {
    let Type::Path(path) = target else { return None };
    Some(match path.path.segments.last()?.ident.to_string().as_str() {
        "Path" => parse_quote!(std::path::PathBuf),
        "OsStr" => parse_quote!(std::ffi::OsString),
        "CStr" => parse_quote!(std::ffi::CString),
        _ => return None,
    })
}

/// Replaces references and lifetimes in the arguments of a path, such as `Option<&str>` or `Cow<'a, str>`.
/// `Box<dyn Trait>` and other owners of unsized types stay as they are.
fn owned_path(path: &TypePath) -> Option<Type> {
    let mut path = path.clone();
    let mut changed = false;
    for segment in &mut path.path.segments {
        let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else { continue };
        for argument in &mut arguments.args {
            match argument {
                GenericArgument::Type(inner) if !is_unsized(inner) => changed |= replace(inner),
                GenericArgument::Lifetime(lifetime) if lifetime.ident != "static" => {
                    *lifetime = Lifetime::new("'static", lifetime.span());
                    changed = true;
                }
                _ => {}
            }
        }
    }
    changed.then_some(Type::Path(path))
}

/// Returns a named type to write in place of `impl Trait`.
fn named(bounds: Vec<TypeParamBound>) -> Type {
    if let Some(TypeParamBound::Trait(bound)) = bounds.first()
        && let Some(segment) = bound.path.segments.last()
    {
        let target = match &segment.arguments {
            PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(GenericArgument::Type(target)) => Some(target.clone()),
                _ => None,
            },
            _ => None,
        };
        match (segment.ident.to_string().as_str(), target) {
            ("Into" | "AsRef" | "Borrow", Some(target)) => {
                return owned(&target).or_else(|| unsized_text(&target)).unwrap_or(target);
            }
            ("ToString" | "Display", _) => return parse_quote!(String),
            _ => {}
        }
    }
    let bounds: Vec<_> = bounds.into_iter().filter(|bound| matches!(bound, TypeParamBound::Trait(_))).collect();
    let send = bounds.iter().any(|bound| matches!(bound, TypeParamBound::Trait(bound) if bound.path.is_ident("Send")));
    let plus = if send { quote!() } else { quote!(+ Send) };
    parse_quote!(Box<dyn #(#bounds)+* #plus>)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instead(ty: Type) -> String {
        owned(&ty).map(text).unwrap_or_default()
    }

    #[test]
    fn leaves_what_is_owned() {
        for ty in
            ["i64", "&'static str", "Box<dyn Fn(&str) -> i64 + Send>", "Arc<str>", "fn(&str) -> usize", "Box<[u8]>"]
        {
            let ty: Type = syn::parse_str(ty).unwrap();
            assert_eq!(instead(ty), "");
        }
    }

    #[test]
    fn names_the_owner() {
        assert_eq!(instead(parse_quote!(&str)), "String");
        assert_eq!(instead(parse_quote!(&'a [u8])), "Vec<u8>");
        assert_eq!(instead(parse_quote!(&mut Account)), "Account");
        assert_eq!(instead(parse_quote!(&std::path::Path)), "std::path::PathBuf");
        assert_eq!(instead(parse_quote!(Option<&str>)), "Option<String>");
        assert_eq!(instead(parse_quote!((i64, Vec<&'a str>))), "(i64, Vec<String>)");
        assert_eq!(instead(parse_quote!(Cow<'_, str>)), "Cow<'static, str>");
    }

    #[test]
    fn names_what_hides() {
        assert_eq!(instead(parse_quote!(impl Into<String>)), "String");
        assert_eq!(instead(parse_quote!(impl AsRef<str>)), "String");
        assert_eq!(instead(parse_quote!(impl Fn(i64) -> i64)), "Box<dyn Fn(i64) -> i64 + Send>");
        assert_eq!(instead(parse_quote!(dyn Shape)), "Box<dyn Shape + Send>");
    }
}
