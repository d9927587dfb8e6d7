use super::*;
use crate::time::virtual_clock::Clock;

/// A host whose threads are set by the test, with a clock that the test advances.
struct Scene {
    clock: Clock,
    watch: StallDetector,
    threads: Vec<ThreadSample>,
    queued: usize,
    steps: u64,
    idle: usize,
    all_idle: bool,
}

const TICK: Duration = Duration::from_micros(2_500);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Scene {
    /// Makes a scene of threads that do nothing, each with a permit.
    fn of(threads: usize) -> Self {
        let seen = ThreadSample { has_permit: true, ..ThreadSample::default() };
        Self {
            clock: Clock::manual(),
            watch: StallDetector::new(LIMIT),
            threads: vec![seen; threads],
            queued: 0,
            steps: 0,
            idle: 0,
            all_idle: false,
        }
    }

    fn enters(&mut self, thread: usize, slot: usize, steps: u64) {
        self.threads[thread].step = Some(StepId { slot, steps });
    }

    fn look(&mut self) -> (Vec<Order>, RestUntil) {
        let mut orders = Vec::new();
        let Self { clock, threads, queued, steps, idle, all_idle, .. } = self;
        let sample = HostSample {
            now: clock.moment(),
            threads,
            queued: *queued,
            steps: *steps,
            idle: *idle,
            all_idle: *all_idle,
        };
        let rest = self.watch.look(sample, &mut orders);
        (orders, rest)
    }

    fn tick(&mut self) -> Vec<Order> {
        self.after(TICK)
    }

    fn after(&mut self, duration: Duration) -> Vec<Order> {
        self.clock.advance(duration).unwrap_or_else(|error| panic!("{error}"));
        self.look().0
    }
}

#[test]
fn nothing_is_done_while_steps_end() {
    let mut scene = Scene::of(2);
    scene.queued = 100;
    for steps in 0..1_000 {
        scene.enters(0, 1, steps);
        scene.enters(1, 2, steps);
        assert_eq!(scene.tick(), []);
    }
}

#[test]
fn a_step_is_stalled_when_it_was_seen_for_the_limit_while_others_wait() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.queued = 1;
    // The step is first seen here, at most a tick after it began.
    assert_eq!(scene.tick(), []);
    for _ in 0..3 {
        assert_eq!(scene.tick(), []);
    }
    assert_eq!(scene.tick(), [Order::TakeOver(0), Order::Report(0, ms(10))]);
}

/// The step began while the watchdog rested, since nothing waited.
#[test]
fn a_step_that_has_noted_when_it_began_is_stalled_as_soon_as_others_wait() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.threads[0].begun = Some(scene.clock.moment());
    scene.queued = 1;
    assert_eq!(scene.after(ms(30)), [], "nobody has waited for a tick");
    assert_eq!(scene.tick(), [Order::TakeOver(0), Order::Report(0, ms(30) + TICK)]);
}

/// The time noted for the step's beginning may be later than that of the sample, since noting and sampling are not one
/// atomic action.
#[test]
fn no_step_begins_after_it_was_seen() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.threads[0].begun = Some(scene.clock.moment().after(ms(1)));
    scene.queued = 1;
    scene.look();
    assert_eq!(scene.after(ms(10)), [Order::TakeOver(0), Order::Report(0, ms(10))]);
}

#[test]
fn it_is_reported_once_and_once_more_at_its_end() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.queued = 1;
    scene.look();
    assert_eq!(scene.after(ms(10)), [Order::TakeOver(0), Order::Report(0, ms(10))]);
    scene.threads[0].has_permit = false;
    for _ in 0..100 {
        assert_eq!(scene.tick(), []);
    }
    scene.enters(0, 1, 8);
    assert_eq!(scene.tick(), [Order::Ended(0, ms(10) + 101 * TICK)]);
    assert_eq!(scene.tick(), [], "the same process in its next step is another matter");
}

#[test]
fn a_thread_that_is_gone_has_ended_its_step() {
    let mut scene = Scene::of(2);
    scene.enters(1, 1, 7);
    scene.queued = 1;
    scene.look();
    assert_eq!(scene.after(ms(10)), [Order::TakeOver(1), Order::Report(1, ms(10))]);
    scene.threads.truncate(1);
    assert_eq!(scene.tick(), [Order::Ended(1, ms(10) + TICK)]);
}

