//! The state of a process, if its type says that it may be shown.

use postroom::Pid;
use postroom::inspect::DescribeError;
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;

/// How long a process may take to come to it: others wait for this answer.
const WITHIN: Duration = Duration::from_millis(100);

#[derive(Default, Serialize)]
pub(super) struct ShownState {
    text: Option<String>,
    /// It is longer than is shown.
    is_cut: bool,
    /// Why there is no text.
    why: Option<String>,
}

/// Asks a process for its state; none if its type shows nothing, or if it is not alive.
pub(super) async fn look(pid: Pid) -> Option<ShownState> {
    let why = |why| Some(ShownState { why: Some(why), ..ShownState::default() });
    match timeout(WITHIN, pid.describe()).await {
        Ok(Ok(description)) => Some(ShownState { text: Some(description.text), is_cut: description.is_cut, why: None }),
        Ok(Err(DescribeError::Hidden(_) | DescribeError::Gone(_))) => None,
        Ok(Err(error)) => why(error.to_string()),
        Err(_) => why("it has not come to show it within 100 ms: it is in a long step, or suspended".to_owned()),
    }
}
