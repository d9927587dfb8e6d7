//! Steps: how many there are, and what they may write as their result.

use postroom::manual::{Event, StepOutput};
use postroom::prelude::*;
use postroom::{CommandError, ProcessError};
use postroom_tests::{Ask, Latch, Requests, act, counts_to, eventually, idle_for_ever, logged, soon};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn two_workers() -> Runtime {
    Runtime::builder().workers(2).build().expect("two workers")
}

/// Builds a runtime whose handler answers each [`Ask`] at once with ten times its number.
fn answering() -> Runtime {
    let builder = Runtime::builder().workers(2);
    builder.handler(|Ask(what), completion| completion.complete(10 * what)).build().expect("two workers")
}

fn answer(event: Option<Event>) -> Option<(u64, u64)> {
    match event? {
        Event::Completed { tag, result } => Some((tag, result.ok()?.take::<u64>().ok()?)),
        _ => None,
    }
}

/// Mutation: in `engine/slice/after.rs`, read `outstanding` before the yields are added: the second step ends the
/// process.
#[test]
fn five_steps_with_one_command_each_then_done_are_six_steps_and_success() {
    soon(|| {
        let runtime = answering();
        let (steps, answers) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(vec![])));
        let (counted, seen) = (steps.clone(), answers.clone());
        let process = act(move |events, out| {
            let step = counted.fetch_add(1, SeqCst);
            while let Some(event) = events.next() {
                seen.lock().unwrap().extend(answer(Some(event)));
            }
            if step < 5 {
                out.perform(Ask(step), 100 + step);
                out.wait();
            } else {
                out.done();
            }
            Ok(())
        });
        let pid = runtime.spawn_process(process).start().unwrap();
        assert!(matches!(pid.join().wait(), ExitReason::Normal | ExitReason::NoProcess));
        assert_eq!(steps.load(SeqCst), 6);
        assert_eq!(*answers.lock().unwrap(), [(100, 0), (101, 10), (102, 20), (103, 30), (104, 40)]);
    });
}

