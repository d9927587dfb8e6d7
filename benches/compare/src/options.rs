//! The command line.

use crate::cases::{Case, probes, workloads};
use crate::sizes::Scale;
use crate::sweeps::Sweep;
use crate::system::System;
use std::path::PathBuf;
use std::str::FromStr;

pub const HELP: &str = "\
Measures Postroom beside other actor libraries and bare Tokio, on the same workloads in the same run.

cargo run --release --manifest-path benches/compare/Cargo.toml -- [OPTIONS]

  --only A,B       these workloads only (`pipeline` stands for all three pipelines)
  --systems A,B    these systems only: postroom, tokio, actix, kameo, ractor, xtra
  --anchors        also systems that show how fast a message can be where more is given up for it, in the workloads that
                   they have: stakker, nexosim, kanal (on async-executor), local-sync (on Tokio's LocalSet); needs
                   `--features anchors` before the `--`. They can also be named after --systems.
  --workers 1,2    numbers of worker threads
  --runs N         runs of each measurement, of which the median counts (default 3)
  --probe          instead of the table: how late a message comes while others flood, block, loop, or set timers
  --quick          small sizes: rough figures in a minute or so
  --sweep A,B      instead of the table: payload, pairs, processes, bound, via, style, or all
  --csv FILE       writes the figures as CSV
  --svg FILE       draws a chart
  --markdown FILE  writes the table as Markdown
  --help           this text

The exit status is 1 if a run of Postroom failed, hung or had a wrong result, and 2 for options that make no sense.";

/// Maximum number of threads. A larger number is taken for a typo.
const MOST_WORKERS: usize = 1_024;

/// What the user wants the program to do.
#[derive(Debug, PartialEq)]
pub enum Order {
    Help,
    Compare(Options),
}

/// The options of a comparison.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// The rows.
    pub cases: Vec<Case>,
    pub systems: Vec<System>,
    pub workers: Vec<usize>,
    pub runs: usize,
    pub scale: Scale,
    /// Whether the rows are probes, which have a table of their own.
    pub probes: bool,
    pub csv: Option<PathBuf>,
    pub svg: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
}

/// Parses the arguments, which do not include the program's name.
///
/// # Errors
/// A text that says what was expected, what was found, and what to do.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Order, String> {
    let mut arguments = arguments.into_iter();
    let (mut only, mut sweeps, mut anchors) = (None, Vec::new(), false);
    let mut options = Options {
        cases: Vec::new(),
        systems: System::COMPARED.to_vec(),
        workers: Vec::new(),
        runs: 3,
        scale: Scale::Full,
        probes: false,
        csv: None,
        svg: None,
        markdown: None,
    };
    while let Some(argument) = arguments.next() {
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (argument.as_str(), None),
        };
        let has_value = !matches!(name, "--help" | "-h" | "--quick" | "--probe" | "--anchors");
        if let Some(value) = inline.as_ref().filter(|_| !has_value) {
            return Err(format!("{name} takes no value, but `{value}` came; leave it out"));
        }
        let mut value = || inline.clone().or_else(|| arguments.next()).ok_or_else(|| missing(name));
        match name {
            "--help" | "-h" => return Ok(Order::Help),
            "--quick" => options.scale = Scale::Quick,
            "--probe" => options.probes = true,
            "--anchors" => anchors = true,
            "--only" => only = Some(value()?),
            "--systems" => options.systems = list(name, &value()?)?,
            "--workers" => options.workers = workers(name, &value()?)?,
            "--runs" => options.runs = runs(name, &value()?)?,
            "--sweep" => sweeps = sweeps_of(name, &value()?)?,
            "--csv" => options.csv = Some(value()?.into()),
            "--svg" => options.svg = Some(value()?.into()),
            "--markdown" => options.markdown = Some(value()?.into()),
            _ => return Err(format!("expected an option, but `{argument}` came; --help lists what there is")),
        }
    }
    if anchors {
        let more = System::ANCHORS.iter().filter(|anchor| !options.systems.contains(anchor));
        options.systems.extend(more.copied().collect::<Vec<_>>());
    }
    if let Some(anchor) = options.systems.iter().find(|system| system.is_anchor() && !System::HAS_ANCHORS) {
        return Err(format!(
            "expected a program with anchors for {anchor}, but this one was built without; put `--features anchors` \
             before the `--`"
        ));
    }
    if options.probes && (!sweeps.is_empty() || options.svg.is_some()) {
        return Err(
            "--probe makes a table of its own, without sweeps or a chart; leave out --sweep and --svg".to_string()
        );
    }
    if options.workers.is_empty() {
        options.workers = if options.probes { vec![2] } else { vec![1, 2] };
    }
    options.cases = match &sweeps[..] {
        [] if options.probes => probes(),
        [] => workloads(),
        sweeps => sweeps.iter().flat_map(|sweep| sweep.cases(options.scale)).collect(),
    };
    if let Some(only) = only {
        keep_only(&mut options.cases, &only)?;
    }
    Ok(Order::Compare(options))
}

fn missing(name: &str) -> String {
    format!("{name} expects a value, but none came; give one after it, or see --help")
}

/// Parses values that are separated by commas. A repeated value counts once.
fn list<T: FromStr<Err = String> + PartialEq>(name: &str, text: &str) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let value = part.parse().map_err(|error| format!("{name}: {error}"))?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.is_empty() { Err(missing(name)) } else { Ok(values) }
}

