//! When a step is stalled, and what is done about it: the watchdog's judgement. It has no thread and no clock: whoever
//! asks gives it what is to be seen, and when.
//!
//! # What is seen, and what follows
//!
//! At each *tick*, a quarter of the limit apart, the watchdog looks at every thread: which step it is in (the process's
//! slot, and how many steps the thread has done before), whether it holds a permit, whether a process waits in its
//! run-next slot; and at the host: how many processes are queued (a due timer counts as one, and a step that has
//! blocked and waits for a permit to go on with), how many permits are idle.
//!
//! * J1 A step that was there at the tick before holds its run-next slot up: what waits there goes to the inject queue
//!   of its permit, where everybody looks. So a process woken by a step that does not end waits for two ticks at most.
//!   Sooner it is not worth it: the slot is there so that the process runs on the same core, in less time than a thread
//!   takes to wake.
//! * J2 A step that was seen for the limit, while others wait, loses its permit to another thread; the longest first,
//!   and not more of them than others wait.
//! * J3 A step that was seen for the limit is *stalled*, if others have waited for it: by J2, or because J1 has found a
//!   thread there. It is reported once, and once more when it has ended.
//!
//! Something is queued nearly always where there is much to do, and is taken in no time. *Others wait* if no permit is
//! idle and
//! * W1 more processes were queued at the tick before than steps have been taken since: so one of them has waited for a
//!   tick; or
//! * W2 something was queued, with no permit idle, at each tick for the limit: what the stuck permit does not do is
//!   missing. (W1 alone would be blind where time slices have many steps. What waits is taken to be one then.)
//!
//! A step is seen first at the tick after it began, so it is known to have run for the limit between one limit and five
//! quarters of it after it began, and as much later as the watchdog's thread gets the processor late. One that ends
//! within a tick is never seen twice. One that began while the watchdog slept, since nothing waited, has noted when its
//! time slice began; if others in the same time slice came before it, it is taken to begin when it is seen.
//!
//! A step that computes for a second while nothing waits harms nothing: it is not reported.
//!
//! # When there is nothing to be seen
//!
//! When all permits were idle at [`CALM`] ticks one after the other, whatever they did in between, the watchdog sleeps
//! until a thread waits. With a stalled step left, which has lost its permit, it looks for its end less and less often,
//! down to once in [`SELDOM`].

use crate::env::clock::Moment;
use std::time::Duration;

/// How long a step may run while others wait, if the builder does not say otherwise.
pub(crate) const LIMIT: Duration = Duration::from_millis(10);

/// How far ticks are apart at most: they bound time slices, too, which a long limit is not to stretch.
const LONGEST_TICK: Duration = Duration::from_micros(2_500);

/// How far ticks are apart at least. A look costs about a microsecond and the thread's waking about five, so this is
/// some 2 % of one core, for those who ask for it.
const SHORTEST_TICK: Duration = Duration::from_micros(250);

/// How many ticks the watchdog looks on when it finds all permits idle: 20 ms by default. So a host that has more to do
/// than there are threads awake, every few milliseconds, does not wake its watchdog each time.
const CALM: u32 = 8;

/// How seldom the watchdog looks for the end of a stalled step while all permits are idle.
const SELDOM: Duration = Duration::from_secs(1);

/// How far ticks are apart for that limit.
pub(crate) fn tick_of(limit: Duration) -> Duration {
    (limit / 4).clamp(SHORTEST_TICK, LONGEST_TICK)
}

/// Which step it is: the address of the process's slot, and how many steps its thread had done. (Of two that look the
/// same, the first has been counted and is in its last breath; so the second is taken to have begun that much earlier.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepId {
    pub(crate) slot: usize,
    pub(crate) steps: u64,
}

impl StepId {
    /// A visit to the reactor, which has no slot.
    pub(crate) fn of_a_visit(steps: u64) -> Self {
        Self { slot: 0, steps }
    }

    /// Whatever the watchdog's own thread is in, which takes no steps.
    pub(crate) fn of_the_watchdog() -> Self {
        Self { slot: 0, steps: u64::MAX }
    }

    pub(crate) fn is_of_a_process(self) -> bool {
        self.slot != 0
    }
}

/// What is to be seen of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadSample {
    /// What it is in, unless it waits inside of it.
    pub(crate) step: Option<StepId>,
    /// When that began, if it has noted it.
    pub(crate) begun: Option<Moment>,
    pub(crate) has_worker: bool,
    pub(crate) has_run_next: bool,
}

