//! Where the revisions of a table begin: above all that any earlier table of its name has had.
//!
//! The store can be lost, and an older copy of it can take its place. Each table then counts on from somewhere else,
//! while tokens of the old one are in the hands of users, and revisions of it in the views of nodes. So that revisions
//! only grow, whatever happens to the store (point 4 of the [contract](crate::engine)), each engine
//! 1. notes the largest revision of each table that it has seen: its **floor**;
//! 2. has a table that it creates begin at the **clock**, in microseconds since 1970, or [`MARGIN`] above its floor if
//!    that is larger;
//! 3. takes the store for an older one if the last revision of any table is below its floor: it **empties** all tables
//!    but the leases, unless that has been done, and has them go on as if it had created them;
//! 4. does all that on each new connection, before it makes any access there, and again when an answer makes it doubt
//!    that the store is the same one.
//!
//! # Answers that are older than the floor
//! The floor rises all the time, by what the watches report and by each write. So an answer is compared with a
//! [copy](Floor::copy) that was taken **before the question**: what had been seen by then, a store that is the same one
//! has. Compared with the floor of when the answer comes, each store would look like an older one now and then. And an
//! answer may be that of a leader which was cut off from the other servers, and has missed the last writes. So before
//! it empties anything an engine **writes** to the table that looks older: a write that is acknowledged has been
//! committed, and its revision is above all others of the table.
//!
//! # Why revisions grow
//! * **The store is lost.** The clock has passed the last revision `r` of the old table: that began at a clock, and has
//!   had at most one write in each microsecond since. A broker does a hundredth of that. So the new table begins above
//!   `r`, even if no node is alive that has seen the old one.
//! * **The clock is wrong**, by more than the age of the old table. The node that creates the new one has seen all of
//!   the old one but what its watch had not been told, which is less than [`MARGIN`]. Only a node that has seen nothing
//!   can create a table too low, and the first that has seen more finds it below its floor.
//! * **An older copy comes back.** No clock helps: each table goes on where the copy ends. But every node writes its
//!   lease every 2.5 seconds, and all watch all leases. So the last revision of the leases tells each node that was
//!   connected before that the copy is older, whatever the other tables contain. The first that comes back empties them
//!   before it makes an access. What they held is of the past: the leases in the copy are over, and so are all
//!   memberships, and with them the names and the members of groups.
//! * **A copy comes back, and no node has seen more.** Then nothing in the programs can know; the guide says so. The
//!   same is true of each engine alone: the first that comes back empties the copy only if it has seen more than the
//!   copy has, and the writes of nodes that have seen less are found in it by the next.
//!
//! Two engines that empty a table at once take out what was written between them, which a table emptied by the first
//! has from nodes that are new. They are evicted, and join again. The broker never moves a table back.
//!
//! # Leases
//! are not emptied: no node may do that, since with the leases of others it could free their names. Revisions of a copy
//! may come twice there. They are used for nothing but to renew the lease that one
//! [`Lease`](crate::lease::Lease) has written, which expects its last one, and takes its lease for lost if it finds
//! another. What a copy contains becomes too old within a lease's time.

use crate::engine::{Bucket, Revision};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a node may not have been told of yet when the store is lost: far more than a watch lags behind. By the clock it
/// is half a second, which has passed before a table that begins there can be lost, too.
const MARGIN: u64 = 1 << 19;

/// The largest revision of each table that an engine has seen.
#[derive(Default)]
pub(crate) struct Floor([AtomicU64; Bucket::ALL.len()]);

impl Floor {
    /// Notes a revision.
    pub(crate) fn saw(&self, bucket: Bucket, revision: Revision) {
        self.0[bucket as usize].fetch_max(revision.0, Ordering::Relaxed);
    }

    fn of(&self, bucket: Bucket) -> u64 {
        self.0[bucket as usize].load(Ordering::Relaxed)
    }

    /// Returns the first revision of a table that begins, or begins anew, at `clock`, in microseconds.
    pub(crate) fn first(&self, bucket: Bucket, clock: u64) -> Revision {
        let seen = self.of(bucket);
        let above = if seen == 0 { 1 } else { seen.saturating_add(MARGIN) };
        Revision(clock.max(above))
    }

    /// Returns what has been seen so far: to compare what is asked from now on with.
    #[cfg(any(test, feature = "nats"))]
    pub(crate) fn copy(&self) -> Self {
        Self(Bucket::ALL.map(|bucket| AtomicU64::new(self.of(bucket))))
    }

    /// Returns whether a table with this last revision is older than what was seen of it.
    pub(crate) fn is_above(&self, bucket: Bucket, last: Revision) -> bool {
        last.0 < self.of(bucket)
    }

    /// Returns the tables that are older than what was seen of them, given the last revisions of all.
    pub(crate) fn older(&self, last: &BTreeMap<Bucket, Revision>) -> Vec<Bucket> {
        let older = last.iter().filter(|(bucket, last)| self.is_above(**bucket, **last));
        older.map(|(bucket, _)| *bucket).collect()
    }

