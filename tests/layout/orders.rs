//! Fences that exist only in models hide no weakened order. A fence for models (`fence_for_models`) replaces the total
//! order of sequentially consistent accesses, which loom does not provide. So the access that follows it must be
//! sequentially consistent: with a weaker access the models would pass, but the program would be wrong.

use crate::source::{File, runtime};
use proc_macro2::{Delimiter, TokenTree};

/// The calls that may follow a fence instead of such an access. A row names the file of the call and the name that is
/// called, then a function to which the call leads, directly or through others: its file, its name, and a word that its
/// body must contain.
const IN_ORDER: [(&str, &str, &str, &str, &str); 7] = [
    ("mailbox/lanes.rs", "claim", "mailbox/lanes.rs", "claim", "SeqCst"),
    ("time/next_due.rs", "load", "env/clock.rs", "load", "SeqCst"),
    ("time/next_due.rs", "lower", "env/clock.rs", "lower", "SeqCst"),
    ("slots/slot/requests.rs", "look", "slots/slot/requests.rs", "may_be_asked", "SeqCst"),
    ("links/registrations.rs", "lives", "routing/alias.rs", "lives", "lives"),
    ("links/registrations.rs", "lives", "slots/directory.rs", "lives", "is_living_in_order"),
    ("links/registrations.rs", "lives", "slots/slot/mod.rs", "is_living_in_order", "SeqCst"),
];

/// Orderings that exclude an access from the total order.
const WEAKER: [&str; 4] = ["Relaxed", "Acquire", "Release", "AcqRel"];

/// The name of the hardware barrier. A fence that it follows, in one of the next two statements, needs no sequentially
/// consistent access.
const BARRIER: &str = "checked_light_barrier";

#[test]
fn a_fence_for_models_stands_before_an_access_in_order() {
    let files = runtime();
    let (found, wrong) = check(&files);
    assert!(found >= 10, "only {found} fences were found");
    assert!(wrong.is_empty(), "no sequentially consistent access follows: {wrong:#?}");
    for (_, name, path, function, word) in IN_ORDER {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("`{path}` has moved"));
        let body = body_of(&file.tokens, function).unwrap_or_else(|| panic!("{path} has no `fn {function}`"));
        assert!(has(&body, word), "`{name}`: `{function}` of {path} has no `{word}`");
    }
}

/// Returns the number of fences, and the statements after those that no sequentially consistent access follows.
fn check(files: &[File]) -> (usize, Vec<String>) {
    let (mut found, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(|file| file.path != "sync.rs") {
        search(&file.tokens, &mut |after| {
            found += 1;
            let (first, second) = (&after[..end(after, 1)], &after[..end(after, 2)]);
            let may_call = |name: &str| IN_ORDER.iter().any(|(path, called, ..)| *path == file.path && *called == name);
            let is_access =
                has(first, "SeqCst") || IN_ORDER.iter().any(|(_, name, ..)| may_call(name) && has(first, name));
            let is_in_order = is_access && !WEAKER.iter().any(|order| has(first, order));
            if !is_in_order && !has(second, BARRIER) {
                let text = first.iter().cloned().collect::<proc_macro2::TokenStream>();
                wrong.push(format!("{}: {text}", file.path));
            }
        });
    }
    (found, wrong)
}

/// Visits each fence, with the tokens that follow it in its block.
fn search(tokens: &[TokenTree], visit: &mut impl FnMut(&[TokenTree])) {
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            search(&group.stream().into_iter().collect::<Vec<_>>(), visit);
        }
        let is_called = matches!(tokens.get(at + 1), Some(TokenTree::Group(_)));
        if is_ident(token, "fence_for_models")
            && is_called
            && !at.checked_sub(1).is_some_and(|at| is_ident(&tokens[at], "fn"))
        {
            visit(&tokens[(at + 3).min(tokens.len())..]);
        }
    }
}

/// Returns the position after the first `count` statements. A statement ends with a semicolon, or with braces that
/// nothing continues.
fn end(tokens: &[TokenTree], count: usize) -> usize {
    let is_sign = |token: &TokenTree, signs: &str| match token {
        TokenTree::Punct(punct) => signs.contains(punct.as_char()),
        _ => false,
    };
    let is_end = |at: &usize| match &tokens[*at] {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            tokens.get(at + 1).is_none_or(|next| !is_sign(next, ".?;") && !is_ident(next, "else"))
        }
        token => is_sign(token, ";"),
    };
    (0..tokens.len()).filter(is_end).nth(count - 1).map_or(tokens.len(), |at| at + 1)
}

fn has(tokens: &[TokenTree], word: &str) -> bool {
    tokens.iter().any(|token| match token {
        TokenTree::Group(group) => has(&group.stream().into_iter().collect::<Vec<_>>(), word),
        token => is_ident(token, word),
    })
}

fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Returns the body of a function.
fn body_of(tokens: &[TokenTree], function: &str) -> Option<Vec<TokenTree>> {
    let at = tokens.windows(2).position(|two| is_ident(&two[0], "fn") && is_ident(&two[1], function));
    let groups =
        || tokens.iter().filter_map(|token| if let TokenTree::Group(group) = token { Some(group) } else { None });
    match at {
        Some(at) => tokens[at..].iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                Some(group.stream().into_iter().collect())
            }
            _ => None,
        }),
        None => groups().find_map(|group| body_of(&group.stream().into_iter().collect::<Vec<_>>(), function)),
    }
}

#[test]
fn a_weakened_access_behind_a_fence_is_found() {
    let of = |path: &str, body: &str| check(&[File::new(path, &format!("fn f(&self) {{ {body} }}"))]).1.len();
    let found = |body: &str| of("mailbox/lanes.rs", body);
    assert_eq!(found("fence_for_models(); self.0.load(Ordering::SeqCst) & WARM"), 0);
    assert_eq!(found("fence_for_models(); self.claim()"), 0);
    assert_eq!(found("fence_for_models(); if self.0.load(SeqCst) { a() } else { b() }"), 0);
    assert_eq!(found("fence_for_models(); self.0.store(1, Ordering::Relaxed); checked_light_barrier();"), 0);
    assert_eq!(of("other.rs", "fence_for_models(); self.claim()"), 1);
    assert_eq!(found("fence_for_models(); self.0.load(Ordering::Relaxed) & WARM"), 1);
    assert_eq!(found("fence_for_models(); if self.0.load(Relaxed) { a() } match self.claim() {}"), 1);
    assert_eq!(found("fence_for_models(); if self.0.load(Relaxed) { a() } self.1.store(1, SeqCst);"), 1);
    assert_eq!(found("fence_for_models(); self.0.load(Acquire) && self.claim()"), 1);
    assert_eq!(found("if a { fence_for_models(); b(); } c(Ordering::SeqCst)"), 1);
    assert_eq!(found("fence_for_models(); let a = b(); c(Ordering::SeqCst)"), 1);
    assert_eq!(found("fence_for_models();"), 1);
}
