//! The source of the crates as tokens, without their tests.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::path::Path;

/// A file of a crate's `src`.
pub(crate) struct File {
    /// The path relative to `src`.
    pub(crate) path: String,
    /// The tokens outside of comments and of items under `#[cfg(test)]`.
    pub(crate) tokens: Vec<TokenTree>,
}

impl File {
    /// Reads the tokens of `text`.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
        Self { path: path.to_string(), tokens: without_tests(tokens) }
    }

    /// Returns the path of the file's module from the root of the crate.
    pub(crate) fn module(&self) -> Vec<&str> {
        let mut module: Vec<_> = self.path.trim_end_matches(".rs").split('/').collect();
        if matches!(module.last(), Some(&("mod" | "lib"))) {
            module.pop();
        }
        module
    }

    /// Returns the folder of the file, or the file itself if it is in the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(folder, _)| folder)
    }
}

/// Returns all files of the runtime, without tests but with the modules that only tests use.
pub(crate) fn runtime() -> Vec<File> {
    files("../runtime/src", 150).0
}

/// Returns all files of the macros.
pub(crate) fn macros() -> Vec<File> {
    files("../macros/src", 25).0
}

/// Returns all files of the cluster's library.
pub(crate) fn cluster() -> Vec<File> {
    without_what_tests_use(files("../cluster/src", 100))
}

/// Returns all source files of the engine on NATS.
pub(crate) fn nats() -> Vec<File> {
    without_what_tests_use(files("../cluster/nats/src", 15))
}

/// Returns all files of the console.
pub(crate) fn console() -> Vec<File> {
    without_what_tests_use(files("../console/src", 30))
}

fn without_what_tests_use((mut files, tests): (Vec<File>, Vec<String>)) -> Vec<File> {
    let is_in = |file: &File, test: &String| format!("{}/", file.module().join("/")).starts_with(&format!("{test}/"));
    files.retain(|file| !tests.iter().any(|test| is_in(file, test)));
    files
}

/// Returns the files of a folder, and the modules that are compiled only for tests. Panics if there are fewer than
/// `at_least` files.
fn files(folder: &str, at_least: usize) -> (Vec<File>, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (mut files, mut tests) = (Vec::new(), Vec::new());
    walk(&root, &root, &mut files, &mut tests);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() >= at_least, "only {} files were found", files.len());
    (files, tests)
}

/// Collects the files of a folder, and the modules that are declared by `#[cfg(test)] mod name;`.
fn walk(root: &Path, folder: &Path, files: &mut Vec<File>, tests: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the source is a folder") {
        let path = entry.expect("its entries can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "bin" {
            walk(root, &path, files, tests);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("it is text");
            let path = path.strip_prefix(root).expect("it lies below the root").to_string_lossy().replace('\\', "/");
            let file = File::new(&path, &text);
            let module = |name: &str| [file.module(), vec![name]].concat().join("/");
            tests.extend(of_tests(&text).map(module));
            files.push(file);
        }
    }
}

/// Returns the names of the modules that a file declares only for tests.
fn of_tests(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    let pairs = lines.clone().zip(lines.skip(1));
    pairs.filter(|(before, _)| before.starts_with("#[cfg(test)]") || before.starts_with("#[cfg(all(test")).filter_map(
        |(_, line)| {
            let (_, name) = line.strip_suffix(';')?.split_once("mod ")?;
            Some(name)
        },
    )
}

/// Drops each item that follows an attribute `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        let starts_attribute = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        if starts_attribute && matches!(rest.peek(), Some(TokenTree::Group(group)) if is_test(&group.stream())) {
            // The item ends with a semicolon or with its braces. (No test ends with another bracket.)
            for token in rest.by_ref() {
                match token {
                    TokenTree::Punct(punct) if punct.as_char() == ';' => break,
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
                    _ => {}
                }
            }
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let inside: TokenStream = without_tests(group.stream()).into_iter().collect();
                let mut without = proc_macro2::Group::new(group.delimiter(), inside);
                without.set_span(group.span());
                TokenTree::Group(without)
            }
            other => other,
        });
    }
    kept
}

fn is_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test")
}
