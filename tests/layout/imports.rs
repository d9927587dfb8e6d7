//! Imports between the folders of a crate run downward. A folder of `runtime/src` imports only from folders above it in
//! the table of `ARCHITECTURE.md`, which lists them from the bottom up. A folder of another crate imports only from the
//! folders listed before it in this file. So there is no cycle among folders either.
//!
//! A path counts as an import wherever it occurs: in `use`, in code, or in the arguments of a macro. A name that a
//! folder's `mod.rs` exports counts as an item of that folder. A name that the crate exports counts as an item of the
//! file that defines it.

use crate::source::{File, cluster, console, macros, nats, runtime};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A path in the source, from the root of the crate.
type Absolute = Vec<String>;

#[test]
fn folders_import_downward() {
    let order = documented();
    let order: Vec<_> = order.iter().map(String::as_str).collect();
    let wrong = check(&order, &runtime());
    assert!(wrong.is_empty(), "{} imports against ARCHITECTURE.md:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn folders_of_the_macros_import_downward() {
    let wrong = check(&["check", "parse", "expand"], &macros());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn folders_of_the_cluster_import_downward() {
    let order = [
        "random.rs",
        "store",
        "engine.rs",
        "conformance.rs",
        "clock.rs",
        "threads.rs",
        "info.rs",
        "wire.rs",
        "envelope.rs",
        "reply.rs",
        "access.rs",
        "subject.rs",
        "rights.rs",
        "frame",
        "lease",
        "membership",
        "names",
        "codec",
        "starts.rs",
        "session",
        "directory",
        "eventual",
        "groups",
        "keyed",
        "topics",
        "memory",
        "node",
        "api.rs",
        "testing",
    ];
    let wrong = check(&order, &cluster());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_of_the_engine_on_nats_import_downward() {
    let order = [
        "completion.rs",
        "connection.rs",
        "tls.rs",
        "settings.rs",
        "problem.rs",
        "keys.rs",
        "table.rs",
        "requests.rs",
        "shared.rs",
        "replay.rs",
        "store.rs",
        "tombstones.rs",
        "lane.rs",
        "subscriptions.rs",
        "watch.rs",
    ];
    let wrong = check(&order, &nats());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn folders_of_the_console_import_downward() {
    let order = [
        "priority.rs",
        "token.rs",
        "error.rs",
        "methods.rs",
        "answer.rs",
        "samples",
        "taps.rs",
        "api",
        "metrics.rs",
        "acts.rs",
        "watch.rs",
        "trace",
        "routes.rs",
        "server.rs",
        "options.rs",
    ];
    let wrong = check(&order, &console());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the folders in the first column of the table in `ARCHITECTURE.md`.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let text = fs::read_to_string(path).expect("ARCHITECTURE.md exists");
    let heading = "## Folders, from the bottom up";
    let (_, section) = text.split_once(heading).unwrap_or_else(|| panic!("ARCHITECTURE.md has no `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let folders: Vec<_> = rows.map(|(folder, _)| folder.to_string()).collect();
    assert!(folders.len() > 20, "the table has only {} folders", folders.len());
    folders
}

/// Returns the violations of the order: folders that are missing from it or do not exist, and upward imports.
fn check(order: &[&str], files: &[File]) -> Vec<String> {
    let rank: BTreeMap<_, _> = order.iter().enumerate().map(|(rank, folder)| (*folder, rank)).collect();
    let files: Vec<_> = files.iter().filter(|file| file.path != "lib.rs").chain(root(files)).collect();
    let modules: BTreeMap<_, _> = files.iter().map(|file| (file.module(), *file)).collect();
    let exported = root(files.iter().copied()).map_or_else(BTreeMap::new, |root| exports(root, &modules));
    let mut wrong = Vec::new();
    let folders: BTreeSet<_> =
        files.iter().map(|file| place(file, &rank)).filter(|folder| *folder != "lib.rs").collect();
    wrong.extend(folders.iter().filter(|folder| !rank.contains_key(*folder)).map(|new| format!("{new} is not listed")));
    wrong.extend(order.iter().filter(|folder| !folders.contains(*folder)).map(|old| format!("{old} does not exist")));
    for file in files.iter().filter(|file| file.path != "lib.rs") {
        let from = place(file, &rank);
        for path in paths(file, &modules) {
            let Some(target) = resolve(&path, &modules, &exported) else { continue };
            let to = place(target, &rank);
            if rank.get(from).zip(rank.get(to)).is_some_and(|(from, to)| to > from) {
                wrong.push(format!("{} imports {} of {}, which is above it", file.path, path.join("::"), target.path));
            }
        }
    }
    wrong
}

fn root<'a>(files: impl IntoIterator<Item = &'a File>) -> Option<&'a File> {
    files.into_iter().find(|file| file.path == "lib.rs")
}

/// Returns the folder whose place in the order the file has. A file's sub-modules, in a folder of the same name, belong
/// to the folder of that file.
fn place<'a>(file: &'a File, rank: &BTreeMap<&'a str, usize>) -> &'a str {
    let mut folder = file.folder();
    while !rank.contains_key(folder) {
        // The file is a sub-module of a file in the root folder.
        if let Some((root, _)) = rank.get_key_value(&*format!("{folder}.rs")) {
            return root;
        }
        match folder.rsplit_once('/') {
            Some((outer, _)) if !file.path.ends_with("/mod.rs") => folder = outer,
            _ => return file.folder(),
        }
    }
    folder
}

type Modules<'a> = BTreeMap<Vec<&'a str>, &'a File>;

/// Returns the exports of the crate's root, each with its path.
fn exports(root: &File, modules: &Modules<'_>) -> BTreeMap<String, Absolute> {
    paths(root, modules).into_iter().filter_map(|path| Some((path.last()?.clone(), path))).collect()
}

/// Returns the file in which a path's item is defined.
fn resolve<'a>(path: &[String], modules: &Modules<'a>, exported: &BTreeMap<String, Absolute>) -> Option<&'a File> {
    let path = match path {
        [name, ..] => {
            exported.get(name).filter(|_| !modules.contains_key(&vec![name.as_str()])).map_or(path, Vec::as_slice)
        }
        [] => path,
    };
    (1..=path.len()).rev().find_map(|length| {
        let module: Vec<_> = path[..length].iter().map(String::as_str).collect();
        modules.get(&module).copied()
    })
}

/// Returns all paths in a file that start with `crate`, `self`, `super` or a child module of the file.
fn paths(file: &File, modules: &Modules<'_>) -> Vec<Absolute> {
    let module: Absolute = file.module().iter().map(ToString::to_string).collect();
    let mut found = Vec::new();
    search(&file.tokens, &module, modules, &mut found);
    found
}

fn search(tokens: &[TokenTree], module: &[String], modules: &Modules<'_>, found: &mut Vec<Absolute>) {
    let mut at = 0;
    while at < tokens.len() {
        if let TokenTree::Ident(name) = &tokens[at] {
            let continues = at > 1 && is_colons(&tokens[at - 2..at]);
            if let Some(start) = (!continues).then(|| start(&name.to_string(), module, modules)).flatten() {
                at += 1;
                path(tokens, &mut at, start, found);
                continue;
            }
        }
        if let TokenTree::Group(group) = &tokens[at] {
            let inside: Vec<_> = group.stream().into_iter().collect();
            // An inline module is one level deeper.
            let name = at.checked_sub(2).and_then(|before| match &tokens[before..at] {
                [TokenTree::Ident(keyword), TokenTree::Ident(name)] if keyword == "mod" => Some(name.to_string()),
                _ => None,
            });
            let inner: Vec<_> = module.iter().cloned().chain(name).collect();
            search(&inside, &inner, modules, found);
        }
        at += 1;
    }
}

/// Returns the module that the first name of a path denotes.
fn start(name: &str, module: &[String], modules: &Modules<'_>) -> Option<Absolute> {
    match name {
        "crate" => Some(Vec::new()),
        "self" => Some(module.to_vec()),
        "super" => Some(module.split_last().map_or_else(Vec::new, |(_, outer)| outer.to_vec())),
        _ => {
            let child: Vec<_> = module.iter().map(String::as_str).chain([name]).collect();
            modules.contains_key(&child).then(|| child.into_iter().map(str::to_string).collect())
        }
    }
}

/// Follows a path, or each path of a tree, after its first name.
pub(crate) fn path(tokens: &[TokenTree], at: &mut usize, mut so_far: Absolute, found: &mut Vec<Absolute>) {
    while *at + 2 < tokens.len() + 1 && tokens.get(*at..*at + 2).is_some_and(is_colons) {
        match tokens.get(*at + 2) {
            Some(TokenTree::Ident(name)) if name == "super" => drop(so_far.pop()),
            Some(TokenTree::Ident(name)) => so_far.push(name.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                branches(&group.stream().into_iter().collect::<Vec<_>>(), &so_far, found);
                *at += 3;
                return;
            }
            _ => {
                *at += 2;
                break;
            }
        }
        *at += 3;
    }
    found.push(so_far);
}

/// Follows the branches of a tree of paths.
fn branches(tokens: &[TokenTree], before: &Absolute, found: &mut Vec<Absolute>) {
    for branch in tokens.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')) {
        if let Some(TokenTree::Ident(name)) = branch.first() {
            let mut path_of = before.clone();
            if name != "self" {
                path_of.push(name.to_string());
            }
            path(branch, &mut 1, path_of, found);
        }
    }
}

fn is_colons(tokens: &[TokenTree]) -> bool {
    tokens.iter().all(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':'))
}

