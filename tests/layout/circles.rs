//! No two files need each other, directly or through others. So a reader can read a file together with its imports, and
//! stop there.
//!
//! A file needs the files that define the targets of its paths, wherever a path occurs: in `use`, in code, in a macro.
//! A re-exported name belongs to the file that defines it. A file that re-exports a name needs that definition only if
//! it also uses the name. A method call requires no import, and does not count.

use crate::source::{File, cluster, console, macros, nats, runtime};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// The remaining circles, by crate. None may be added, and a circle that has been cut must be removed here.
///
/// The circle in the runtime follows from a recursive definition: a process takes input and writes output, and either
/// may contain another process that replaces it (an upgrade).
const LEFT: [(&str, &[&[&str]]); 5] = [
    (
        "runtime",
        &[&[
            "process/body.rs",
            "process/control.rs",
            "process/event.rs",
            "process/handover.rs",
            "process/input.rs",
            "process/kind.rs",
            "process/mod.rs",
            "process/output.rs",
            "process/rare_events.rs",
            "process/resume.rs",
        ]],
    ),
    ("macros", &[]),
    ("cluster", &[]),
    ("cluster/nats", &[]),
    ("console", &[]),
];

#[test]
fn files_do_not_import_in_circles() {
    for (files, (name, left)) in [runtime(), macros(), cluster(), nats(), console()].iter().zip(LEFT) {
        let found = circles(files);
        let left: Vec<Vec<&str>> = left.iter().map(|circle| circle.to_vec()).collect();
        assert_eq!(found, left, "the circles of {name}");
    }
}

/// A path from the root of the crate.
type Absolute = Vec<String>;

/// A `use` of one name.
struct Use {
    path: Absolute,
    /// The imported name, or `*`.
    name: String,
    is_exported: bool,
}

/// The definitions and uses of a file.
#[derive(Default)]
struct Content {
    defines: BTreeSet<String>,
    uses: Vec<Use>,
    /// The paths in code.
    paths: Vec<Absolute>,
    /// The names in code.
    names: BTreeSet<String>,
}

struct Files<'a> {
    by_module: BTreeMap<Absolute, usize>,
    files: &'a [File],
    contents: Vec<Content>,
}

/// Returns the circles, each as a sorted list of files.
fn circles(files: &[File]) -> Vec<Vec<&str>> {
    let module = |file: &File| file.module().iter().map(ToString::to_string).collect();
    let by_module: BTreeMap<Absolute, usize> = files.iter().enumerate().map(|(at, file)| (module(file), at)).collect();
    let mut all = Files { by_module, files, contents: Vec::new() };
    for file in files {
        let mut content = Content::default();
        all.read(&file.tokens, &module(file), &mut content);
        all.contents.push(content);
    }
    let needs: Vec<BTreeSet<usize>> = (0..files.len()).map(|at| all.needs(at)).collect();
    components(&needs).into_iter().map(|circle| circle.into_iter().map(|at| &*files[at].path).collect()).collect()
}

