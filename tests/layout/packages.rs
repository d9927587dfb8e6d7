//! Packages can be published: each manifest says what the package is, the files that it names exist, and the package
//! reads no file outside of its folder. `.ci/nightly packages` builds what is packed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the packages to be published.
const PACKAGES: [&str; 5] = ["macros", "runtime", "cluster", "console", "cluster/nats"];

/// What each manifest has in its section `[package]`, its own or the workspace's.
const KEYS: [&str; 13] = [
    "name",
    "version",
    "edition",
    "rust-version",
    "license",
    "description",
    "readme",
    "documentation",
    "repository",
    "homepage",
    "keywords",
    "categories",
    "include",
];

/// The keys whose values are those of the workspace.
const SHARED: [&str; 6] = ["version", "edition", "rust-version", "license", "repository", "homepage"];

/// The categories in use, each of which is among <https://crates.io/category_slugs>. crates.io ignores others.
const CATEGORIES: [&str; 4] = ["asynchronous", "concurrency", "development-tools::debugging", "network-programming"];

/// The limit of crates.io, on keywords and on categories.
const MOST_WORDS: usize = 5;

/// The limit of crates.io on the length of a keyword.
const LONGEST_KEYWORD: usize = 20;

/// The marks of the time before the first release, in what users read.
const UNPUBLISHED: [&str; 2] = ["not published on crates.io", "../postroom/runtime"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the keys of a section, with their values as they are written. Each value is in one line.
fn section(manifest: &str, name: &str) -> BTreeMap<String, String> {
    let header = format!("[{name}]");
    let lines = manifest.lines().skip_while(|line| *line != header).skip(1).take_while(|line| !line.starts_with('['));
    let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| {
        let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("`{line}` is not a key and its value"));
        (key.to_owned(), value.to_owned())
    };
    entries.map(pair).collect()
}

/// Returns the section `[package]` of a manifest, in which inherited keys have the values of the workspace.
fn package(folder: &str) -> BTreeMap<String, String> {
    let workspace = section(&read("Cargo.toml"), "workspace.package");
    let inherited = |(key, value): (String, String)| match key.strip_suffix(".workspace") {
        Some(key) => (key.to_owned(), workspace.get(key).expect("the workspace has the key").clone()),
        None => (key, value),
    };
    section(&read(format!("{folder}/Cargo.toml")), "package").into_iter().map(inherited).collect()
}

/// Returns the texts in quotes.
fn quoted(value: &str) -> Vec<&str> {
    value.split('"').skip(1).step_by(2).collect()
}

/// Visits all files below a folder, except what Cargo has built.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("its entries can be read").path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => walk(&path, visit),
            false => visit(&path),
        }
    }
}

#[test]
fn every_member_is_published_or_says_that_it_is_not() {
    let workspace = section(&read("Cargo.toml"), "workspace");
    let members = quoted(&workspace["members"]);
    let published = members.iter().filter(|member| package(member).get("publish").is_none_or(|value| value != "false"));
    let mut published: Vec<&str> = published.copied().chain(["cluster/nats"]).collect();
    published.sort_by_key(|folder| PACKAGES.iter().position(|package| package == folder));
    assert_eq!(published, PACKAGES);
}

#[test]
fn every_manifest_says_what_its_package_is() {
    for folder in PACKAGES {
        let package = package(folder);
        for key in KEYS {
            let value = package.get(key).unwrap_or_else(|| panic!("{folder} has no `{key}`"));
            assert!(quoted(value).iter().all(|text| !text.is_empty()) && value.contains('"'), "{folder}: {key}");
        }
        let name = quoted(&package["name"])[0];
        assert_eq!(quoted(&package["documentation"]), [format!("https://docs.rs/{name}")]);
        let (keywords, categories) = (quoted(&package["keywords"]), quoted(&package["categories"]));
        for keyword in &keywords {
            let is_plain = keyword.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
            assert!(is_plain && keyword.len() <= LONGEST_KEYWORD, "{folder}: the keyword `{keyword}`");
        }
        assert!(keywords.len() <= MOST_WORDS && categories.len() <= MOST_WORDS, "{folder} has too many");
        let unknown: Vec<_> = categories.iter().filter(|category| !CATEGORIES.contains(category)).collect();
        assert!(unknown.is_empty(), "{folder}: is {unknown:?} among the slugs of crates.io?");
        let docs = section(&read(format!("{folder}/Cargo.toml")), "package.metadata.docs.rs");
        assert!(!docs.is_empty(), "{folder} has no settings for docs.rs");
    }
}

#[test]
fn every_package_has_its_readme_its_licences_and_all_that_it_includes() {
    for folder in PACKAGES {
        let package = package(folder);
        let included = quoted(&package["include"]);
        for path in &included {
            let relative = path.strip_prefix('/').unwrap_or_else(|| panic!("{folder} includes `{path}` at any depth"));
            assert!(root().join(folder).join(relative).exists(), "{folder} includes `{path}`, which does not exist");
        }
        let readme = quoted(&package["readme"])[0];
        for file in [readme, "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(included.contains(&format!("/{file}").as_str()), "{folder} does not include {file}");
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            // A link, which a checkout without links would contain as the path in it.
            assert_eq!(read(format!("{folder}/{licence}")), read(licence), "{folder}/{licence}");
        }
    }
}

