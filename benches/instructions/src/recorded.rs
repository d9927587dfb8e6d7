//! The file of recorded values. It has a line for each operation, with its name, its number of instructions, how many
//! of them are atomic, and the reason for these numbers.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::measure::Cost;

/// The placeholder for a reason that has not been written yet.
const NO_REASON: &str = "(say why it is what it is)";

/// An error of the file of recorded values.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error("{path}, line {line}: expected `NAME INSTRUCTIONS ATOMICS REASON`, came {text:?}")]
    Line { path: PathBuf, line: usize, text: String },
    #[error("{path}, line {line}: {name} is recorded twice; keep one of the lines")]
    Twice { path: PathBuf, line: usize, name: String },
}

/// The recorded values, and the comment before them. The comment is kept unchanged.
#[derive(Debug, Default, PartialEq)]
pub struct Recorded {
    comment: String,
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq)]
struct Line {
    name: String,
    cost: Cost,
    reason: String,
}

impl Recorded {
    /// Reads the file. If the file does not exist, there are no values.
    pub fn read(path: &Path) -> Result<Self, RecordedError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(RecordedError::File { path: path.to_owned(), error }),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), RecordedError> {
        fs::write(path, self.text()).map_err(|error| RecordedError::File { path: path.to_owned(), error })
    }

    pub fn value(&self, name: &str) -> Option<Cost> {
        self.lines.iter().find(|line| line.name == name).map(|line| line.cost)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.name.as_str())
    }

    /// Changes a value and keeps its reason.
    pub fn set(&mut self, name: &str, cost: Cost) {
        match self.lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.cost = cost,
            None => self.lines.push(Line { name: name.to_owned(), cost, reason: NO_REASON.to_owned() }),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, RecordedError> {
        let mut recorded = Self::default();
        let mut names = HashSet::new();
        for (number, text) in (1..).zip(text.lines()) {
            if text.starts_with('#') {
                recorded.comment.push_str(text);
                recorded.comment.push('\n');
            } else if !text.trim().is_empty() {
                let unreadable = || RecordedError::Line { path: path.to_owned(), line: number, text: text.to_owned() };
                let line = Line::parse(text).ok_or_else(unreadable)?;
                if !names.insert(line.name.clone()) {
                    return Err(RecordedError::Twice { path: path.to_owned(), line: number, name: line.name });
                }
                recorded.lines.push(line);
            }
        }
        Ok(recorded)
    }

    fn text(&self) -> String {
        let mut text = self.comment.clone();
        for Line { name, cost: Cost { instructions, atomics }, reason } in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:10}{instructions:>10.1}{atomics:>7.2}  {reason}");
        }
        text
    }
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.trim().split_once(char::is_whitespace)?;
        let (instructions, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let (atomics, reason) = rest.trim_start().split_once(char::is_whitespace)?;
        let cost = Cost { instructions: instructions.parse().ok()?, atomics: atomics.parse().ok()? };
        let are_numbers =
            cost.instructions.is_finite() && cost.instructions > 0.0 && cost.atomics.is_finite() && cost.atomics >= 0.0;
        are_numbers.then(|| Self { name: name.to_owned(), cost, reason: reason.trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# A comment.\nsend           101.5   1.00  one node, one swap\ncall           900.0   8.25  two of these\n";

    fn parse(text: &str) -> Result<Recorded, RecordedError> {
        Recorded::parse(text, Path::new("recorded.txt"))
    }

    #[test]
    fn what_is_read_is_written_again() {
        let recorded = parse(TEXT).expect("it is right");
        assert_eq!(recorded.value("send"), Some(Cost { instructions: 101.5, atomics: 1.0 }));
        assert_eq!(recorded.value("spawn"), None);
        assert!(recorded.names().eq(["send", "call"]));
        assert_eq!(recorded.text(), TEXT);
    }

    #[test]
    fn a_new_value_keeps_the_reason() {
        let mut recorded = parse(TEXT).expect("it is right");
        recorded.set("send", Cost { instructions: 99.04, atomics: 0.0 });
        recorded.set("spawn", Cost { instructions: 2_000.0, atomics: 6.0 });
        let text = recorded.text();
        assert!(text.contains("send            99.0   0.00  one node, one swap\n"), "{text}");
        assert!(text.contains("spawn         2000.0   6.00  (say why it is what it is)\n"), "{text}");
        assert_eq!(parse(&text).expect("it is right").text(), text);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let wrong = [
            "send",
            "send 12",
            "send 12 1",
            "send much 1 why",
            "send 12 few why",
            "send -1 1 why",
            "send NaN 1 why",
            "send 12 -1 why",
            "send 0 1 why",
        ];
        for text in wrong {
            let error = parse(text).expect_err("it is wrong").to_string();
            assert!(error.starts_with("recorded.txt, line 1: expected `NAME INSTRUCTIONS ATOMICS REASON`"), "{error}");
        }
        let error = parse("send 1 1 why\nsend 2 1 why\n").expect_err("it is wrong").to_string();
        assert!(error.starts_with("recorded.txt, line 2: send is recorded twice"), "{error}");
    }
}
