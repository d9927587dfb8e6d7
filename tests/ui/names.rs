//! Programs whose items, parameters, lifetimes, arguments and methods have every name that occurs in an expansion: see
//! `names/programs.rs`. They must compile, and calls with such types must be answered.

#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/names.rs"));

#[test]
fn the_words_are_those_of_expansions() {
    for word in ["Option", "bool", "deliver", "concat", "RemoteVisitor", "Simulation", "main_runtime", "debug_struct"] {
        assert!(WORDS.contains(&word), "{word} is missing");
    }
    assert!(WORDS.len() > 200, "{} words", WORDS.len());
}
