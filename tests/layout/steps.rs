//! The steps of protocols. Each step is defined in the file of its protocol, as a letter and a digit (`S3`); other
//! files cite it with the name of the protocol (`sleep:S3`). No two protocols share a letter.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The protocols, each with the file that argues its correctness.
const PROTOCOLS: &[(&str, &str)] = &[
    ("backpressure", "engine/backpressure/mod.rs"),
    ("detector", "engine/watchdog/detector.rs"),
    ("drain", "engine/shutdown/drain.rs"),
    ("driving", "engine/sched/driving.rs"),
    ("due", "time/next_due.rs"),
    ("gate", "engine/host/gate.rs"),
    ("graph", "deadlock/wait_graph.rs"),
    ("handoff", "engine/permits/handoff.rs"),
    ("links", "links/mod.rs"),
    ("thread_cache", "thread_cache/lock.rs"),
    ("members", "links/registrations.rs"),
    ("pinned", "engine/pinned/mod.rs"),
    ("rest", "engine/shutdown/quiescence.rs"),
    ("ring", "recorder/ring.rs"),
    ("shutdown", "engine/shutdown/mod.rs"),
    ("sleep", "engine/permits/sleep.rs"),
    ("slice", "process/slice.rs"),
    ("watchdog", "engine/sched/watchdog.rs"),
];

#[test]
fn every_step_that_is_cited_is_defined_by_its_protocol() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src");
    let text = |path: &str| fs::read_to_string(root.join(path)).expect("a source file is text");
    let files: BTreeMap<String, String> =
        source::runtime().into_iter().map(|file| (file.path.clone(), text(&file.path))).collect();
    let defined: BTreeMap<&str, BTreeSet<String>> = PROTOCOLS
        .iter()
        .map(|&(protocol, file)| {
            let text = files.get(file).unwrap_or_else(|| panic!("{protocol} is not in {file}"));
            (protocol, steps(text).into_iter().filter_map(|(of, step)| of.is_none().then_some(step)).collect())
        })
        .collect();
    let mut wrong = Vec::new();
    for (file, text) in &files {
        let is_home = PROTOCOLS.iter().any(|(_, home)| home == file);
        for (of, step) in steps(text) {
            let is_known = match &of {
                Some(of) => defined.get(of.as_str()).is_some_and(|defined| defined.contains(&step)),
                None => is_home,
            };
            if !is_known {
                wrong.push(format!("{file}: {}{step}", of.map_or_else(String::new, |of| of + ":")));
            }
        }
    }
    assert!(wrong.is_empty(), "steps of no protocol, or without its name: {wrong:#?}");
    assert!(defined.values().all(|steps| !steps.is_empty()), "{defined:?}");
}

#[test]
fn no_letter_belongs_to_two_protocols() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src");
    let text = |file: &str| fs::read_to_string(root.join(file)).expect("a source file is text");
    let shared = shared_letters(PROTOCOLS.iter().map(|&(protocol, file)| (protocol, text(file))));
    assert!(shared.is_empty(), "letters of two protocols: {shared:#?}");
}

#[test]
fn a_letter_of_two_protocols_is_found() {
    let of = |second: &str| {
        let first = ("one", "//! A1 begins, A2 ends, see two:B1".to_owned());
        shared_letters([first, ("two", second.to_owned())].into_iter())
    };
    assert!(of("//! B1 begins, after one:A2").is_empty());
    assert_eq!(of("//! B1 begins; A3 ends"), [('A', vec!["one", "two"])]);
}

/// Returns the letters that more than one of these texts uses for its own steps, with the names of those texts.
fn shared_letters<'a>(texts: impl Iterator<Item = (&'a str, String)>) -> Vec<(char, Vec<&'a str>)> {
    let mut letters: BTreeMap<char, BTreeSet<&str>> = BTreeMap::new();
    for (protocol, text) in texts {
        for (_, step) in steps(&text).into_iter().filter(|(of, _)| of.is_none()) {
            letters.entry(step.chars().next().expect("a step has a letter")).or_default().insert(protocol);
        }
    }
    let shared = letters.into_iter().filter(|(_, protocols)| protocols.len() > 1);
    shared.map(|(letter, protocols)| (letter, protocols.into_iter().collect())).collect()
}

#[test]
fn citations_are_read_with_and_without_a_protocol() {
    let text = "//! S1 pushes, see sleep:P2.\nlet x = A1; // by `B2`, (C3) and utf8 or X86\n";
    let own = |step: &str| (None, step.to_owned());
    assert_eq!(steps(text), [own("S1"), (Some("sleep".into()), "P2".into()), own("C3")]);
}

/// Returns the steps that the comments of `text` name. Each comes with the name of its protocol, if the comment gives
/// one.
fn steps(text: &str) -> Vec<(Option<String>, String)> {
    let comments = text.lines().filter_map(|line| line.split_once("//")).filter(|(code, _)| !code.contains('"'));
    let words = comments.flat_map(|(_, comment)| comment.split(|c: char| !(c.is_alphanumeric() || "_:`".contains(c))));
    let step = |word: &str| {
        let mut characters = word.chars();
        let (letter, digit) = (characters.next()?, characters.next()?);
        (letter.is_ascii_uppercase() && digit.is_ascii_digit() && characters.next().is_none()).then(|| word.to_owned())
    };
    words
        .filter_map(|word| match word.trim_end_matches(':').rsplit_once(':') {
            Some((of, word)) => Some((Some(of.to_owned()), step(word)?)),
            None => Some((None, step(word.trim_end_matches(':'))?)),
        })
        .collect()
}
