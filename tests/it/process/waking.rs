//! Delivery of answers to their callers, and the events that wake a process.

use postroom::inspect::ProcessState;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::{Bound, CommandError, Completion};
use postroom_tests::face::alone;
use postroom_tests::{Ask, Latch, Requests, act, eventually, idle_for_ever, soon};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn with_desk(workers: usize) -> (Runtime, Requests) {
    let (builder, requests) = Requests::at(Runtime::builder().workers(workers));
    (builder.build().unwrap(), requests)
}

type Results = Arc<Mutex<Vec<(u64, Result<u64, String>)>>>;

fn note(results: &Results, event: Event) {
    if let Event::Completed { tag, result } = event {
        let result = result.map(|value| value.take::<u64>().unwrap()).map_err(|error| error.to_string());
        results.lock().unwrap().push((tag, result));
    }
}

/// Mutation: in `engine/slice/run.rs`, `conclude`, park the token of a waiting process as idle: each message then
/// causes a step.
#[test]
fn a_hundred_thousand_messages_cause_no_step_of_a_waiting_process_and_all_arrive_later() {
    soon(|| {
        const MESSAGES: u64 = 100_000;
        let (runtime, requests) = with_desk(2);
        let (steps, sum, steps_before) =
            (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, sums, before) = (steps.clone(), sum.clone(), steps_before.clone());
        let (mut next, mut answered) = (0, false);
        let pid = runtime.spawn_process(act(move |events, out| {
            if counted.fetch_add(1, SeqCst) == 0 {
                out.perform(Ask(1), 1);
            }
            while let Some(event) = events.next() {
                match event {
                    Event::Completed { tag: 1, .. } => {
                        answered = true;
                        before.store(counted.load(SeqCst), SeqCst);
                    }
                    Event::Message(package) if answered => {
                        let number = package.take::<u64>().unwrap();
                        assert_eq!(number, next, "in order");
                        next += 1;
                        sums.fetch_add(number, SeqCst);
                    }
                    other => panic!("{other:?} before the answer"),
                }
                if next == MESSAGES {
                    out.done();
                    return Ok(());
                }
            }
            if answered {
                out.idle()
            } else {
                out.wait()
            }
            Ok(())
        }));
        let pid = pid.mailbox(Bound::Unbounded).start().unwrap();
        // The test does not join the process yet. A join would cause another step, and if that step ran late, it would
        // see the first messages.
        let (_, completion) = requests.next();
        eventually(|| pid.info().unwrap().state == ProcessState::Waiting { outstanding: 1 });
        (0..MESSAGES).for_each(|number| runtime.send(pid, number).unwrap());
        let info = pid.info().unwrap();
        assert_eq!((info.mailbox, info.messages, info.state), (MESSAGES, 0, ProcessState::Waiting { outstanding: 1 }));
        completion.complete(0);
        eventually(|| pid.info().is_none());
        assert_eq!(sum.load(SeqCst), MESSAGES * (MESSAGES - 1) / 2);
        // The two steps are the first one, and the one that took the answer.
        assert!(steps_before.load(SeqCst) <= 2, "{} steps before the answer", steps_before.load(SeqCst));
    });
}

/// The order is deterministic: the slow yield is answered only after the process has received the fast one's answer.
#[test]
fn of_two_yields_the_one_answered_first_comes_first_and_each_meets_its_tag() {
    soon(|| {
        let (runtime, requests) = with_desk(2);
        let results = Results::default();
        let (seen, mut began) = (results.clone(), false);
        let end = runtime.spawn_process(act(move |events, out| {
            if !began {
                began = true;
                out.perform(Ask(100), 1);
                out.perform(Ask(10), 2);
            }
            while let Some(event) = events.next() {
                note(&seen, event);
            }
            if seen.lock().unwrap().len() == 2 {
                out.done()
            } else {
                out.wait()
            }
            Ok(())
        }));
        let end = end.start().unwrap().join();
        let ((slow, later), (fast, first)) = (requests.next(), requests.next());
        assert_eq!((slow, fast), (100, 10));
        first.complete(fast);
        eventually(|| results.lock().unwrap().len() == 1);
        later.complete(slow);
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(*results.lock().unwrap(), [(2, Ok(10)), (1, Ok(100))]);
    });
}

