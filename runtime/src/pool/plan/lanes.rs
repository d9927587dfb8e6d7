//! The lanes of a pool's plan: members, queued messages, and matching the two.

use super::records::{Balancing, Lane, MemberId, MemberRecord, PoolRules, QueuePlace, QueuedMessage};
use super::{PoolAction, PoolPlan};
use crate::{ExitReason, env::clock::Moment};
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl<K: Clone + Ord, T> PoolPlan<K, T> {
    /// Chooses the member that gets the next message of a lane. Returns `None` if no member has room or, for a new
    /// message (`is_new`), if others wait in the lane.
    pub(super) fn choose(&mut self, key: &K, is_new: bool) -> Option<u64> {
        let Self { lanes, members, rules, .. } = self;
        let lane = lanes.get_mut(key).filter(|lane| !is_new || lane.queue.is_empty())?;
        let load = |number: &u64| {
            let member = members.get(number)?;
            member.has_room(rules).then_some(member.in_flight)
        };
        let count = lane.members.len();
        let place = match rules.choice {
            Balancing::LeastLoaded => {
                let loads = lane.members.iter().enumerate();
                loads.filter_map(|(place, number)| Some((load(number)?, place))).min()?.1
            }
            Balancing::RoundRobin => {
                let mut places = (0..count).map(|turn| (lane.turn + turn) % count);
                places.find(|&place| load(&lane.members[place]).is_some())?
            }
        };
        lane.turn = place + 1;
        Some(lane.members[place])
    }

    pub(super) fn give(&mut self, number: u64, waiting: QueuedMessage<K, T>) {
        let Some(member) = self.members.get_mut(&number) else { unreachable!("chosen among the members") };
        member.in_flight += 1;
        self.actions.push_back(PoolAction::Give(MemberId { number, pid: member.pid }, waiting));
    }

    /// Queues a message in its lane, in order of arrival.
    pub(super) fn wait(&mut self, waiting: QueuedMessage<K, T>) {
        let QueuePlace { lane: key, serial, until } = &waiting.place;
        let Some(lane) = self.lanes.get_mut(key) else { return };
        self.waiting += 1;
        if let Some(until) = *until {
            // All messages wait equally long, so this is also the order of `until`.
            let place = self.patience.partition_point(|(_, _, other)| other < serial);
            self.patience.insert(place, (until, key.clone(), *serial));
        }
        let place = lane.queue.partition_point(|other| other.place.serial < *serial);
        lane.queue.insert(place, waiting);
        if self.patience.len() > 64 && self.patience.len() > 2 * self.waiting {
            let Self { patience, lanes, .. } = self;
            patience.retain(|(_, key, serial)| waits(lanes, key, *serial));
        }
    }

    pub(super) fn start(&mut self, key: &K) {
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.starting += 1;
            self.starting += 1;
            self.actions.push_back(PoolAction::Start(key.clone()));
        }
    }

    pub(super) fn feed(&mut self, key: &K) {
        self.freed = true;
        while self.lanes.get(key).is_some_and(|lane| !lane.queue.is_empty())
            && let Some(number) = self.choose(key, false)
            && let Some(waiting) = self.lanes.get_mut(key).and_then(|lane| lane.queue.pop_front())
        {
            self.waiting -= 1;
            self.give(number, waiting);
        }
    }

    /// Returns the number of members of a lane that take messages.
    pub(super) fn present(&self, lane: &Lane<K, T>) -> usize {
        let is_present = |number: &&u64| self.members.get(number).is_some_and(MemberRecord::is_present);
        lane.members.iter().filter(is_present).count()
    }

    /// Retires a member that has been idle for long enough, or that a draining pool no longer needs; otherwise
    /// schedules another check.
    pub(super) fn consider(&mut self, now: Moment, number: u64) {
        if self.over {
            return;
        }
        let Some(member) = self.members.get(&number).filter(|member| member.is_idle()) else { return };
        let Some(lane) = self.lanes.get(&member.lane) else { return };
        let idle_until = self.rules.idle.map(|idle| member.idle_since.after(idle));
        let too_long = idle_until.is_some_and(|until| until <= now) && self.present(lane) > self.rules.least;
        let goes = if self.draining { lane.queue.is_empty() } else { too_long };
        let Some(member) = self.members.get_mut(&number) else { return };
        if goes {
            member.let_go = true;
            self.actions.push_back(PoolAction::Stop(member.pid));
        } else if let Some(until) = idle_until.filter(|&until| until > now && !member.listed) {
            member.listed = true;
            self.idlers.push(Reverse((until, number)));
        }
    }

    /// Starts members if the lane needs more, or if messages wait. During a backoff, schedules this for the end of the
    /// backoff.
    pub(super) fn refill(&mut self, now: Moment, key: &K) {
        let Some(lane) = self.lanes.get(key) else { return };
        let (PoolRules { least, most, concurrency, .. }, count) = (&self.rules, lane.count());
        let wanted = lane.queue.len() > lane.starting.saturating_mul(*concurrency);
        let missing = match self.draining {
            true => usize::from(wanted && count == 0),
            false => least.saturating_sub(count).max(usize::from(wanted && count < *most)),
        };
        match lane.backs_off_until.filter(|_| lane.backs_off(now)) {
            Some(until) => self.retry(until, key),
            None => (0..missing).for_each(|_| self.start(key)),
        }
        self.tidy(now, key);
    }

    /// Schedules another check of a lane, at `due` or earlier.
    pub(super) fn retry(&mut self, due: Moment, key: &K) {
        match self.retries.iter_mut().find(|(_, other)| other == key) {
            Some((set, _)) => *set = due.min(*set),
            None => self.retries.push((due, key.clone())),
        }
    }

    /// Fails the queued messages of a lane that has no member and is starting none.
    pub(super) fn abandon_lane(&mut self, key: &K, why: &ExitReason) {
        let Some(lane) = self.lanes.get(key) else { return };
        if lane.starting > 0 || self.present(lane) > 0 {
            return;
        }
        let queue = self.lanes.get_mut(key).map(|lane| std::mem::take(&mut lane.queue)).unwrap_or_default();
        self.waiting -= queue.len();
        self.freed = true;
        self.actions.extend(queue.into_iter().map(|waiting| PoolAction::Fail(waiting.message, why.clone())));
    }

    /// Removes a temporary lane without members and messages. A lane that backs off is kept, so that a message does not
    /// start a member too early.
    pub(super) fn tidy(&mut self, now: Moment, key: &K) {
        let is_over =
            |lane: &Lane<K, T>| !lane.lasting && lane.count() == 0 && lane.queue.is_empty() && !lane.backs_off(now);
        if self.lanes.get(key).is_some_and(is_over) {
            self.lanes.remove(key);
        }
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        if self.draining && !self.over && self.members.is_empty() && self.starting == 0 && self.waiting == 0 {
            self.close();
            self.actions.push_back(PoolAction::Over);
        }
    }
}

pub(super) fn waits<K: Ord, T>(lanes: &BTreeMap<K, Lane<K, T>>, key: &K, serial: u64) -> bool {
    lanes.get(key).is_some_and(|lane| lane.queue.binary_search_by_key(&serial, |waiting| waiting.place.serial).is_ok())
}
