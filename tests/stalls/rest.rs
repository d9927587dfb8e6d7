//! When there is nothing to look for.

use super::{Loop, Other, Stuck, one_worker, stick};
use postroom::prelude::*;
use postroom::{Clock, Statistics};
use postroom_tests::{eventually, soon};
use std::time::Duration;

/// Waits until the thread that looks for stalls has not looked for as long as it would take it to look twenty times.
fn wait_until_it_sleeps(statistics: impl Fn() -> Statistics) -> u64 {
    loop {
        let before = statistics().ticks;
        std::thread::sleep(Duration::from_millis(50));
        if statistics().ticks == before {
            return before;
        }
    }
}

#[test]
fn nobody_looks_while_all_workers_are_idle_and_somebody_does_as_soon_as_one_is_not() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        for _ in 0..3 {
            let slept = wait_until_it_sleeps(|| runtime.statistics());
            let until = stick(stuck, Loop);
            eventually(|| runtime.statistics().ticks > slept + 5);
            assert_eq!(other.ask().wait().unwrap(), 7);
            until.open();
        }
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
        eventually(|| runtime.statistics().stalls == 1);
        let ticking = runtime.spawn(Other).tick().unwrap();
        // It is not at rest as long as the step goes on: this waits for that.
        let opens = std::thread::spawn(move || until.open());
        clock.advance(Duration::from_secs(3600)).unwrap();
        opens.join().unwrap();
        assert_eq!(ticking.wait().unwrap(), 7);
        assert_eq!(runtime.statistics().stalls, 1, "the hour was none of the step's");
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
            assert!(runtime.shutdown().unwrap().is_clean());
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