/// Like the test above, but with real timers. They are due far apart, so that their order is certain.
#[test]
fn a_short_timer_completes_before_a_long_one() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let order = Arc::new(Mutex::new(vec![]));
        let (seen, mut began) = (order.clone(), false);
        let end = runtime.spawn_process(act(move |events, out| {
            if !began {
                began = true;
                out.after(Duration::from_millis(300), 1);
                out.after(Duration::from_millis(1), 2);
                out.after(Duration::ZERO, 3);
                out.after(Duration::MAX, 4);
            }
            while let Some(event) = events.next() {
                if let Event::Completed { tag, result } = event {
                    result.unwrap().take::<()>().unwrap();
                    seen.lock().unwrap().push(tag);
                }
            }
            if seen.lock().unwrap().len() == 3 {
                out.done()
            } else {
                out.wait()
            }
            Ok(())
        }));
        drop(end.start().unwrap().join().wait());
        assert_eq!(*order.lock().unwrap(), [3, 2, 1]);
    });
}

/// Up to 20 yields are outstanding at a time, over 300 steps. Two threads answer them in shuffled order.
#[test]
fn overlapping_yields_over_many_steps_each_meet_their_tag() {
    soon(|| {
        let (runtime, requests) = with_desk(2);
        const YIELDS: u64 = 3_000;
        let results = Results::default();
        let (seen, mut asked) = (results.clone(), 0);
        let end = runtime.spawn_process(act(move |events, out| {
            while let Some(event) = events.next() {
                note(&seen, event);
            }
            let answered = seen.lock().unwrap().len() as u64;
            while asked < YIELDS && asked - answered < 20 {
                // The handler does not see the tag.
                out.perform(Ask(asked), asked.rotate_left(32) | 0xf000_0000_0000_0001);
                asked += 1;
            }
            if answered == YIELDS {
                out.done()
            } else {
                out.wait()
            }
            Ok(())
        }));
        let end = end.start().unwrap().join();
        let answerers: Vec<_> = (0..2_usize)
            .map(|seed| {
                let (requests, end) = (requests.clone(), results.clone());
                std::thread::spawn(move || {
                    let mut held: Vec<(u64, Completion<u64>)> = vec![];
                    let mut random = seed * 7 + 3;
                    while (end.lock().unwrap().len() as u64) < YIELDS {
                        match requests.try_next() {
                            Some(asked) => held.push(asked),
                            None => std::thread::yield_now(),
                        }
                        if held.len() > 5 || (!held.is_empty() && random % 3 == 0) {
                            let (what, completion) = held.swap_remove(random % held.len());
                            completion.complete(what);
                        }
                        random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) >> 3;
                    }
                })
            })
            .collect();
        drop(end.wait());
        answerers.into_iter().for_each(|thread| thread.join().unwrap());
        let results = results.lock().unwrap();
        let by_tag: HashMap<u64, &Result<u64, String>> = results.iter().map(|(tag, result)| (*tag, result)).collect();
        assert_eq!((results.len(), by_tag.len()), (3_000, 3_000));
        for asked in 0..YIELDS {
            assert_eq!(by_tag[&(asked.rotate_left(32) | 0xf000_0000_0000_0001)], &Ok(asked));
        }
    });
}

