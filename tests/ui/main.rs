//! Programs that must not compile, and the errors that a user gets.
//!
//! `cases/NAME.rs` contains one or more mistakes, `cases/NAME.stderr` the compiler's output. Each help line is tested:
//! its code, pasted over the tokens that the error marks, must give a program that compiles. If a help line is about
//! another place ("add", "move"), or the error is the compiler's own, `fixed/NAME.rs` contains the program as corrected
//! by hand; it must contain the code of every help line.
//!
//! `shapes.rs` is the opposite: code that must compile and run.
//!
//! After a change of messages: run `TRYBUILD=overwrite cargo test -p postroom-ui`, read the diff, and run once more
//! without.

use postroom_ui as paste;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn mistakes_are_explained_and_the_help_compiles() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");

    let corrected = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corrected.rs");
    fs::write(&corrected, correct_all()).expect("the target folder can be written to");
    trybuild::TestCases::new().pass(corrected);
}

#[test]
fn every_shape_compiles_and_runs() {
    trybuild::TestCases::new().pass("shapes.rs");
}

/// Returns one program with a module for each corrected case, which builds faster than a program for each.
fn correct_all() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cases: Vec<PathBuf> = fs::read_dir(folder.join("cases"))
        .expect("there are cases")
        .map(|entry| entry.expect("a case can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    cases.sort();
    let mut program = "#![allow(dead_code, unused)]\n".to_owned();
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.file_stem().and_then(|name| name.to_str()).expect("cases have plain names").to_owned();
        let output =
            fs::read_to_string(case.with_extension("stderr")).expect("trybuild asks for the text of a new case");
        let source = fs::read_to_string(&case).expect("a case can be read");
        match correct(&source, &output, &folder.join("fixed").join(format!("{name}.rs"))) {
            Ok(corrected) => program.push_str(&format!("mod {name} {{\n{corrected}}}\n")),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "help that cannot be followed:\n{}", wrong.join("\n"));
    program + "fn main() {}\n"
}

/// Returns the case as corrected by its help lines, or by hand.
fn correct(source: &str, output: &str, by_hand: &Path) -> Result<String, String> {
    let errors = paste::errors(output);
    let pasted = paste::over(source, &errors);
    match (pasted, fs::read_to_string(by_hand)) {
        (Ok(corrected), Err(_)) => Ok(corrected),
        (Ok(_), Ok(_)) => Err("its help can be pasted: no need for a file in `fixed`".to_owned()),
        (Err(why), Err(_)) => Err(format!("{why}; correct it by hand in `{}`", by_hand.display())),
        (Err(_), Ok(corrected)) => {
            for code in errors.iter().flat_map(|error| paste::code(&error.help)) {
                // An ellipsis stands for what only the user knows.
                if !code.contains('…') && !corrected.contains(code) {
                    return Err(format!("the file in `fixed` does not do what the help says: `{code}`"));
                }
            }
            Ok(corrected)
        }
    }
}
