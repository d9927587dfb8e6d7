//! Records of what happens in a cluster. Tests compare them at the end. All are handles: clones share one record.
//!
//! ```
//! use postroom_cluster::testing::checks::Ledger;
//!
//! let ledger = Ledger::default();
//! ledger.accepted("clerk to till", Some(1), 0); // in the first session
//! ledger.accepted("clerk to till", Some(1), 1);
//! ledger.handled("clerk to till", 0);
//! ledger.check_order(); // the second may be on its way
//! assert!(ledger.fault(Some(Some(&1))).is_some()); // but it is lost if all is at rest
//! assert_eq!(ledger.fault(Some(Some(&2))), None); // unless that session has ended
//! ```

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that all clones of a check share.
#[derive(Debug, Default)]
struct SharedValue<T>(Arc<Mutex<T>>);

impl<T> Clone for SharedValue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> SharedValue<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages that were sent from one process to another, and those that were handled there. Within a session, all of
/// them must be handled, once and in order.
///
/// `P` names a pair of processes, and `S` a session.
#[derive(Debug)]
pub struct Ledger<P, S>(SharedValue<BTreeMap<P, Pair<S>>>);

impl<P, S> Default for Ledger<P, S> {
    fn default() -> Self {
        Self(SharedValue(Arc::default()))
    }
}

impl<P, S> Clone for Ledger<P, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Pair<S> {
    /// The accepted messages in the order in which they were sent, with their sessions.
    accepted: Vec<(Option<S>, u64)>,
    handled: Vec<u64>,
}

impl<P: Ord + Clone + Debug, S: PartialEq + Debug> Ledger<P, S> {
    fn pair<R>(&self, pair: P, note: impl FnOnce(&mut Pair<S>) -> R) -> R {
        note(self.0.lock().entry(pair).or_insert_with(|| Pair { accepted: Vec::new(), handled: Vec::new() }))
    }

    /// Records that a message was accepted in a session. The numbers of the messages of a pair must all be different.
    pub fn accepted(&self, pair: P, session: Option<S>, number: u64) {
        self.pair(pair, |pair| pair.accepted.push((session, number)));
    }

    /// Records that a message was handled.
    pub fn handled(&self, pair: P, number: u64) {
        self.pair(pair, |pair| pair.handled.push(number));
    }

    /// Returns the number of accepted messages, and the number of handled messages.
    pub fn counts(&self) -> (usize, usize) {
        let pairs = self.0.lock();
        pairs
            .values()
            .fold((0, 0), |(accepted, handled), pair| (accepted + pair.accepted.len(), handled + pair.handled.len()))
    }

    /// Returns a fault, if there is one: a message that was handled twice, out of order or without being accepted, or a
    /// message that is missing before a later one of its session. If everything is `at_rest`, a message that is missing
    /// at the end of the given, still open session is a fault, too.
    pub fn fault(&self, at_rest: Option<Option<&S>>) -> Option<String> {
        self.0.lock().iter().find_map(|(name, pair)| Some(format!("{name:?}: {}", pair.fault(at_rest)?)))
    }

    /// Checks the messages so far.
    ///
    /// # Panics
    /// If there is a fault.
    #[track_caller]
    pub fn check_order(&self) {
        if let Some(fault) = self.fault(None) {
            panic!("{fault}");
        }
    }

    /// Checks one pair when everything is at rest, and `session` is still open.
    ///
    /// # Panics
    /// If there is a fault.
    #[track_caller]
    pub fn check_at_rest(&self, name: P, session: Option<&S>) {
        if let Some(fault) = self.pair(name.clone(), |pair| pair.fault(Some(session))) {
            panic!("{name:?}: {fault}");
        }
    }
}

impl<S: PartialEq + Debug> Pair<S> {
    fn fault(&self, at_rest: Option<Option<&S>>) -> Option<String> {
        let mut handled = self.handled.iter().peekable();
        let mut missing: Option<&(Option<S>, u64)> = None;
        for accepted in &self.accepted {
            let (session, number) = accepted;
            if handled.peek() != Some(&number) {
                missing = Some(missing.filter(|(before, _)| before == session).unwrap_or(accepted));
                continue;
            }
            handled.next();
            if let Some((_, lost)) = missing.filter(|(before, _)| before == session) {
                return Some(format!("{lost} was lost before {number} in the session {session:?}"));
            }
        }
        if let Some(number) = handled.next() {
            return Some(format!("{number} was handled twice, out of its order, or was never accepted"));
        }
        let (session, lost) = missing?;
        (at_rest? == session.as_ref()).then(|| format!("{lost} was lost at the end of the session {session:?}"))
    }
}

/// Events that must happen once for each of many keys: a reported end, the end of a call.
#[derive(Debug)]
pub struct Once<K>(SharedValue<BTreeMap<K, (u32, u32)>>);