#[test]
fn a_step_that_waits_inside_is_not_stalled() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.queued = 1;
    scene.look();
    scene.after(ms(9));
    // The step hands off its permit, and comes back later.
    scene.threads[0] = ThreadSample::default();
    scene.after(ms(100));
    scene.threads[0].has_permit = true;
    scene.enters(0, 1, 7);
    assert_eq!(scene.after(TICK), []);
    assert_eq!(scene.after(ms(9)), []);
    assert_eq!(scene.after(ms(1)), [Order::TakeOver(0), Order::Report(0, ms(10))]);
}

#[test]
fn what_waits_behind_a_step_moves_at_the_second_tick() {
    let mut scene = Scene::of(2);
    scene.idle = 1;
    scene.enters(0, 1, 7);
    scene.threads[0].has_local = true;
    assert_eq!(scene.tick(), []);
    assert_eq!(scene.tick(), [Order::Move(0)]);
    scene.threads[0].has_local = false;
    assert_eq!(scene.tick(), []);
    scene.threads[0].has_local = true;
    assert_eq!(scene.tick(), [Order::Move(0)], "whenever it is filled again");
}

#[test]
fn vacant_slots_behind_a_step_are_taken_and_nobody_has_waited_for_it() {
    let mut scene = Scene::of(2);
    scene.idle = 1;
    scene.enters(0, 1, 7);
    scene.threads[0].keeps_idle = true;
    assert_eq!(scene.tick(), []);
    assert_eq!(scene.tick(), [Order::Move(0)]);
    scene.threads[0].keeps_idle = false;
    assert_eq!(scene.after(ms(10)), []);
}

#[test]
fn a_step_that_has_hidden_somebody_is_reported_though_a_worker_is_idle() {
    let mut scene = Scene::of(2);
    scene.idle = 1;
    scene.enters(0, 1, 7);
    scene.look();
    scene.threads[0].has_local = true;
    assert_eq!(scene.tick(), [Order::Move(0)]);
    scene.threads[0].has_local = false;
    assert_eq!(scene.after(ms(10)), [Order::Report(0, ms(10) + TICK)]);
}

#[test]
fn nobody_hears_of_a_long_step_that_nobody_waits_for() {
    let mut scene = Scene::of(2);
    scene.enters(0, 1, 7);
    scene.enters(1, 2, 7);
    for _ in 0..1_000 {
        assert_eq!(scene.tick(), []);
    }
    // Processes that are queued while a permit is idle do not wait: they are about to be taken.
    (scene.threads[1], scene.idle, scene.queued) = (ThreadSample::default(), 1, 5);
    assert_eq!(scene.tick(), []);
    // Now no permit is idle, so they wait.
    scene.idle = 0;
    assert_eq!(scene.tick(), []);
    assert_eq!(scene.tick(), [Order::TakeOver(0), Order::Report(0, 1_002 * TICK)]);
}

/// One thread is stuck, and the other is at work: no process stays queued.
#[test]
fn what_is_queued_and_taken_again_is_not_waiting() {
    let mut scene = Scene::of(2);
    scene.enters(0, 1, 7);
    for tick in 0..1_000 {
        // The other thread takes all that was queued, except at every fourth tick, when nothing is queued.
        scene.queued = if tick % 4 == 3 { 0 } else { 5 };
        assert_eq!(scene.tick(), []);
        scene.steps += 5;
    }
    // One more process was queued than can have been taken.
    (scene.queued, scene.steps) = (5, scene.steps + 4);
    scene.tick();
    scene.steps += 4;
    assert_eq!(scene.tick(), [Order::TakeOver(0), Order::Report(0, 1_001 * TICK)]);
}

#[test]
fn a_worker_is_missed_when_something_was_queued_for_the_limit() {
    let mut scene = Scene::of(2);
    scene.enters(0, 1, 7);
    scene.queued = 5;
    for _ in 0..4 {
        assert_eq!(scene.tick(), []);
        scene.steps += 1_000;
    }
    assert_eq!(scene.tick(), [Order::TakeOver(0), Order::Report(0, ms(10))]);
}

