//! The watchdog rests while it has nothing to do.

use super::{Loop, Other, Stuck, Wait, one_worker, stick};
use postroom::block_in_place;
use postroom::inspect::Statistics;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom_tests::{HOUR, Latch, act, eventually, listeners, soon};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Waits until the watchdog has been at rest for 50 ms, the time of twenty ticks, and returns the number of its
/// ticks.
fn wait_until_it_sleeps(statistics: impl Fn() -> Statistics) -> u64 {
    loop {
        let before = statistics().watchdog.ticks;
        std::thread::sleep(Duration::from_millis(50));
        if statistics().watchdog.ticks == before {
            return before;
        }
    }
}

/// Mutation: leave out watchdog:G2 of `engine/sched/watchdog.rs`.
#[test]
fn the_watchdog_rests_while_no_process_waits_and_wakes_when_one_does() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (first, second) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Stuck).serve().unwrap());
        let other = runtime.spawn(Other).serve().unwrap();
        let (mut rounds, mut rested) = (0, 0);
        while rested < 3 {
            rounds += 1;
            let slept = wait_until_it_sleeps(|| runtime.statistics());
            let one = stick(first, Loop);
            let all = stick(second, Loop);
            std::thread::sleep(Duration::from_millis(20));
            // On a busy machine the watchdog may just have been preempted. Then the round is repeated. With a watchdog
            // that never rests, this loop would never end.
            rested += u64::from(runtime.statistics().watchdog.ticks == slept);
            assert_eq!(other.ask().wait().unwrap(), 7);
            // A takeover is counted only after it is done. (Takeovers of other steps are counted, too, if their threads
            // were preempted.)
            eventually(|| runtime.statistics().watchdog.taken_over >= rounds);
            one.open();
            all.open();
        }
    });
}

/// The duration of a step is known although the watchdog rested when it began.
///
/// Mutation: leave out the record of watchdog:R3.
#[test]
fn the_duration_of_a_step_that_began_unwatched_is_exact() {
    // A watchdog that gets no CPU time for 100 ms looks as if it rested, but has not seen the step begin.
    let is_exact = || {
        let stalls = super::StallLog::default();
        let runtime = stalls.by(one_worker()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let slept = wait_until_it_sleeps(|| runtime.statistics());
        let begun = std::time::Instant::now();
        let until = stick(stuck, Loop);
        std::thread::sleep(Duration::from_millis(100));
        let rested = runtime.statistics().watchdog.ticks == slept;
        assert_eq!(other.ask().wait().unwrap(), 7);
        let stall = stalls.times(1)[0].clone();
        until.open();
        assert!(stall.lasted <= begun.elapsed(), "{stall:?}");
        rested && stall.lasted >= Duration::from_millis(99)
    };
    soon(move || assert!((0..20).any(|_| is_exact()), "no run has the whole duration"));
}

/// A step begins while the watchdog rests. It wakes processes, and then waits for them. They are moved out of the
/// run-next slot, and out of the deque.
///
/// Mutation: leave out watchdog:G1 in `ThreadContext::push_next`.
#[test]
fn processes_behind_an_unwatched_step_are_noticed() {
    soon(|| {
        for count in [1, 2, 5] {
            let runtime = one_worker().build().unwrap();
            let (others, heard) = listeners(&runtime, count);
            let (host, hears) = (runtime.host(), heard.clone());
            let waiting = act(move |events, out| {
                if events.next().is_some() {
                    others.iter().for_each(|&pid| host.send(pid, ()).unwrap());
                    eventually(|| hears.load(SeqCst) == count as u64);
                    out.done();
                }
                Ok(())
            });
            let waiting = runtime.spawn_process(waiting).start().unwrap();
            wait_until_it_sleeps(|| runtime.statistics());
            let end = waiting.join();
            runtime.send(waiting, ()).unwrap();
            assert_eq!(end.wait(), ExitReason::Normal);
        }
    });
}

/// If a timer is set before or during a step that does not end, it fires although no worker is left to fire it.
///
/// Mutation: leave out watchdog:G3.
#[test]
fn timers_fire_behind_an_unwatched_step() {
    soon(|| {
        let runtime = one_worker().build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let other = runtime.spawn(Other).serve().unwrap();
        let heard = |count| eventually(|| other.pid().info().unwrap().messages == count);
        // If the timer fires before the step has begun, as may happen on a busy machine, the loop sets a later one.
        let (mut delay, mut timers) = (Duration::from_millis(100), 0);
        let until = loop {
            timers += 1;
            let timer = other.ask().send_after(delay).unwrap();
            wait_until_it_sleeps(|| runtime.statistics());
            let until = stick(stuck, Loop);
            if timer.is_pending() {
                break until;
            }
            until.open();
            delay *= 2;
        };
        heard(timers);
        until.open();
        wait_until_it_sleeps(|| runtime.statistics());
        let until = stick(stuck, Loop);
        other.ask().send_after(Duration::from_millis(5)).unwrap();
        heard(timers + 1);
        until.open();
    });
}

/// Just as the watchdog begins to rest, many threads start steps that do not end, on all workers, and make calls that
/// have to wait behind those steps.
///
/// Mutation: leave out watchdog:G2.
#[test]
fn stuck_steps_that_begin_as_the_watchdog_comes_to_rest_are_noticed() {
    soon(|| {
        for workers in [1, 2, 4] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let stuck: Vec<_> = (0..workers).map(|_| runtime.spawn(Stuck).serve().unwrap()).collect();
            let other = runtime.spawn(Other).serve().unwrap();
            for round in 0..25 {
                // The watchdog rests about 20 ms after the last step of the previous round.
                std::thread::sleep(Duration::from_micros(16_000 + round * 7 % 25 * 400));
                let sticks = |&stuck| std::thread::spawn(move || stick(stuck, Wait));
                let sticking: Vec<_> = stuck.iter().map(sticks).collect();
                let asking: Vec<_> =
                    (0..3).map(|_| std::thread::spawn(move || other.ask().timeout(Duration::MAX).wait())).collect();
                asking.into_iter().for_each(|asking| assert_eq!(asking.join().unwrap().unwrap(), 7));
                sticking.into_iter().for_each(|sticking| sticking.join().unwrap().open());
            }
            assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
        }
    });
}

