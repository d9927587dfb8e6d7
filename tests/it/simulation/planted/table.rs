//! The guide's table of the number of seeds that each strategy needs.

use super::{PROGRAMS, Program, SEEDS, Version};
use postroom::test::{Schedules, Simulation, SimulationError};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/simulation-table.md");

const BEGIN: &str =
    "<!-- Generated: POSTROOM_WRITE=1 cargo test --release -p postroom-tests --test it planted::table -->";
const END: &str = "<!-- End of what is generated. -->";

const STRATEGIES: [Schedules; 4] = [Schedules::Random, Schedules::Pct, Schedules::Rare, Schedules::Portfolio];

/// Number of searches for each mistake, from different places in the sequence of seeds.
const STARTS: u64 = 20;

/// Distance between the starts of two searches. It is longer than a search.
const APART: u64 = 2 * SEEDS;

/// The programs that have few enough schedules to run all of them. (The others have faults or time-outs, or more than a
/// million schedules.)
const SMALL: [&str; 8] = [
    "lost_update",
    "name_race",
    "snapshot_gap",
    "forgetful_upgrade",
    "stop_during_start",
    "missed_signal",
    "two_ways",
    "oversold",
];

/// Returns the median and the maximum number of seeds, as text.
fn seeds(program: &Program, schedules: Schedules) -> String {
    let mut needed = Vec::new();
    for start in 0..STARTS {
        needed.push(program.seeds_to_failure(schedules, start * APART, SEEDS).unwrap_or(u64::MAX));
        let in_vain = needed.iter().filter(|&&needed| needed == u64::MAX).count();
        if in_vain > STARTS as usize / 2 {
            return format!("> {SEEDS}");
        }
    }
    needed.sort_unstable();
    let (median, most) = (needed[STARTS as usize / 2], needed[STARTS as usize - 1]);
    if most == u64::MAX { format!("{median} (> {SEEDS})") } else { format!("{median} ({most})") }
}

/// Returns two numbers of schedules: those explored until one fails, and those that prove the right version.
fn schedules(program: &Program) -> [String; 2] {
    if !SMALL.contains(&program.name) {
        return ["–".to_string(), "–".to_string()];
    }
    let found = program.seeds_to_failure(Schedules::Exhaustive, 0, SEEDS).expect("one of all schedules fails");
    let right = Simulation::new(program.name).schedules(Schedules::Exhaustive);
    let proved = match program.simulate(Version::Right, right) {
        Ok(covered) => covered.schedules.to_string(),
        Err(SimulationError::Unsupported { .. }) => "> 1,000,000".to_string(),
        Err(other) => panic!("{other}"),
    };
    [found.to_string(), proved]
}

fn row(program: &Program) -> String {
    let [random, pct, rare, portfolio] = STRATEGIES.map(|schedules| seeds(program, schedules));
    let [explored, proved] = schedules(program);
    format!("{} {random} | {pct} | {rare} | {portfolio} | {explored} | {proved} |\n", begin(program))
}

/// Returns the start of a row, without the figures.
fn begin(program: &Program) -> String {
    format!("| {} | {} |", program.mistake, program.remedy)
}

/// Each program is in the guide, with its mistake and its remedy. The command on that page regenerates the figures,
/// which takes minutes. Any change to the events of a turn changes some of the figures.
#[test]
fn the_guide_has_all_programs() {
    let text = std::fs::read_to_string(PAGE).expect("the page is readable");
    let (before, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{PAGE} has no line `{BEGIN}`"));
    let (between, after) = rest.split_once(END).unwrap_or_else(|| panic!("{PAGE} has no line `{END}`"));
    if std::env::var_os("POSTROOM_WRITE").is_some() {
        let rows: String = PROGRAMS.iter().map(row).collect();
        let head = "| mistake | remedy | `random` | `pct` | `rare` | `portfolio` | `exhaustive` | proved |\n\
                    |---|---|--:|--:|--:|--:|--:|--:|\n";
        let made = format!("{before}{BEGIN}\n\n{head}{rows}\n{END}{after}");
        return std::fs::write(PAGE, made).expect("the page can be written");
    }
    for program in PROGRAMS {
        let row = between.lines().find(|line| line.starts_with(&begin(program)));
        let row = row.unwrap_or_else(|| panic!("{} is not in the table: {BEGIN}", program.name));
        assert_eq!(row.matches('|').count(), 9, "{row}");
    }
    assert_eq!(between.lines().filter(|line| line.starts_with("| ")).count(), PROGRAMS.len() + 1, "rows, and the head");
}
