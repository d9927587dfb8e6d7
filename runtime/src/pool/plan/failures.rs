//! What a pool does when members fail: the lane concerned waits before it starts another, longer after each round of
//! failures, and a pool whose members fail too often gives up. Both by the rules of supervisors.
//!
//! 1. A member fails that ends for another reason than a normal one, ends before it was done with any message, or
//!    cannot be started. One that the pool has let go does not fail, and neither does any once the pool is ending.
//! 2. Each failure counts against the pool's intensity; one that is too many, and the pool gives up. (Not a start for
//!    which the host had no room: that is no fault of the member's.)
//! 3. A failure has its lane *back off*: nothing is started there until the delay has passed, whatever waits. Failures
//!    during the delay lengthen it no further: members that fail together are one round. A member that ran for long
//!    enough begins the rounds anew.
//! 4. A pool that gives up takes nothing new, fails what waits with the reason, tells its members to end, kills those
//!    that have not after [`ENDS_WITHIN`], and is over when the last has ended.

use super::lanes::{Lane, MemberRecord};
use super::{PoolAction, PoolPlan};
use crate::env::clock::Moment;
use crate::exit::ExitReason;
use std::hash::Hash;
use std::time::Duration;

/// How long the members of a pool that gives up have to end: as long as a supervisor gives its children.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Why a start that was asked for gave no member.
#[derive(Clone, Debug)]
pub(crate) enum Unstarted {
    /// It was not tried, as the pool has drained meanwhile.
    Unwanted,
    /// The host had no room for it, or is shutting down.
    NoRoom(ExitReason),
    /// Its user's closure failed, or the process that it spawned could not start.
    Failed(ExitReason),
}

/// Why a pool ends whose members fail more often than its intensity allows: its exit reason is
/// [`ExitReason::Error`] with this in it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "a member of the pool failed once more ({reason}); no more than {most} restart{} within {within:?} {} allowed",
    if *.most == 1 { "" } else { "s" },
    if *.most == 1 { "is" } else { "are" }
)]
#[non_exhaustive]
pub struct PoolGaveUp {
    /// How many restarts, of all members together, are allowed within the time below.
    pub most: u32,
    /// The time.
    pub within: Duration,
    /// Why the last member ended, or could not start.
    pub reason: ExitReason,
}

impl<K: Clone + Eq + Hash, T> PoolPlan<K, T> {
    /// A member of the lane has failed after it had run for so long, or could not be started (`None`).
    pub(super) fn fail(&mut self, now: Moment, key: &K, run: Option<Duration>, why: &ExitReason) {
        if self.ending.is_some() {
            return;
        }
        if self.intensity.allow(now) {
            self.back_off(now, key, run);
        } else {
            self.give_up(now, why);
        }
    }

    /// Nothing is started in the lane for a while.
    pub(super) fn back_off(&mut self, now: Moment, key: &K, run: Option<Duration>) {
        let Some(lane) = self.lanes.get_mut(key).filter(|lane| !lane.backs_off(now)) else { return };
        let is_stable = run.is_some_and(|run| self.rules.backoff.is_stable(run));
        lane.in_a_row = if is_stable { 1 } else { lane.in_a_row.saturating_add(1) };
        let delay = self.rules.backoff.delay(lane.in_a_row, self.random.next());
        lane.backs_off_until = Some(now.after(delay));
    }

    fn give_up(&mut self, now: Moment, why: &ExitReason) {
        let (most, within) = self.intensity.limits();
        let reason = ExitReason::error(PoolGaveUp { most, within, reason: why.clone() });
        let waiting = self.end_with(reason.clone());
        self.actions.extend(waiting.into_iter().map(|message| PoolAction::Fail(message, reason.clone())));
        // Said before anything that may make the pool be over: its keeper ends with it.
        self.actions.push_back(PoolAction::GiveUp(reason));
        let members = self.all();
        self.actions.extend(members.into_iter().map(PoolAction::Cancel));
        self.kill_at = Some(now.after(ENDS_WITHIN));
        self.drain(now);
    }

    /// No message is taken and no member started from here on. Returns what waited.
    pub(super) fn end_with(&mut self, reason: ExitReason) -> Vec<T> {
        self.ending.get_or_insert(reason);
        self.draining = true;
        self.waiting = 0;
        self.patience.clear();
        let lines = self.lanes.values_mut().flat_map(|lane| std::mem::take(&mut lane.line));
        lines.map(|waiting| waiting.message).collect()
    }

    /// Those that have not ended by now although the pool gave up.
    pub(super) fn kill_late(&mut self, now: Moment) {
        if self.kill_at.take_if(|due| *due <= now).is_some() {
            let members = self.all();
            self.actions.extend(members.into_iter().map(PoolAction::Kill));
        }
    }
}

impl<K> MemberRecord<K> {
    pub(super) fn has_failed(&self, why: &ExitReason) -> bool {
        !(self.let_go || self.served && why.is_normal())
    }
}

impl<K, T> Lane<K, T> {
    /// Returns whether nothing is to be started yet.
    pub(super) fn backs_off(&self, now: Moment) -> bool {
        self.backs_off_until.is_some_and(|until| until > now)
    }
}
