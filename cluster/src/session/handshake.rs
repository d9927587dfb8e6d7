//! The identity of the peer: the steps *hello* and *confirm*.

use crate::clock::Moment;
use crate::frame::{Epoch, Hello};
use crate::store::Revision;
use std::time::Duration;

/// The intervals at which a hello or a goodbye is repeated: the first and the longest.
const WAITS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// A frame that is sent repeatedly until it is answered.
#[derive(Default)]
pub(super) struct Repeated {
    /// Whether it has to be sent now.
    due: bool,
    again_at: Option<Moment>,
    wait: Duration,
}

impl Repeated {
    pub(super) fn start(&mut self) {
        *self = Self { due: true, again_at: None, wait: WAITS[0] };
    }

    /// Makes the frame due immediately.
    pub(super) fn send_now(&mut self) {
        self.due = true;
    }

    pub(super) fn stop(&mut self) {
        self.again_at = None;
        self.wait = Duration::ZERO;
    }

    /// Returns whether the frame has to be sent now. If so, it then counts as sent.
    pub(super) fn take(&mut self, now: Moment) -> bool {
        if !std::mem::take(&mut self.due) {
            return false;
        }
        // If the repetition was stopped, this is an answer to a delayed frame, and is not repeated.
        if self.wait != Duration::ZERO {
            self.again_at = Some(now + self.wait);
            self.wait = (self.wait * 2).min(WAITS[1]);
        }
        true
    }

    pub(super) fn next_timeout(&self) -> Option<Moment> {
        self.again_at
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.due = true;
        }
    }
}

/// The state of the peer's half, as far as it is known.
pub(super) struct Handshake {
    local: Epoch,
    /// The revision of the peer's record. A hello with an earlier revision belongs to an earlier run or membership of
    /// the peer.
    peer_revision: Revision,
    remote: Option<(Epoch, Hello)>,
    confirmed: bool,
}

/// The meaning of a hello.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// The hello belongs to an earlier session.
    Late,
    /// The peer has begun a new session, and this one is over.
    Restarted,
    /// The peer does not know this side's epoch, so a hello has to be sent.
    Unknown,
    /// The peer knows this side's epoch.
    Known,
}

impl Handshake {
    pub(super) fn new(local: Epoch, peer_revision: Revision) -> Self {
        Self { local, peer_revision, remote: None, confirmed: false }
    }

    /// Handles a hello. Stores it, with the peer's epoch, unless it is late or ends this session.
    pub(super) fn on_hello(&mut self, from: Epoch, to: Option<Epoch>, hello: Hello) -> Greeting {
        let known = self.remote();
        if from.revision() < self.peer_revision || known.is_some_and(|known| from < known) {
            return Greeting::Late;
        }
        // The peer has rejoined with a newer record, which the caller has not seen yet.
        if from.revision() > self.peer_revision {
            return Greeting::Restarted;
        }
        if known != Some(from) {
            if self.confirmed {
                return Greeting::Restarted;
            }
            self.remote = Some((from, hello));
        }
        if to == Some(self.local) { Greeting::Known } else { Greeting::Unknown }
    }

    /// Returns whether a frame belongs to this session.
    pub(super) fn is_ours(&self, from: Epoch, to: Option<Epoch>) -> bool {
        to == Some(self.local) && self.remote() == Some(from)
    }

    /// Records that the peer knows this side. Returns the peer's hello the first time.
    pub(super) fn confirm(&mut self) -> Option<&Hello> {
        let (_, hello) = self.remote.as_ref()?;
        if std::mem::replace(&mut self.confirmed, true) { None } else { Some(hello) }
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    pub(super) fn local(&self) -> Epoch {
        self.local
    }

    pub(super) fn peer(&self) -> Revision {
        self.peer_revision
    }

    pub(super) fn remote(&self) -> Option<Epoch> {
        self.remote.as_ref().map(|(epoch, _)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Table, Versions};

    fn epoch(revision: u64, count: u32) -> Epoch {
        Epoch::new(Revision(revision), count).unwrap()
    }

    fn hello(features: u64) -> Hello {
        Hello { versions: Versions::CURRENT, features, credit: [0; 2], table: Table::default() }
    }

    #[test]
    fn until_it_is_confirmed_the_newest_hello_counts_and_then_a_newer_one_ends_it() {
        let local = epoch(9, 1);
        let mut shake = Handshake::new(local, Revision(5));
        assert_eq!(shake.on_hello(epoch(5, 2), None, hello(2)), Greeting::Unknown);
        assert_eq!(shake.on_hello(epoch(5, 1), Some(local), hello(1)), Greeting::Late);
        assert_eq!(shake.on_hello(epoch(5, 3), Some(epoch(9, 0)), hello(3)), Greeting::Unknown);
        assert_eq!(shake.on_hello(epoch(5, 3), Some(local), hello(3)), Greeting::Known);
        assert_eq!(shake.confirm().map(|hello| hello.features), Some(3));
        assert_eq!(shake.confirm(), None);
        assert_eq!(shake.on_hello(epoch(5, 3), None, hello(3)), Greeting::Unknown);
        assert_eq!(shake.on_hello(epoch(5, 2), None, hello(2)), Greeting::Late);
        assert_eq!(shake.on_hello(epoch(5, 4), None, hello(4)), Greeting::Restarted);
    }

    #[test]
    fn a_hello_from_before_or_after_the_peers_record_is_none_of_this_peer() {
        let mut shake = Handshake::new(epoch(9, 0), Revision(5));
        assert_eq!(shake.on_hello(epoch(4, 9), Some(epoch(9, 0)), hello(0)), Greeting::Late);
        assert_eq!(shake.on_hello(epoch(6, 0), None, hello(0)), Greeting::Restarted);
        assert_eq!(shake.remote(), None);
    }

    #[test]
    fn only_frames_with_both_epochs_belong_to_the_session() {
        let (local, remote) = (epoch(9, 1), epoch(5, 3));
        let mut shake = Handshake::new(local, Revision(5));
        shake.on_hello(remote, None, hello(0));
        assert!(shake.is_ours(remote, Some(local)));
        for (from, to) in [(remote, None), (remote, Some(epoch(9, 0))), (epoch(5, 2), Some(local))] {
            assert!(!shake.is_ours(from, to));
        }
    }

    #[test]
    fn what_is_repeated_waits_longer_each_time_until_it_is_stopped() {
        let mut now = Moment::START;
        let mut repeated = Repeated::default();
        assert!(!repeated.take(now));
        repeated.start();
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert!(repeated.take(now) && !repeated.take(now));
            let next = repeated.next_timeout().unwrap();
            repeated.handle_timeout(now);
            assert!(!repeated.take(now));
            waits.push(next.since(now).as_millis());
            now = next;
            repeated.handle_timeout(now);
        }
        assert_eq!(waits, [200, 400, 800, 1_600, 2_000, 2_000]);
        repeated.stop();
        repeated.send_now();
        assert!(repeated.take(now));
        assert_eq!(repeated.next_timeout(), None);
    }
}