impl Files<'_> {
    /// Reads the tokens of a module into `content`.
    fn read(&self, tokens: &[TokenTree], module: &[String], content: &mut Content) {
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(keyword) if keyword == "use" => {
                    let end = (at..tokens.len()).find(|at| is_punct(&tokens[*at], ';')).unwrap_or(tokens.len());
                    let is_exported = is_public(&tokens[..at]);
                    for (path, name) in tree(&tokens[at + 1..end]) {
                        if let Some(path) = self.absolute(&path, module) {
                            content.uses.push(Use { path, name, is_exported });
                        }
                    }
                    at = end;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
                        && matches!(&*word, "struct" | "enum" | "trait" | "union" | "type" | "fn" | "const" | "static")
                    {
                        content.defines.insert(name.to_string());
                        at += 1;
                    } else if word == "macro_rules"
                        && let Some(TokenTree::Ident(name)) = tokens.get(at + 2)
                    {
                        content.defines.insert(name.to_string());
                    } else if !follows_colons(tokens, at) {
                        content.names.insert(word.clone());
                        let path = in_code(tokens, at);
                        if path.len() > 1
                            && let Some(path) = self.absolute(&path, module)
                        {
                            content.paths.push(path);
                        }
                    }
                }
                TokenTree::Group(group) => {
                    let inner = match at.checked_sub(2).map(|before| &tokens[before..at]) {
                        Some([TokenTree::Ident(keyword), TokenTree::Ident(name)]) if keyword == "mod" => {
                            [module, &[name.to_string()]].concat()
                        }
                        _ => module.to_vec(),
                    };
                    self.read(&group.stream().into_iter().collect::<Vec<_>>(), &inner, content);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Returns the path as seen from the root, or `None` if it leads out of the crate or is not a path of modules.
    fn absolute(&self, path: &[String], module: &[String]) -> Option<Absolute> {
        let (mut base, mut rest) = (module.to_vec(), path);
        match path.first()?.as_str() {
            "crate" => (base, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            child => {
                let child: Absolute = [module, &[child.to_string()]].concat();
                self.by_module.get(&child)?;
            }
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// Returns the file that defines the target of a path.
    fn definer(&self, path: &[String], visited: &mut BTreeSet<Absolute>) -> Option<usize> {
        if !visited.insert(path.to_vec()) {
            return None;
        }
        let (file, rest) =
            (0..=path.len()).rev().find_map(|end| Some((*self.by_module.get(&path[..end])?, &path[end..])))?;
        let Some(name) = rest.first().filter(|name| !self.contents[file].defines.contains(*name)) else {
            return Some(file);
        };
        let uses = &self.contents[file].uses;
        let by_name = uses.iter().filter(|one| one.name == *name);
        let found = by_name.clone().find_map(|one| {
            let path = [&one.path, &rest[1..]].concat();
            self.definer(&path, visited)
        });
        found
            .or_else(|| {
                uses.iter().filter(|one| one.name == "*").find_map(|glob| {
                    let path = [&glob.path, rest].concat();
                    let found = self.definer(&path, visited)?;
                    self.contents[found].defines.contains(name).then_some(found)
                })
            })
            .or(Some(file))
    }

    /// Returns the files that a file needs.
    fn needs(&self, file: usize) -> BTreeSet<usize> {
        let Content { uses, paths, names, .. } = &self.contents[file];
        let uses = uses.iter().filter(|one| !one.is_exported || names.contains(&one.name)).map(|one| &one.path);
        let is_root = |file: usize| self.files[file].path == "lib.rs";
        if is_root(file) {
            return BTreeSet::new();
        }
        let needed = uses.chain(paths).filter_map(|path| self.definer(path, &mut BTreeSet::new()));
        needed.filter(|needed| *needed != file && !is_root(*needed)).collect()
    }
}

/// Returns the groups of files that all need each other. The groups are ordered by their first file.
fn components(needs: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..needs.len()).map(|from| reached(needs, from)).collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for file in 0..needs.len() {
        if !reach[file].contains(&file) || found.iter().any(|circle| circle.contains(&file)) {
            continue;
        }
        found.push(
            (0..needs.len()).filter(|other| reach[file].contains(other) && reach[*other].contains(&file)).collect(),
        );
    }
    found
}

fn reached(needs: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(needs[file].iter().filter(|needed| reached.insert(**needed)));
    }
    reached
}

/// Returns the paths of a `use`, each with the name that it imports.
fn tree(tokens: &[TokenTree]) -> Vec<(Absolute, String)> {
    let mut found = Vec::new();
    for branch in tokens.split(|token| is_punct(token, ',')) {
        let (mut path, mut name, mut is_renamed) = (Absolute::new(), String::new(), false);
        for token in branch {
            match token {
                TokenTree::Ident(word) if word == "as" => is_renamed = true,
                TokenTree::Ident(word) => {
                    name = word.to_string();
                    if !is_renamed {
                        path.push(name.clone());
                    }
                }
                TokenTree::Punct(sign) if sign.as_char() == '*' => name = "*".to_string(),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    for (inner, brought) in tree(&group.stream().into_iter().collect::<Vec<_>>()) {
                        // `{self, …}` imports the module itself.
                        let inner: Vec<_> = inner.into_iter().filter(|name| name != "self").collect();
                        let brought =
                            if brought == "self" { path.last().cloned().unwrap_or_default() } else { brought };
                        found.push(([&path[..], &inner].concat(), brought));
                    }
                    path.clear();
                }
                _ => {}
            }
        }
        if !path.is_empty() {
            found.push((path, name));
        }
    }
    found
}

/// Returns the path that starts at this name.
fn in_code(tokens: &[TokenTree], mut at: usize) -> Absolute {
    let mut path = Absolute::new();
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        path.push(name.to_string());
        if !tokens.get(at + 1..at + 3).is_some_and(|two| two.iter().all(|token| is_punct(token, ':'))) {
            break;
        }
        at += 3;
    }
    path
}

