//! What only models have hides no weakened order: a fence for models (`fence_for_models`) stands for the single order
//! of sequentially consistent accesses, which loom does not give. So the access that it stands before is one: with a
//! weaker one the models would pass, and the program would be wrong.

use crate::source::{File, runtime};
use proc_macro2::{Spacing, TokenTree};

/// What the fence may stand before in place of such an access, and the file and function that has it: a call of that
/// function, or of a closure that calls it.
const IN_ORDER: [(&str, &str, &str); 4] = [
    ("claim", "mailbox/lanes.rs", "claim"),
    ("lower", "env/clock.rs", "lower"),
    ("look", "slots/slot/requests.rs", "may_be_asked"),
    ("lives", "slots/slot/mod.rs", "is_living_in_order"),
];

/// Where a barrier of the machine follows, and the access needs no order.
const BARRIER: &str = "checked_light_barrier";

#[test]
fn a_fence_for_models_stands_before_an_access_in_order() {
    let files = runtime();
    let (found, wrong) = check(&files);
    assert!(found >= 10, "only {found} fences were found");
    assert!(wrong.is_empty(), "no sequentially consistent access follows: {wrong:#?}");
    for (name, path, function) in IN_ORDER {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("`{path}` has moved"));
        let body = body_of(&file.tokens, function).unwrap_or_else(|| panic!("{path} has no `fn {function}`"));
        assert!(has(&body, "SeqCst"), "`{name}`: `{function}` of {path} is not sequentially consistent");
    }
}

/// Returns how many fences there are, and those that nothing in order follows.
fn check(files: &[File]) -> (usize, Vec<String>) {
    let (mut found, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(|file| file.path != "sync.rs") {
        search(&file.tokens, &mut |after| {
            found += 1;
            let is_in_order = has(&after[..end(after, 1)], "SeqCst")
                || IN_ORDER.iter().any(|(name, ..)| has(&after[..end(after, 1)], name))
                || has(&after[..end(after, 2)], BARRIER);
            if !is_in_order {
                let text = after[..end(after, 1)].iter().cloned().collect::<proc_macro2::TokenStream>();
                wrong.push(format!("{}: {text}", file.path));
            }
        });
    }
    (found, wrong)
}

/// Visits what follows each fence in its block.
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

/// Returns where the first `count` statements end.
fn end(tokens: &[TokenTree], count: usize) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';' && punct.spacing() == Spacing::Alone,
        _ => false,
    };
    let ends = tokens.iter().enumerate().filter(|(_, token)| is_end(token)).map(|(at, _)| at);
    ends.take(count).nth(count - 1).unwrap_or(tokens.len())
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
            TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace => {
                Some(group.stream().into_iter().collect())
            }
            _ => None,
        }),
        None => groups().find_map(|group| body_of(&group.stream().into_iter().collect::<Vec<_>>(), function)),
    }
}

#[test]
fn a_weakened_access_behind_a_fence_is_found() {
    let found = |body: &str| check(&[File::new("a.rs", &format!("fn f(&self) {{ {body} }}"))]).1.len();
    assert_eq!(found("fence_for_models(); self.0.load(Ordering::SeqCst) & WARM"), 0);
    assert_eq!(found("fence_for_models(); self.claim()"), 0);
    assert_eq!(found("fence_for_models(); self.0.store(1, Ordering::Relaxed); checked_light_barrier();"), 0);
    assert_eq!(found("fence_for_models(); self.0.load(Ordering::Relaxed) & WARM"), 1);
    assert_eq!(found("if a { fence_for_models(); b(); } c(Ordering::SeqCst)"), 1);
    assert_eq!(found("fence_for_models(); let a = b(); c(Ordering::SeqCst)"), 1);
    assert_eq!(found("fence_for_models();"), 1);
}
