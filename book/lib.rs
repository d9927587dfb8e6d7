//! The guide. Its pages are in `src`; this file makes each of them a module, so that rustdoc compiles and runs every
//! block of code in them as a test.
//!
//! The tests below see to it that no page, and no block, gets around that.

#[doc = include_str!("src/introduction.md")]
pub mod introduction {}
#[doc = include_str!("src/quick-start.md")]
pub mod quick_start {}
#[doc = include_str!("src/install.md")]
pub mod install {}
#[doc = include_str!("src/first-process.md")]
pub mod first_process {}
#[doc = include_str!("src/entries.md")]
pub mod entries {}
#[doc = include_str!("src/pids.md")]
pub mod pids {}
#[doc = include_str!("src/messages.md")]
pub mod messages {}
#[doc = include_str!("src/calls.md")]
pub mod calls {}
#[doc = include_str!("src/tokio.md")]
pub mod tokio {}
#[doc = include_str!("src/async.md")]
pub mod async_processes {}
#[doc = include_str!("src/io.md")]
pub mod io {}
#[doc = include_str!("src/blocking.md")]
pub mod blocking {}
#[doc = include_str!("src/timers.md")]
pub mod timers {}
#[doc = include_str!("src/back-pressure.md")]
pub mod back_pressure {}
#[doc = include_str!("src/discovery.md")]
pub mod discovery {}
#[doc = include_str!("src/protocols.md")]
pub mod protocols {}
#[doc = include_str!("src/pools.md")]
pub mod pools {}
#[doc = include_str!("src/delivery.md")]
pub mod delivery {}
#[doc = include_str!("src/lifecycle.md")]
pub mod lifecycle {}
#[doc = include_str!("src/shutdown.md")]
pub mod shutdown {}
#[doc = include_str!("src/links.md")]
pub mod links {}
#[doc = include_str!("src/supervision.md")]
pub mod supervision {}
#[doc = include_str!("src/deadlock.md")]
pub mod deadlock {}
#[doc = include_str!("src/design.md")]
pub mod design {}
#[doc = include_str!("src/design-process.md")]
pub mod design_process {}
#[doc = include_str!("src/design-pressure.md")]
pub mod design_pressure {}
#[doc = include_str!("src/design-failure.md")]
pub mod design_failure {}
#[doc = include_str!("src/design-supervision.md")]
pub mod design_supervision {}
#[doc = include_str!("src/design-tests.md")]
pub mod design_tests {}
#[doc = include_str!("src/recipe-rate-limit.md")]
pub mod recipe_rate_limit {}
#[doc = include_str!("src/recipe-retry.md")]
pub mod recipe_retry {}
#[doc = include_str!("src/recipe-circuit-breaker.md")]
pub mod recipe_circuit_breaker {}
#[doc = include_str!("src/recipe-scatter-gather.md")]
pub mod recipe_scatter_gather {}
#[doc = include_str!("src/recipe-state-machine.md")]
pub mod recipe_state_machine {}
#[doc = include_str!("src/recipe-worker-pool.md")]
pub mod recipe_worker_pool {}
#[doc = include_str!("src/recipe-per-user.md")]
pub mod recipe_per_user {}
#[doc = include_str!("src/recipe-cache.md")]
pub mod recipe_cache {}
#[doc = include_str!("src/recipe-siblings.md")]
pub mod recipe_siblings {}
#[doc = include_str!("src/recipe-plugin-host.md")]
pub mod recipe_plugin_host {}
#[doc = include_str!("src/testing.md")]
pub mod testing {}
#[doc = include_str!("src/simulation.md")]
pub mod simulation {}
#[doc = include_str!("src/simulation-table.md")]
pub mod simulation_table {}
#[doc = include_str!("src/observability.md")]
pub mod observability {}
#[doc = include_str!("src/console.md")]
pub mod console {}
#[doc = include_str!("src/metrics.md")]
pub mod metrics {}
#[doc = include_str!("src/tuning.md")]
pub mod tuning {}
#[doc = include_str!("src/containers.md")]
pub mod containers {}
#[doc = include_str!("src/signals.md")]
pub mod signals {}
#[doc = include_str!("src/recorder.md")]
pub mod recorder {}
#[doc = include_str!("src/slow.md")]
pub mod slow {}
#[doc = include_str!("src/fairness.md")]
pub mod fairness {}
#[doc = include_str!("src/performance.md")]
pub mod performance {}
#[doc = include_str!("src/cluster.md")]
pub mod cluster {}
#[doc = include_str!("src/cluster-groups.md")]
pub mod cluster_groups {}
#[doc = include_str!("src/cluster-promises.md")]
pub mod cluster_promises {}
#[doc = include_str!("src/cluster-supervision.md")]
pub mod cluster_supervision {}
#[doc = include_str!("src/cluster-security.md")]
pub mod cluster_security {}
#[doc = include_str!("src/cluster-nats.md")]
pub mod cluster_nats {}
#[doc = include_str!("src/cluster-tests.md")]
pub mod cluster_tests {}
#[doc = include_str!("src/transports.md")]
pub mod transports {}
#[doc = include_str!("src/by-name.md")]
pub mod by_name {}
#[doc = include_str!("src/upgrade.md")]
pub mod upgrade {}
#[doc = include_str!("src/by-hand.md")]
pub mod by_hand {}
#[doc = include_str!("src/commands.md")]
pub mod commands {}
#[doc = include_str!("src/scheduler.md")]
pub mod scheduler {}
#[doc = include_str!("src/inside-mailbox.md")]
pub mod inside_mailbox {}
#[doc = include_str!("src/sleep-protocol.md")]
pub mod sleep_protocol {}
#[doc = include_str!("src/memory.md")]
pub mod memory {}
#[doc = include_str!("src/memory-ordering.md")]
pub mod memory_ordering {}
#[doc = include_str!("src/how-it-is-tested.md")]
pub mod how_it_is_tested {}
#[doc = include_str!("src/from-actix.md")]
pub mod from_actix {}
#[doc = include_str!("src/from-kameo.md")]
pub mod from_kameo {}
#[doc = include_str!("src/from-ractor.md")]
pub mod from_ractor {}
#[doc = include_str!("src/from-tokio.md")]
pub mod from_tokio {}
#[doc = include_str!("src/from-erlang.md")]
pub mod from_erlang {}
#[doc = include_str!("src/from-go.md")]
pub mod from_go {}
#[doc = include_str!("src/cheat-sheet.md")]
pub mod cheat_sheet {}
#[doc = include_str!("src/attributes.md")]
pub mod attributes {}
#[doc = include_str!("src/options.md")]
pub mod options {}
#[doc = include_str!("src/errors.md")]
pub mod errors {}
#[doc = include_str!("src/compile-errors.md")]
pub mod compile_errors {}
#[doc = include_str!("src/log-events.md")]
pub mod log_events {}
#[doc = include_str!("src/versions.md")]
pub mod versions {}
#[doc = include_str!("src/glossary.md")]
pub mod glossary {}
#[doc = include_str!("src/faq.md")]
pub mod faq {}
#[doc = include_str!("src/404.md")]
pub mod not_found {}