/// The order of the test's folders, from the bottom up.
const ORDER: [&str; 4] = ["low", "middle/inner", "middle", "high"];

fn planted(low: &str) -> Vec<String> {
    let files = [
        ("lib.rs", "mod low; mod middle; mod high; pub use high::thing::Thing; pub use low::base::Base;"),
        ("low/mod.rs", "mod base;"),
        ("low/base.rs", low),
        ("middle/mod.rs", "mod inner; pub(crate) use inner::part::Part;"),
        ("middle/inner/mod.rs", "mod part;"),
        ("middle/inner/part.rs", "use crate::low::base; struct Part;"),
        ("high/mod.rs", "mod thing;"),
        ("high/thing.rs", "use crate::middle::{Part, inner::part}; use crate::Base;"),
    ];
    check(&ORDER, &files.map(|(path, text)| File::new(path, text)))
}

#[test]
fn an_import_upward_is_found_wherever_it_stands() {
    assert_eq!(planted("struct Base;"), Vec::<String>::new());
    let upward = [
        "use crate::high::thing::Thing;",
        "use crate::{low::base, middle::{self, Part}};",
        "use super::super::high::thing;",
        "use crate::Thing;",
        "fn call() { crate::high::thing::call(); }",
        "fn call() { assert!(matches!(1, crate::middle::Part)); }",
        "mod inline { use super::super::super::high::thing; }",
        "#[cfg(not(test))] fn call() { crate::high::thing::call(); }",
    ];
    for text in upward {
        let wrong = planted(text);
        assert!(!wrong.is_empty() && wrong[0].contains("which is above it"), "{text}: {wrong:?}");
    }
    assert_eq!(planted("#[cfg(test)] mod tests { use crate::high::thing::Thing; }"), Vec::<String>::new());
    assert_eq!(planted("#[cfg(test)] use crate::high::thing::Thing;"), Vec::<String>::new());
}

#[test]
fn folders_that_are_not_listed_or_do_not_exist_are_found() {
    let files = [("lib.rs", "mod low; mod new;"), ("low/mod.rs", ""), ("new/mod.rs", "use crate::low::base;")];
    let wrong = check(&["low", "gone"], &files.map(|(path, text)| File::new(path, text)));
    assert_eq!(wrong, ["new is not listed", "gone does not exist"]);
}