fn follows_colons(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && tokens[at - 2..at].iter().all(|token| is_punct(token, ':'))
}

/// Returns whether the tokens before a `use` make it an export.
fn is_public(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Ident(word), TokenTree::Group(_)] => word == "pub",
        [.., TokenTree::Ident(word)] => word == "pub",
        _ => false,
    }
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

#[test]
fn a_circle_is_found_however_it_is_closed() {
    let found = |texts: &[(&str, &str)]| {
        let files: Vec<_> = texts.iter().map(|(path, text)| File::new(path, text)).collect();
        circles(&files)
            .into_iter()
            .map(|circle| circle.iter().map(ToString::to_string).collect())
            .collect::<Vec<Vec<_>>>()
    };
    let (one, two) = ("one.rs", "two.rs");
    for (first, second) in [
        ("use crate::two::Two; struct One;", "use crate::one::One; struct Two;"),
        ("fn f() { crate::two::Two; } struct One;", "use super::one::{self, One}; struct Two;"),
        ("use crate::two::*; struct One;", "fn f() { m!(crate::one::One); } struct Two;"),
        ("pub use crate::two::Two; fn f(_: Two) {} struct One;", "use crate::one::One as Other; struct Two;"),
    ] {
        assert_eq!(found(&[(one, first), (two, second)]), [[one, two]], "{first} {second}");
    }
    for (first, second) in [
        ("pub use crate::two::Two; struct One;", "use crate::one::One; struct Two;"),
        ("mod inner { use super::One; } struct One;", "use crate::one::One; struct Two;"),
        ("fn f() { two::f(); } struct One;", "use crate::one::One; fn f() {}"),
    ] {
        assert_eq!(found(&[(one, first), (two, second)]), Vec::<Vec<String>>::new(), "{first} {second}");
    }
    // A re-exported name belongs to the file that defines it.
    let folder = ("middle/mod.rs", "pub use part::Part; mod part; struct Middle;");
    let part = ("middle/part.rs", "struct Part;");
    assert_eq!(found(&[folder, part, (one, "use crate::middle::Part; struct One;")]).len(), 0);
    let back = ("middle/part.rs", "use super::Middle; struct Part;");
    assert_eq!(found(&[folder, back, (one, "use crate::middle::Part; struct One;")]).len(), 0);
    let used = ("middle/mod.rs", "pub use part::Part; mod part; struct Middle(Part);");
    assert_eq!(found(&[used, back]), [["middle/mod.rs", "middle/part.rs"]]);
    let three = [
        ("a.rs", "use crate::b::B; struct A;"),
        ("b.rs", "use crate::c::C; struct B;"),
        ("c.rs", "use crate::a::A; struct C;"),
    ];
    assert_eq!(found(&three), [["a.rs", "b.rs", "c.rs"]]);
}