#[test]
fn a_run_next_slot_alone_is_reason_enough_to_take_over() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.look();
    scene.after(ms(9));
    scene.threads[0].has_local = true;
    assert_eq!(scene.after(ms(1)), [Order::Move(0), Order::Report(0, ms(10))]);
    (scene.threads[0].has_local, scene.queued) = (false, 1);
    assert_eq!(scene.tick(), [Order::TakeOver(0)]);
}

#[test]
fn no_more_are_taken_over_than_processes_wait_and_the_longest_first() {
    let mut scene = Scene::of(3);
    for (thread, slot) in [(2, 1), (0, 2), (1, 3)] {
        scene.enters(thread, slot, 7);
        scene.tick();
    }
    scene.queued = 2;
    scene.tick();
    let orders = scene.after(ms(20));
    assert_eq!(orders[..2], [Order::TakeOver(2), Order::TakeOver(0)]);
    let reported = orders[2..].iter().filter(|order| matches!(order, Order::Report(..))).count();
    assert_eq!((orders.len(), reported), (5, 3), "all three are in the way of those two");
}

#[test]
fn one_that_could_not_be_taken_over_is_tried_again() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.queued = 1;
    scene.look();
    scene.after(ms(10));
    assert_eq!(scene.tick(), [Order::TakeOver(0)]);
    assert_eq!(scene.tick(), [Order::TakeOver(0)]);
}

#[test]
fn a_limit_that_is_never_reached_still_moves_what_waits_behind_a_step() {
    let mut scene = Scene::of(1);
    scene.watch = StallDetector::new(Duration::MAX);
    scene.enters(0, 1, 7);
    scene.threads[0].has_local = true;
    scene.queued = 9;
    scene.look();
    assert_eq!(scene.tick(), [Order::Move(0)]);
    scene.threads[0].has_local = false;
    assert_eq!(scene.after(Duration::from_secs(1 << 30)), []);
}

#[test]
fn the_monitor_rests_when_all_have_been_idle_for_some_ticks() {
    let mut scene = Scene::of(1);
    (scene.idle, scene.all_idle) = (1, true);
    // The count starts again after each rest.
    for _ in 0..3 {
        for _ in 1..CALM {
            assert_eq!(scene.look().1, RestUntil::Tick);
        }
        assert_eq!(scene.look().1, RestUntil::Calm(None));
    }
    for _ in 1..CALM {
        assert_eq!(scene.look().1, RestUntil::Tick);
    }
    scene.all_idle = false;
    assert_eq!(scene.look().1, RestUntil::Tick);
    scene.all_idle = true;
    assert_eq!(scene.look().1, RestUntil::Tick);
}

#[test]
fn the_end_of_a_stalled_step_is_looked_for_more_and_more_seldom() {
    let mut scene = Scene::of(1);
    scene.enters(0, 1, 7);
    scene.queued = 1;
    scene.look();
    scene.after(ms(10));
    (scene.queued, scene.idle, scene.all_idle, scene.threads[0].has_permit) = (0, 1, true, false);
    let rests: Vec<RestUntil> = (0..CALM + 20).map(|_| scene.look().1).collect();
    let seldom: Vec<Duration> = rests
        .iter()
        .filter_map(|rest| match rest {
            RestUntil::Calm(Some(rest)) => Some(*rest),
            _ => None,
        })
        .collect();
    assert_eq!(seldom[..3], [ms(5), ms(10), ms(20)]);
    assert_eq!(seldom.last(), Some(&SELDOM));
    assert!(seldom.is_sorted());
    scene.threads[0].step = None;
    assert_eq!(scene.after(SELDOM).len(), 1);
    assert_eq!(scene.look().1, RestUntil::Tick);
}

#[test]
fn ticks_are_a_quarter_of_the_limit_within_reason() {
    assert_eq!(tick_of(LIMIT), TICK);
    assert_eq!(tick_of(ms(4)), ms(1));
    assert_eq!(tick_of(Duration::from_nanos(1)), Duration::from_micros(250));
    assert_eq!(tick_of(Duration::MAX), TICK);
}
