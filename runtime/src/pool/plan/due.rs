//! Time-driven transitions of a pool.

use super::{PoolAction, PoolPlan, lanes::waits};
use crate::env::clock::Moment;
use std::cmp::Reverse;

impl<K: Clone + Ord, T> PoolPlan<K, T> {
    /// Advances time to `now`: expires messages, retires idle members, revisits lanes, and kills members that outlive a
    /// pool that gave up.
    pub(crate) fn tick(&mut self, now: Moment) {
        while let Some((until, key, serial)) = self.patience.front().cloned()
            && until <= now
        {
            self.patience.pop_front();
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if let Ok(place) = lane.queue.binary_search_by_key(&serial, |waiting| waiting.place.serial)
                && let Some(waiting) = lane.queue.remove(place)
            {
                self.waiting -= 1;
                self.freed = true;
                self.actions.push_back(PoolAction::Expire(waiting.message));
                self.tidy(now, &key);
            }
        }
        while let Some(&Reverse((due, number))) = self.idlers.peek()
            && due <= now
        {
            self.idlers.pop();
            if let Some(member) = self.members.get_mut(&number) {
                member.listed = false;
                self.consider(now, number);
            }
        }
        let due: Vec<K> = self.retries.extract_if(.., |(due, _)| *due <= now).map(|(_, key)| key).collect();
        for key in due {
            let Some(lane) = self.lanes.get(&key) else { continue };
            for number in &lane.members {
                if let Some(member) = self.members.get_mut(number) {
                    member.crowded = false;
                }
            }
            self.feed(&key);
            self.refill(now, &key);
        }
        if self.kill_at.take_if(|due| *due <= now).is_some() {
            let members = self.all();
            self.actions.extend(members.into_iter().map(PoolAction::Kill));
        }
    }

    /// Returns the next moment at which [`tick`](Self::tick) has work.
    pub(crate) fn due(&mut self) -> Option<Moment> {
        while let Some((_, key, serial)) = self.patience.front()
            && !waits(&self.lanes, key, *serial)
        {
            self.patience.pop_front();
        }
        while let Some(Reverse((_, number))) = self.idlers.peek()
            && !self.members.contains_key(number)
        {
            self.idlers.pop();
        }
        let patience = self.patience.front().map(|(until, ..)| *until);
        let idle = self.idlers.peek().map(|Reverse((due, _))| *due);
        let retry = self.retries.iter().map(|(due, _)| *due).min();
        [patience, idle, retry, self.kill_at].into_iter().flatten().min()
    }
}
