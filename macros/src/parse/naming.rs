//! Names: those of the generated types, those of the variables in generated code, and those that methods cannot have.
//!
//! Rule: generated code is surrounded by the user's items, and its types, methods and patterns mention them. So it must
//! not use a name that the user may have defined. Items of the language and of the runtime are named by their full path
//! (`::core::primitive::bool`), functions are called by path and not as methods, and every other name begins with the
//! reserved prefix `__postroom`, in one of its spellings. Types that users do name (`AccountDeposit`) are placed beside
//! the user's items, as if the user had written them. `tests/ui/names.rs` compiles programs that define every name in
//! expansions.

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::ext::IdentExt;

/// Returns the name of a message type: `Account` and `deposit` make `AccountDeposit`. Its span is that of the method's
/// name, so that editors jump to it.
pub(crate) fn message_type(process: &Ident, method: &Ident) -> Ident {
    format_ident!(
        "{}{}",
        process.unraw(),
        camel_case(&method.unraw().to_string()),
        span = method.span().resolved_at(Span::call_site())
    )
}

/// Returns the name of a type that users do not name: the type that addresses (`Client`) or spawn builders (`Entries`)
/// dereference to. The name must not hide a type of the user, such as the message `AccountEntries` of a method
/// `entries`.
pub(crate) fn handle_type(process: &Ident, word: &str) -> Ident {
    format_ident!("__Postroom{}{word}", process.unraw(), span = process.span().resolved_at(Span::call_site()))
}

/// Returns the name of a type or a type parameter in generated code.
pub(crate) fn hidden_type(name: &str) -> Ident {
    format_ident!("__Postroom{name}")
}

/// Returns the name of a local variable. Hygiene keeps it apart from the user's variables, but a pattern with the name
/// of a user's constant would refer to the constant.
pub(crate) fn local(name: &str) -> Ident {
    format_ident!("__postroom_{name}", span = Span::mixed_site())
}

/// Returns a method's name as a number, where only a number is possible: its FNV-1a hash.
pub(crate) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn camel_case(snake: &str) -> String {
    snake
        .split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
        })
        .collect()
}

/// Methods that every address already has: `address.name()` would never reach a message of that name.
const ON_ADDRESSES: &[&str] = &["pid", "narrow"];

/// Methods of the spawn builder: `spawn(…).name()` would never reach an entry of that name.
const ON_SPAWNS: &[&str] = &["named", "linked", "monitored", "owned", "mailbox", "label", "value", "or_existing"];

/// Methods of traits that addresses and spawn builders implement or may implement.
const OF_TRAITS: &[&str] = &[
    "as_mut",
    "as_ref",
    "borrow",
    "borrow_mut",
    "clamp",
    "clone",
    "clone_from",
    "clone_into",
    "cmp",
    "deref",
    "deref_mut",
    "drop",
    "eq",
    "fmt",
    "from",
    "ge",
    "gt",
    "hash",
    "into",
    "into_future",
    "le",
    "lt",
    "max",
    "min",
    "ne",
    "partial_cmp",
    "to_owned",
    "to_string",
    "try_from",
    "try_into",
    "type_id",
];

/// Returns why a message cannot have this name, or `None` if it can.
pub(crate) fn reserved_for_messages(name: &str) -> Option<&'static str> {
    reserved(name, ON_ADDRESSES, "every address has a method of its own of that name")
}

/// Returns why an entry cannot have this name, or `None` if it can.
pub(crate) fn reserved_for_entries(name: &str) -> Option<&'static str> {
    reserved(name, ON_SPAWNS, "it is an option of `spawn`")
}

fn reserved(name: &str, own: &[&str], why: &'static str) -> Option<&'static str> {
    if own.contains(&name) {
        Some(why)
    } else if OF_TRAITS.contains(&name) {
        Some("it is a method of a common trait")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_messages_for_process_and_method() {
        let account = format_ident!("Account");
        assert_eq!(message_type(&account, &format_ident!("deposit")), "AccountDeposit");
        assert_eq!(message_type(&account, &format_ident!("close_all_2")), "AccountCloseAll2");
        assert_eq!(message_type(&account, &format_ident!("_hidden")), "AccountHidden");
        assert_eq!(message_type(&account, &format_ident!("r#move")), "AccountMove");
        assert_eq!(message_type(&format_ident!("r#Account"), &format_ident!("über")), "AccountÜber");
    }

    #[test]
    fn reserves_what_would_shadow() {
        assert!(reserved_for_messages("pid").is_some() && reserved_for_messages("clone").is_some());
        assert!(reserved_for_messages("named").is_none() && reserved_for_messages("stop").is_none());
        assert!(reserved_for_entries("named").is_some() && reserved_for_entries("into").is_some());
        assert!(reserved_for_entries("pid").is_none());
    }
}
