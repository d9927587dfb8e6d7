//! `ARCHITECTURE.md` and the tables that it links to name only files and functions that exist, and list all statics and
//! all traits that are used as `dyn`.

use crate::source::{File, cluster, console, macros, nats, runtime};
use proc_macro2::TokenTree;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const TABLES: &str = "runtime/TABLES.md";

fn document(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the texts between backticks, except in fenced blocks. Line breaks become spaces.
fn quoted(text: &str) -> Vec<String> {
    let prose: Vec<_> = text.split("```").step_by(2).collect();
    let words = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    prose.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2)).map(words).collect()
}

/// Returns the files of all crates. Those of the runtime are named by their path in its `src`, the others by their path
/// from the root.
fn all_files() -> Vec<File> {
    let mut files = runtime();
    let others = [("cluster", cluster()), ("cluster/nats", nats()), ("console", console()), ("macros", macros())];
    for (folder, others) in others {
        files.extend(others.into_iter().map(|file| File { path: format!("{folder}/src/{}", file.path), ..file }));
    }
    files
}

#[test]
fn the_files_and_functions_that_are_named_exist() {
    let files = all_files();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut checked, mut wrong) = (0, Vec::new());
    for name in [ARCHITECTURE, TABLES].iter().flat_map(|path| quoted(&document(path))) {
        let (path, function) = name.split_once(": ").map_or((&*name, None), |(path, function)| (path, Some(function)));
        if !path.ends_with(".rs") || path.contains(' ') {
            continue;
        }
        checked += 1;
        let found = files.iter().find(|file| file.path == path);
        match function {
            None if found.is_none() && !root.join(path).exists() => wrong.push(name),
            Some(function) if !found.is_some_and(|file| defines(file, function)) => wrong.push(name),
            _ => {}
        }
    }
    assert!(checked > 100, "only {checked} references were found");
    assert!(wrong.is_empty(), "{ARCHITECTURE} or {TABLES} names what does not exist: {wrong:#?}");
}

/// Returns true if the file defines a function, a type or a method (`Type::method`) of this name.
fn defines(file: &File, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    let mut found = false;
    pairs(&file.tokens, &mut |first, second| {
        found |= second == name && matches!(first, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static");
    });
    found
}

/// Among names without a file, only those with a type (`Type::method`) are checked: a single word may be anything.
#[test]
fn the_methods_and_variants_that_are_named_without_a_file_exist() {
    let files = all_files();
    let words: Vec<BTreeSet<String>> = files.iter().map(|file| words(&file.tokens)).collect();
    let (mut checked, mut wrong) = (0, Vec::new());
    for name in [ARCHITECTURE, TABLES].iter().flat_map(|path| quoted(&document(path))) {
        let Some((ty, method)) = name.split_once("::").filter(|(ty, _)| ty.chars().all(char::is_alphanumeric)) else {
            continue;
        };
        checked += 1;
        if !words.iter().any(|words| words.contains(ty) && words.contains(method)) {
            wrong.push(name);
        }
    }
    assert!(checked > 40, "only {checked} names were found");
    assert!(wrong.is_empty(), "{ARCHITECTURE} or {TABLES} names what does not exist: {wrong:#?}");
}

/// Returns all words of a file, at any depth.
fn words(tokens: &[TokenTree]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for token in tokens {
        match token {
            TokenTree::Ident(word) => _ = found.insert(word.to_string()),
            TokenTree::Group(group) => found.extend(words(&group.stream().into_iter().collect::<Vec<_>>())),
            _ => {}
        }
    }
    found
}

#[test]
fn all_statics_are_listed_and_no_others() {
    let mut defined = BTreeSet::new();
    for file in runtime() {
        pairs(&file.tokens, &mut |first, second| {
            if first == "static" && second.chars().all(|letter| letter.is_uppercase() || letter == '_') {
                defined.insert((file.path.clone(), second.to_string()));
            }
        });
    }
    let text = document(TABLES);
    let (_, table) = text.split_once("## Statics and thread-locals").expect("there is a table of statics");
    let table = table.split("\n## ").next().unwrap_or_default();
    let mut listed = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let mut columns = row.split('|').skip(1);
        let file = columns.next().map(quoted).unwrap_or_default().concat();
        let names = columns.next().map(quoted).unwrap_or_default();
        listed.extend(names.into_iter().map(|name| (file.clone(), name)));
    }
    assert!(defined.len() > 40, "only {} statics were found", defined.len());
    let missing: Vec<_> = defined.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&defined).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not listed: {missing:#?}; listed, and not there: {gone:#?}");
}

