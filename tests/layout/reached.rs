//! Every test file belongs to a test: a file that no `mod` names is never compiled, and so never fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_test_file_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let others = ["exhaustive", "faults", "models", "sanitizers", "spans", "ui"].map(|folder| root.join(folder));
    let mut files = BTreeSet::new();
    walk(root, &others, &mut files);
    let mut named: BTreeSet<_> = files.iter().flat_map(|file| modules(file)).collect();
    ["Cargo.toml", "fuzz/Cargo.toml"].iter().for_each(|manifest| named.extend(modules(&root.join(manifest))));
    assert!(named.len() > 100, "only {} files are named", named.len());
    let forgotten: Vec<_> = files.difference(&named).collect();
    assert!(forgotten.is_empty(), "no `mod` names {forgotten:#?}");
}

fn walk(folder: &Path, others: &[PathBuf], files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of tests") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() && !others.contains(&path) && !path.ends_with("target") {
            walk(&path, others, files);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.insert(path);
        }
    }
}

/// Returns the files that a file names, as modules or in quotes.
fn modules(file: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(file).expect("a test is text");
    let folder = file.parent().expect("it lies in a folder");
    let stem = file.file_stem().expect("it has a name");
    let is_root = stem == "mod" || stem == "main" || stem == "lib";
    let inner = if is_root { folder.to_path_buf() } else { folder.join(stem) };
    let quoted = text.split('"').filter(|text| text.ends_with(".rs")).map(|path| folder.join(path));
    let by_name = text.lines().filter_map(|line| {
        let name = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ").strip_prefix("mod ")?;
        Some(inner.join(name.strip_suffix(';')?).with_extension("rs"))
    });
    // Some paths start at the folder of the package.
    let from_root = text.split('"').filter(|text| text.ends_with(".rs"));
    let from_root = from_root.map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    quoted.chain(from_root).chain(by_name).collect()
}
