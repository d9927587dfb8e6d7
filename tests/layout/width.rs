//! No line of the source, the tests, the examples or the benchmarks is longer than 120 columns: `rustfmt` leaves
//! comments, strings and the arguments of macros as they are.

use std::fs;
use std::path::Path;

/// What the screens and reviews of this project show side by side.
const COLUMNS: usize = 120;

#[test]
fn no_line_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut checked, mut long) = (0, Vec::new());
    for folder in ["../runtime", "../macros", "../examples", "../benches", "."] {
        walk(&root.join(folder), &mut |path, text| {
            checked += 1;
            long.extend(too_long(text).map(|line| format!("{}:{line}", path.display())));
        });
    }
    assert!(checked > 400, "only {checked} files were found");
    assert!(long.is_empty(), "longer than {COLUMNS} columns: {long:#?}");
}

#[test]
fn a_line_is_as_long_as_its_characters_are_many() {
    let text = format!("{}\n{}\n", "–".repeat(COLUMNS), "x".repeat(COLUMNS + 1));
    assert_eq!(too_long(&text).collect::<Vec<_>>(), [2]);
}

/// The numbers of the lines that are longer.
fn too_long(text: &str) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS).map(|(number, _)| number + 1)
}

/// Visits all Rust files of a folder. (What the compiler says in cases of `ui` is not Rust.)
fn walk(folder: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder of Rust files") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, visit);
            }
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            visit(&path, &fs::read_to_string(&path).expect("it is text"));
        }
    }
}
