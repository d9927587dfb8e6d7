//! Requests of users to the peer about one of its processes, with an answer and a time limit.

use super::Peer;
use super::admission::Refusal;
use super::open_asks::{Asker, OpenAsk};
use crate::clock::Moment;
use crate::engine::Lane;
use crate::envelope::{AskKind, Envelope, ToldKind};
use crate::info::{AskError, RemoteInfo};
use bytes::Bytes;
use postroom::Pid;
use std::mem;
use std::time::Duration;

impl Peer {
    /// Sends the peer a request about its process `to`.
    pub(crate) fn ask(&self, to: Pid, ask: AskKind, reason: Bytes, within: Duration, asker: Asker) {
        // A stop follows the messages that were sent before it; other requests overtake them.
        let lane = if ask == AskKind::Stop { Lane::Data } else { Lane::Control };
        let until = (self.port.clock)() + within;
        let mut state = self.lock();
        let (number, anyone) = (state.number(), state.anyone);
        let is_open = state.is_open();
        let queued = match is_open {
            true => state.queue(lane, anyone, &Envelope::Ask { number, to, ask, reason }),
            false => Err(Refusal::Over),
        };
        if queued.is_err() {
            drop(state);
            return asker.fail(AskError::Unreachable { pid: to });
        }
        state.asks.0.insert(number, OpenAsk { to, until, within, asker });
        self.announce(state);
        self.port.inbox.remind(self.node, until);
    }

    /// Handles an answer from the peer. Returns false if no request has its number.
    pub(crate) fn told(&self, number: u64, told: ToldKind, bytes: &[u8]) -> bool {
        let Some(OpenAsk { to: pid, asker, .. }) = self.lock().asks.0.remove(&number) else { return false };
        match (told, asker) {
            (ToldKind::Done, Asker::Done(then)) => then.complete(Ok(())),
            (ToldKind::Info, Asker::Info(then)) => {
                // A peer reports only on its own processes. The answer about an alias describes the process behind it.
                let info = RemoteInfo::decode(bytes).filter(|info| info.pid.node() == pid.node());
                then.complete(info.ok_or(AskError::Unreadable { pid }));
            }
            (ToldKind::Gone, asker) => asker.fail(AskError::NoProcess { pid }),
            (ToldKind::Denied, asker) => asker.fail(AskError::Denied { pid }),
            (_, asker) => asker.fail(AskError::Unreadable { pid }),
        }
        true
    }

    /// Fails the requests whose time is over.
    pub(super) fn expire_asks(&self, now: Moment) {
        let mut state = self.lock();
        let expired: Vec<_> = state.asks.0.extract_if(.., |_, ask| ask.until <= now).collect();
        drop(state);
        for (_, OpenAsk { to: pid, within: waited, asker, .. }) in expired {
            asker.fail(AskError::Timeout { pid, waited });
        }
    }

    /// Fails all requests: the session is over.
    pub(super) fn lose_asks(&self) {
        let asks = mem::take(&mut self.lock().asks);
        asks.0.into_values().for_each(|OpenAsk { to: pid, asker, .. }| asker.fail(AskError::Lost { pid }));
    }
}
