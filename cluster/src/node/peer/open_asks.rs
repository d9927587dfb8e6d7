//! The requests of users to a peer that are not answered yet.

use crate::clock::Moment;
use crate::info::{AskError, RemoteInfo};
use crate::reply::Completer;
use postroom::Pid;
use std::collections::BTreeMap;
use std::time::Duration;

/// The recipient of an answer.
pub(crate) enum Asker {
    Done(Completer<Result<(), AskError>>),
    Info(Completer<Result<RemoteInfo, AskError>>),
}

impl Asker {
    pub(crate) fn fail(self, error: AskError) {
        match self {
            Self::Done(then) => then.complete(Err(error)),
            Self::Info(then) => then.complete(Err(error)),
        }
    }
}

pub(super) struct OpenAsk {
    pub(super) to: Pid,
    /// The time at which the request times out.
    pub(super) until: Moment,
    pub(super) within: Duration,
    pub(super) asker: Asker,
}

/// The open requests of one session, by number.
#[derive(Default)]
pub(super) struct OpenAsks(pub(super) BTreeMap<u64, OpenAsk>);

impl OpenAsks {
    pub(super) fn next_timeout(&self) -> Option<Moment> {
        self.0.values().map(|ask| ask.until).min()
    }
}
