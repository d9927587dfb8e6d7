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
#[doc = include_str!("src/recipe-cache.md")]
pub mod recipe_cache {}
#[doc = include_str!("src/recipe-siblings.md")]
pub mod recipe_siblings {}
#[doc = include_str!("src/recipe-plugin-host.md")]
pub mod recipe_plugin_host {}
#[doc = include_str!("src/testing.md")]
pub mod testing {}
#[doc = include_str!("src/observability.md")]
pub mod observability {}
#[doc = include_str!("src/fairness.md")]
pub mod fairness {}
#[doc = include_str!("src/performance.md")]
pub mod performance {}
#[doc = include_str!("src/cluster.md")]
pub mod cluster {}
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
#[doc = include_str!("src/glossary.md")]
pub mod glossary {}
#[doc = include_str!("src/faq.md")]
pub mod faq {}

/// The program of the README.
#[doc = include_str!("../README.md")]
pub mod readme {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    const SUMMARY: &str = include_str!("src/SUMMARY.md");

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
        let names: BTreeSet<String> = pages().into_iter().map(|(name, _)| name).collect();
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
                    let known = ["rust", "text", "console", "toml"].contains(&language);
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
}
