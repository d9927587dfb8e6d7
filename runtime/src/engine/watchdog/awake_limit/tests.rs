use super::*;

const TICK: Duration = Duration::from_micros(2_500);

fn busy(events: u64, awake: usize) -> Done {
    Done { events, took: TICK, awake, is_any_long: false, have_all_slept: false, has_any_waited: false }
}

/// Runs a program whose speed depends on the number of threads. Returns the limits that were set, in order.
fn run(policy: &mut AwakeLimit, ticks: u32, events: impl Fn(usize) -> u64) -> Vec<usize> {
    let mut limits = vec![policy.limit()];
    for _ in 0..ticks {
        let limit = policy.look(busy(events(policy.limit()), policy.limit()));
        if limits.last() != Some(&limit) {
            limits.push(limit);
        }
    }
    limits
}

/// Returns the number of events in a tick of a program that runs faster with fewer threads.
fn talks(awake: usize) -> u64 {
    160_000 / awake as u64
}

/// Returns a policy that has found the limit for such a program.
fn limited() -> AwakeLimit {
    let mut policy = AwakeLimit::new(16);
    assert_eq!(run(&mut policy, 24, talks), [16, 1, 16, 2, 1]);
    policy
}

#[test]
fn a_program_that_is_faster_on_one_thread_gets_one() {
    let mut policy = limited();
    let checks = run(&mut policy, 400, talks).iter().filter(|&&limit| limit == 16).count();
    assert!((9..=15).contains(&checks), "{checks}");
    assert_eq!(policy.limit(), 1);
}

#[test]
fn a_program_that_is_fastest_on_four_threads_gets_four() {
    let mut policy = AwakeLimit::new(16);
    let events = |awake: usize| 10_000 * if awake <= 4 { awake as u64 } else { 1 } / awake.div_ceil(8) as u64;
    assert_eq!(run(&mut policy, 40, events), [16, 1, 16, 2, 4, 8, 4]);
}

#[test]
fn a_program_for_which_one_thread_is_too_few_gets_half_of_them() {
    let mut policy = AwakeLimit::new(16);
    let limits = run(&mut policy, 110, |awake| 10_000 * if awake == 16 { 4 } else { awake as u64 });
    assert_eq!(limits, [16, 1, 16, 8, 16, 8]);
}

#[test]
fn a_program_that_uses_all_threads_keeps_them_and_is_tried_ever_more_rarely() {
    let mut policy = AwakeLimit::new(16);
    let limits = run(&mut policy, 4_000, |awake| 10_000 * awake as u64);
    assert_eq!(limits[..9], [16, 1, 16, 8, 16, 4, 16, 2, 16], "in turn");
    assert!((11..16).contains(&limits.len()), "{limits:?}");
    let mut same = AwakeLimit::new(16);
    assert_eq!(run(&mut same, 20, |_| 10_000), [16, 1, 16], "threads are not taken away without a gain");
}

/// Catches: a limit that is kept without the comparison with all threads after the try.
#[test]
fn a_load_that_rises_during_a_try_sets_no_limit() {
    let mut policy = AwakeLimit::new(16);
    let mut limits = vec![16];
    for _ in 0..20 {
        let events = if limits.contains(&1) { 30_000 } else { 20_000 };
        limits.push(policy.look(busy(events, 16)));
    }
    limits.dedup();
    assert_eq!(limits, [16, 1, 16]);
}

/// Catches: a limit that is decided by one tick. A preempted thread may have made that tick slow.
#[test]
fn a_load_that_rises_during_a_try_sets_no_limit_if_one_tick_is_slow_after_it() {
    let mut policy = AwakeLimit::new(16);
    let rates = [20_000; 5].into_iter().chain([30_000; 4]).chain([30_000, 20_900]).chain([30_000; 6]);
    let limits: Vec<_> = rates.map(|events| policy.look(busy(events, 16))).collect();
    assert_eq!(limits[4..9], [1, 1, 1, 1, 16]);
    assert_eq!(limits[9..], [16; 8]);
}

