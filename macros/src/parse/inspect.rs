//! `#[inspect(skip)]` on a field of a process, or an argument of a message.

use crate::check::diagnostics::Diagnostics;
use syn::{Attribute, Field, Fields, Ident, Variant};

/// Removes the `#[inspect(…)]` attributes from fields. Returns which fields are skipped.
pub(crate) fn skipped(fields: &mut Fields, is_asked: bool, diagnostics: &mut Diagnostics) -> Vec<bool> {
    fields.iter_mut().map(|field| is_skipped(field, is_asked, diagnostics)).collect()
}

fn is_skipped(field: &mut Field, is_asked: bool, diagnostics: &mut Diagnostics) -> bool {
    let mut skips = false;
    for attribute in take(&mut field.attrs) {
        skips = true;
        if !is_skip(&attribute) {
            diagnostics.on(&attribute, "a field is shown, or left out", "write `#[inspect(skip)]`");
        } else if !is_asked {
            let what = "`#[inspect(skip)]` has no effect: the type does not say `#[process(inspect)]`";
            diagnostics.on(&attribute, what, "remove it");
        }
    }
    skips
}

/// Removes and reports the attributes on a variant, where they are a mistake.
pub(crate) fn not_on_variant(variant: &mut Variant, diagnostics: &mut Diagnostics) {
    for attribute in take(&mut variant.attrs) {
        diagnostics.on(&attribute, "`#[inspect(skip)]` is for fields: a variant is always shown", "remove it");
    }
}

/// Returns whether this is `#[inspect(…)]`.
pub(crate) fn is_one(attribute: &Attribute) -> bool {
    attribute.path().is_ident("inspect")
}

pub(crate) fn is_skip(attribute: &Attribute) -> bool {
    attribute.parse_args::<Ident>().is_ok_and(|word| word == "skip")
}

fn take(attrs: &mut Vec<Attribute>) -> Vec<Attribute> {
    let (taken, rest) = std::mem::take(attrs).into_iter().partition(is_one);
    *attrs = rest;
    taken
}
