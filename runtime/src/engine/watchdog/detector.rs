//! Detection of stalled steps, and the response to them, as decided by the watchdog. Uses no thread and no clock: the
//! caller passes samples with their time.
//!
//! # Observations and responses
//!
//! *Ticks* are a quarter of the limit apart, but at least 250 µs and at most 2.5 ms. At each tick, the watchdog samples
//! every thread: its step (the process's slot, and the number of steps that the thread had done before), whether it
//! holds a permit, and whether it keeps work to itself (a process in its run-next slot, one with input at the front of
//! its cache, one in its table, or vacant slots). It also samples the host: how many processes are queued (a due timer
//! counts as one, and so do a step that has blocked and waits for a permit to continue, and a vacant slot that is to be
//! emptied), and how many permits are idle.
//!
//! * J1 If a thread was in the same step at the previous tick, that step blocks the work that the thread keeps, so the
//!   work is moved to the inject queue of the permit, where all threads look. A process woken by a step that does not
//!   end thus waits for at most two ticks. Moving it sooner would not pay: the run-next slot makes it run on the same
//!   core, in less time than a thread takes to wake.
//! * J2 A step that has been seen for as long as the limit, while others wait, loses its permit to another thread. The
//!   longest steps go first, and no more steps lose their permits than others wait.
//! * J3 A step that has been seen for as long as the limit is *stalled* if others have waited for it, either as in J2,
//!   or because J1 has found a process behind it. It is reported once, and again when it has ended.
//!
//! On a busy host something is nearly always queued, and is taken at once. So *others wait* only if no permit is idle
//! and
//! * J4 more processes were queued at the previous tick than steps have been made since: one of them has waited for a
//!   tick; or
//! * J5 something was queued, with no permit idle, at each tick for as long as the limit: the stuck permit's share of
//!   the work is not being done. (J4 alone would fail where time slices have many steps. One process is assumed to
//!   wait.)
//!
//! A step is first seen at the tick after it began. So it is found to have reached the limit between 1 and 1¼ times the
//! limit after it began (later, if ticks are more than a quarter of the limit apart), plus the delay in scheduling the
//! watchdog's thread. A step that ends within a tick is never seen twice. A step may also begin while the watchdog
//! rests, since nothing waits. Its thread has then noted when the time slice began. If earlier steps of the same time
//! slice preceded it, its time counts from when it is first seen.
//!
//! A step that computes for a second while nothing waits does no harm, and is not reported.
//!
//! # When there is nothing to detect
//!
//! When all permits were idle at [`CALM`] consecutive ticks, whatever they did in between, the watchdog rests until a
//! process waits. While a stalled step that has lost its permit remains, the watchdog checks for its end at growing
//! intervals, up to [`SELDOM`].

use crate::env::clock::Moment;
use std::time::Duration;

/// The default limit of a step while others wait.
pub(crate) const LIMIT: Duration = Duration::from_millis(10);

/// The longest tick. Ticks also bound time slices, and a long limit must not extend those.
const LONGEST_TICK: Duration = Duration::from_micros(2_500);

/// The shortest tick. A sample costs about a microsecond and waking the thread about five: some 2 % of one core, for
/// users who choose such a short limit.
const SHORTEST_TICK: Duration = Duration::from_micros(250);

/// Number of ticks for which the watchdog continues while it finds all permits idle: 20 ms by default. So a host with
/// work every few milliseconds does not wake its watchdog each time.
const CALM: u32 = 8;

/// The longest interval of checks for the end of a stalled step while all permits are idle.
const SELDOM: Duration = Duration::from_secs(1);

pub(crate) fn tick_of(limit: Duration) -> Duration {
    (limit / 4).clamp(SHORTEST_TICK, LONGEST_TICK)
}

/// Identifies a step: the address of the process's slot, and how many steps and visits its thread had done. (Two steps
/// look the same if the first was seen when it had already been counted and was about to end. Then the second counts as
/// having begun at that time.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepId {
    /// The address of the slot or, outside of a process's step (such as in a visit to the reactor), of the thread's
    /// record.
    pub(crate) slot: usize,
    pub(crate) steps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadSample {
    /// The step of the thread, unless the thread waits inside it.
    pub(crate) step: Option<StepId>,
    /// When the step began, if that was noted.
    pub(crate) begun: Option<Moment>,
    pub(crate) has_permit: bool,
    pub(crate) has_local: bool,
    /// Whether the thread keeps vacant slots, or processes in the table of its cache. These are not work unless the
    /// thread has been notified of input.
    pub(crate) keeps_idle: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSample<'a> {
    pub(crate) now: Moment,
    pub(crate) threads: &'a [ThreadSample],
    /// Number of processes in queues where all threads look, or in a step that waits for a permit.
    pub(crate) queued: usize,
    pub(crate) steps: u64,
    /// Number of permits whose threads sleep or search.
    pub(crate) idle: usize,
    pub(crate) all_idle: bool,
}

/// An order. Threads are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// J1: move the work that only this thread can reach to where other threads look.
    Move(usize),
    /// J2: give the thread's permit to another thread.
    TakeOver(usize),
    /// J3: report the thread's step, which has run for this long.
    Report(usize, Duration),
    /// Report that the thread's step has ended, after this long.
    Ended(usize, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestUntil {
    Tick,
    /// Until a process waits, or at most for this long.
    Calm(Option<Duration>),
}

/// The state of a thread's step at earlier ticks.
#[derive(Clone, Copy, Debug)]
struct StepHistory {
    step: StepId,
    since: Moment,
    /// Whether the thread was found to keep work to itself during the step.
    has_hidden: bool,
    is_reported: bool,
}

#[derive(Debug)]
pub(crate) struct StallDetector {
    limit: Duration,
    stages: Vec<Option<StepHistory>>,
    /// Number of processes queued at the most recent tick; zero if a permit was idle.
    queued: usize,
    /// Number of steps made by that tick.
    steps: u64,
    /// The time since which, at each tick, something has been queued with no permit idle.
    busy_since: Option<Moment>,
    /// Number of ticks in a row at which all permits have been idle.
    calm: u32,
    /// The length of the most recent calm rest.
    rest: Duration,
}

impl StallDetector {
    /// Makes a detector. A limit of [`Duration::MAX`] is never reached.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, stages: Vec::new(), queued: 0, steps: 0, busy_since: None, calm: 0, rest: tick_of(limit) }
    }

    /// Handles a tick: appends its orders to `orders`, and returns how long the watchdog rests.
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
            // Moved processes count as queued from here on.
            self.queued += orders.iter().filter(|order| matches!(order, Order::Move(_))).count();
        }
        stuck.sort_unstable();
        for &(_, thread) in stuck.iter().take(waiting) {
            orders.push(Order::TakeOver(thread));
        }
        self.report(sample.now, waiting > 0, orders);
        self.rest(sample)
    }

    /// Performs J4 and J5: returns how many others wait.
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

    /// Updates the state of a thread, performs J1, and reports the end of a reported step.
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

    /// Performs J3.
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
