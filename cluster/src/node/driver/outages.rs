//! The time during which this node is not a member. The driver reports the reason, tries to rejoin, and ends the
//! holders of the node's names.
//!
//! # The node never gives up
//! A node that was once a member keeps trying to rejoin as long as it runs, whatever the store answers: an operator may
//! correct the cause hours later, and the node's program cannot start another node. Only the first join ends with a
//! refusal, which [`Builder::join`](crate::Builder::join) returns. Each end of a membership calls [`Driver::out`],
//! which sets the time of the next attempt; so there is always a next attempt.
//!
//! # Holders that do not end
//! A killed process ends when its step returns. A process whose step does not return acts as the holder of its names
//! even after they pass to others: nothing in this program can stop it, and only its fencing token makes it harmless.
//! Such a process is logged at the latest when the lease of its node is over, and again when it has ended.

use super::Driver;
use super::ends::Condemned;
use crate::clock::Moment;
use crate::membership::JoinRefusal;
use crate::node::view::Outage;
use crate::threads::users_code;
use postroom::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The wait before this node tries to rejoin. It doubles with each failed attempt, up to the second value.
const PAUSES: [Duration; 2] = [super::AGAIN, Duration::from_secs(60)];

/// The time after which a killed process is reported as still running: at the latest when the lease of its node is
/// over.
const OVERDUE: Duration = Duration::from_secs(1);

impl Driver {
    /// Writes to the log, on another thread: the subscriber of the log is user code, which may block.
    pub(super) fn say(&self, say: impl FnOnce(&str, &str) + Send + 'static) {
        let (cluster, node) = (self.setup.cluster.clone(), self.setup.name.clone());
        users_code(move || say(&cluster, &node));
    }

    /// Records why this node is not a member, and schedules the next attempt to join. The current attempt is over.
    pub(super) fn out(&mut self, now: Moment, outage: Outage) {
        let [first, longest] = PAUSES;
        let pause = first.saturating_mul(1 << self.failures.min(10)).min(longest);
        self.failures += 1;
        self.join_at = Some(now + pause);
        let mut was_in = false;
        self.setup.view.change(|view| {
            was_in = std::mem::take(&mut view.is_member);
            view.clear_members();
            view.outage = Some(outage.clone());
        });
        if self.leaving.is_some() {
            return;
        }
        let counters = &self.setup.counters;
        if was_in {
            counters.outages.fetch_add(1, Ordering::Relaxed);
            self.say(move |cluster, node| {
                tracing::warn!(
                    target: "postroom", cluster, node, reason = %outage,
                    "the node is no member of its cluster any more; it joins again by itself"
                );
            });
        } else if self.was_member {
            counters.refused_joins.fetch_add(1, Ordering::Relaxed);
            self.say(move |cluster, node| {
                tracing::error!(
                    target: "postroom", cluster, node, reason = %outage, ?pause,
                    "the node could not join its cluster again; it keeps trying"
                );
            });
        }
    }

    /// Records the problem that keeps this node from the broker while it is not a member, as soon as the engine knows
    /// it. The lease cannot distinguish this problem from any other loss of the connection.
    pub(super) fn note_obstacle(&mut self, now: Moment) {
        let is_out = self.was_member && self.leaving.is_none() && !self.may_send(now);
        let is_out = is_out && !self.setup.view.lock().is_member;
        let obstacle = if is_out { self.setup.engine.obstacle() } else { None };
        if self.setup.view.lock().obstacle == obstacle {
            return;
        }
        self.setup.view.change(|view| view.obstacle.clone_from(&obstacle));
        let Some(reason) = obstacle else { return };
        self.say(move |cluster, node| {
            tracing::error!(
                target: "postroom", cluster, node, reason,
                "the broker keeps the node out of its cluster; it keeps trying"
            );
        });
    }

    /// Handles the refusal of an attempt to join.
    pub(super) fn refused(&mut self, now: Moment, error: JoinRefusal) {
        let Some(attempt) = self.attempt.take() else { return };
        if !self.was_member {
            return self.setup.view.change(|view| view.is_over = Some(Some(error)));
        }
        self.bindings = attempt.membership.bindings().clone();
        self.members.clear();
        self.begin_at.clear();
        self.out(now, Outage::Refused(error));
    }

    /// Ends processes that hold names: cancels them now, and kills them at `at`.
    pub(super) fn condemn(&mut self, held: BTreeSet<Pid>, why: &str, since: Moment, at: Moment) {
        let mut names: BTreeMap<Pid, Vec<String>> = BTreeMap::new();
        for (name, pid) in self.setup.view.names().iter().filter(|(_, pid)| held.contains(pid)) {
            names.entry(pid).or_default().push(name.to_owned());
        }
        for pid in held {
            pid.cancel(why);
            let names = names.remove(&pid).unwrap_or_default().join(", ");
            self.condemned.push(Condemned { pid, names, since, at, is_overdue: false });
        }
    }

    /// Kills the processes whose time is over, and reports those that still run.
    pub(super) fn end_condemned(&mut self, now: Moment) {
        for mut condemned in std::mem::take(&mut self.condemned) {
            let Condemned { pid, since, at, is_overdue, .. } = condemned;
            if at <= now {
                pid.kill();
            }
            let (is_alive, lasted, names) = (pid.is_alive(), now.since(since), condemned.names.clone());
            if is_alive && !is_overdue && at + OVERDUE <= now {
                condemned.is_overdue = true;
                self.say(move |cluster, node| {
                    tracing::warn!(
                        target: "postroom", cluster, node, %pid, names, ?lasted,
                        "a holder of names continues its step, though its names may have passed to others"
                    );
                });
            } else if !is_alive && is_overdue {
                self.say(move |cluster, node| {
                    tracing::warn!(
                        target: "postroom", cluster, node, %pid, names, ?lasted,
                        "a holder of names that went on has ended"
                    );
                });
            }
            if is_alive {
                self.condemned.push(condemned);
            }
        }
    }
}