/// The programs of the READMEs. (That of `postroom-nats` is in the documentation of that crate, and so tested there.)
#[doc = include_str!("../README.md")]
pub mod readme {}
#[doc = include_str!("../runtime/README.md")]
pub mod readme_of_runtime {}
#[doc = include_str!("../macros/README.md")]
pub mod readme_of_macros {}
#[doc = include_str!("../cluster/README.md")]
pub mod readme_of_cluster {}
#[doc = include_str!("../console/README.md")]
pub mod readme_of_console {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    const SUMMARY: &str = include_str!("src/SUMMARY.md");

    /// The page that a server shows for an address without one. The summary does not have it.
    const NOT_FOUND: &str = "404.md";

    /// Where the pages are.
    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")
    }

    /// The files that a page takes in when the guide is built; they are no pages.
    fn included(page: &str) -> impl Iterator<Item = &str> {
        page.split("{{#include ").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0))
    }

    /// The pages in `src`: their names, and what they say.
    fn pages() -> Vec<(String, String)> {
        let folder = folder();
        let entries = fs::read_dir(&folder).expect("the folder of the pages can be read");
        let mut pages = Vec::new();
        for entry in entries {
            let path = entry.expect("the folder of the pages can be read").path();
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            assert!(path.is_file(), "`{name}` is a folder: these tests look at one level only");
            if name.ends_with(".md") && name != "SUMMARY.md" {
                pages.push((name, fs::read_to_string(&path).expect("a page is readable text")));
            }
        }
        let parts: BTreeSet<String> = pages.iter().flat_map(|(_, text)| included(text)).map(str::to_string).collect();
        pages.retain(|(name, _)| !parts.contains(name));
        assert!(!pages.is_empty());
        pages
    }

    /// What a heading is linked by: as mdBook makes it, without what is neither a letter, a digit nor a dash.
    fn anchor(heading: &str) -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    }

    #[test]
    fn what_a_page_includes_is_there() {
        for (name, text) in pages() {
            for part in included(&text) {
                assert!(folder().join(part).is_file(), "{name} includes `{part}`, which is not there");
            }
        }
    }

    #[test]
    fn every_page_is_compiled_and_in_the_summary_and_nothing_else_is() {
        let mut names: BTreeSet<String> = pages().into_iter().map(|(name, _)| name).collect();
        // Only in the part above the tests: this text is no inclusion.
        let lib = include_str!("lib.rs").split("#[cfg(test)]").next().expect("a split has a first part");
        let between = |text: &str, before: &str, after: &str| -> BTreeSet<String> {
            let parts = text.split(before).skip(1);
            parts.filter_map(|rest| rest.split_once(after)).map(|(name, _)| name.to_string()).collect()
        };
        assert_eq!(
            between(lib, "#[doc = include_str!(\"src/", "\")]"),
            names,
            "pages that `lib.rs` includes, and pages"
        );
        assert!(names.remove(NOT_FOUND));
        assert_eq!(between(SUMMARY, "](", ")"), names, "pages in `SUMMARY.md`, and pages");
    }

    #[test]
    fn every_block_says_what_it_is_and_every_rust_block_runs() {
        let readme = ("README.md".to_string(), include_str!("../README.md").to_string());
        for (name, text) in pages().into_iter().chain([readme]) {
            let mut inside = false;
            for (index, line) in text.lines().enumerate() {
                let place = format!("{name}:{}", index + 1);
                if let Some(language) = line.strip_prefix("```") {
                    let known = ["rust", "text", "console", "toml", "yaml"].contains(&language);
                    assert!(if inside { language.is_empty() } else { known }, "{place}: a block of `{language}`");
                    inside = !inside;
                } else if !inside {
                    assert!(!line.trim_start().starts_with("```"), "{place}: a block that is indented");
                    assert!(!line.starts_with("    ") && !line.starts_with('\t'), "{place}: code without a fence");
                }
            }
            assert!(!inside, "{name}: a block does not end");
        }
    }

    /// The program whose every error is tried out in `tests/it/call/bank.rs` is the one that the guide shows.
    #[test]
    fn the_bank_of_the_guide_is_the_one_that_is_tested() {
        let program = include_str!("../tests/it/call/bank/program.rs");
        assert!(include_str!("src/calls.md").contains(program.trim_end()), "the two have come apart");
    }

    #[test]
    fn links_between_pages_lead_to_pages_and_those_to_pictures_to_files() {
        let pages = pages();
        for (name, text) in &pages {
            for (target, _) in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
                let (page, heading) = target.split_once('#').unwrap_or((target, ""));
                let Some((_, there)) = pages.iter().find(|(other, _)| other == page) else {
                    let is_file = !page.ends_with(".md") && folder().join(page).is_file();
                    assert!(page.contains("://") || is_file, "{name} links to `{target}`, which is no page");
                    continue;
                };
                let headings = there.lines().filter(|line| line.starts_with('#'));
                let anchors = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
                assert!(
                    heading.is_empty() || anchors.into_iter().any(|anchor| anchor == heading),
                    "{name}: `{target}`"
                );
            }
        }
    }

    /// Words that make a text read as translated. A bound only falls: lower it when the guide gets better.
    const TICS: &[&str] = &["nobody", "somebody", "whoever", "what is", "is no", "all the same"];
    const MOST_TICS_PER_THOUSAND_WORDS: f64 = 1.0;
    const QUESTIONS: &[&str] = &["what", "who", "whom", "whose", "which", "where", "when", "why", "how"];
    const MOST_QUESTIONS_PER_HUNDRED_HEADINGS: usize = 10;

    /// The prose of a page: no code, neither in blocks nor in lines.
    fn prose(text: &str) -> String {
        let outside = text.split("```").step_by(2);
        outside.flat_map(|part| part.split('`').step_by(2)).collect::<Vec<_>>().join(" ").to_lowercase()
    }

    #[test]
    fn the_guide_reads_as_english() {
        let pages = pages();
        let (mut words, mut tics, mut found) = (0, 0, Vec::new());
        for (name, text) in &pages {
            let text: Vec<String> = prose(text).split_whitespace().map(str::to_string).collect();
            let joined = format!(" {} ", text.join(" ").replace(|c: char| !c.is_alphanumeric() && c != '\'', " "));
            let here: usize = TICS.iter().map(|tic| joined.matches(&format!(" {tic} ")).count()).sum();
            words += text.len();
            tics += here;
            if here > 0 {
                found.push(format!("{name}: {here}"));
            }
        }
        let rate = 1000.0 * tics as f64 / words as f64;
        assert!(rate <= MOST_TICS_PER_THOUSAND_WORDS, "{tics} of {TICS:?} in {words} words ({rate:.2}): {found:?}");

        let headings = pages.iter().flat_map(|(name, text)| {
            let outside = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
            outside.map(move |line| (name, line.trim_start_matches('#').trim()))
        });
        let (asking, all): (Vec<_>, Vec<_>) = {
            let headings: Vec<_> = headings.collect();
            let asks = |(_, heading): &&(&String, &str)| {
                let first = heading.split_whitespace().next().unwrap_or_default().to_lowercase();
                QUESTIONS.contains(&first.as_str())
            };
            (headings.iter().filter(asks).copied().collect(), headings)
        };
        assert!(
            100 * asking.len() <= MOST_QUESTIONS_PER_HUNDRED_HEADINGS * all.len(),
            "{} of {} headings begin with a question word: {asking:?}",
            asking.len(),
            all.len()
        );
    }

    /// Compares what stands below the marker of a page with `made`; with `POSTROOM_WRITE=1` writes it there.
    fn is_generated(page: &str, made: &str) {
        const MARKER: &str =
            "<!-- Below here, this page is generated: POSTROOM_WRITE=1 cargo test -p postroom-book -->";
        let path = folder().join(page);
        let text = fs::read_to_string(&path).expect("the page is readable");
        let (by_hand, below) = text.split_once(MARKER).unwrap_or_else(|| panic!("{page} has no line `{MARKER}`"));
        let expected = format!("\n\n{made}");
        if std::env::var_os("POSTROOM_WRITE").is_some() {
            fs::write(&path, format!("{by_hand}{MARKER}{expected}")).expect("the page can be written");
        } else {
            assert_eq!(below, expected, "{page} is not up to date: POSTROOM_WRITE=1 cargo test -p postroom-book");
        }
    }

    /// All files below a folder of the repository with an extension, sorted.
    fn files(below: &str, extension: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(below)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("the folder can be read") {
                let path = entry.expect("the folder can be read").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|other| other == extension) {
                    found.push(path);
                }
            }
        }
        found.sort();
        assert!(!found.is_empty());
        found
    }

    /// A line of a table may not hold its separator, nor anything that looks like a tag outside of code.
    fn cell(text: &str) -> String {
        let text = text.replace('|', "\\|").replace('\n', " ");
        let parts = text.split('`').enumerate();
        let parts =
            parts.map(|(place, part)| if place % 2 == 0 { part.replace('<', "&lt;") } else { part.to_string() });
        parts.collect::<Vec<_>>().join("`")
    }

    /// The errors of the macros' own words, and the lines that they mark, from the cases that test them.
    #[test]
    fn every_compile_error_is_in_the_reference() {
        /// Errors, and the beginnings of help and notes, that are the compiler's own.
        const OTHERS: &[&str] = &["trait bound", "cannot be sent between", "expected non-macro attribute"];
        const THEIRS: &[&str] =
            &["required", "see issue", "the trait", "the following", "this error originates", "1 redundant", "`"];
        let (mut seen, mut rows) = (BTreeSet::new(), BTreeSet::new());
        for path in files("tests/ui/cases", "stderr") {
            let text = fs::read_to_string(path).expect("the case is readable");
            for error in text.split("\n\n") {
                let Some(head) = error.lines().next().and_then(|line| line.strip_prefix("error")) else { continue };
                let Some((code, head)) = head.split_once(": ") else { continue };
                // Of the compiler's errors, those with words of ours.
                let ours = code.is_empty() || code == "[E0277]";
                if !ours || OTHERS.iter().any(|part| head.contains(part)) || !seen.insert(head.to_string()) {
                    continue;
                }
                let lines = || error.lines().map(|line| line.trim().trim_start_matches("= "));
                let ours = |line: &&str| !THEIRS.iter().any(|start| line.starts_with(start));
                let found = |kind| lines().filter_map(|line| line.strip_prefix(kind)).find(ours);
                let help = found("help: ").or_else(|| found("note: "));
                rows.insert(format!("| {} | {} |\n", cell(head), cell(help.unwrap_or_default())));
            }
        }
        let made = format!("| error | help |\n|---|---|\n{}", Vec::from_iter(rows).concat());
        is_generated("compile-errors.md", &made);
    }

    /// Every event that the runtime, the cluster and the console log, from their source: the level, the text and the
    /// fields. All have one target; no field is there twice, or has the name of the text.
    #[test]
    fn every_log_event_is_in_the_reference() {
        let mut rows = BTreeSet::new();
        let folders = ["runtime/src", "cluster/src", "cluster/nats/src", "console/src"];
        let paths = folders.into_iter().flat_map(|folder| files(folder, "rs"));
        for path in paths {
            let text = fs::read_to_string(&path).expect("the source is readable");
            for (level, order) in [("error", 0), ("warn", 1), ("info", 2), ("debug", 3), ("trace", 4)] {
                // Other crates than the runtime name the target in each event.
                let (of_runtime, of_others) = (format!("log::{level}!("), format!("tracing::{level}!("));
                let with_target = text.split(&of_others).skip(1).map(|event| {
                    let targeted = event.trim_start().strip_prefix("target: \"postroom\",");
                    targeted.unwrap_or_else(|| panic!("{}: an event without `target: \"postroom\"`", path.display()))
                });
                let events = text.split(&of_runtime).skip(1).chain(with_target);
                for event in events {
                    let (fields, rest) = event.split_once('"').expect("an event has a text");
                    let mut said = String::new();
                    let mut rest = rest.chars();
                    while let Some(c) = rest.next() {
                        match c {
                            '"' => break,
                            '\\' => {
                                while rest.as_str().starts_with(char::is_whitespace) {
                                    rest.next();
                                }
                            }
                            c => said.push(c),
                        }
                    }
                    let names = fields.split(',').map(|field| field.split('=').next().unwrap_or_default().trim());
                    let names: Vec<String> = names
                        .map(|name| name.trim_start_matches(['%', '?']))
                        .filter(|name| !name.is_empty())
                        .map(|name| format!("`{name}`"))
                        .collect();
                    let distinct: BTreeSet<&String> = names.iter().collect();
                    assert_eq!(distinct.len(), names.len(), "a field twice in `{said}`: {names:?}");
                    assert!(!names.iter().any(|name| name == "`message`"), "`{said}` has a field `message`");
                    assert!(said.contains(' '), "the value of a field in the place of the text: {said}");
                    assert!(!said.contains('{'), "what varies in an event is a field, not a part of its text: {said}");
                    rows.insert((order, level.to_uppercase(), cell(&said), names.join(", ")));
                }
            }
        }
        let rows: String =
            rows.iter().map(|(_, level, said, names)| format!("| {level} | {said} | {names} |\n")).collect();
        is_generated("log-events.md", &format!("| level | text | fields |\n|---|---|---|\n{rows}"));
    }

    /// Every variant of every error that users can meet.
    #[test]
    fn every_error_is_in_the_reference() {
        let page = fs::read_to_string(folder().join("errors.md")).expect("the page is readable");
        let mut missing = Vec::new();
        for path in files("runtime/src", "rs") {
            let text = fs::read_to_string(path).expect("the source is readable");
            for declared in text.split("\npub enum ").skip(1) {
                let (head, body) = declared.split_once('{').expect("an enum has a body");
                let name = head.split(['<', ' ']).next().unwrap_or_default();
                let body = body.split_once("\n}").map_or(body, |(body, _)| body);
                if !body.contains("#[error(") {
                    continue;
                }
                let variants = body
                    .lines()
                    .filter_map(|line| line.strip_prefix("    "))
                    .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
                for variant in variants {
                    let variant = variant.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                    if !page.contains(&format!("`{name}::{variant}")) {
                        missing.push(format!("{name}::{variant}"));
                    }
                }
            }
        }
        assert!(missing.is_empty(), "errors.md does not mention {missing:?}");
    }
}
