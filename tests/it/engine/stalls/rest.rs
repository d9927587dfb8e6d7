//! The watchdog rests while there is nothing to look for.

use super::{Loop, Other, Stuck, Wait, one_worker, stick};
use postroom::block_in_place;
use postroom::inspect::Statistics;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom_tests::{Latch, act, eventually, listeners, soon};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Waits until the thread that looks for stalls has not looked for as long as it would take it to look twenty times.
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
fn nobody_looks_while_nobody_waits_and_somebody_does_as_soon_as_one_does() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (first, second) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Stuck).serve().unwrap());
        let other = runtime.spawn(Other).serve().unwrap();
        for round in 1..=3 {
            let slept = wait_until_it_sleeps(|| runtime.statistics());
            let one = stick(first, Loop);
            let all = stick(second, Loop);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(runtime.statistics().watchdog.ticks, slept);
            assert_eq!(other.ask().wait().unwrap(), 7);
            // It is counted after it is done. (Others are, too, whose thread the machine has put aside in a step.)
            eventually(|| runtime.statistics().watchdog.taken_over >= round);
            one.open();
            all.open();
        }
    });
}

/// How long a step has taken is known although nobody looked when it began.
/// Mutation: leave out the note of watchdog:R3.
#[test]
fn a_step_that_nobody_has_watched_is_as_long_as_it_is() {
    soon(|| {
        let told = super::Told::default();
        let runtime = told.by(one_worker()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let slept = wait_until_it_sleeps(|| runtime.statistics());
        let begun = std::time::Instant::now();
        let until = stick(stuck, Loop);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(runtime.statistics().watchdog.ticks, slept);
        assert_eq!(other.ask().wait().unwrap(), 7);
        let stall = told.times(1)[0].clone();
        assert!(stall.lasted >= Duration::from_millis(99) && stall.lasted <= begun.elapsed(), "{stall:?}");
        until.open();
    });
}

/// What a step on a thread that nobody watches wakes, and waits for, is moved from behind it: out of the run-next slot,
/// and out of the deque. Mutation: leave out watchdog:G1 in `Context::push_next`.
#[test]
fn who_waits_behind_a_step_that_nobody_watched_is_seen() {
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

/// A timer that is set before a step which does not end, or in it, fires, though nobody is left to keep the time.
/// Mutation: leave out watchdog:G3.
#[test]
fn timers_fire_behind_a_step_that_nobody_watched() {
    soon(|| {
        let runtime = one_worker().build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let other = runtime.spawn(Other).serve().unwrap();
        let heard = |count| eventually(|| other.pid().info().unwrap().messages == count);
        let timer = other.ask().send_after(Duration::from_millis(300)).unwrap();
        wait_until_it_sleeps(|| runtime.statistics());
        let until = stick(stuck, Loop);
        assert!(timer.is_pending());
        heard(1);
        until.open();
        wait_until_it_sleeps(|| runtime.statistics());
        let until = stick(stuck, Loop);
        other.ask().send_after(Duration::from_millis(5)).unwrap();
        heard(2);
        until.open();
    });
}

/// Steps that do not end on all workers, and others that wait behind them, come from many threads just as the one that
/// looks for such steps lies down. Mutation: leave out watchdog:G2.
#[test]
fn whatever_comes_as_nobody_looks_any_more_is_seen() {
    soon(|| {
        for workers in [1, 2, 4] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let stuck: Vec<_> = (0..workers).map(|_| runtime.spawn(Stuck).serve().unwrap()).collect();
            let other = runtime.spawn(Other).serve().unwrap();
            for round in 0..25 {
                // It lies down about 20 ms after the last of the round before.
                std::thread::sleep(Duration::from_micros(16_000 + round * 7 % 25 * 400));
                let sticks = |&stuck| std::thread::spawn(move || stick(stuck, Wait));
                let sticking: Vec<_> = stuck.iter().map(sticks).collect();
                let asking: Vec<_> = (0..3).map(|_| std::thread::spawn(move || other.ask().wait())).collect();
                asking.into_iter().for_each(|asking| assert_eq!(asking.join().unwrap().unwrap(), 7));
                sticking.into_iter().for_each(|sticking| sticking.join().unwrap().open());
            }
            assert!(!runtime.shutdown().unwrap().was_forced());
        }
    });
}

/// A thread that comes back from what blocks it waits for a worker.
/// Mutation: leave out watchdog:G4.
#[test]
fn who_comes_back_for_a_worker_behind_a_step_that_nobody_watched_gets_one() {
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

/// A stalled step whose worker another thread has, with nothing else to do: its end is told of all the same.
#[test]
fn the_end_of_a_stall_is_told_of_although_all_else_is_idle() {
    soon(|| {
        let told = super::Told::default();
        let runtime = told.by(one_worker()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Loop);
        assert_eq!(other.ask().wait().unwrap(), 7);
        told.times(1);
        std::thread::sleep(Duration::from_millis(200));
        until.open();
        assert!(told.times(2)[1].is_over);
        wait_until_it_sleeps(|| runtime.statistics());
    });
}

/// Stalls go by the system's time, and neither they nor who looks for them is felt by a clock that a test moves.
#[test]
fn a_host_on_a_clock_that_is_moved_by_hand_has_stalls_and_comes_to_rest() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = one_worker().clock(clock.clone()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Loop);
        assert_eq!(other.ask().wait().unwrap(), 7);
        eventually(|| runtime.statistics().watchdog.stalls == 1);
        let ticking = runtime.spawn(Other).tick().unwrap();
        // It is not at rest as long as the step goes on: this waits for that.
        let opens = std::thread::spawn(move || until.open());
        clock.advance(Duration::from_secs(3600)).unwrap();
        opens.join().unwrap();
        assert_eq!(ticking.wait().unwrap(), 7);
        assert_eq!(runtime.statistics().watchdog.stalls, 1, "the hour was none of the step's");
    });
}

/// Hosts come and go: their threads, the one that looks for stalls among them, do too.
#[test]
fn the_thread_ends_with_its_host() {
    soon(|| {
        for round in 0..50 {
            let runtime = Runtime::builder().workers(1 + round % 3).name(format!("host {round}")).build().unwrap();
            if round % 2 == 0 {
                runtime.spawn(Other).serve().unwrap();
            }
            assert!(!runtime.shutdown().unwrap().was_forced());
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
