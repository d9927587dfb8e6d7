//! Messages to processes of this node that wait until their mailboxes have room.

use crate::clock::Moment;
use postroom::Pid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The maximum number of notices that are handed out for one process at a time.
const BATCH: usize = 64;

/// The delay before a process with a full mailbox is tried again. A guess, as for messages from other nodes.
const RETRY: Duration = Duration::from_millis(5);

/// Queues of notices, in order for each process. The caller delivers a [batch](Self::poll), and then reports with
/// [`back`](Self::back) which notices had no room. Until then no more notices are handed out for that process.
pub(crate) struct Notices<T> {
    queues: BTreeMap<Pid, NoticeQueue<T>>,
    ready: BTreeSet<Pid>,
    /// Processes whose mailboxes were full.
    full: BTreeSet<Pid>,
    retry_at: Option<Moment>,
}

struct NoticeQueue<T> {
    waiting: VecDeque<T>,
    /// Whether a batch is in flight: it was handed out, and has not been reported back yet.
    is_out: bool,
}

impl<T> Default for Notices<T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), ready: BTreeSet::new(), full: BTreeSet::new(), retry_at: None }
    }
}

impl<T> Notices<T> {
    pub(crate) fn push(&mut self, pid: Pid, notice: T) {
        let queue = self.queues.entry(pid).or_insert_with(|| NoticeQueue { waiting: VecDeque::new(), is_out: false });
        queue.waiting.push_back(notice);
        if !queue.is_out && !self.full.contains(&pid) {
            self.ready.insert(pid);
        }
    }

    /// Returns how many notices wait for a process.
    pub(crate) fn waiting(&self, pid: Pid) -> usize {
        self.queues.get(&pid).map_or(0, |queue| queue.waiting.len())
    }

    /// Returns true if a process has no queued notices and no batch in flight.
    pub(crate) fn is_idle(&self, pid: Pid) -> bool {
        !self.queues.contains_key(&pid)
    }

    /// Drops those of a process's queued notices for which `keep` returns false.
    pub(crate) fn retain(&mut self, pid: Pid, keep: impl FnMut(&T) -> bool) {
        if let Some(queue) = self.queues.get_mut(&pid) {
            queue.waiting.retain(keep);
            if queue.waiting.is_empty() && !queue.is_out {
                self.ended(pid);
            }
        }
    }

    /// Returns the next batch for a process that has no batch in flight.
    pub(crate) fn poll(&mut self) -> Option<(Pid, Vec<T>)> {
        let pid = self.ready.pop_first()?;
        let queue = self.queues.get_mut(&pid)?;
        queue.is_out = true;
        let count = queue.waiting.len().min(BATCH);
        Some((pid, queue.waiting.drain(..count).collect()))
    }

    /// Reports that the batch of a process was delivered, except for the `refused` notices. Returns true if no notices
    /// are left for the process.
    pub(crate) fn back(&mut self, now: Moment, pid: Pid, refused: Vec<T>) -> bool {
        let Some(queue) = self.queues.get_mut(&pid) else { return true };
        queue.is_out = false;
        if !refused.is_empty() {
            self.full.insert(pid);
            self.retry_at.get_or_insert(now + RETRY);
        }
        refused.into_iter().rev().for_each(|notice| queue.waiting.push_front(notice));
        if queue.waiting.is_empty() {
            self.queues.remove(&pid);
            return true;
        }
        if !self.full.contains(&pid) {
            self.ready.insert(pid);
        }
        false
    }

    /// Drops the notices for a process that has ended.
    pub(crate) fn ended(&mut self, pid: Pid) {
        self.queues.remove(&pid);
        self.ready.remove(&pid);
        self.full.remove(&pid);
    }

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.retry_at
    }

    /// Makes processes with full mailboxes ready again, once the retry is due.
    pub(crate) fn handle_timeout(&mut self, now: Moment) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.ready.append(&mut self.full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Mailboxes fill up and drain at random. Each process gets its notices in order, none is lost, and no batch is
    /// handed out while another batch for the process is in flight.
    #[test]
    fn each_process_gets_its_notices_in_order_and_once() {
        for seed in 0..1_000 {
            let (mut random, mut now) = (Random::new(seed), Moment::START);
            let mut notices = Notices::default();
            let pids: [Pid; 2] = ["<1.0.5.1>", "<1.0.6.1>"].map(|pid| pid.parse().unwrap());
            let (mut pushed, mut taken) = ([0_u64; 2], [0_u64; 2]);
            let mut out: BTreeMap<Pid, Vec<u64>> = BTreeMap::new();
            for round in 0.. {
                let is_over = round > 300;
                match random.below(4) {
                    0 if !is_over => {
                        let at = random.below(2) as usize;
                        for _ in 0..random.below(100) {
                            notices.push(pids[at], pushed[at]);
                            pushed[at] += 1;
                        }
                    }
                    1 => {
                        if let Some((pid, batch)) = notices.poll() {
                            assert!(out.insert(pid, batch).is_none(), "seed {seed}: two batches");
                        }
                    }
                    2 => {
                        let Some((pid, mut batch)) = out.pop_first() else { continue };
                        let at = pids.iter().position(|other| *other == pid).unwrap();
                        let room = if is_over { batch.len() } else { random.below(80) as usize };
                        let refused = batch.split_off(room.min(batch.len()));
                        for notice in batch {
                            assert_eq!(notice, taken[at], "seed {seed}");
                            taken[at] += 1;
                        }
                        notices.back(now, pid, refused);
                    }
                    _ => {
                        now = now + Duration::from_millis(random.below(10));
                        notices.handle_timeout(now);
                    }
                }
                if is_over && taken == pushed && out.is_empty() {
                    break;
                }
                assert!(round < 10_000, "seed {seed}: {taken:?} of {pushed:?}");
            }
            assert!(notices.queues.is_empty() && notices.poll().is_none());
        }
    }
}
