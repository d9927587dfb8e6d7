//! Functions fit on a screen and nest at most five blocks. The exceptions are listed here, each with its reason.

use crate::source::{File, cluster, console, macros, nats, runtime};
use proc_macro2::{Delimiter, Group, TokenTree};

/// Maximum number of lines of a function, including its signature and its last brace.
const MOST_LINES: usize = 60;

/// Maximum number of blocks around a statement, including the body of its function.
const MOST_NESTED: usize = 5;

/// Longer functions: crate and file, function, reason.
const LONG: [(&str, &str, &str); 3] = [
    ("runtime/api/statistics.rs", "statistics", "a line for each field of a plain report"),
    ("runtime/recorder/recording.rs", "see", "a line or two for each kind of record"),
    ("cluster/api/builder.rs", "prepare", "the arguments of three parts of a node, without a decision"),
];

#[test]
fn functions_are_short_and_shallow() {
    let crates = [
        ("runtime", runtime()),
        ("macros", macros()),
        ("cluster", cluster()),
        ("cluster/nats", nats()),
        ("console", console()),
    ];
    let (mut wrong, mut excused) = (Vec::new(), Vec::new());
    for (name, files) in &crates {
        for function in files.iter().flat_map(functions) {
            let path = format!("{name}/{}", function.path);
            if function.nested > MOST_NESTED {
                wrong.push(format!("{path}: `{}` nests {} blocks", function.name, function.nested));
            }
            if function.lines <= MOST_LINES {
                continue;
            }
            match LONG.iter().find(|(file, long, _)| *file == path && *long == function.name) {
                Some(long) => excused.push(long),
                None => wrong.push(format!("{path}: `{}` has {} lines", function.name, function.lines)),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let stale: Vec<_> = LONG.iter().filter(|long| !excused.contains(long)).collect();
    assert!(stale.is_empty(), "short by now, or gone: {stale:?}");
}

/// The size of a function.
#[derive(Debug, PartialEq)]
struct Size<'a> {
    path: &'a str,
    name: String,
    lines: usize,
    nested: usize,
}

/// Returns the sizes of all functions with a body, except those that `macro_rules` makes.
fn functions(file: &File) -> Vec<Size<'_>> {
    let mut found = Vec::new();
    search(&file.path, &file.tokens, &mut found);
    found
}

fn search<'a>(path: &'a str, tokens: &[TokenTree], found: &mut Vec<Size<'a>>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some((name, end, body)) = function(tokens, at) {
            let lines = body.span().end().line + 1 - tokens[at].span().start().line;
            let inside = content(body);
            found.push(Size { path, name, lines, nested: 1 + nested(&inside) });
            search(path, &inside, found);
            at = end;
        } else if let TokenTree::Group(group) = &tokens[at]
            && !is_macro_rules(tokens, at)
        {
            search(path, &content(group), found);
        }
        at += 1;
    }
}

/// Returns the function that begins at `at`: its name, the place of its body, and the body. Returns `None` if no
/// function begins there, or if it is only declared.
fn function(tokens: &[TokenTree], at: usize) -> Option<(String, usize, &Group)> {
    let (TokenTree::Ident(word), Some(TokenTree::Ident(name))) = (tokens.get(at)?, tokens.get(at + 1)) else {
        return None;
    };
    let is_semicolon = |token: &&TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == ';');
    let mut signature = (at..).zip(&tokens[at..]).take_while(|(_, token)| !is_semicolon(token));
    let (end, body) = signature.find_map(|(at, token)| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some((at, group)),
        _ => None,
    })?;
    (word == "fn").then(|| (name.to_string(), end, body))
}

/// Returns the maximum nesting depth of blocks in these tokens. The braces of patterns and literals do not count, nor
/// do the blocks of inner functions.
fn nested(tokens: &[TokenTree]) -> usize {
    let (mut at, mut deepest) = (0, 0);
    while at < tokens.len() {
        if let Some((_, end, _)) = function(tokens, at) {
            at = end;
        } else if let TokenTree::Group(group) = &tokens[at] {
            deepest = deepest.max(usize::from(is_block(tokens, at, group)) + nested(&content(group)));
        }
        at += 1;
    }
    deepest
}

/// Returns true if the group is a block, that is, if its braces do not follow the path of a struct. A word counts as a
/// type if its first letter, but not its second, is a capital.
fn is_block(tokens: &[TokenTree], at: usize, group: &Group) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    let is_struct = match before {
        Some(TokenTree::Ident(word)) => {
            let word = word.to_string();
            let second = word.chars().nth(1);
            word.starts_with(char::is_uppercase) && second.is_none_or(|second| second.is_lowercase())
        }
        Some(TokenTree::Punct(sign)) => sign.as_char() == '$' || sign.as_char() == '#',
        _ => false,
    };
    group.delimiter() == Delimiter::Brace && !is_struct
}

fn is_macro_rules(tokens: &[TokenTree], at: usize) -> bool {
    at.checked_sub(3).is_some_and(|from| matches!(&tokens[from], TokenTree::Ident(word) if word == "macro_rules"))
}

fn content(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

#[test]
fn sizes_are_measured() {
    let file = File::new(
        "one.rs",
        "trait Walks { fn declared(&self); fn walk(&self) -> One { One { place: 1 } } }
        fn long() {
            if let One { place } = walk() {
                for step in place { match step { _ => { go(|| { on() }) } } }
            }
        }
        fn outer() { fn inner() { loop { { } } } }
        macro_rules! many { () => { fn made() { } } }",
    );
    let size = |name: &str, lines, nested| Size { path: "one.rs", name: name.to_string(), lines, nested };
    assert_eq!(functions(&file), [size("walk", 1, 1), size("long", 5, 6), size("outer", 1, 1), size("inner", 1, 3)]);
}