/// However a handler fails to answer, the process gets an error completion with the tag of the yield.
#[test]
fn a_handler_that_fails_drops_or_panics_completes_with_an_error() {
    soon(|| {
        let builder = Runtime::builder().workers(1).handler(|Ask(what), completion| match what {
            0 => completion.fail("no such thing"),
            1 => drop(completion),
            2 => panic!("handler burst"),
            _ => completion.complete(what),
        });
        let runtime = builder.build().unwrap();
        let errors = Arc::new(Mutex::new(vec![]));
        let (seen, mut began) = (errors.clone(), false);
        let end = runtime.spawn_process(act(move |events, out| {
            if !began {
                began = true;
                (0..4).for_each(|what| out.perform(Ask(what), 50 + what));
            }
            while let Some(event) = events.next() {
                if let Event::Completed { tag, result } = event {
                    seen.lock().unwrap().push((tag, result.map(drop)));
                }
            }
            if seen.lock().unwrap().len() == 4 {
                out.done()
            } else {
                out.wait()
            }
            Ok(())
        }));
        drop(end.start().unwrap().join().wait());
        let errors = std::mem::take(&mut *errors.lock().unwrap());
        let [failed, dropped, panicked, fine] = errors.try_into().unwrap();
        assert!(
            matches!(&failed, (50, Err(CommandError::Failed(error))) if error.to_string() == "no such thing"),
            "{failed:?}"
        );
        assert!(matches!(dropped, (51, Err(CommandError::Dropped))), "{dropped:?}");
        assert!(
            matches!(&panicked, (52, Err(CommandError::Panicked(what))) if what.contains("handler burst")),
            "{panicked:?}"
        );
        assert!(matches!(fine, (53, Ok(()))), "{fine:?}");
    });
}

/// The answer arrives first after the exit, and then after another process has reused the slot. That process must not
/// see it. (A second answer cannot be written: answering consumes the completion.)
///
/// Mutation: in `slot/control.rs`, `complete`, accept completions for any generation, and in
/// `process/input_controls.rs`, `absorb`, leave out the comparison: the other process gets the answer. (Here either
/// check is sufficient. The models show that both are needed when a completion is accepted and then delayed.)
#[test]
fn a_late_completion_is_counted_and_no_other_process_ever_sees_it() {
    // Beside other tests, it may come while a process of another runtime has the slot, and is counted there.
    alone("process::waking::a_late_completion_is_counted_and_no_other_process_ever_sees_it", || {
        let (runtime, requests) = with_desk(1);
        let ask = || {
            let mut began = false;
            act(move |events, out| {
                if !began {
                    began = true;
                    out.perform(Ask(1), 7);
                    out.wait();
                } else {
                    while events.next().is_some() {}
                    out.wait();
                }
                Ok(())
            })
        };
        let mut reused = 0;
        for round in 0..200 {
            let pid = runtime.spawn_process(ask()).start().unwrap();
            let (_, completion) = requests.next();
            assert!(pid.kill());
            eventually(|| runtime.statistics().processes.live == 0);
            let late = runtime.statistics().late;
            if round % 2 == 0 {
                completion.complete(1);
            } else {
                // The new process is spawned on the worker that caches the dead process's slot. The answer is pushed
                // while the new process is in that slot.
                let (heir, host, strange) = (Arc::new(Mutex::new(None)), runtime.host(), Arc::new(AtomicU64::new(0)));
                let (place, strangers) = (heir.clone(), strange.clone());
                let spawner = runtime.spawn_process(act(move |_, out| {
                    let strangers = strangers.clone();
                    let heir = host.spawn_process(act(move |events, _| {
                        while let Some(event) = events.next() {
                            match event {
                                Event::Message(_) => {}
                                _ => {
                                    strangers.fetch_add(1, SeqCst);
                                }
                            }
                        }
                        Ok(())
                    }));
                    *place.lock().unwrap() = heir.start().ok();
                    out.done();
                    Ok(())
                }));
                drop(spawner.start().unwrap().join().wait());
                let heir = heir.lock().unwrap().unwrap();
                reused += u64::from(heir.slot() == pid.slot());
                completion.complete(1);
                runtime.send(heir, 0_u64).unwrap();
                assert!(heir.stop());
                drop(heir.join().wait());
                assert_eq!(strange.load(SeqCst), 0);
            }
            eventually(|| runtime.statistics().processes.live == 0);
            // A worker that has kept the slot counts it when it gives the slot back.
            eventually(|| runtime.statistics().late > late);
            assert_eq!(runtime.statistics().late, late + 1);
        }
        assert!(reused > 0, "the slot was never reused, so nothing was tried");
    });
}