/// The engine on NATS is a workspace of its own, which cannot inherit from the project's.
#[test]
fn all_packages_have_the_values_of_the_workspace() {
    let workspace = section(&read("Cargo.toml"), "workspace.package");
    for folder in PACKAGES {
        let package = package(folder);
        for key in SHARED {
            assert_eq!(package[key], workspace[key], "`{key}` of {folder}");
        }
    }
}

/// Hidden items connect the packages. So that no others meet, each asks for exactly its own version.
#[test]
fn packages_depend_on_the_same_version_of_each_other() {
    let exact = format!("version = \"={}\"", quoted(&package("runtime")["version"])[0]);
    let manifests = ["."].into_iter().chain(PACKAGES).map(|folder| (folder, read(format!("{folder}/Cargo.toml"))));
    let mut seen = 0;
    for (folder, manifest) in manifests {
        for line in manifest.lines().filter(|line| line.starts_with("postroom") && line.contains("path = ")) {
            // A package is packed without a dependency of tests that has no version.
            let is_of_tests = line.starts_with("postroom-tests ") && folder == "console";
            assert!(line.contains(&exact) || is_of_tests, "{folder}: `{line}` without `{exact}`");
            seen += 1;
        }
    }
    assert!(seen > 6, "only {seen} dependencies were found");
}