#[test]
fn it_ends_with_long_events_and_with_long_steps_and_when_a_process_has_waited() {
    let chat = busy(160_000, 1);
    let others = [busy(200, 1), Done { is_any_long: true, ..chat }, Done { has_any_waited: true, ..chat }];
    for other in others {
        let mut policy = limited();
        assert_eq!(policy.look(other), 16);
        let mut trying = AwakeLimit::new(16);
        run(&mut trying, 5, talks);
        assert_eq!((trying.limit(), trying.look(other)), (1, 16), "a try");
    }
    let mut long = AwakeLimit::new(16);
    assert!((0..1_000).all(|_| long.look(busy(1_000, 16)) == 16), "40 µs for each event");
    let mut nobody_awake = AwakeLimit::new(16);
    assert!((0..1_000).all(|_| nobody_awake.look(busy(100, 0)) == 16));
}

/// Catches: a wait that counts although no thread is held back, so there is never a try in a busy program.
#[test]
fn a_process_that_waits_for_one_of_all_threads_keeps_no_try_away() {
    let mut policy = AwakeLimit::new(16);
    let limits: Vec<_> = (0..5).map(|_| policy.look(Done { has_any_waited: true, ..busy(10_000, 16) })).collect();
    assert_eq!(limits, [16, 16, 16, 16, 1]);
}

#[test]
fn while_all_threads_sleep_now_and_then_there_is_no_try() {
    let mut policy = AwakeLimit::new(16);
    for tick in 0..4_000 {
        let limit = policy.look(Done { have_all_slept: tick % 3 == 0, ..busy(talks(policy.limit()), 16) });
        assert_eq!(limit, 16);
    }
}

#[test]
fn a_limit_ends_when_all_threads_have_slept_in_three_ticks_and_not_in_two() {
    let slept = Done { have_all_slept: true, ..busy(160_000, 1) };
    let mut policy = limited();
    for _ in 0..5 {
        assert_eq!([policy.look(slept), policy.look(slept), policy.look(busy(160_000, 1))], [1; 3]);
    }
    assert_eq!([policy.look(slept), policy.look(slept), policy.look(slept)], [1, 1, 16]);
    let mut unmeasured = limited();
    let limits = (0..2 * CHECK).map(|tick| unmeasured.look(if tick % 2 == 0 { slept } else { busy(160_000, 1) }));
    assert_eq!(limits.last(), Some(16), "there is nothing to compare a check with");
}

#[test]
fn a_long_step_now_and_then_does_not_hasten_the_next_try() {
    let mut policy = AwakeLimit::new(16);
    let mut tries = 0;
    for tick in 0..4_000 {
        let done = busy(10_000 * policy.limit() as u64, policy.limit());
        let before = policy.limit();
        policy.look(Done { is_any_long: tick % 20 == 0, ..done });
        tries += u32::from(before == 16 && policy.limit() < 16);
    }
    assert!((1..=8).contains(&tries), "{tries}");
}

/// Catches: a limit that ends only when the rate changes.
#[test]
fn it_ends_with_a_check_if_it_gains_nothing_any_more() {
    for gain in [0, 1] {
        let mut policy = limited();
        let events = |awake: usize| 160_000 * (awake as u64).pow(gain);
        assert_eq!(run(&mut policy, CHECK + UNEVEN as u32 + 1, events), [1, 16]);
    }
}

#[test]
fn the_pause_doubles_until_a_limit_passes_checks() {
    let pause_of = |policy: &AwakeLimit| match policy.phase {
        LimitPhase::Pause(ticks) => ticks - ticks % PAUSE,
        _ => panic!("{policy:?}"),
    };
    let long = Done { is_any_long: true, ..busy(160_000, 1) };
    let mut policy = limited();
    policy.look(long);
    assert_eq!(pause_of(&policy), PAUSE);
    run(&mut policy, 100, talks);
    policy.look(long);
    assert_eq!(pause_of(&policy), 2 * PAUSE, "without a check");
    run(&mut policy, 1_000, talks);
    policy.look(long);
    assert_eq!(pause_of(&policy), PAUSE);
}

/// Catches: a limit that persists although another one has become better.
#[test]
fn a_limit_is_found_anew_after_so_many_checks() {
    let mut policy = limited();
    let events = |awake: usize| if awake == 16 { 10_000 } else { 20_000 * awake.min(4) as u64 };
    assert!(!run(&mut policy, 2_000, events).contains(&4));
    let limits = run(&mut policy, 4_000, events);
    assert!(limits.ends_with(&[16, 4]), "{limits:?}");
}

#[test]
fn a_single_worker_is_left_as_it_is() {
    let mut policy = AwakeLimit::new(1);
    assert_eq!(run(&mut policy, 4_000, |_| 10_000), [1]);
}
