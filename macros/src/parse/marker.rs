//! `#[entry]`, `#[message]` and `#[signal]` on a method, and the destination of the method's other attributes.
//!
//! Rule: documentation and `#[cfg]` go to the method and to everything generated for it. Attributes below `#[message]`,
//! and `#[derive]` anywhere, go to the message type. Attributes for functions, and those above `#[message]`, stay with
//! the method.

use super::message_options;
use crate::check::attributes;
use crate::check::diagnostics::Diagnostics;
use syn::{Attribute, Path, parse_quote};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Entry,
    Message,
    Signal,
}

impl Role {
    /// Returns the role with its article: "an entry", "a message", "a signal".
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Entry => "an entry",
            Self::Message => "a message",
            Self::Signal => "a signal",
        }
    }

    /// Returns the role that an attribute gives to a method, or `None` if it is not one of ours.
    pub(crate) fn of(path: &Path, krate: &Path) -> Option<Self> {
        let segments = &path.segments;
        let named_here = segments.len() == 1
            || segments.len() == 2
                && (segments[0].ident == "postroom"
                    || krate.segments.last().map(|last| &last.ident) == Some(&segments[0].ident));
        let role = match segments.last()?.ident.to_string().as_str() {
            "entry" => Self::Entry,
            "message" => Self::Message,
            "signal" => Self::Signal,
            _ => return None,
        };
        named_here.then_some(role)
    }
}

/// The role of a method, and the attributes for the generated items.
pub(crate) struct Marked {
    pub(crate) role: Role,
    pub(crate) marker: Attribute,
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) deprecated: Vec<Attribute>,
    pub(crate) of_message: Vec<Attribute>,
}

/// Removes the marker and the message's attributes from a method. Returns `None` for a plain method.
pub(crate) fn take(attrs: &mut Vec<Attribute>, krate: &Path, diagnostics: &mut Diagnostics) -> Option<Marked> {
    let found = attrs.iter().enumerate().find_map(|(at, attribute)| Some((at, Role::of(attribute.path(), krate)?)));
    let Some((position, role)) = found else {
        refuse_conditional(attrs, krate, diagnostics);
        return None;
    };
    let below = attributes::flat(attrs.split_off(position + 1));
    *attrs = attributes::flat(std::mem::take(attrs));
    let position = attrs.len() - 1;
    attrs.extend(below);
    let marker = attrs.remove(position);
    let owns_type = role == Role::Message && !message_options::names_type(&marker.meta);
    let mut marked =
        Marked { role, marker, cfgs: Vec::new(), docs: Vec::new(), deprecated: Vec::new(), of_message: Vec::new() };
    let mut own = Vec::new();
    for (at, attribute) in attrs.drain(..).enumerate() {
        if let Some(second) = Role::of(attribute.path(), krate) {
            let what = if second == role { "this attribute appears twice" } else { "a method has one role" };
            diagnostics.on(&attribute, format!("{what}: this one is already {}", role.what()), "remove it");
            continue;
        }
        let name = attributes::path(&attribute).get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "cfg" => marked.cfgs.push(attribute.clone()),
            "doc" => marked.docs.push(attribute.clone()),
            "deprecated" => marked.deprecated.push(attribute.clone()),
            "derive" if role == Role::Message && !owns_type => {
                let what = "the message type is defined elsewhere: only a type generated here can have a `derive`";
                diagnostics.on(&attribute, what, "remove it");
                continue;
            }
            "derive" if role != Role::Message => {
                diagnostics.on(&attribute, format!("{} has no type to derive for", role.what()), "remove it");
                continue;
            }
            "derive" => {
                marked.of_message.push(attribute);
                continue;
            }
            _ if owns_type && at >= position && !is_about_functions(&attribute) => {
                marked.of_message.push(attribute);
                continue;
            }
            _ => {}
        }
        own.push(attribute);
    }
    *attrs = own;
    Some(marked)
}

/// Removes and reports markers inside `cfg_attr`.
fn refuse_conditional(attrs: &mut Vec<Attribute>, krate: &Path, diagnostics: &mut Diagnostics) {
    attrs.retain(|attribute| {
        let is_marker = |one: &Attribute| Role::of(&attributes::path(one), krate).is_some();
        let refused = attributes::flat(vec![attribute.clone()]).iter().any(is_marker);
        if refused {
            let what =
                "what a method is cannot depend on a condition; whether it exists can: `#[cfg(…)]` below its marker";
            diagnostics.on(attribute, what, "remove it");
        }
        !refused
    });
}

/// Like [`take`], for a method that is a message by default, as all methods of a protocol are.
pub(crate) fn take_message(attrs: &mut Vec<Attribute>, krate: &Path, diagnostics: &mut Diagnostics) -> Marked {
    if !attrs.iter().any(|attribute| Role::of(attribute.path(), krate).is_some()) {
        attrs.push(parse_quote!(#[message]));
    }
    match take(attrs, krate, diagnostics) {
        Some(marked) => marked,
        None => unreachable!("a marker is there"),
    }
}

/// Returns whether the attribute is meaningful on functions but not on structs.
fn is_about_functions(attribute: &Attribute) -> bool {
    const ABOUT_FUNCTIONS: &[&str] = &[
        "allow",
        "cold",
        "deny",
        "expect",
        "forbid",
        "inline",
        "instrument",
        "must_use",
        "rustfmt",
        "target_feature",
        "track_caller",
        "warn",
    ];
    let segments = attributes::path(attribute).segments;
    let first = segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
    let last = segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    first == "clippy" || ABOUT_FUNCTIONS.contains(&first.as_str()) || ABOUT_FUNCTIONS.contains(&last.as_str())
}
