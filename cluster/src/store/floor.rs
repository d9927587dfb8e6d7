//! How the first revision of a new table is chosen: above all revisions of any earlier table with the same name.
//!
//! The store can be lost, or replaced by an older copy. Each table then continues from another revision, while users
//! hold tokens of the old store, and nodes know revisions of it. To make sure that revisions only grow, whatever
//! happens to the store (point 4 of the [contract](crate::engine)), each engine
//! 1. records the largest revision of each table that it has seen: its **floor**;
//! 2. starts each table that it creates at the **clock**, in microseconds since 1970, or [`MARGIN`] above its floor if
//!    that is larger;
//! 3. treats the store as an older one if the last revision of any table is below its floor: it **empties** all tables
//!    but the leases, unless they have been emptied already, and has them continue as if it had created them;
//! 4. does all this on each new connection, before any other access there, and again when an answer makes it doubt that
//!    the store is still the same.
//!
//! # Answers that are older than the floor
//! The floor rises continually, with the reports of the watches and with each write. So an answer is compared with a
//! [copy](Floor::copy) taken **before the question**: a store that is still the same contains everything that had been
//! seen by then. Compared with the floor at the time of the answer, any store would sometimes look like an older one.
//! In addition, an answer may come from a leader that was cut off from the other servers and has missed the last
//! writes. So before an engine empties anything, it **writes** to the table that looks older: an acknowledged write has
//! been committed, and its revision is above all others of the table.
//!
//! # Why revisions grow
//! * **The store is lost.** The clock has passed the last revision `r` of the old table: that table began at a reading
//!   of the clock, and has had at most one write per microsecond since. A broker achieves a hundredth of that rate. So
//!   the new table begins above `r`, even if no node is alive that has seen the old one.
//! * **The clock is wrong** by more than the age of the old table. The node that creates the new table has seen all
//!   revisions of the old one except those that its watch had not reported yet, which are fewer than [`MARGIN`]. Only a
//!   node that has seen nothing can start a table too low, and the first node that has seen more finds that table below
//!   its floor.
//! * **An older copy comes back.** No clock helps: each table continues where the copy ends. But every node writes its
//!   lease every 2.5 seconds, and watches the leases of all others. So each node that was connected before recognizes
//!   the copy as older by the last revision of the leases, whatever the other tables contain. The first such node to
//!   reconnect empties them before any other access. Their content is obsolete: the leases in the copy are no longer
//!   valid, so all memberships are over, and with them the names and the members of groups.
//! * **A copy comes back, and no node has seen more.** Then no program can detect it; the guide says so. Since each
//!   engine decides by itself, the first one to reconnect empties the copy only if that engine has seen more than the
//!   copy contains. Nodes that have seen less write to the copy, and their writes are in it when the next engine checks
//!   it.
//!
//! Two engines that empty a table at the same time also remove the writes between the two purges: those of nodes that
//! have joined since the first purge. These nodes are evicted, and rejoin. The broker never lowers the revision of a
//! table.
//!
//! # Leases
//! Leases are never emptied: a node that could delete the leases of others could free their names. Their revisions may
//! therefore occur twice. A revision is used only by a [`Lease`](crate::lease::Lease), to renew the entry that it has
//! written: it expects its own last revision, and treats the lease as lost if it finds another. The leases in a copy
//! expire within the lease time.

use crate::store::{Bucket, Revision};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// An engine begins each table at least this far above its floor. The distance must exceed the number of revisions that
/// had not been reported to its node when the store was lost, and is far more than a watch lags behind. As microseconds
/// of the clock it is half a second: by the time a table that begins this far ahead can be lost, the clock has passed
/// its start.
const MARGIN: u64 = 1 << 19;

/// The largest revision of each table that an engine has seen.
#[derive(Default)]
pub struct Floor([AtomicU64; Bucket::ALL.len()]);

impl Floor {
    /// Records a revision.
    pub fn saw(&self, bucket: Bucket, revision: Revision) {
        self.0[bucket as usize].fetch_max(revision.0, Ordering::Relaxed);
    }

    fn of(&self, bucket: Bucket) -> u64 {
        self.0[bucket as usize].load(Ordering::Relaxed)
    }

    /// Returns the first revision of a table that is created or emptied when the clock reads `clock` microseconds.
    pub fn first(&self, bucket: Bucket, clock: u64) -> Revision {
        let seen = self.of(bucket);
        let above = if seen == 0 { 1 } else { seen.saturating_add(MARGIN) };
        Revision(clock.max(above))
    }

    /// Returns a copy of the floor, to compare the answers to later questions with.
    pub fn copy(&self) -> Self {
        Self(Bucket::ALL.map(|bucket| AtomicU64::new(self.of(bucket))))
    }

    /// Returns true if the floor is above `last`: the table that has it as its last revision is older than the table
    /// that was seen.
    pub fn is_above(&self, bucket: Bucket, last: Revision) -> bool {
        last.0 < self.of(bucket)
    }

    /// Returns the tables that are older than those that were seen, given the last revisions of all tables.
    pub fn older(&self, last: &BTreeMap<Bucket, Revision>) -> Vec<Bucket> {
        let older = last.iter().filter(|(bucket, last)| self.is_above(**bucket, **last));
        older.map(|(bucket, _)| *bucket).collect()
    }

    /// Returns the tables that have to be emptied, given the last revisions of all tables: none, unless the store is an
    /// older one. A table that was already emptied, or created since, is left out: it is further above the floor than a
    /// watch lags behind.
    pub fn outdated(&self, last: &BTreeMap<Bucket, Revision>) -> Vec<Bucket> {
        if self.older(last).is_empty() {
            return Vec::new();
        }
        let is_old = |(bucket, last): &(&Bucket, &Revision)| last.0 < self.of(**bucket).saturating_add(MARGIN / 2);
        let old = last.iter().filter(is_old).map(|(bucket, _)| *bucket);
        old.filter(|bucket| *bucket != Bucket::Leases).collect()
    }

    /// Lowers the floor of the leases to their last revision once the outdated tables have been emptied: leases of
    /// the lost store no longer count.
    pub fn emptied(&self, last: &BTreeMap<Bucket, Revision>) {
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
        // In some cases no name has changed since the copy was made, or others have written more since it came back.
        for older in [[0, 0, 0, 0], [12, 100, 60, 0], [40, 100, 81, 7], [90, 899, 90, 90], [40, 900, 80, 7]] {
            assert_eq!(floor.outdated(&last(older)), all, "{older:?}");
        }
        assert_eq!(Floor::default().outdated(&last([0; 4])), []);
    }

    /// Catches: comparing an answer with revisions that were seen only after the question.
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

    /// If the tables were emptied again, each engine that reconnects would remove all writes since the first purge.
    #[test]
    fn what_was_emptied_is_not_emptied_again() {
        let others = seen([39, 898, 80, 7]);
        let begun = |bucket| others.first(bucket, 0).0 + 2;
        let floor = seen([40, 900, 81, 7]);
        let emptied = last([begun(Bucket::Nodes), 103, begun(Bucket::Names), begun(Bucket::Groups)]);
        assert_eq!(floor.outdated(&emptied), [], "by one that has seen less, without a clock");
        // An engine has emptied only some of the tables, and could not continue.
        let half = last([NOON, 103, 60, 7]);
        assert_eq!(floor.outdated(&half), [Bucket::Names, Bucket::Groups]);
        // On its next connection, the leases no longer show that the store was replaced.
        floor.emptied(&emptied);
        emptied.iter().for_each(|(bucket, revision)| floor.saw(*bucket, *revision));
        assert_eq!(floor.outdated(&emptied), []);
    }
}