/// What is to be seen of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSample<'a> {
    pub(crate) now: Moment,
    pub(crate) threads: &'a [ThreadSample],
    /// How many processes are queued where everybody looks, or are in a step that waits for a permit.
    pub(crate) queued: usize,
    pub(crate) steps: u64,
    /// How many permits are idle, or search.
    pub(crate) idle: usize,
    /// Whether all of them sleep.
    pub(crate) all_idle: bool,
}

/// What is to be done. Threads by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// J1: what is in its run-next slot goes to where others look.
    Move(usize),
    /// J2: its permit goes to another thread.
    TakeOver(usize),
    /// J3: its step has run for so long.
    Report(usize, Duration),
    /// The step that was reported has ended, and had run for so long.
    Ended(usize, Duration),
}

/// Until when there is nothing to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestUntil {
    /// The next tick.
    Tick,
    /// Until a thread waits, or for so long.
    Calm(Option<Duration>),
}

/// What was seen of a thread's step at earlier ticks.
#[derive(Clone, Copy, Debug)]
struct StepHistory {
    step: StepId,
    since: Moment,
    /// Whether a thread was found waiting in its run-next slot.
    has_hidden: bool,
    is_reported: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct StallDetector {
    limit: Duration,
    stages: Vec<Option<StepHistory>>,
    /// What was queued at the last tick, without a permit for it, and how many steps had been taken then.
    queued: usize,
    steps: u64,
    /// Since when something was queued at each tick, with no permit idle.
    pressed: Option<Moment>,
    /// For how many ticks all permits have been idle.
    calm: u32,
    /// How long the last calm rest was.
    rest: Duration,
}

impl StallDetector {
    /// A watch that has seen nothing. A limit of [`Duration::MAX`] is never reached.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, stages: Vec::new(), queued: 0, steps: 0, pressed: None, calm: 0, rest: tick_of(limit) }
    }

    /// A tick: puts what is to be done into `orders`.
    pub(crate) fn look(&mut self, sight: HostSample<'_>, orders: &mut Vec<Order>) -> RestUntil {
        if self.stages.len() < sight.threads.len() {
            self.stages.resize(sight.threads.len(), None);
        }
        let waiting = self.waiting(sight);
        let mut stuck = Vec::new();
        for thread in 0..self.stages.len() {
            let seen = sight.threads.get(thread).copied().unwrap_or_default();
            self.look_at(thread, seen, sight.now, orders);
            if seen.has_worker
                && let Some(stage) = self.stages[thread]
                && sight.now.since(stage.since) >= self.limit
            {
                stuck.push((stage.since, thread));
            }
        }
        if sight.idle == 0 {
            // From here on they are.
            self.queued += orders.iter().filter(|order| matches!(order, Order::Move(_))).count();
        }
        stuck.sort_unstable();
        for &(_, thread) in stuck.iter().take(waiting) {
            orders.push(Order::TakeOver(thread));
        }
        self.report(sight.now, waiting > 0, orders);
        self.rest(sight)
    }

    /// W1 and W2: how many others wait.
    fn waiting(&mut self, sight: HostSample<'_>) -> usize {
        let queued = if sight.idle == 0 { sight.queued } else { 0 };
        let (queued_before, steps_before) = (self.queued.min(queued), self.steps);
        (self.queued, self.steps) = (queued, sight.steps);
        if queued == 0 {
            self.pressed = None;
            return 0;
        }
        let pressed = *self.pressed.get_or_insert(sight.now);
        let taken = usize::try_from(sight.steps.saturating_sub(steps_before)).unwrap_or(usize::MAX);
        let wait_for_a_tick = queued_before.saturating_sub(taken);
        wait_for_a_tick.max(usize::from(sight.now.since(pressed) >= self.limit))
    }

    /// Notes what a thread is at; J1, and the end of what was reported.
    fn look_at(&mut self, thread: usize, seen: ThreadSample, now: Moment, orders: &mut Vec<Order>) {
        let stage = &mut self.stages[thread];
        if let (Some(before), Some(step)) = (stage.as_mut(), seen.step)
            && before.step == step
        {
            if seen.has_run_next {
                before.has_hidden = true;
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

    fn rest(&mut self, sight: HostSample<'_>) -> RestUntil {
        if !sight.all_idle {
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
