//! The lines as a table, for a terminal and as Markdown for the book.

use crate::figures::count_workers;
use crate::lines::{Line, Means, Ratio};
use crate::system::System;
use std::fmt::Write;

/// The text for a missing figure.
pub const DASH: &str = "–";

/// Number of columns before those of the systems. They are aligned to the left.
const LEFT_COLUMNS: usize = 2;

/// The whole comparison, as text or as Markdown.
pub struct Table<'a> {
    pub lines: &'a [Line],
    pub systems: &'a [System],
}

impl Table<'_> {
    fn header(&self) -> Vec<String> {
        let mut header = vec!["workload".to_string(), "workers".to_string()];
        header.extend(self.systems.iter().map(System::to_string));
        header.extend(["best other actors", "best of all others"].map(str::to_string));
        header
    }

    /// Returns the cells of a line. `best` makes the least value stand out.
    fn texts(&self, line: &Line, best: impl Fn(String) -> String) -> Vec<String> {
        let mut texts = vec![line.name.clone(), line.workers.to_string()];
        texts.extend(self.systems.iter().map(|&system| match line.value(system) {
            None => DASH.to_string(),
            Some(value) if Some(value) == line.best() => best(number(value)),
            Some(value) => number(value),
        }));
        texts.extend([line.against_actors(), line.against_all()].map(ratio));
        texts
    }

    /// Returns the table as text, with columns of equal width and with Postroom's internal targets.
    pub fn to_text(&self) -> String {
        let mut rows = vec![self.header()];
        rows.extend(self.lines.iter().map(|line| self.texts(line, |text| text)));
        rows[0].push("target".to_string());
        for (row, line) in rows[1..].iter_mut().zip(self.lines) {
            row.push(target(line));
        }
        aligned(&rows)
    }

    /// Returns the table as Markdown for users. The best value of each line is in bold, and there are no targets.
    pub fn to_markdown(&self) -> String {
        let mut rows = vec![self.header()];
        rows.extend(self.lines.iter().map(|line| self.texts(line, |text| format!("**{text}**"))));
        marked_down(&rows)
    }
}

/// Formats rows of cells, the header first, with columns of equal width.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if column < LEFT_COLUMNS { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// Formats rows of cells, the header first, as Markdown.
pub fn marked_down(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let rule = (0..columns).map(|column| if column < LEFT_COLUMNS { "---" } else { "--:" });
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}|", rule.clone().collect::<Vec<_>>().join("|"));
        }
    }
    text
}

/// Returns the explanation of the columns.
pub fn legend(runs: usize, scale: &str) -> String {
    let of = if runs == 1 { "one run".to_string() } else { format!("medians of {runs} runs") };
    format!(
        "Nanoseconds per operation, or bytes per process in the rows named bytes: {of} with {scale}. Each run is a \
         fresh process, and the systems take turns. Lower is better. `3.0× tokio` means that tokio is the best of the \
         other systems and takes 3.0 times as much as Postroom."
    )
}

/// Returns the means. There is a line for each number of workers.
pub fn summary(means: &[Means]) -> Vec<String> {
    let times = |ratio: Option<f64>| ratio.map_or_else(|| DASH.to_string(), |ratio| format!("{ratio:.2}×"));
    let line = |means: &Means| {
        format!(
            "Geometric mean at {} (rows: {}): {} against the best other actor framework of each row, {} against the \
             best of all other systems.",
            count_workers(means.workers),
            means.lines,
            times(means.against_actors),
            times(means.against_all)
        )
    };
    means.iter().map(line).collect()
}

fn ratio(ratio: Option<Ratio>) -> String {
    match ratio {
        None => DASH.to_string(),
        Some(Ratio { other, times }) if times < 10.0 => format!("{times:.2}× {other}"),
        Some(Ratio { other, times }) => format!("{times:.0}× {other}"),
    }
}

fn target(line: &Line) -> String {
    let Some(target) = line.target else { return String::new() };
    let verdict = match line.value(System::Postroom) {
        Some(value) if value <= target => " met".to_string(),
        Some(value) => format!(" missed {:.1}×", value / target),
        None => String::new(),
    };
    format!("≤ {}{verdict}", grouped(target.round() as u64))
}

/// Formats a number with at least three digits.
pub fn number(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => grouped(value.round() as u64),
    }
}

/// Formats a number with a comma before each group of three digits.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::row;
    use crate::lines::{lines, means};
    use crate::plan::Workload;

    const SYSTEMS: [System; 3] = [System::Postroom, System::Tokio, System::Actix];

    #[test]
    fn numbers_have_three_digits_and_commas() {
        assert_eq!(
            [1.234, 9.999, 45.25, 99.96, 1_234.5, 1_234_567.0].map(number),
            ["1.23", "10.0", "45.2", "100", "1,235", "1,234,567"]
        );
    }

    #[test]
    fn columns_are_aligned_and_say_ratio_and_target() {
        let lines = lines(&[
            row(Workload::PingPong, 1, [Some(16.0), Some(64.0), Some(80.0)]),
            row(Workload::ThreadRing, 1, [Some(50.0), Some(1_000.0), None]),
        ]);
        let text = Table { lines: &lines, systems: &SYSTEMS }.to_text();
        let expected = "\
workload     workers  postroom  tokio  actix  best other actors  best of all others            target
ping_pong    1            16.0   64.0   80.0        5.00× actix         4.00× tokio          ≤ 20 met
thread_ring  1            50.0  1,000      –                  –           20× tokio  ≤ 20 missed 2.5×
";
        assert_eq!(text, expected);
    }

    #[test]
    fn markdown_has_the_same_cells_without_targets_and_with_the_best_in_bold() {
        let lines = lines(&[row(Workload::PingPong, 2, [Some(16.0), None, Some(8.0)])]);
        let expected = "\
| workload | workers | postroom | tokio | actix | best other actors | best of all others |
|---|---|--:|--:|--:|--:|--:|
| ping_pong | 2 | 16.0 | – | **8.00** | 0.50× actix | 0.50× actix |
";
        assert_eq!(Table { lines: &lines, systems: &SYSTEMS }.to_markdown(), expected);
    }

    #[test]
    fn the_summary_says_both_means() {
        let lines = lines(&[row(Workload::PingPong, 1, [Some(1.0), Some(2.0), Some(4.0)])]);
        let summary = summary(&means(&lines));
        assert!(summary[0].contains("at 1 worker (rows: 1): 4.00× against"), "{summary:?}");
        assert!(summary[0].contains("2.00× against the best of all"), "{summary:?}");
    }
}
