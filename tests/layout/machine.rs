//! There is only one door to the machine: time, threads and randomness come only from `env` and `sync.rs`, so that a
//! simulator can replace them there.

use crate::source::{File, runtime};
use proc_macro2::TokenTree;

/// Paths that access the machine, and the files that may use them.
const DOORS: [(&str, &[&str]); 12] = [
    ("Instant::now", &["env/clock.rs"]),
    // `Instant::elapsed` reads the clock. The simulation files listed here have a clock of their own.
    ("elapsed", &["simulation/campaign.rs", "simulation/run.rs", "simulation/simulator.rs", "simulation/sim.rs"]),
    ("SystemTime", &[]),
    ("RandomState", &["env/chance.rs"]),
    ("entropy", &["env/chance.rs", "env/program.rs"]),
    // The iteration order of hash maps and sets differs between runs. (Names are found by hash, but cleared in text
    // order.)
    ("HashMap", &["names/table.rs"]),
    ("HashSet", &[]),
    ("thread::spawn", &[]),
    ("thread::Builder", &["sync.rs"]),
    ("thread::park", &["sync.rs"]),
    ("thread::park_timeout", &["sync.rs"]),
    // `sync/chaos.rs` is only part of a build for tests.
    ("thread::sleep", &["sync/chaos.rs"]),
];

#[test]
fn only_the_door_asks_the_machine() {
    let wrong = check(&runtime());
    assert!(wrong.is_empty(), "past `env` and `sync.rs`: {wrong:#?}");
}

fn check(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        for (path, allowed) in DOORS {
            if !allowed.contains(&&*file.path) && mentions(&file.tokens, &path.split("::").collect::<Vec<_>>()) {
                wrong.push(format!("{}: {path}", file.path));
            }
        }
    }
    wrong
}

/// Returns whether these names form a path, including in a tree of imports (`thread::{Builder, park}`).
fn mentions(tokens: &[TokenTree], path: &[&str]) -> bool {
    let [name, rest @ ..] = path else { return true };
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Ident(ident) if ident == name => match rest {
            [] => true,
            [next] => match tokens.get(at + 1..) {
                Some([TokenTree::Punct(_), TokenTree::Punct(_), TokenTree::Ident(last), ..]) => last == next,
                Some([TokenTree::Punct(one), TokenTree::Punct(_), TokenTree::Group(group), ..]) => {
                    one.as_char() == ':' && mentions(&group.stream().into_iter().collect::<Vec<_>>(), &[next])
                }
                _ => false,
            },
            _ => unreachable!("the paths above have two names at most"),
        },
        TokenTree::Group(group) => mentions(&group.stream().into_iter().collect::<Vec<_>>(), path),
        _ => false,
    })
}

#[test]
fn a_way_past_the_door_is_found() {
    let found = |text: &str| check(&[File::new("engine/new.rs", text)]).len();
    assert_eq!(found("use crate::env::clock::instant_now; fn now() { instant_now(); }"), 0);
    assert_eq!(found("#[cfg(test)] mod tests { fn now() { std::time::Instant::now(); } }"), 0);
    let past = [
        "fn now() { let now = std::time::Instant::now(); }",
        "fn took(began: Instant) -> Duration { began.elapsed() }",
        "use std::thread::{self, Builder};",
        "fn start() { std::thread::spawn(|| ()); }",
        "fn rest() { if true { thread::park_timeout(rest) } }",
        "use std::hash::{BuildHasher, RandomState};",
        "fn seed() -> u64 { crate::env::chance::entropy() }",
        "use std::collections::{BTreeMap, HashMap};",
    ];
    for text in past {
        assert_eq!(found(text), 1, "{text}");
    }
}
