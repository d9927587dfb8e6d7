//! Unwraps types and values: removes the invisible group of a `macro_rules` fragment, and parentheses.

use syn::{Expr, GenericArgument, PathArguments, Type, TypePath};

/// Strips groups and parentheses from a type. Code that matches on the kind of a type must match on the result.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        _ => ty,
    }
}

/// Like [`bare`], but returns a mutable reference.
pub(crate) fn bare_mut(ty: &mut Type) -> &mut Type {
    match ty {
        Type::Group(group) => bare_mut(&mut group.elem),
        Type::Paren(paren) => bare_mut(&mut paren.elem),
        ty => ty,
    }
}

/// Strips groups and parentheses from the value of an option.
pub(crate) fn bare_value(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => bare_value(*group.expr),
        Expr::Paren(paren) => bare_value(*paren.expr),
        _ => value,
    }
}

/// Returns the path, if the type is a path.
pub(crate) fn path(ty: &Type) -> Option<&TypePath> {
    match bare(ty) {
        Type::Path(path) => Some(path),
        _ => None,
    }
}

/// Returns the last segment of a type's path. References to the type are ignored.
pub(crate) fn last_segment(ty: &Type) -> Option<String> {
    match bare(ty) {
        Type::Reference(reference) => last_segment(&reference.elem),
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

/// Returns the type arguments of a path's last segment.
pub(crate) fn arguments(path: &TypePath) -> Vec<&Type> {
    let Some(PathArguments::AngleBracketed(arguments)) = path.path.segments.last().map(|last| &last.arguments) else {
        return Vec::new();
    };
    arguments
        .args
        .iter()
        .filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        })
        .collect()
}
