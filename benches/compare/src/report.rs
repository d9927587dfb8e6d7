//! A comparison, from its options to its report.

use crate::absences::absences;
use crate::chart::to_svg;
use crate::child::check_features_in_child;
use crate::csv::to_csv;
use crate::drive::compare;
use crate::figures::Row;
use crate::lines::{Line, lines, means};
use crate::machine;
use crate::options::Options;
use crate::probe_table::{self, ProbeTable};
use crate::system::System;
use crate::table::{Table, legend, summary};
use std::fs::{self, OpenOptions};
use std::path::Path;

/// Measures, prints and writes everything that `options` request. Returns false if a run of Postroom failed.
///
/// # Errors
/// If Postroom lacks a feature that it must be measured with, or a file cannot be written.
pub fn run(options: &Options) -> Result<bool, String> {
    // If a file cannot be written, fail now and not after the minutes of measuring.
    for file in [&options.csv, &options.svg, &options.markdown].into_iter().flatten() {
        probe(file)?;
    }
    let mut notes = machine::describe(&options.systems);
    if options.systems.contains(&System::Postroom) {
        let active =
            check_features_in_child().map_err(|error| format!("Postroom would not be measured whole: {error}"))?;
        notes.push(format!("Postroom as measured: {active}."));
    }
    if cfg!(debug_assertions) {
        notes.push("NOT A RELEASE BUILD: the figures mean nothing; use `cargo run --release`.".to_string());
    }
    for note in &notes {
        println!("{note}");
    }
    let rows = compare(options);
    report(options, &rows, &notes)?;
    Ok(!rows.iter().flat_map(Row::failures).any(|(system, _)| system == System::Postroom))
}

fn report(options: &Options, rows: &[Row], notes: &[String]) -> Result<(), String> {
    let lines = lines(rows);
    let Shown { legend, text, markdown, summary, verdicts } = show(options, rows, &lines);
    let failures: Vec<String> = rows.iter().flat_map(Row::failures).map(|(_, failure)| failure).collect();
    let absences = absences(rows);
    println!("\n{legend}\n\n{text}");
    for line in summary.iter().chain(&verdicts) {
        println!("{line}");
    }
    for absence in &absences {
        println!("Left out: {absence}.");
    }
    for failure in &failures {
        println!("Failed: {failure}");
    }
    if let Some(file) = &options.csv {
        write(file, &to_csv(rows))?;
    }
    if let Some(file) = &options.svg {
        write(file, &to_svg(&lines, &options.systems, notes))?;
    }
    if let Some(file) = &options.markdown {
        let left_out = absences.iter().map(|absence| format!("Left out: {absence}."));
        let failed = failures.iter().map(|failure| format!("Failed: {failure}"));
        let items: Vec<String> = summary
            .into_iter()
            .chain(left_out)
            .chain(failed)
            .chain(notes.iter().cloned())
            .map(|item| format!("* {item}\n"))
            .collect();
        write(file, &format!("{legend}\n\n{markdown}\n{}", items.concat()))?;
    }
    Ok(())
}

/// A table in both forms, with the text that comes above and below it.
struct Shown {
    legend: String,
    text: String,
    markdown: String,
    summary: Vec<String>,
    /// The verdicts on internal goals, for the terminal only.
    verdicts: Vec<String>,
}

fn show(options: &Options, rows: &[Row], lines: &[Line]) -> Shown {
    let scale = options.scale.describe();
    if options.probes {
        let table = ProbeTable { rows, systems: &options.systems, scale: options.scale };
        let legend = probe_table::legend(options.runs, scale);
        return Shown {
            legend,
            text: table.to_text(),
            markdown: table.to_markdown(),
            summary: Vec::new(),
            verdicts: table.verdicts(),
        };
    }
    let table = Table { lines, systems: &options.systems };
    let legend = legend(options.runs, scale);
    Shown {
        legend,
        text: table.to_text(),
        markdown: table.to_markdown(),
        summary: summary(&means(lines)),
        verdicts: Vec::new(),
    }
}

/// Returns an error if `file` cannot be written. Does not change the content of the file.
fn probe(file: &Path) -> Result<(), String> {
    OpenOptions::new().append(true).create(true).open(file).map(drop).map_err(|error| unwritable(file, &error))
}

fn write(file: &Path, content: &str) -> Result<(), String> {
    fs::write(file, content).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> String {
    format!("`{}` cannot be written ({error}); name a file in a folder that exists and is yours", file.display())
}
