//! The views: parsed requests, and the values that are returned as JSON.
//!
//! The rows of a view are read one by one while the program runs, so they are not a consistent snapshot. PIDs are
//! serialized as text.

mod incidents;
mod overview;
mod processes;
mod query;
mod relations;
mod sight;
mod state;
mod types;

use postroom::Pid;
use processes::Selection;
use query::parse_count;
use serde::Serialize;
use std::fmt;

pub(crate) use overview::thread_state;
pub(crate) use query::QueryError;
pub(crate) use sight::Sight;
pub(crate) use types::{DEPTHS, TypeTotals, by_type};

/// A requested view.
pub(crate) enum View {
    Overview,
    Processes(Selection),
    Process(Pid),
    Types,
    Ends { count: usize },
    Tree,
    Waits,
}

/// The error of a request about a process that is not alive.
#[derive(Debug)]
pub(crate) struct Ended(Pid);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not alive in this program", self.0)
    }
}

impl View {
    pub(crate) fn parse(view: &str, query: &[(String, String)]) -> Result<Self, QueryError> {
        let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        Ok(match view {
            "overview" => Self::Overview,
            "processes" => Self::Processes(Selection::parse(&value)?),
            "process" => {
                let expected = "give a PID as the views do, such as `<7f3a.0.12.3>`";
                let text = value("pid").ok_or(QueryError::Missing { name: "pid", expected })?;
                let error = |_| QueryError::Value { name: "pid", value: text.to_owned(), expected };
                Self::Process(text.parse().map_err(error)?)
            }
            "types" => Self::Types,
            "ends" => Self::Ends { count: parse_count(&value)? },
            "tree" => Self::Tree,
            "waits" => Self::Waits,
            other => return Err(QueryError::UnknownView { view: other.to_owned() }),
        })
    }

    /// Returns the view of the host as JSON.
    pub(crate) async fn json(&self, sight: &Sight) -> Result<String, Ended> {
        let host = sight.host;
        Ok(match self {
            Self::Overview => json(&overview::look(host, &sight.samples)),
            Self::Processes(selection) => json(&processes::look(host, &sight.samples, selection)),
            Self::Process(pid) => json(&relations::process(sight, *pid, state::look(*pid).await).ok_or(Ended(*pid))?),
            Self::Types => json(&types::look(host, &sight.samples)),
            Self::Ends { count } => json(&incidents::look(&sight.incidents, *count)),
            Self::Tree => json(&relations::tree(host)),
            Self::Waits => json(&relations::waits(host)),
        })
    }
}

fn json(value: &impl Serialize) -> String {
    // Serializing structs of numbers and text cannot fail.
    serde_json::to_string(value).unwrap_or_else(|error| unreachable!("{error}"))
}
