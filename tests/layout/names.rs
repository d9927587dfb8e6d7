//! One meaning per name: no two types of a crate have the same name, wherever they are defined.

use crate::source::{File, cluster, console, macros, nats, runtime};
use proc_macro2::TokenTree;
use std::collections::BTreeMap;

#[test]
fn every_type_has_a_name_of_its_own() {
    for files in [runtime(), macros(), cluster(), nats(), console()] {
        let twice = twice(&files);
        assert!(twice.is_empty(), "types that are defined in several places: {twice:#?}");
    }
}

/// Returns the types that are defined more than once, with their files.
fn twice(files: &[File]) -> BTreeMap<String, Vec<&str>> {
    let mut types: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // A stand-in has the same names as the module that it replaces.
    for file in files.iter().filter(|file| !file.path.ends_with("observe/no_spans.rs")) {
        let mut names = Vec::new();
        search(&file.tokens, false, &mut names);
        names.into_iter().for_each(|name| types.entry(name).or_default().push(&file.path));
    }
    assert!(!types.is_empty());
    types.retain(|_, files| files.len() > 1);
    types
}

/// Collects the names after `struct`, `enum`, `trait` or `union`, and after `type` outside of traits and their
/// implementations.
fn search(tokens: &[TokenTree], in_trait: bool, names: &mut Vec<String>) {
    let mut opens_trait = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(keyword) => {
                let keyword = keyword.to_string();
                let defines = matches!(keyword.as_str(), "struct" | "enum" | "trait" | "union");
                opens_trait |= matches!(keyword.as_str(), "trait" | "impl");
                if let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
                    && (defines || (keyword == "type" && !in_trait))
                    && name.to_string().starts_with(char::is_uppercase)
                {
                    names.push(name.to_string());
                }
            }
            TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace => {
                search(&group.stream().into_iter().collect::<Vec<_>>(), opens_trait, names);
                opens_trait = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => opens_trait = false,
            _ => {}
        }
    }
}

#[test]
fn a_name_that_is_used_twice_is_found() {
    let one =
        "struct One; trait Walks { type Item; } impl Walks for One { type Item = u8; } fn f() -> impl Walks { One }";
    let files = |two: &str| [File::new("one.rs", one), File::new("two.rs", two)];
    assert!(
        twice(&files("enum Two {} impl Walks for Two { type Item = u8; } #[cfg(test)] mod tests { struct One; }"))
            .is_empty()
    );
    for two in ["struct One;", "fn f() { struct One(u8); }", "type One = u8;", "mod inner { enum Walks {} }"] {
        assert_eq!(twice(&files(two)).len(), 1, "{two}");
    }
}
