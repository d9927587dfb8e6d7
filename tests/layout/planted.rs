//! Each planted fault changes a line that exists, and names tests that exist. `tests/faults/run` would find that too,
//! but only in the night.

#[path = "../faults/src/list.rs"]
#[expect(dead_code, reason = "this reads the list, and runs nothing")]
mod list;

use list::Tests;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn planted_faults_name_a_line_and_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let faults = list::read(&root.join("tests/faults/list")).expect("each line can be parsed");
    assert!(faults.len() > 300, "only {} faults were found", faults.len());
    let (mut names, mut wrong) = (BTreeMap::new(), Vec::new());
    for fault in &faults {
        let text = fs::read_to_string(root.join(&fault.file)).unwrap_or_default();
        let lines = text.lines().filter(|line| line.trim_start() == fault.before).count();
        if lines != 1 {
            wrong.push(format!("{}: its line occurs {lines} times in {}", fault.name, fault.file));
        }
        for tests in &fault.tests {
            let folder = folder_of(tests, &root);
            let names = names.entry(folder.clone()).or_insert_with(|| names_in(&root.join(folder)));
            if !exists(tests.filter().as_deref().unwrap_or_default(), names) {
                wrong.push(format!("{}: there is no test `{}`", fault.name, tests.word));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_test_that_has_another_name_now_is_found() {
    let names = BTreeSet::from(["sampler".to_owned(), "while_no_one_looks_nothing_is_sampled".to_owned()]);
    assert!(exists("sampler::", &names) && exists("no_one_looks", &names) && exists("", &names));
    assert!(!exists("while_nothing_looks", &names) && !exists("sampler::while_nothing_looks", &names));
}

/// Returns true if each part of a filter occurs in the name of a module or of a function.
fn exists(filter: &str, names: &BTreeSet<String>) -> bool {
    filter.split("::").all(|part| names.iter().any(|name| name.contains(part)))
}

/// Returns the folder that has the tests, relative to the root of the checkout.
fn folder_of(tests: &Tests, root: &Path) -> String {
    let program = tests.word.split('=').next().unwrap_or_default();
    match program {
        "lib" => "runtime/src".to_owned(),
        "macros" => "macros/src".to_owned(),
        "models" => "tests/models/src".to_owned(),
        "console" => "console/src".to_owned(),
        program if program.starts_with("console-") => "console/tests".to_owned(),
        program if root.join("tests").join(program).is_dir() => format!("tests/{program}"),
        // A file.
        _ => "tests".to_owned(),
    }
}

/// Returns the names of the modules and functions in a folder.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("its entries can be read").path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            names.extend(names_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("it is text");
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            while let Some(word) = words.next() {
                if word == "fn" || word == "mod" {
                    names.extend(words.next().map(str::to_owned));
                }
            }
        }
        names.insert(stem);
    }
    names
}