/// An answer is accepted while its receiver is alive, but pushed after the receiver has exited. So it lands in the lane
/// of the slot's next process. To hit that window, completions race with kills and reuse.
#[test]
fn completions_that_race_with_death_and_reuse_never_reach_a_stranger() {
    soon(|| {
        let (runtime, requests) = with_desk(2);
        let strange = Arc::new(AtomicU64::new(0));
        let over = Latch::new();
        let (answerer, ends) = (requests.clone(), over.clone());
        let answering = std::thread::spawn(move || {
            let mut count = 0_u64;
            while !ends.is_open() {
                match answerer.try_next() {
                    Some((what, completion)) => {
                        completion.complete(what);
                        count += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
            count
        });
        for round in 0..3_000_u64 {
            let (strangers, mut began) = (strange.clone(), false);
            let pid = runtime.spawn_process(act(move |events, out| {
                if !began {
                    began = true;
                    out.perform(Ask(round), round);
                }
                while let Some(event) = events.next() {
                    match event {
                        Event::Completed { tag, result } if tag == round => {
                            assert_eq!(result.unwrap().take::<u64>().unwrap(), round);
                        }
                        _ => {
                            strangers.fetch_add(1, SeqCst);
                        }
                    }
                }
                Ok(())
            }));
            let pid = pid.start().unwrap();
            if round % 3 == 0 {
                std::thread::yield_now();
            }
            pid.kill();
            if round % 2 == 0 {
                drop(pid.join().wait());
            }
        }
        over.open();
        answering.join().unwrap();
        eventually(|| runtime.statistics().processes.live == 0);
        assert_eq!(strange.load(SeqCst), 0);
    });
}

#[test]
fn a_completion_wakes_an_idle_process_too() {
    soon(|| {
        let (runtime, requests) = with_desk(2);
        let mut began = false;
        let pid = runtime.spawn_process(act(move |events, out| {
            if !began {
                began = true;
                out.perform(Ask(1), 9);
            }
            match events.next() {
                Some(Event::Completed { tag: 9, .. }) => out.done(),
                _ => out.idle(),
            }
            Ok(())
        }));
        let pid = pid.start().unwrap();
        let (_, completion) = requests.next();
        eventually(|| pid.info().is_some_and(|info| info.state == ProcessState::Idle));
        let end = pid.join();
        completion.complete(0);
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}

/// A process asks, then waits or idles, and another thread answers. Each completion and each message is sent just when
/// the other side's step is about to end, so that it races with the parking of the token.
///
/// Mutation: in `lanes.rs`, `lay`, return `ParkResult::Parked` without the check of `control`: the test hangs.
#[test]
fn a_completion_or_message_at_the_moment_a_step_ends_is_never_lost() {
    soon(|| {
        const ROUNDS: u64 = 10_000;
        for idles in [false, true] {
            let (runtime, requests) = with_desk(2);
            let (mut asked, mut answers) = (0, 0);
            let pid = runtime.spawn_process(act(move |events, out| {
                while let Some(event) = events.next() {
                    answers += u64::from(matches!(event, Event::Completed { .. }));
                }
                if asked == answers && asked < ROUNDS {
                    out.perform(Ask(asked), asked);
                    asked += 1;
                }
                match (answers == ROUNDS, idles) {
                    (true, _) => out.done(),
                    (_, true) => out.idle(),
                    (_, false) => out.wait(),
                }
                Ok(())
            }));
            let pid = pid.start().unwrap();
            let end = pid.join();
            let sends = runtime.host();
            for round in 0..ROUNDS {
                let (what, completion) = requests.next();
                // The handler runs inside the step, and the step ends about now.
                (0..round % 200).for_each(|_| std::hint::spin_loop());
                if round % 5 == 0 {
                    sends.send(pid, what).unwrap();
                }
                completion.complete(what);
            }
            assert_eq!(end.wait(), ExitReason::Normal);
        }
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let echo = Arc::new(AtomicU64::new(0));
        let heard = echo.clone();
        let pid = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                heard.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
            }
            Ok(())
        }));
        let pid = pid.start().unwrap();
        for round in 1..=ROUNDS {
            runtime.send(pid, ()).unwrap();
            let mut looks = 0;
            while echo.load(SeqCst) < round {
                looks += 1;
                // The worker may need this core.
                if looks % 1_000 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            // The step that received the message is about to end.
            (0..round % 200).for_each(|_| std::hint::spin_loop());
        }
    });
}

/// Two threads wake the same idle process at the same time. It must be queued once, so that two workers never run it
/// together.
#[test]
fn a_process_is_never_in_two_steps_at_once() {
    soon(|| {
        let runtime = Runtime::builder().workers(4).build().unwrap();
        let (inside, overlaps, heard) =
            (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (entered, overlapped, hears) = (inside.clone(), overlaps.clone(), heard.clone());
        let pid = runtime.spawn_process(act(move |events, _| {
            if entered.fetch_add(1, SeqCst) != 0 {
                overlapped.fetch_add(1, SeqCst);
            }
            while events.next().is_some() {
                hears.fetch_add(1, SeqCst);
                std::thread::yield_now();
            }
            entered.fetch_sub(1, SeqCst);
            Ok(())
        }));
        let pid = pid.start().unwrap();
        let host = runtime.host();
        let senders: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(move || (0..2_000_u64).for_each(|number| host.send_wait(pid, number).unwrap())))
            .collect();
        senders.into_iter().for_each(|thread| thread.join().unwrap());
        eventually(|| heard.load(SeqCst) == 16_000);
        assert_eq!(overlaps.load(SeqCst), 0);
    });
}

/// A timer that a foreign thread sets must wake the only worker, at whatever moment it is set.
///
/// Mutation: in `spare.rs`, `look_again`, leave out the check of the timers after entering the list. (The window is a
/// few instructions: with a sleep before `begin_sleep` the test hangs with the mutation and passes without.)
#[test]
fn a_timer_set_from_outside_while_the_last_worker_falls_asleep_fires() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let clock = runtime.spawn(Clock { ticks: 0 }).serve().unwrap();
        for round in 0..2_000_u32 {
            // The answer is sent in a step, after which the worker searches for work and falls asleep.
            let ticks = clock.ticks().wait().unwrap();
            (0..round % 500).for_each(|_| std::hint::spin_loop());
            clock.tick().send_after(Duration::from_nanos(1)).unwrap();
            while clock.pid().info().is_some_and(|info| info.messages <= u64::from(ticks) * 2 + 1) {
                std::thread::yield_now();
            }
        }
    });
}

#[process]
struct Clock {
    ticks: u32,
}

#[process]
impl Clock {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn tick(&mut self) {
        self.ticks += 1;
    }

    #[message]
    fn ticks(&self) -> u32 {
        self.ticks
    }
}

#[test]
fn an_idle_process_takes_no_steps() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        eventually(|| pid.info().is_some_and(|info| info.state == ProcessState::Idle));
        let before = pid.info().unwrap().steps;
        // Let another process run for a while.
        let clock = runtime.spawn(Clock { ticks: 0 }).serve().unwrap();
        (0..1_000).for_each(|_| drop(clock.tick().wait()));
        assert_eq!(pid.info().unwrap().steps, before);
    });
}