/// Parses a whole number from 1 on.
fn number(name: &str, text: &str, most: usize) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("{name} expects a whole number from 1 to {most}, but `{text}` came; give it one")),
    }
}

fn workers(name: &str, text: &str) -> Result<Vec<usize>, String> {
    let mut workers = Vec::new();
    for part in text.split(',') {
        let number = number(name, part, MOST_WORKERS)?;
        if !workers.contains(&number) {
            workers.push(number);
        }
    }
    Ok(workers)
}

fn runs(name: &str, text: &str) -> Result<usize, String> {
    number(name, text, 1_000)
}

fn sweeps_of(name: &str, text: &str) -> Result<Vec<Sweep>, String> {
    if text.split(',').any(|part| part.trim() == "all") {
        return Ok(Sweep::ALL.to_vec());
    }
    list(name, text).map_err(|error| format!("{error}, all"))
}

/// Keeps the rows of the named workloads, in the order that they already have.
fn keep_only(cases: &mut Vec<Case>, only: &str) -> Result<(), String> {
    let wanted: Vec<&str> = only.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if wanted.is_empty() {
        return Err(missing("--only"));
    }
    let is_named = |case: &Case, name: &str| case.name == name || case.workload.name() == name;
    if let Some(unknown) = wanted.iter().find(|name| !cases.iter().any(|case| is_named(case, name))) {
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(format!("--only: there is no row `{unknown}`; choose from {}", names.join(", ")));
    }
    cases.retain(|case| wanted.iter().any(|name| is_named(case, name)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        match parse(line.split_whitespace().map(str::to_string)) {
            Ok(Order::Compare(options)) => options,
            other => panic!("`{line}` gave {other:?}"),
        }
    }

    fn refusal(line: &str) -> String {
        parse(line.split_whitespace().map(str::to_string)).unwrap_err()
    }

    #[test]
    fn without_options_everything_is_measured_three_times_on_one_worker_and_on_two() {
        let options = options("");
        assert_eq!((options.cases, options.systems, options.runs), (workloads(), System::COMPARED.to_vec(), 3));
        assert_eq!((options.workers, options.scale, options.csv), (vec![1, 2], Scale::Full, None));
    }

    #[test]
    fn options_take_their_values_behind_a_blank_or_an_equals_sign() {
        let options =
            options("--only=ping_pong,pipeline --systems xtra,postroom,xtra --workers=4 --runs 5 --quick --csv a.csv");
        let names: Vec<_> = options.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["ping_pong", "pipeline_1us", "pipeline_10us", "pipeline_100us"]);
        assert_eq!(options.systems, [System::Xtra, System::Postroom]);
        assert_eq!((options.workers, options.runs, options.scale), (vec![4], 5, Scale::Quick));
        assert_eq!(options.csv, Some("a.csv".into()));
    }

    #[test]
    fn sweeps_replace_the_table_and_all_means_each_of_them() {
        assert_eq!(options("--sweep style").cases, Sweep::Style.cases(Scale::Full));
        let all: usize = Sweep::ALL.iter().map(|sweep| sweep.cases(Scale::Quick).len()).sum();
        assert_eq!(options("--sweep all --quick").cases.len(), all);
        assert!(options("--sweep payload --only counting").cases.iter().all(|case| case.name.starts_with("counting")));
    }

    #[test]
    fn probes_are_on_two_workers_unless_said_otherwise() {
        let all = options("--probe");
        assert_eq!((all.cases, all.workers, all.probes), (probes(), vec![2], true));
        let some = options("--probe --only probe_flood --workers 1");
        assert_eq!((some.cases.len(), some.workers), (1, vec![1]));
        assert!(refusal("--probe --sweep all").contains("leave out --sweep"));
    }

    #[test]
    fn nonsense_is_told_what_was_expected_what_came_and_what_to_do() {
        assert!(refusal("--sise 3").contains("`--sise`"));
        assert!(refusal("--workers 0").contains("from 1 to 1024, but `0` came"));
        assert!(refusal("--runs many").contains("`many`"));
        assert!(refusal("--csv").contains("expects a value, but none came"));
        assert!(refusal("--quick=yes").contains("`yes`"));
        assert!(refusal("--systems erlang").contains("`erlang`; choose from postroom, tokio"));
        assert!(refusal("--sweep speed").ends_with("style, all"));
        assert!(refusal("--only ping").contains("no row `ping`; choose from ping_pong,"));
        assert!(refusal("--only ,").contains("--only expects"));
    }

    #[test]
    #[cfg(feature = "anchors")]
    fn anchors_come_after_the_systems_that_were_chosen_and_once() {
        assert_eq!(options("").systems, System::COMPARED);
        assert_eq!(options("--anchors").systems, [System::COMPARED, System::ANCHORS].concat());
        let chosen = options("--anchors --systems kanal,postroom").systems;
        assert_eq!(chosen, [System::Kanal, System::Postroom, System::Stakker, System::Nexosim, System::LocalSync]);
        assert_eq!(options("--systems stakker").systems, [System::Stakker]);
    }

    #[test]
    #[cfg(not(feature = "anchors"))]
    fn anchors_that_were_not_built_are_refused_with_what_to_do() {
        for line in ["--anchors", "--systems postroom,stakker"] {
            let refusal = refusal(line);
            assert!(refusal.contains("anchors for stakker") && refusal.contains("`--features anchors`"), "{refusal}");
        }
    }

    #[test]
    fn help_is_help() {
        assert_eq!(parse(["--help".to_string()]), Ok(Order::Help));
    }
}
