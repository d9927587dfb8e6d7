//! No line of the source, the tests, the examples, the benchmarks or their documents is longer than 120 columns:
//! `rustfmt` does not break comments, strings or the arguments of macros. Rows of tables are exempt, since they cannot
//! be broken. (The guide has its own check.)

use std::fs;
use std::path::Path;

/// The maximum width of a line. Two columns of this width fit side by side on a screen.
const COLUMNS: usize = 120;

#[test]
fn no_line_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut checked, mut long) = (0, Vec::new());
    for folder in ["../runtime", "../macros", "../cluster", "../console", "../examples", "../benches", "."] {
        walk(&root.join(folder), &mut |path, text| {
            checked += 1;
            long.extend(too_long(text).map(|line| format!("{}:{line}", path.display())));
        });
    }
    let documents =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"];
    for document in documents {
        let text = fs::read_to_string(root.join("..").join(document)).expect("the document exists");
        long.extend(too_long(&text).map(|line| format!("{document}:{line}")));
    }
    assert!(checked > 400, "only {checked} files were found");
    assert!(long.is_empty(), "longer than {COLUMNS} columns: {long:#?}");
}

#[test]
fn a_line_is_as_long_as_its_characters_are_many() {
    let (fits, long) = ("–".repeat(COLUMNS), "x".repeat(COLUMNS + 1));
    let text = format!("{fits}\n{long}\n| {long} |\n");
    assert_eq!(too_long(&text).collect::<Vec<_>>(), [2]);
}

/// Returns the numbers of lines that are too long, except for rows of tables.
fn too_long(text: &str) -> impl Iterator<Item = usize> {
    let is_long = |line: &str| line.chars().count() > COLUMNS && !line.starts_with("| ");
    text.lines().enumerate().filter(move |(_, line)| is_long(line)).map(|(number, _)| number + 1)
}

/// Visits all Rust files and documents below a folder. The compiler output of the cases in `ui` is neither, and is not
/// visited.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder of Rust files") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, visit);
            }
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
            visit(&path, &fs::read_to_string(&path).expect("it is text"));
        }
    }
}