#[test]
fn ten_processes_with_a_hundred_yields_each_complete_once() {
    soon(|| {
        let runtime = answering();
        let (answers, closes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let ends: Vec<_> = (0..10)
            .map(|_| {
                let (answers, closes) = (answers.clone(), closes.clone());
                let mut asked = 0;
                let process = act(move |events, out| {
                    while let Some(event) = events.next() {
                        let (tag, value) = answer(Some(event)).expect("only answers come");
                        assert_eq!(value, 10 * tag);
                        answers.fetch_add(1, SeqCst);
                    }
                    if asked == 100 {
                        out.done();
                    } else {
                        out.perform(Ask(asked), asked);
                        out.wait();
                        asked += 1;
                    }
                    Ok(())
                });
                let process = process.close(move || {
                    closes.fetch_add(1, SeqCst);
                });
                runtime.spawn_process(process).start().unwrap().join()
            })
            .collect();
        ends.into_iter().for_each(|end| assert!(matches!(end.wait(), ExitReason::Normal | ExitReason::NoProcess)));
        assert_eq!((answers.load(SeqCst), closes.load(SeqCst)), (1_000, 10));
    });
}

#[test]
fn a_thousand_processes_are_closed_once_each_and_none_is_left() {
    soon(|| {
        let runtime = two_workers();
        let (steps, closes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let spawn = |_| runtime.spawn_process(counts_to(1, steps.clone(), closes.clone())).start().unwrap();
        let pids: Vec<Pid> = (0..1_000).map(spawn).collect();
        pids.iter().for_each(|pid| drop(pid.join().wait()));
        assert_eq!((steps.load(SeqCst), closes.load(SeqCst)), (2_000, 1_000));
        assert!(pids.iter().all(|pid| !pid.is_alive() && pid.info().is_none()));
        assert!(runtime.processes().is_empty());
        eventually(|| runtime.statistics().processes.live == 0);
        let statistics = runtime.statistics();
        assert_eq!((statistics.processes.spawned, statistics.processes.ended), (1_000, 1_000));
    });
}

/// Mutation: in `engine/slice/after.rs`, `after_all`, return `AfterStep::Again` for `StepOutcome::Requeue`: no other
/// process runs in between.
#[test]
fn three_steps_of_continue_are_three_steps_with_others_between() {
    // A step that is preempted for too long loses its permit. Then the other process runs alone, and the order differs.
    let alternates = || {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let writes = |letter: char| {
            let (log, mut left) = (log.clone(), 3);
            act(move |_, out| {
                log.lock().unwrap().push(letter);
                left -= 1;
                if left == 0 {
                    out.done()
                } else {
                    out.go_on()
                }
                Ok(())
            })
        };
        let ends: Vec<_> =
            "ab".chars().map(|letter| runtime.spawn_process(writes(letter)).start().unwrap().join()).collect();
        runtime.resume().unwrap();
        ends.into_iter().for_each(|end| assert_eq!(end.wait(), ExitReason::Normal));
        let log = log.lock().unwrap();
        assert!(["a", "b"].iter().all(|letter| log.matches(letter).count() == 3), "{log}");
        *log == "ababab"
    };
    soon(move || assert!((0..5).any(|_| alternates()), "no run alternates"));
}

/// Three yields are one more than a step stores inline.
#[test]
fn many_yields_of_one_step_are_dispatched_in_order() {
    soon(|| {
        for count in [1, 2, 3, 100] {
            let order = Arc::new(Mutex::new(vec![]));
            let asked = order.clone();
            let builder = Runtime::builder().workers(2).handler(move |Ask(what), completion| {
                asked.lock().unwrap().push(what);
                completion.complete(what);
            });
            let runtime = builder.build().unwrap();
            let (mut began, mut answers) = (false, 0);
            let process = act(move |events, out| {
                if !began {
                    began = true;
                    (0..count).for_each(|what| out.perform(Ask(what), what));
                    assert_eq!(out.yields(), count as usize);
                }
                while let Some(event) = events.next() {
                    let (tag, value) = answer(Some(event)).unwrap();
                    assert_eq!((tag, value), (answers, answers), "answered on the spot, in order");
                    answers += 1;
                }
                if answers == count {
                    out.done()
                } else {
                    out.wait()
                }
                Ok(())
            });
            let end = runtime.spawn_process(process).start().unwrap().join();
            assert!(matches!(end.wait(), ExitReason::Normal | ExitReason::NoProcess));
            assert_eq!(*order.lock().unwrap(), (0..count).collect::<Vec<_>>());
        }
    });
}

#[derive(Clone, Copy, Debug)]
enum Beside {
    Done,
    Idle,
    Continue,
    Upgrade,
    Error,
}

/// Mutation: in `engine/slice/after.rs`, `after_all`, do not dispatch the yields of a step that has failed.
#[test]
fn yields_beside_any_status_are_dispatched_and_the_status_holds() {
    soon(|| {
        for status in [Beside::Done, Beside::Idle, Beside::Continue, Beside::Upgrade, Beside::Error] {
            let (builder, requests) = Requests::at(Runtime::builder().workers(2));
            let runtime = builder.build().unwrap();
            let log = Arc::new(Mutex::new(vec![]));
            let (closes, new) = (Arc::new(AtomicUsize::new(0)), log.clone());
            let (closed, mut began) = (closes.clone(), false);
            let process = act(move |events, out| {
                if let Some(event) = events.next() {
                    new.lock().unwrap().push(answer(Some(event)).unwrap());
                    out.done();
                    return Ok(());
                }
                if began {
                    return Ok(());
                }
                began = true;
                (1..=3).for_each(|what| out.perform(Ask(what), what));
                match status {
                    Beside::Done => out.done(),
                    Beside::Idle => out.idle(),
                    Beside::Continue => out.go_on(),
                    Beside::Upgrade => {
                        let heir = new.clone();
                        out.upgrade(act(move |events, out| {
                            while let Some(event) = events.next() {
                                heir.lock().unwrap().push(answer(Some(event)).unwrap());
                                out.done();
                            }
                            Ok(())
                        }));
                    }
                    Beside::Error => return Err(ProcessError::new("wrong")),
                }
                Ok(())
            });
            let process = process.close(move || {
                closed.fetch_add(1, SeqCst);
            });
            let pid = runtime.spawn_process(process).start().unwrap();
            let asked: Vec<_> = (0..3).map(|_| requests.next()).collect();
            assert_eq!(asked.iter().map(|(what, _)| *what).collect::<Vec<_>>(), [1, 2, 3], "{status:?}");
            match status {
                Beside::Done | Beside::Error => {
                    eventually(|| !pid.is_alive());
                    asked.into_iter().for_each(|(_, completion)| completion.complete(0));
                    assert!(log.lock().unwrap().is_empty(), "the dead hear nothing");
                }
                Beside::Idle | Beside::Continue | Beside::Upgrade => {
                    assert!(pid.is_alive(), "{status:?}");
                    for (what, completion) in asked.into_iter().rev() {
                        completion.complete(what);
                    }
                    drop(pid.join().wait());
                    assert_eq!(log.lock().unwrap()[0], (3, 3), "{status:?}");
                }
            }
            eventually(|| runtime.statistics().processes.live == 0);
            assert_eq!(closes.load(SeqCst), 1, "{status:?}");
        }
    });
}

/// Catches: a process that hangs forever.
#[test]
fn waiting_without_a_yield_ends_the_process_with_an_error() {
    soon(|| {
        let runtime = two_workers();
        let go = Latch::new();
        let may_go = go.clone();
        let end = runtime.spawn_process(act(move |_, out| {
            may_go.wait();
            out.wait();
            Ok(())
        }));
        let end = end.start().unwrap().join();
        go.open();
        assert!(matches!(end.wait(), ExitReason::Error(error) if error.to_string().contains("none is outstanding")));
    });
}

/// Events that a step does not take are passed to the next one.
#[test]
fn events_that_a_step_leaves_reach_the_next_one_in_order() {
    soon(|| {
        let runtime = two_workers();
        let seen = Arc::new(Mutex::new(vec![]));
        let sees = seen.clone();
        let pid = runtime.spawn_process(act(move |events, out| {
            if let Some(Event::Message(package)) = events.next() {
                let number = package.take::<u64>().unwrap();
                sees.lock().unwrap().push(number);
                if number == 99 {
                    out.done();
                }
            }
            Ok(())
        }));
        let pid = pid.start().unwrap();
        let end = pid.join();
        (0..100_u64).for_each(|number| runtime.send(pid, number).unwrap());
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn an_upgrade_keeps_the_pid_the_mailbox_and_the_outstanding_tags() {
    soon(|| {
        let (builder, requests) = Requests::at(Runtime::builder().workers(2));
        let runtime = builder.build().unwrap();
        let (log, closes) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicU64::new(0)));
        let (heir, closed) = (log.clone(), closes.clone());
        let mut began = false;
        let old = act(move |_, out| {
            if !began {
                began = true;
                out.perform(Ask(1), 77);
                out.wait();
                return Ok(());
            }
            let heir = heir.clone();
            out.upgrade(act(move |events, out| {
                while let Some(event) = events.next() {
                    match event {
                        Event::Completed { tag, result } => {
                            heir.lock().unwrap().push((tag, result.unwrap().take::<u64>().unwrap()));
                            out.perform(Ask(2), 78);
                        }
                        Event::Message(package) => {
                            heir.lock().unwrap().push((0, package.take::<u64>().unwrap()));
                            out.done();
                        }
                        Event::Signal(_) => {}
                    }
                }
                Ok(())
            }));
            Ok(())
        });
        let old = old.close(move || {
            closed.fetch_add(1, SeqCst);
        });
        let pid = runtime.spawn_process(old).start().unwrap();
        let end = pid.join();
        let (_, completion) = requests.next();
        completion.complete(5);
        let (what, _unanswered) = requests.next();
        assert_eq!((what, closes.load(SeqCst)), (2, 1));
        assert!(pid.is_alive());
        runtime.send(pid, 6_u64).unwrap();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(*log.lock().unwrap(), [(77, 5), (0, 6)]);
    });
}

/// The answer names the command, and has the yield's tag.
#[test]
fn an_unregistered_command_is_answered_with_its_name() {
    struct Nobody;
    impl postroom::Command for Nobody {
        type Output = ();
    }
    soon(|| {
        let runtime = two_workers();
        let told = Arc::new(Mutex::new(None));
        let (tell, mut began) = (told.clone(), false);
        let end = runtime.spawn_process(act(move |events, out| {
            if !began {
                began = true;
                out.perform(Nobody, 41);
            }
            match events.next() {
                Some(Event::Completed { tag, result }) => {
                    *tell.lock().unwrap() = Some((tag, result.unwrap_err()));
                    out.done();
                }
                _ => out.wait(),
            }
            Ok(())
        }));
        drop(end.start().unwrap().join().wait());
        let told = told.lock().unwrap().take().unwrap();
        assert!(matches!(told, (41, CommandError::Unregistered { command }) if command.contains("Nobody")), "{told:?}");
    });
}

/// Catches: a process that continues after `done` because its step wrote another status afterwards.
#[test]
fn a_step_that_is_done_cannot_take_that_back_and_is_warned_of() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let said = |then: fn(&mut StepOutput<'_>)| {
            let _from_here_on = logged("");
            let process = act(move |_, out| {
                out.done_with(7);
                then(out);
                Ok(())
            });
            let running = runtime.spawn_process(process).run_at::<i32>("main", payloads![]).unwrap();
            let pid = running.pid().to_string();
            assert_eq!(running.wait(), Ok(7));
            logged(&pid)
        };
        for (word, then) in [
            ("go_on", (|out| out.go_on()) as fn(&mut StepOutput<'_>)),
            ("wait", |out| out.wait()),
            ("upgrade", |out| out.upgrade(idle_for_ever())),
        ] {
            let lines = said(then);
            let [line] = lines.as_slice() else { panic!("{word}: {lines:#?}") };
            let says = format!(" holds=\"done\" ignored=\"{word}\"");
            assert!(line.starts_with("WARN") && line.contains(&says), "{line}");
        }
        // Neither of these statuses contradicts `done`.
        assert_eq!(said(|out| out.idle()), Vec::<String>::new());
        assert_eq!(said(|out| out.done()), Vec::<String>::new());
    });
}
