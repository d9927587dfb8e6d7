//! Detection of stalled steps, and the response: the decisions of the watchdog. No thread and no clock: the caller
//! passes samples with their time.
//!
//! # What is seen, and what follows
//!
//! At each *tick*, a quarter of the limit apart and at most 2.5 ms, the watchdog samples every thread: its step (the
//! process's slot, and how many steps the thread had done before), whether it holds a permit, whether it keeps work to
//! itself: a process in its run-next slot, or one with input at the front of its cache, or in its table, or vacant
//! slots; and the host: how many processes are queued (a due timer counts as one, and so do a step that has blocked and
//! waits for a permit to continue, and a vacant slot that is to be emptied), how many permits are idle.
//!
//! * J1 A step that was there at the tick before blocks that work: it goes to the inject queue of the permit, where all
//!   threads look. So a process woken by a step that does not end waits for two ticks at most.
//!   Sooner would not pay: the slot makes the process run on the same core, in less time than a thread takes to wake.
//! * J2 A step that was seen for the limit, while others wait, loses its permit to another thread; the longest first,
//!   and not more of them than others wait.
//! * J3 A step that was seen for the limit is *stalled*, if others have waited for it: by J2, or because J1 has found a
//!   process there. It is reported once, and again when it has ended.
//!
//! On a busy host there is nearly always something queued, which is taken at once. *Others wait* if no permit is idle
//! and
//! * J4 more processes were queued at the tick before than steps were made since: one of them has waited for a tick; or
//! * J5 something was queued, with no permit idle, at each tick for the limit: the stuck permit's share of the work is
//!   missing. (J4 alone would fail where time slices have many steps. One process is assumed to wait.)
//!
//! A step is first seen at the tick after it began, so its run time is known to reach the limit between one limit and
//! five quarters of it after it began, plus the delay in scheduling the watchdog's thread. A step that ends within a
//! tick is never seen twice. A step that began while the watchdog slept, since nothing waited, has noted when its time
//! slice began; if earlier steps of the same time slice preceded it, it counts from when it is seen.
//!
//! A step that computes for a second while nothing waits does no harm: it is not reported.
//!
//! # When there is nothing to detect
//!
//! When all permits were idle at [`CALM`] consecutive ticks, whatever they did in between, the watchdog sleeps until a
//! process waits. While a stalled step that has lost its permit remains, it checks for its end at growing intervals, up
//! to [`SELDOM`].

use crate::env::clock::Moment;
use std::time::Duration;

/// The default limit of a step while others wait.
pub(crate) const LIMIT: Duration = Duration::from_millis(10);

/// The longest tick: ticks bound time slices, too, which a long limit must not extend.
const LONGEST_TICK: Duration = Duration::from_micros(2_500);

/// The shortest tick. A sample costs about a microsecond and waking the thread about five: some 2 % of one core, for
/// those who ask for it.
const SHORTEST_TICK: Duration = Duration::from_micros(250);

/// How many ticks the watchdog continues after it finds all permits idle: 20 ms by default. So a host with work every
/// few milliseconds does not wake its watchdog each time.
const CALM: u32 = 8;

/// The longest interval of checks for the end of a stalled step while all permits are idle.
const SELDOM: Duration = Duration::from_secs(1);

pub(crate) fn tick_of(limit: Duration) -> Duration {
    (limit / 4).clamp(SHORTEST_TICK, LONGEST_TICK)
}

/// Identifies a step: the address of the process's slot, and how many steps and visits its thread had done. (If two
/// look the same, the first has been counted and is about to end; the second then counts as having begun that much
/// earlier.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepId {
    /// For what is no step of a process, such as a visit to the reactor, the address of the thread's record.
    pub(crate) slot: usize,
    pub(crate) steps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadSample {
    /// Its step, unless it waits inside of it.
    pub(crate) step: Option<StepId>,
    /// When that began, if it was noted.
    pub(crate) begun: Option<Moment>,
    pub(crate) has_permit: bool,
    pub(crate) has_local: bool,
    /// Whether it keeps vacant slots, or processes in the table of its cache: no work, as far as it has been told.
    pub(crate) keeps_idle: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSample<'a> {
    pub(crate) now: Moment,
    pub(crate) threads: &'a [ThreadSample],
    /// How many processes are in queues where all threads look, or in a step that waits for a permit.
    pub(crate) queued: usize,
    pub(crate) steps: u64,
    /// How many permits are idle or searching.
    pub(crate) idle: usize,
    pub(crate) all_idle: bool,
}

