//! The state of a process, if its type allows it to be shown.

use postroom::Pid;
use postroom::inspect::DescribeError;
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for a process to describe itself, so that a process in a long step does not delay its view.
const WITHIN: Duration = Duration::from_millis(100);

#[derive(Default, Serialize)]
pub(super) struct ShownState {
    text: Option<String>,
    /// Whether the state is longer than the text shown.
    is_cut: bool,
    /// Why there is no text.
    why: Option<String>,
}

/// Asks a process for its state. Returns `None` if its type does not allow that, or if the process is not alive.
pub(super) async fn look(pid: Pid) -> Option<ShownState> {
    let why = |why| Some(ShownState { why: Some(why), ..ShownState::default() });
    match timeout(WITHIN, pid.describe()).await {
        Ok(Ok(description)) => Some(ShownState { text: Some(description.text), is_cut: description.is_cut, why: None }),
        Ok(Err(DescribeError::Hidden(_) | DescribeError::Gone(_))) => None,
        Ok(Err(error)) => why(error.to_string()),
        Err(_) => why("it has not come to show it within 100 ms: it is in a long step, or suspended".to_owned()),
    }
}
