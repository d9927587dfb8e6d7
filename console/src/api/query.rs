//! Parsing of queries, and the errors of invalid ones.

/// Maximum number of rows in a view.
pub(super) const MAX_ROWS: usize = 1_000;

/// Default number of rows in a view.
const ROWS: usize = 100;

/// Why a query cannot be answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("there is no view `{0}`; there are {VIEWS}", shortened(view))]
    UnknownView { view: String },
    #[error("`{name}={}` is not understood; {expected}", shortened(value))]
    Value { name: &'static str, value: String, expected: &'static str },
    #[error("`{0}` is missing; {expected}", name)]
    Missing { name: &'static str, expected: &'static str },
}

const VIEWS: &str = "overview, processes, process, types, ends, tree and waits";

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Returns the requested number of rows.
pub(super) fn parse_count<'a>(value: &impl Fn(&str) -> Option<&'a str>) -> Result<usize, QueryError> {
    let Some(text) = value("count") else { return Ok(ROWS) };
    let count = text.parse().ok().filter(|count| (1..=MAX_ROWS).contains(count));
    let expected = "write a number from 1 to 1000";
    count.ok_or_else(|| QueryError::Value { name: "count", value: text.to_owned(), expected })
}