/// An order. Threads are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// J1: move what it keeps to itself to where others look.
    Move(usize),
    /// J2: give its permit to another thread.
    TakeOver(usize),
    /// J3: report its step, which has run for so long.
    Report(usize, Duration),
    /// Report that its step has ended, after so long.
    Ended(usize, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestUntil {
    Tick,
    /// When a process waits, or after so long.
    Calm(Option<Duration>),
}

/// The state of a thread's step at earlier ticks.
#[derive(Clone, Copy, Debug)]
struct StepHistory {
    step: StepId,
    since: Moment,
    /// Whether it was found to keep work to itself.
    has_hidden: bool,
    is_reported: bool,
}

#[derive(Debug)]
pub(crate) struct StallDetector {
    limit: Duration,
    stages: Vec<Option<StepHistory>>,
    /// How many were queued at the last tick, with no permit idle, and how many steps had been made by then.
    queued: usize,
    steps: u64,
    /// Since when something was queued at each tick, with no permit idle.
    busy_since: Option<Moment>,
    /// For how many ticks all permits have been idle.
    calm: u32,
    /// The length of the last calm rest.
    rest: Duration,
}

impl StallDetector {
    /// Makes a detector. A limit of [`Duration::MAX`] is never reached.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, stages: Vec::new(), queued: 0, steps: 0, busy_since: None, calm: 0, rest: tick_of(limit) }
    }

    /// Handles a tick: puts its orders into `orders`.
    pub(crate) fn look(&mut self, sample: HostSample<'_>, orders: &mut Vec<Order>) -> RestUntil {
        if self.stages.len() < sample.threads.len() {
            self.stages.resize(sample.threads.len(), None);
        }
        let waiting = self.waiting(sample);
        let mut stuck = Vec::new();
        for thread in 0..self.stages.len() {
            let seen = sample.threads.get(thread).copied().unwrap_or_default();
            self.look_at(thread, seen, sample.now, orders);
            if seen.has_permit
                && let Some(stage) = self.stages[thread]
                && sample.now.since(stage.since) >= self.limit
            {
                stuck.push((stage.since, thread));
            }
        }
        if sample.idle == 0 {
            // Those moved count as queued from here on.
            self.queued += orders.iter().filter(|order| matches!(order, Order::Move(_))).count();
        }
        stuck.sort_unstable();
        for &(_, thread) in stuck.iter().take(waiting) {
            orders.push(Order::TakeOver(thread));
        }
        self.report(sample.now, waiting > 0, orders);
        self.rest(sample)
    }

    /// J4 and J5: returns how many others wait.
    fn waiting(&mut self, sample: HostSample<'_>) -> usize {
        let queued = if sample.idle == 0 { sample.queued } else { 0 };
        let (queued_before, steps_before) = (self.queued.min(queued), self.steps);
        (self.queued, self.steps) = (queued, sample.steps);
        if queued == 0 {
            self.busy_since = None;
            return 0;
        }
        let busy_since = *self.busy_since.get_or_insert(sample.now);
        let taken = usize::try_from(sample.steps.saturating_sub(steps_before)).unwrap_or(usize::MAX);
        let wait_for_a_tick = queued_before.saturating_sub(taken);
        wait_for_a_tick.max(usize::from(sample.now.since(busy_since) >= self.limit))
    }

    /// Updates the state of a thread; J1, and the end of a reported step.
    fn look_at(&mut self, thread: usize, seen: ThreadSample, now: Moment, orders: &mut Vec<Order>) {
        let stage = &mut self.stages[thread];
        if let (Some(before), Some(step)) = (stage.as_mut(), seen.step)
            && before.step == step
        {
            before.has_hidden |= seen.has_local;
            if seen.has_local || seen.keeps_idle {
                orders.push(Order::Move(thread));
            }
            return;
        }
        if let Some(before) = stage.filter(|before| before.is_reported) {
            orders.push(Order::Ended(thread, now.since(before.since)));
        }
        let since = seen.begun.map_or(now, |begun| begun.min(now));
        *stage = seen.step.map(|step| StepHistory { step, since, has_hidden: false, is_reported: false });
    }

    /// J3.
    fn report(&mut self, now: Moment, others_wait: bool, orders: &mut Vec<Order>) {
        for (thread, stage) in self.stages.iter_mut().enumerate() {
            let Some(stage) = stage else { continue };
            let lasted = now.since(stage.since);
            if lasted >= self.limit && !stage.is_reported && (others_wait || stage.has_hidden) {
                stage.is_reported = true;
                orders.push(Order::Report(thread, lasted));
            }
        }
    }

    fn rest(&mut self, sample: HostSample<'_>) -> RestUntil {
        if !sample.all_idle {
            (self.calm, self.rest) = (0, tick_of(self.limit));
            return RestUntil::Tick;
        }
        self.calm = self.calm.saturating_add(1);
        if self.calm < CALM {
            return RestUntil::Tick;
        }
        if self.stages.iter().flatten().all(|stage| !stage.is_reported) {
            self.calm = 0;
            return RestUntil::Calm(None);
        }
        self.rest = (self.rest * 2).min(SELDOM);
        RestUntil::Calm(Some(self.rest))
    }
}

#[cfg(test)]
mod tests;