#[test]
fn all_traits_that_are_used_as_dyn_are_listed_where_they_are_defined() {
    let (mut defined, mut used) = (BTreeSet::new(), BTreeSet::new());
    for file in runtime() {
        last_words(&file.tokens, &mut |first, second| {
            _ = match first {
                "trait" => defined.insert((second.to_string(), file.path.clone())),
                "dyn" => used.insert(second.to_string()),
                _ => false,
            };
        });
    }
    let text = document(TABLES);
    let (_, table) = text.split_once("## Traits that call upward").expect("there is a table of traits");
    let listed: BTreeSet<_> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|row| {
            let columns: Vec<_> = row.split('|').map(quoted).collect();
            let path = columns[2].concat();
            columns[1].clone().into_iter().map(move |name| (name, path.clone()))
        })
        .collect();
    assert!(listed.len() > 20, "only {} traits are listed", listed.len());
    let wrong: Vec<_> = defined.iter().filter(|row| used.contains(&row.0) && !listed.contains(row)).collect();
    assert!(wrong.is_empty(), "used as `dyn`, and not in the table of {TABLES}: {wrong:#?}");
}

/// The files whose statics need not be part of a world. They hold memory that all worlds may share, resources that
/// exist once per machine, and constants.
const OF_THE_MACHINE: &[&str] = &[
    "actor/tasks/waker.rs",
    "api/interrupt.rs",
    "env/clock.rs",
    "env/cycles.rs",
    "mailbox/node_pool.rs",
    "mem/arena.rs",
    "mem/large_blocks.rs",
    "mem/size_classes.rs",
    "sync/barrier.rs",
    "sync/chaos.rs",
    "util/panics.rs",
    "util/thread_bound.rs",
];

#[test]
fn what_all_hosts_share_is_behind_the_world() {
    let (mut behind, mut beside) = (0, Vec::new());
    for file in runtime() {
        statics(&file.tokens, false, &mut |name, ty| match ty {
            "World" => behind += 1,
            _ if OF_THE_MACHINE.contains(&file.path.as_str()) => {}
            _ => beside.push(format!("{}: {name}", file.path)),
        });
    }
    assert!(behind > 15, "only {behind} are");
    assert!(beside.is_empty(), "make these of the type `World` (`env/world.rs`): {beside:#?}");
}

#[test]
fn a_static_beside_the_world_is_found() {
    let found = |text: &str| {
        let mut found = Vec::new();
        statics(&File::new("x.rs", text).tokens, false, &mut |name, ty| found.push(format!("{name}: {ty}")));
        found
    };
    assert_eq!(found("static A: Mutex<u8> = Mutex::new(0); fn f() { static B: World<u8> = World::new(1); }").len(), 2);
    assert_eq!(
        found("thread_local! { static C: Cell<u8> = const { Cell::new(0) }; } fn f(x: &'static str) {}").len(),
        0
    );
    assert_eq!(found("pub(crate) static D: [World<u8>; 2] = [];"), ["D: ["]);
}

/// Visits the statics that are not thread-local, with the first word of each one's type.
fn statics(tokens: &[TokenTree], is_local: bool, visit: &mut impl FnMut(&str, &str)) {
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1..)) {
            (TokenTree::Ident(word), Some([TokenTree::Ident(name), TokenTree::Punct(colon), ty, ..]))
                if word == "static" && colon.as_char() == ':' && !is_local && !follows_quote(tokens, at) =>
            {
                let ty = ty.to_string();
                visit(&name.to_string(), if ty.starts_with('[') { "[" } else { &ty });
            }
            (TokenTree::Group(group), _) => {
                let before = at.checked_sub(2).and_then(|at| tokens.get(at));
                let is_local = matches!(before, Some(TokenTree::Ident(name)) if name == "thread_local");
                statics(&group.stream().into_iter().collect::<Vec<_>>(), is_local, visit);
            }
            _ => {}
        }
    }
}

/// Returns whether the word at the given position is the name of a lifetime.
fn follows_quote(tokens: &[TokenTree], at: usize) -> bool {
    matches!(at.checked_sub(1).and_then(|at| tokens.get(at)), Some(TokenTree::Punct(quote)) if quote.as_char() == '\'')
}

/// Visits the word after each `trait` and `dyn`, at any depth. If a path follows instead of a word, its last word
/// counts.
fn last_words(tokens: &[TokenTree], visit: &mut impl FnMut(&str, &str)) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(first) if first == "trait" || first == "dyn" => {
                let path = tokens[at + 1..].iter().map_while(|token| match token {
                    TokenTree::Ident(word) if word != "for" => Some(Some(word.to_string())),
                    TokenTree::Punct(colon) if colon.as_char() == ':' => Some(None),
                    _ => None,
                });
                // If a trait is being defined, its name comes first and the words after it belong to bounds.
                let words: Vec<_> = path.flatten().collect();
                let word = if first == "trait" { words.first() } else { words.last() };
                word.into_iter().for_each(|word| visit(&first.to_string(), word));
            }
            TokenTree::Group(group) => last_words(&group.stream().into_iter().collect::<Vec<_>>(), visit),
            _ => {}
        }
    }
}

/// Visits each pair of successive words, at any depth.
fn pairs(tokens: &[TokenTree], visit: &mut impl FnMut(&str, &str)) {
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1)) {
            (TokenTree::Ident(first), Some(TokenTree::Ident(second))) => visit(&first.to_string(), &second.to_string()),
            (TokenTree::Group(group), _) => pairs(&group.stream().into_iter().collect::<Vec<_>>(), visit),
            _ => {}
        }
    }
}