/// A thread returns from blocking code, and waits for a permit.
///
/// Mutation: leave out watchdog:G4.
#[test]
fn a_thread_that_comes_back_behind_an_unwatched_step_gets_a_permit() {
    soon(|| {
        let runtime = one_worker().build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let (blocks, blocked) = (Latch::new(), Latch::new());
        let (opens, waits) = (blocks.clone(), blocked.clone());
        let blocking = act(move |_, out| {
            block_in_place(|| {
                opens.open();
                waits.wait();
            });
            out.done();
            Ok(())
        });
        let end = runtime.spawn_process(blocking).start().unwrap().join();
        blocks.wait();
        wait_until_it_sleeps(|| runtime.statistics());
        let until = stick(stuck, Loop);
        blocked.open();
        assert_eq!(end.wait(), ExitReason::Normal);
        until.open();
    });
}

/// The end of a stalled step whose worker was taken over is reported even if the host is otherwise idle.
#[test]
fn the_end_of_a_stall_is_reported_although_all_else_is_idle() {
    soon(|| {
        let stalls = super::StallLog::default();
        let runtime = stalls.by(one_worker()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Loop);
        assert_eq!(other.ask().wait().unwrap(), 7);
        eventually(|| stalls.of::<Loop>().len() == 1);
        std::thread::sleep(Duration::from_millis(200));
        until.open();
        eventually(|| stalls.of::<Loop>().len() == 2);
        assert!(stalls.of::<Loop>()[1].is_over);
        wait_until_it_sleeps(|| runtime.statistics());
    });
}

/// Stalls are measured in system time, and neither they nor the watchdog affect a virtual clock.
#[test]
fn a_host_on_a_virtual_clock_has_stalls_and_comes_to_rest() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = one_worker().clock(clock.clone()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Loop);
        assert_eq!(other.ask().wait().unwrap(), 7);
        eventually(|| runtime.statistics().watchdog.stalls == 1);
        let ticking = runtime.spawn(Other).tick().unwrap();
        // The host is not at rest during the step, so the clock waits for the end of the step.
        let opens = std::thread::spawn(move || until.open());
        clock.advance(Duration::from_secs(3600)).unwrap();
        opens.join().unwrap();
        assert_eq!(ticking.wait().unwrap(), 7);
        assert_eq!(runtime.statistics().watchdog.stalls, 1, "the hour was none of the step's");
    });
}

/// The threads of a host, including the watchdog, end with it.
#[test]
fn the_thread_ends_with_its_host() {
    soon(|| {
        for round in 0..50 {
            let runtime = Runtime::builder().workers(1 + round % 3).name(format!("host {round}")).build().unwrap();
            if round % 2 == 0 {
                runtime.spawn(Other).serve().unwrap();
            }
            assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
        }
        #[cfg(target_os = "linux")]
        {
            let names = || {
                let tasks = std::fs::read_dir("/proc/self/task").unwrap();
                let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
                tasks.flatten().filter_map(name).filter(|name| name.starts_with("host ")).count()
            };
            eventually(|| names() == 0);
        }
    });
}