impl<K> Default for Once<K> {
    fn default() -> Self {
        Self(SharedValue(Arc::default()))
    }
}

impl<K> Clone for Once<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Ord + Debug> Once<K> {
    /// Records that an event is expected once more.
    pub fn expect(&self, what: K) {
        self.0.lock().entry(what).or_default().0 += 1;
    }

    /// Records that an event has happened.
    pub fn happened(&self, what: K) {
        self.0.lock().entry(what).or_default().1 += 1;
    }

    /// Returns the total number of expected events, and the total number of events that have happened.
    pub fn counts(&self) -> (u32, u32) {
        self.0.lock().values().fold((0, 0), |(expected, happened), one| (expected + one.0, happened + one.1))
    }

    /// Returns, for each event, how many times it was expected and how many times it has happened.
    pub fn all(&self) -> Vec<(K, (u32, u32))>
    where
        K: Clone,
    {
        self.0.lock().iter().map(|(what, counts)| (what.clone(), *counts)).collect()
    }

    /// Checks the events.
    ///
    /// # Panics
    /// If an event has happened more times than expected. With `all`, also if an expected event has not happened.
    #[track_caller]
    pub fn check(&self, all: bool) {
        for (what, (expected, happened)) in &*self.0.lock() {
            let is_right = if all { happened == expected } else { happened <= expected };
            assert!(is_right, "{what:?} happened {happened} times, and was expected {expected} times");
        }
    }
}

/// A store that holders of a name write to. It checks their tokens, as a store outside of the cluster should.
#[derive(Debug)]
pub struct FencedStore<H>(SharedValue<FencedState<H>>);

#[derive(Debug)]
struct FencedState<H> {
    token: u64,
    holder: Option<H>,
    /// The number of holders, and the number of refused writes.
    counts: (u64, u64),
}

impl<H> Default for FencedStore<H> {
    fn default() -> Self {
        Self(SharedValue(Arc::new(Mutex::new(FencedState { token: 0, holder: None, counts: (0, 0) }))))
    }
}

impl<H> Clone for FencedStore<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: PartialEq + Debug> FencedStore<H> {
    /// Writes as the holder of a token. Returns false if a holder with a later token has written.
    ///
    /// # Panics
    /// If another holder has written with the same token: then two processes have held the name at once.
    #[track_caller]
    pub fn write(&self, token: u64, holder: H) -> bool {
        let mut state = self.0.lock();
        if token < state.token {
            state.counts.1 += 1;
            return false;
        }
        let is_new = token > state.token;
        let before = state.holder.as_ref().filter(|_| !is_new);
        assert!(before.is_none_or(|before| *before == holder), "{before:?} and {holder:?} have the token {token}");
        state.counts.0 += u64::from(is_new);
        (state.token, state.holder) = (token, Some(holder));
        true
    }

    /// Returns the number of tokens, and the number of refused writes.
    pub fn counts(&self) -> (u64, u64) {
        self.0.lock().counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ledger of one pair. Sessions and messages are plain numbers.
    fn ledger(accepted: &[(u8, u64)], handled: &[u64]) -> Ledger<u8, u8> {
        let ledger = Ledger::default();
        accepted.iter().for_each(|(session, number)| ledger.accepted(0, Some(*session), *number));
        handled.iter().for_each(|number| ledger.handled(0, *number));
        ledger
    }

    #[test]
    fn a_ledger_tells_what_was_lost_repeated_or_out_of_order() {
        let sent = [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4)];
        let fault = |handled: &[u64], at_rest| ledger(&sent, handled).fault(at_rest);
        for fine in [&[0, 1, 2, 3, 4][..], &[0, 3, 4], &[3, 4], &[0, 1]] {
            assert_eq!(fault(fine, None), None);
        }
        for wrong in [&[0, 2][..], &[0, 0], &[1, 0], &[0, 1, 2, 4], &[0, 1, 2, 3, 4, 9], &[1]] {
            assert!(fault(wrong, None).is_some(), "{wrong:?}");
        }
        assert_eq!(fault(&[0, 3], None), None, "the rest is on its way");
        assert!(fault(&[0, 3], Some(Some(&2))).is_some(), "nothing is on its way");
        assert_eq!(fault(&[0, 3], Some(Some(&3))), None, "its session is over");
    }

    #[test]
    #[should_panic(expected = "happened 2 times")]
    fn what_happens_twice_is_told() {
        let once = Once::default();
        once.expect("down");
        (0..2).for_each(|_| once.happened("down"));
        once.check(false);
    }

    #[test]
    #[should_panic(expected = "have the token 7")]
    fn a_token_of_two_holders_is_told() {
        let store = FencedStore::default();
        assert!(store.write(7, "a") && !store.write(6, "b"));
        store.write(7, "b");
    }
}