    /// Returns the tables that have to be emptied, given the last revisions of all: none, unless the store is an older
    /// one. A table that was emptied already, or created since, is further above what was seen than a watch lags.
    pub(crate) fn outdated(&self, last: &BTreeMap<Bucket, Revision>) -> Vec<Bucket> {
        if self.older(last).is_empty() {
            return Vec::new();
        }
        let is_old = |(bucket, last): &(&Bucket, &Revision)| last.0 < self.of(**bucket).saturating_add(MARGIN / 2);
        let old = last.iter().filter(is_old).map(|(bucket, _)| *bucket);
        old.filter(|bucket| *bucket != Bucket::Leases).collect()
    }

    /// The tables that are outdated have been emptied: what was seen of the leases counts no more.
    pub(crate) fn emptied(&self, last: &BTreeMap<Bucket, Revision>) {
        if let Some(last) = last.get(&Bucket::Leases) {
            self.0[Bucket::Leases as usize].fetch_min(last.0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_764_000_000_000_000;

    fn last(revisions: [u64; 4]) -> BTreeMap<Bucket, Revision> {
        Bucket::ALL.into_iter().zip(revisions.map(Revision)).collect()
    }

    fn seen(revisions: [u64; 4]) -> Floor {
        let floor = Floor::default();
        last(revisions).into_iter().for_each(|(bucket, revision)| floor.saw(bucket, revision));
        floor
    }

    #[test]
    fn a_table_begins_above_what_was_seen_and_not_before_the_clock() {
        let floor = Floor::default();
        assert_eq!(floor.first(Bucket::Names, 0), Revision(1), "nothing was seen, and there is no clock");
        assert_eq!(floor.first(Bucket::Names, NOON), Revision(NOON));
        floor.saw(Bucket::Names, Revision(NOON + 80));
        floor.saw(Bucket::Names, Revision(NOON + 7));
        let later = NOON + 60_000_000;
        assert_eq!(floor.first(Bucket::Names, later), Revision(later));
        for earlier in [0, NOON - 1, NOON, NOON + 81] {
            assert_eq!(floor.first(Bucket::Names, earlier), Revision(NOON + 80 + MARGIN), "at {earlier}");
        }
        assert_eq!(floor.first(Bucket::Groups, NOON), Revision(NOON), "each table has its own");
        floor.saw(Bucket::Names, Revision(u64::MAX));
        assert_eq!(floor.first(Bucket::Names, NOON), Revision(u64::MAX));
    }

    #[test]
    fn an_older_store_is_known_by_any_table_and_emptied_but_for_the_leases() {
        let all = [Bucket::Nodes, Bucket::Names, Bucket::Groups];
        let floor = seen([40, 900, 81, 7]);
        for same in [[40, 900, 81, 7], [40, 903, 90, 7], [NOON; 4]] {
            assert_eq!(floor.outdated(&last(same)), [], "{same:?}");
        }
        // No name has changed since the copy was made, or others have written more since it came back.
        for older in [[0, 0, 0, 0], [12, 100, 60, 0], [40, 100, 81, 7], [90, 899, 90, 90], [40, 900, 80, 7]] {
            assert_eq!(floor.outdated(&last(older)), all, "{older:?}");
        }
        assert_eq!(Floor::default().outdated(&last([0; 4])), []);
    }

    /// Catches: an answer that is compared with what was seen after the question.
    #[test]
    fn what_is_seen_after_the_question_proves_nothing() {
        let floor = seen([40, 900, 81, 7]);
        let before = floor.copy();
        floor.saw(Bucket::Leases, Revision(901));
        let answered = last([40, 900, 81, 7]);
        assert_eq!(before.outdated(&answered), []);
        assert!(!before.is_above(Bucket::Leases, Revision(900)) && before.is_above(Bucket::Leases, Revision(899)));
        assert_eq!(floor.older(&answered), [Bucket::Leases]);
    }

    /// Else each engine that comes back would take out what is there since the first.
    #[test]
    fn what_was_emptied_is_not_emptied_again() {
        let others = seen([39, 898, 80, 7]);
        let begun = |bucket| others.first(bucket, 0).0 + 2;
        let floor = seen([40, 900, 81, 7]);
        let emptied = last([begun(Bucket::Nodes), 103, begun(Bucket::Names), begun(Bucket::Groups)]);
        assert_eq!(floor.outdated(&emptied), [], "by one that has seen less, without a clock");
        // One that has emptied some and could not go on.
        let half = last([NOON, 103, 60, 7]);
        assert_eq!(floor.outdated(&half), [Bucket::Names, Bucket::Groups]);
        // On its next connection, the leases tell no more that the store was another once.
        floor.emptied(&emptied);
        emptied.iter().for_each(|(bucket, revision)| floor.saw(*bucket, *revision));
        assert_eq!(floor.outdated(&emptied), []);
    }
}