#[test]
fn packages_read_only_files_that_they_include() {
    let mut seen = 0;
    for folder in PACKAGES {
        let home = root().join(folder).canonicalize().expect("the package exists");
        let package = package(folder);
        let included: Vec<_> = quoted(&package["include"]).iter().map(|path| home.join(&path[1..])).collect();
        for path in included.iter().filter(|path| !path.ends_with("README.md")) {
            let mut sources = Vec::new();
            match path.is_dir() {
                true => walk(path, &mut |file| sources.push(file.to_owned())),
                false => sources.push(path.clone()),
            }
            for source in sources.iter().filter(|source| source.extension().is_some_and(|kind| kind == "rs")) {
                let text = fs::read_to_string(source).expect("it is text");
                for file in files_read(&text) {
                    let file = source.parent().expect("it lies in a folder").join(file);
                    let file = file.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                    let is_included = included.iter().any(|path| file.starts_with(path));
                    assert!(is_included, "{} reads {}", source.display(), file.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 4, "only {seen} files were found");
}

/// Returns the paths of what a file includes, and of modules in other places.
fn files_read(text: &str) -> Vec<&str> {
    let markers = ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""];
    let after = markers.iter().flat_map(|marker| text.split(marker).skip(1));
    after.filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

/// crates.io makes the links of a README relative to its folder in the repository.
#[test]
fn links_of_packages_lead_to_what_exists() {
    for folder in PACKAGES {
        let readme = read(format!("{folder}/README.md"));
        let links = readme.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.starts_with("https://")) {
            assert!(root().join(folder).join(link).is_file(), "{folder}/README.md: there is no {link}");
        }
        assert!(readme.contains("book/src/SUMMARY.md"), "{folder}/README.md does not lead to the guide");
        let library = read(format!("{folder}/src/lib.rs"));
        let pages: Vec<_> = library.split("env!(\"CARGO_PKG_HOMEPAGE\"), \"/").skip(1).collect();
        assert!(!pages.is_empty(), "the documentation of {folder} does not lead to the guide");
        for page in pages {
            let page = page.split('.').next().unwrap_or_default();
            assert!(root().join(format!("book/src/{page}.md")).is_file(), "{folder}: the guide has no page {page}");
        }
    }
}

/// The programs of the other READMEs are compiled with the guide. This one needs the engine, and is compiled with it.
#[test]
fn the_program_in_the_readme_of_the_engine_is_the_one_of_its_documentation() {
    let (readme, library) = (read("cluster/nats/README.md"), read("cluster/nats/src/lib.rs"));
    let program = readme.split("```").nth(1).expect("it has a program");
    let lines = program.lines().map(str::trim).filter(|line| line.starts_with("use ") || line.starts_with("let "));
    let missing: Vec<_> = lines.clone().filter(|line| !library.contains(&format!("//! {line}\n"))).collect();
    assert!(missing.is_empty() && lines.count() > 3, "not in the documentation: {missing:#?}");
}

#[test]
fn the_template_is_the_last_program_of_the_quick_start() {
    let (page, program) = (read("book/src/quick-start.md"), read("examples/template/src/main.rs"));
    let last = page.split("```rust\n").last().and_then(|rest| rest.split_once("```"));
    assert_eq!(last.expect("the page has programs").0, program);
    assert!(!program.contains("{{") && !program.contains("{%"), "`cargo generate` would take it for a placeholder");
}

/// With the addresses filled in, nothing that users read may say that there is no release, and the changelog says when
/// it was.
#[test]
fn a_release_leaves_nothing_of_the_time_before() {
    let workspace = section(&read("Cargo.toml"), "workspace.package");
    let is_filled_in = ["repository", "homepage"].map(|key| workspace[key].starts_with("\"https://"));
    assert!(is_filled_in[0] == is_filled_in[1], "only one address is filled in");
    let mut stale = Vec::new();
    let mut check = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        if UNPUBLISHED.iter().any(|mark| text.contains(mark)) {
            stale.push(path.to_owned());
        }
    };
    ["README.md", "SECURITY.md"].iter().for_each(|file| check(&root().join(file)));
    ["book/src", "examples/template"].iter().for_each(|folder| walk(&root().join(folder), &mut check));
    let version = format!("## [{}]", quoted(&workspace["version"])[0]);
    let changes = read("CHANGELOG.md");
    let heading = changes.lines().find(|line| line.starts_with(&version)).expect("the changelog has the version");
    match is_filled_in[0] {
        true => assert!(stale.is_empty() && heading.contains(" - 2"), "{UNPUBLISHED:?} in {stale:#?}; `{heading}`"),
        false => assert!(stale.len() > 3, "the marks are no longer those in use; found only {stale:?}"),
    }
}

/// The workflows repeat what other files say.
#[test]
fn workflows_name_versions_and_parts_that_exist() {
    let oldest = section(&read("Cargo.toml"), "workspace.package")["rust-version"].clone();
    let checks = read(".github/workflows/ci.yml");
    assert!(checks.contains(&format!("toolchain: [{oldest},")), "the checks do not build with Rust {oldest}");
    let (nightly, workflow) = (read(".ci/nightly"), read(".github/workflows/nightly.yml"));
    let between = |text: &str, before: &str, after: char| -> Vec<String> {
        let rest = text.split_once(before).expect("there is a list of parts").1;
        let list = rest.split(after).next().unwrap_or_default();
        let words = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let parts = between(&nightly, "PARTS=\"", '"');
    let named = between(&workflow, "part: [", ']');
    let unknown: Vec<_> = named.iter().filter(|part| !parts.contains(part)).collect();
    assert!(unknown.is_empty() && named.len() > 10, "not among the parts of `.ci/nightly`: {unknown:?}");
}

#[test]
fn all_texts_name_the_rust_version_of_the_workspace() {
    let oldest = section(&read("Cargo.toml"), "workspace.package")["rust-version"].clone();
    let mut seen = 0;
    let mut check = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        for (before, after) in text.match_indices("Rust 1.").map(|(at, _)| text.split_at(at + "Rust ".len())) {
            let version = after.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
            let line = before.lines().count();
            assert_eq!(version.trim_end_matches('.'), quoted(&oldest)[0], "{}:{line}", path.display());
            seen += 1;
        }
    };
    ["README.md", "runtime/README.md"].iter().for_each(|file| check(&root().join(file)));
    walk(&root().join("book/src"), &mut check);
    assert!(seen > 6, "only {seen} were found");
}

#[test]
fn dependencies_are_judged_for_the_systems_that_are_compiled_for() {
    let (nightly, rules) = (read(".ci/nightly"), read("deny.toml"));
    let compiled = nightly.split_once("\nTARGETS=\"").and_then(|(_, rest)| rest.split_once('"'));
    let mut compiled: Vec<_> = compiled.expect("there is a list of targets").0.split(' ').collect();
    compiled.push("x86_64-unknown-linux-gnu");
    compiled.sort_unstable();
    let judged = rules.split_once("targets = [").and_then(|(_, rest)| rest.split_once(']'));
    assert_eq!(quoted(judged.expect("there is a list of targets").0), compiled);
}

#[test]
fn sections_and_paths_are_read() {
    let manifest = "[a]\none = 1\n\n# two = 2\nthree.workspace = true\n[b]\nfour = [\"x\", \"y\"]\n";
    let keys: Vec<_> = section(manifest, "a").into_keys().collect();
    assert_eq!(keys, ["one", "three.workspace"]);
    assert_eq!(quoted(&section(manifest, "b")["four"]), ["x", "y"]);
    assert_eq!(files_read("include_str!(\"a.md\"); #[path = \"../b.rs\"] mod b;"), ["a.md", "../b.rs"]);
}

/// Catches: a file that a tool has left behind, where a user looks first.
#[test]
fn the_root_has_only_texts_and_manifests() {
    let files = fs::read_dir(root()).expect("the checkout").map(|entry| entry.expect("an entry"));
    let others = files.filter(|entry| entry.path().is_file()).filter(|entry| {
        let name = entry.file_name().into_string().expect("text");
        let is_text = [".md", ".toml", ".lock"].iter().any(|end| name.ends_with(end));
        !(is_text || name.starts_with('.') || name.starts_with("LICENSE-"))
    });
    let others: Vec<_> = others.map(|entry| entry.path()).collect();
    assert!(others.is_empty(), "{others:?}");
}
