//! Measures which faults the simulated tests find, by which strategy, and after how many seeds. The result is a table
//! of the guide.

use super::{BUILD, Fault, Place, SHORTEST_PATIENCE, Tests, judge, passed};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "book/src/simulation-table.md";
const BEGIN: &str = "<!-- Generated: tests/faults/run --simulated -->";
const END: &str = "<!-- End of the planted faults. -->";

const STRATEGIES: [&str; 4] = ["random", "pct", "rare", "portfolio"];
/// The maximum number of seeds that a strategy may use.
const SEEDS: u64 = 10_000;
/// The number of searches, each with different seeds. Their median counts.
const SEARCHES: u64 = 5;

/// Returns whether the tests are simulated ones.
pub fn in_simulation(tests: &Tests) -> bool {
    tests.word.starts_with("it=simulation")
}

/// Returns the rows of the table: one for each simulated test that a record names, unless the fault makes the test hang
/// or abort, or survives it.
pub fn rows(place: &Place, faults: &[Fault], switched: &BTreeSet<usize>) -> Vec<String> {
    let mut rows = Vec::new();
    let all: BTreeSet<&Tests> =
        switched.iter().flat_map(|&index| &faults[index].tests).filter(|t| in_simulation(t)).collect();
    for tests in all {
        let program = place.build(&tests.target()).expect("it has been built");
        if let Err(wrong) = passed(&place.run(&program, tests, 0, BUILD)) {
            println!("without any fault `{}` does not pass: {wrong}", tests.word);
            std::process::exit(1);
        }
    }
    for &index in switched {
        let fault = &faults[index];
        let words = fault.tests.iter().filter(|tests| in_simulation(tests));
        for tests in words {
            let program = place.build(&tests.target()).expect("it has been built");
            let output = place.run(&program, tests, index + 1, SHORTEST_PATIENCE);
            let Some(caught) = judge(tests, &output) else {
                println!("SURVIVED  {:<44} {}", fault.name, tests.word);
                continue;
            };
            let test = caught.rsplit_once(": ").map_or("", |(_, tests)| tests.split(' ').next().unwrap_or_default());
            if !test.contains("::") {
                // The test hangs or aborts, so it takes equally long with every strategy.
                println!("CAUGHT    {:<44} {caught}", fault.name);
                continue;
            }
            let cells = STRATEGIES.map(|strategy| search(place, &program, test, index + 1, strategy));
            let shown = test.rsplit("::").next().unwrap_or_default().replace('_', " ");
            let what = seen(&String::from_utf8_lossy(&output.stdout), test);
            let row = format!("| {} | `{}` | {shown} | {what} | {} |", fault.name, fault.file, cells.join(" | "));
            println!("{row}");
            rows.push(row);
        }
    }
    rows
}

/// Returns the number of seeds that the strategy needs until the test fails.
fn search(place: &Place, program: &Path, test: &str, number: usize, strategy: &str) -> String {
    let mut needed: Vec<u64> = (0..SEARCHES)
        .map(|search| {
            let tests = Tests { word: "it".to_string() };
            let output = place.run_with(program, &tests, number, SHORTEST_PATIENCE, |command| {
                command.args(["--exact", test]).env("POSTROOM_STRATEGY", strategy);
                command.env("POSTROOM_SEEDS", SEEDS.to_string());
                command.env("POSTROOM_FIRST_SEED", (2 * SEEDS * search).to_string());
            });
            seeds(&String::from_utf8_lossy(&output.stdout)).unwrap_or(u64::MAX)
        })
        .collect();
    needed.sort_unstable();
    match needed[SEARCHES as usize / 2] {
        u64::MAX => format!("> {SEEDS}"),
        median => median.to_string(),
    }
}

/// Returns the number of the run that failed, from the report of a simulation.
fn seeds(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once(" failed with seed ")?;
    rest.split_once("(run ")?.1.split(' ').next()?.parse().ok()
}

/// Returns how the given test failed: by an assertion, or in a way that the simulation detects by itself.
fn seen(said: &str, test: &str) -> &'static str {
    let report = said.split_once(&format!("---- {test} stdout ----")).map_or(said, |(_, report)| report);
    let report = report.split_once("\n----").map_or(report, |(report, _)| report);
    let message = report.split_once(" failed with seed ").and_then(|(_, rest)| rest.lines().nth(1)).unwrap_or(report);
    let kinds = [
        ("the runtime contradicts itself", "a check"),
        ("livelock:", "a livelock"),
        ("stuck:", "stuck"),
        ("endless:", "endless"),
        ("processes did not end", "no end"),
    ];
    kinds.iter().find(|(start, _)| message.trim_start().starts_with(start)).map_or("an assertion", |(_, kind)| kind)
}

/// Writes the table to the guide.
pub fn write(root: &Path, rows: &[String]) -> Result<(), String> {
    let path = root.join(PAGE);
    let text = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{PAGE} has no lines `{BEGIN}` and `{END}`"))?;
    let head = "| fault | file | test | found by | `random` | `pct` | `rare` | `portfolio` |\n\
                |---|---|---|---|--:|--:|--:|--:|\n";
    let table = format!("{before}{BEGIN}\n\n{head}{}\n\n{END}{after}", rows.join("\n"));
    fs::write(&path, table).map_err(|error| format!("{PAGE}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{seeds, seen};

    #[test]
    fn what_has_failed_is_read_from_the_report_of_that_test() {
        let report =
            |test, message| format!("---- {test} stdout ----\n`{test}` failed with seed 1 (run 2)\n  {message}\n");
        let said = report("a::b", "assertion failed") + "\n" + &report("a::c", "stuck: nothing can go on");
        assert_eq!((seen(&said, "a::b"), seen(&said, "a::c")), ("an assertion", "stuck"));
        assert_eq!(seen(&report("d", "the runtime contradicts itself, which"), "d"), "a check");
    }

    #[test]
    fn the_number_of_the_run_is_read_from_the_report() {
        assert_eq!(seeds("x\n`a::b` failed with seed 20004 (run 5 of 10000), after 0ns and 3 turns"), Some(5));
        assert_eq!(seeds("`a::b`: its 100 runs passed, but none of them met `sometimes!"), None);
    }
}
