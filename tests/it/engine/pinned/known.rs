//! Names, statistics and quiescence of pinned processes.

use super::*;
use postroom::inspect::{ProcessState, ThreadState};
use postroom::test::Clock;

#[test]
fn it_is_started_by_name() {
    soon(|| {
        let runtime = with_workers(1);
        runtime.register_pinned_type("Window", || Window::new(Trace::default()));
        let pid = runtime.start("Window", "open", payloads!["Log"]).unwrap();
        let window = runtime.address::<Window>(pid).unwrap();
        assert_eq!(window.lines().wait().unwrap(), ["Log"]);
        let wrong = runtime.start("Window", "opne", payloads![]).unwrap_err();
        assert!(wrong.to_string().contains("open"), "{wrong}");
    });
}

#[test]
fn a_name_is_registered_and_refused_if_taken() {
    soon(|| {
        let runtime = with_workers(1);
        let make = || Counter { sum: 0, child: None };
        let first = runtime.spawn_pinned(make).named("counter").or_existing().serve().unwrap();
        let second = runtime.spawn_pinned(make).named("counter").or_existing().serve().unwrap();
        assert_eq!(first, second);
        assert_eq!(runtime.statistics().processes.pinned, 1);
    });
}

/// Mutation: in `engine/pinned/mod.rs`, leave out `is_paused`.
#[test]
fn on_a_paused_host_it_starts_and_takes_its_first_step_when_the_host_runs() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let counter = runtime.spawn_pinned(|| Counter { sum: 0, child: None }).serve().unwrap();
        counter.add(2).send().unwrap();
        counter.add(3).send().unwrap();
        let other = runtime.spawn_pinned(|| Counter { sum: 0, child: None }).serve().unwrap();
        assert_eq!(counter.pid().info().unwrap().messages, 0);
        runtime.resume().unwrap();
        assert_eq!(counter.add(0).wait().unwrap(), 5);
        assert_eq!(other.add(1).wait().unwrap(), 1);
    });
}

#[test]
fn its_info_and_statistics() {
    soon(|| {
        let runtime = with_workers(1);
        let counter = runtime.spawn_pinned(|| Counter { sum: 0, child: None }).serve().unwrap();
        counter.add(1).wait().unwrap();
        eventually(|| counter.pid().info().unwrap().state == ProcessState::Idle);
        let info = counter.pid().info().unwrap();
        assert_eq!((info.process, info.entry, info.messages, info.worker), ("Counter", "serve", 1, None));
        assert_eq!(runtime.processes().len(), 1);
        let threads = runtime.statistics().threads;
        let own = threads.iter().find(|thread| thread.state == ThreadState::Pinned).unwrap();
        assert_eq!((own.messages, own.worker), (1, None));
        counter.pid().kill();
        eventually(|| runtime.statistics().threads.iter().all(|thread| thread.state != ThreadState::Pinned));
    });
}

/// Mutation: in `quiescence.rs`, `at_rest`, leave out the pinned threads.
#[test]
fn a_runtime_is_idle_when_pinned_processes_are() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
        let (begun, go) = (Latch::new(), Latch::new());
        let theirs = Waits(begun.clone(), go.clone());
        let waits = runtime.spawn_pinned(move || theirs).serve().unwrap();
        let counter = runtime.spawn_pinned(|| Counter { sum: 0, child: None }).serve().unwrap();
        let mut sent = 0;
        for _ in 0..100 {
            counter.add(1).send().unwrap();
            runtime.until_idle().unwrap();
            sent += 1;
            assert_eq!(counter.pid().info().unwrap().messages, sent);
        }
        waits.sleep(counter).send().unwrap();
        runtime.until_idle().unwrap();
        clock.advance(Duration::from_secs(3_600)).unwrap();
        assert_eq!(counter.pid().info().unwrap().messages, 101);
        waits.wait().send().unwrap();
        begun.wait();
        let waiter = std::thread::spawn(move || runtime.until_idle().map(|()| runtime));
        go.open();
        waiter.join().unwrap().unwrap();
    });
}
