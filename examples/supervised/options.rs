//! The command line.

use std::ffi::OsString;

use crate::wordcount;

#[derive(Debug, PartialEq)]
pub struct Options {
    /// The probability that a message crashes its parser.
    pub crash: f64,
    pub seed: u64,
    /// The options of `wordcount`.
    pub count: wordcount::Options,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum UsageError {
    #[error(transparent)]
    Count(#[from] wordcount::UsageError),
    #[error("{option} needs {expected}, such as `{option} {example}`, not {}", came(found.as_ref()))]
    Value { option: &'static str, expected: &'static str, example: &'static str, found: Option<OsString> },
}

fn came(found: Option<&OsString>) -> String {
    found.map_or("nothing".to_string(), |found| format!("`{}`", found.display()))
}

impl Options {
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let (mut crash, mut seed, mut others) = (0.0, 1, Vec::new());
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--crash") => crash = probability(arguments.next())?,
                Some("--seed") => seed = number(arguments.next())?,
                Some("--") => others.extend([argument].into_iter().chain(arguments.by_ref())),
                _ => others.push(argument),
            }
        }
        Ok(Self { crash, seed, count: wordcount::Options::parse(others)? })
    }
}

fn probability(found: Option<OsString>) -> Result<f64, UsageError> {
    let value = found.as_ref().and_then(|found| found.to_str()?.parse().ok());
    value.filter(|value| (0.0..=1.0).contains(value)).ok_or(UsageError::Value {
        option: "--crash",
        expected: "a probability from 0 to 1",
        example: "0.01",
        found,
    })
}

fn number(found: Option<OsString>) -> Result<u64, UsageError> {
    let value = found.as_ref().and_then(|found| found.to_str()?.parse().ok());
    value.ok_or(UsageError::Value { option: "--seed", expected: "a whole number", example: "1", found })
}
