//! The exit of a process by a kill, a stop or a cancellation or on its own, and the guarantees for joins.

use postroom::inspect::ProcessState;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::{Bound, CallError, ProcessError};
use postroom_tests::face::alone;
use postroom_tests::{Ask, Latch, Requests, Witness, act, eventually, idle_for_ever, soon};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

/// Opens a latch when it is dropped.
struct OpensOnDrop(Latch);

impl Drop for OpensOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn is_gone(runtime: &Runtime, pid: Pid) {
    assert!(!pid.is_alive());
    assert!(pid.info().is_none());
    let refused = runtime.send(pid, 5_u64).unwrap_err();
    assert_eq!((refused.message, refused.reason), (5, postroom::error::SendFailure::Gone(pid)));
    assert!(!pid.kill() && !pid.stop() && !pid.cancel("late"));
    assert_eq!(pid.join().wait(), ExitReason::NoProcess);
}

#[test]
fn kill_ends_an_idle_process() {
    soon(|| {
        let runtime = one_worker();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        eventually(|| pid.info().is_some_and(|info| info.state == ProcessState::Idle));
        let end = pid.join();
        assert!(pid.kill());
        assert_eq!(end.wait(), ExitReason::Killed);
        is_gone(&runtime, pid);
    });
}

/// The timer is an hour away. If the kill waited for it, the time limit would fail the test.
#[test]
fn kill_ends_a_process_that_waits_for_a_yield() {
    soon(|| {
        let runtime = one_worker();
        let mut began = false;
        let pid = runtime.spawn_process(act(move |_, out| {
            if !began {
                began = true;
                out.after(Duration::from_secs(3_600), 1);
            }
            out.wait();
            Ok(())
        }));
        let pid = pid.start().unwrap();
        eventually(|| pid.info().is_some_and(|info| info.state == ProcessState::Waiting { outstanding: 1 }));
        let end = pid.join();
        assert!(pid.kill());
        assert_eq!(end.wait(), ExitReason::Killed);
        is_gone(&runtime, pid);
    });
}

/// The time at which an answer arrives.
#[derive(Clone, Copy, PartialEq)]
enum Comes {
    InTime,
    /// The answer is in the mailbox when the process exits.
    AtTheEnd,
    Afterwards,
}

/// Catches: an answer to an exited process that is not counted as late, and an answer in time that is counted as late.
#[test]
fn late_answers_are_counted_wherever_their_process_ran() {
    // Beside other tests, one may come while a process of another runtime has the slot, and is counted there.
    alone("process::ends::late_answers_are_counted_wherever_their_process_ran", || {
        let (builder, requests) = Requests::at(Runtime::builder().workers(1));
        let runtime = builder.build().unwrap();
        let mut late = 0;
        let cases = [Comes::InTime, Comes::AtTheEnd, Comes::Afterwards, Comes::InTime];
        for (comes, pinned) in cases.iter().flat_map(|comes| [(*comes, false), (*comes, true)]) {
            let (inside, go) = (Latch::new(), Latch::new());
            let (is_inside, may_go) = (inside.clone(), go.clone());
            let asks = move || {
                let mut has_asked = false;
                act(move |events, out| {
                    while let Some(event) = events.next() {
                        match event {
                            Event::Completed { .. } => {
                                out.done();
                                return Ok(());
                            }
                            _ => {
                                is_inside.open();
                                may_go.wait();
                            }
                        }
                    }
                    if !std::mem::replace(&mut has_asked, true) {
                        out.perform(Ask(7), 1);
                    }
                    out.idle();
                    Ok(())
                })
            };
            let pid = match pinned {
                true => runtime.spawn_process_pinned(asks).start().unwrap(),
                false => runtime.spawn_process(asks()).start().unwrap(),
            };
            let (end, (_, completion)) = (pid.join(), requests.next());
            match comes {
                Comes::InTime => completion.complete(1),
                Comes::AtTheEnd => {
                    runtime.send(pid, ()).unwrap();
                    inside.wait();
                    completion.complete(1);
                    pid.kill();
                    go.open();
                }
                Comes::Afterwards => {
                    pid.kill();
                    // Returns when the process has been killed, or at once if it is already gone.
                    pid.join().wait();
                    completion.complete(1);
                }
            }
            let expected = if comes == Comes::InTime { ExitReason::Normal } else { ExitReason::Killed };
            assert_eq!(end.wait(), expected);
            late += u64::from(comes != Comes::InTime);
            // A worker that has kept the slot counts it when it gives the slot back.
            eventually(|| runtime.statistics().late >= late);
            assert_eq!(runtime.statistics().late, late);
        }
    });
}

/// The kill arrives while the first of 100,000 messages is being handled. No other message is handled.
///
/// Mutation: in `process/input.rs`, `StepInput::next`, take data although the exit is decided.
#[test]
fn kill_in_the_middle_of_a_long_backlog_ends_before_the_next_message() {
    soon(|| {
        const MESSAGES: u64 = 100_000;
        let runtime = one_worker();
        let (handled, inside, go) = (Arc::new(AtomicU64::new(0)), Latch::new(), Latch::new());
        let (handles, is_inside, may_go) = (handled.clone(), inside.clone(), go.clone());
        let pid = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                if matches!(event, Event::Message(_)) {
                    handles.fetch_add(1, SeqCst);
                    is_inside.open();
                    may_go.wait();
                }
            }
            Ok(())
        }));
        let pid = pid.mailbox(Bound::Unbounded).start().unwrap();
        (0..MESSAGES).for_each(|number| runtime.send(pid, number).unwrap());
        inside.wait();
        let end = pid.join();
        assert!(pid.kill());
        go.open();
        assert_eq!(end.wait(), ExitReason::Killed);
        assert_eq!(handled.load(SeqCst), 1);
        assert_eq!(runtime.statistics().dead_letters.ended, MESSAGES - 1);
        is_gone(&runtime, pid);
    });
}

/// The last step takes no more controls. If a join arrives during that step, the exit itself answers it.
///
/// Catches: a pending join that is dropped at the exit instead of getting the reason.
#[test]
fn a_join_during_the_last_step_gets_the_reason() {
    soon(|| {
        let runtime = one_worker();
        let (inside, go) = (Latch::new(), Latch::new());
        let (is_inside, may_go) = (inside.clone(), go.clone());
        let pid = runtime.spawn_process(act(move |_, out| {
            is_inside.open();
            may_go.wait();
            out.done();
            Ok(())
        }));
        let pid = pid.start().unwrap();
        inside.wait();
        let ends = [pid.join(), pid.join()];
        go.open();
        ends.into_iter().for_each(|end| assert_eq!(end.wait(), ExitReason::Normal));
    });
}

/// If a process is killed while it is queued for the first time, it is closed without a step.
#[test]
fn kill_before_the_first_step_means_no_step() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let (stepped, closed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (steps, closes) = (stepped.clone(), closed.clone());
        let process = act(move |_, _| {
            steps.store(true, SeqCst);
            Ok(())
        });
        let process = process.close(move || {
            closes.fetch_add(1, SeqCst);
        });
        let pid = runtime.spawn_process(process).start().unwrap();
        let end = pid.join();
        assert!(pid.kill() && pid.kill() && pid.cancel("too"));
        runtime.resume().unwrap();
        assert_eq!(end.wait(), ExitReason::Killed);
        assert_eq!((stepped.load(SeqCst), closed.load(SeqCst)), (false, 1));
    });
}

#[process]
struct Brief {
    handled: Arc<AtomicU64>,
}

#[process]
impl Brief {
    #[entry]
    fn live(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    #[message]
    fn add(&mut self, amount: u64) -> u64 {
        self.handled.fetch_add(amount, SeqCst)
    }
}

/// If the entry method requests a stop, that takes precedence over everything that arrives before the first step,
/// except a kill.
#[test]
fn a_process_whose_entry_has_stopped_it_ends_so_whatever_comes_before_its_first_step() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let handled = Arc::new(AtomicU64::new(0));
        let spawn = || runtime.spawn(Brief { handled: handled.clone() }).live().unwrap();
        let [cancelled, upgraded, called, killed] = std::array::from_fn(|_| spawn());
        let ends = [cancelled, upgraded, called, killed].map(|brief| brief.pid().join());
        assert!(cancelled.pid().cancel("late"));
        let upgrade = upgraded.pid().upgrade(|old: Brief| Brief { handled: old.handled });
        called.add(1).send().unwrap();
        assert!(called.pid().stop() && killed.pid().kill());
        runtime.resume().unwrap();
        let normal = ExitReason::Normal;
        assert_eq!(ends.map(|end| end.wait()), [normal.clone(), normal.clone(), normal, ExitReason::Killed]);
        assert!(upgrade.wait().is_err());
        assert_eq!(handled.load(SeqCst), 0);
    });
}

/// `init` reports the PID, and blocks until the process has been killed.
#[test]
fn kill_during_init_ends_it_after_init() {
    soon(|| {
        let runtime = one_worker();
        let (say, said) = std::sync::mpsc::channel();
        let killed = Latch::new();
        let (is_killed, closed) = (killed.clone(), Latch::new());
        let close = closed.clone();
        let killer = std::thread::spawn(move || {
            let pid: Pid = said.recv().unwrap();
            let end = pid.join();
            assert!(pid.kill());
            killed.open();
            end.wait()
        });
        let process = act(|_, _| panic!("no step of the killed")).init(move |ctx| {
            say.send(ctx.pid().unwrap()).unwrap();
            is_killed.wait();
            Ok(())
        });
        runtime.spawn_process(process.close(move || close.open())).start().unwrap();
        assert_eq!(killer.join().unwrap(), ExitReason::Killed);
        assert!(closed.is_open());
    });
}

/// Mutation: in `pid_ops.rs`, `Pid::stop`, send through the control lane.
#[test]
fn a_stop_is_handled_after_the_backlog_and_later_messages_are_dead_letters() {
    soon(|| {
        let dead = Arc::new(Mutex::new(vec![]));
        let buries = dead.clone();
        let builder = Runtime::builder().workers(1).on_dead_letter(move |letter| {
            buries.lock().unwrap().push(letter.message.take::<u64>().unwrap());
        });
        let runtime = builder.build().unwrap();
        let (seen, go, inside) = (Arc::new(Mutex::new(vec![])), Latch::new(), Latch::new());
        let (sees, may_go, is_inside) = (seen.clone(), go.clone(), inside.clone());
        let pid = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                if let Event::Message(package) = event {
                    is_inside.open();
                    may_go.wait();
                    sees.lock().unwrap().push(package.take::<u64>().unwrap());
                }
            }
            Ok(())
        }));
        let pid = pid.start().unwrap();
        let end = pid.join();
        (0..1_000_u64).for_each(|number| runtime.send(pid, number).unwrap());
        assert!(pid.stop());
        (1_000..1_010_u64).for_each(|number| runtime.send(pid, number).unwrap());
        assert!(pid.stop());
        inside.wait();
        go.open();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(*seen.lock().unwrap(), (0..1_000).collect::<Vec<_>>());
        assert_eq!(*dead.lock().unwrap(), (1_000..1_010).collect::<Vec<_>>());
        is_gone(&runtime, pid);
    });
}

#[test]
fn cancel_with_a_handler_is_a_signal_and_the_handler_decides() {
    soon(|| {
        let runtime = one_worker();
        let heard = Arc::new(Mutex::new(vec![]));
        let (hears, mut cancels) = (heard.clone(), 0);
        let process = act(move |events, out| {
            while let Some(event) = events.next() {
                if let Event::Signal(Signal::Cancel(Cancel { reason })) = event {
                    hears.lock().unwrap().push(reason);
                    cancels += 1;
                }
            }
            if cancels == 2 {
                out.done()
            } else {
                out.idle()
            }
            Ok(())
        });
        let pid = runtime.spawn_process(process.handles_cancel()).start().unwrap();
        let end = pid.join();
        assert!(pid.cancel("enough"));
        eventually(|| heard.lock().unwrap().len() == 1);
        assert!(pid.is_alive());
        assert!(pid.cancel(ExitReason::Shutdown));
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(*heard.lock().unwrap(), [ExitReason::from("enough"), ExitReason::Shutdown]);
    });
}

/// The cancellation overtakes the backlog like a kill, but has its own reason.
#[test]
fn cancel_without_a_handler_exits_with_its_reason() {
    soon(|| {
        let runtime = one_worker();
        for reason in [ExitReason::Shutdown, ExitReason::from("enough")] {
            let (go, handled) = (Latch::new(), Arc::new(AtomicU64::new(0)));
            let (may_go, handles) = (go.clone(), handled.clone());
            let pid = runtime.spawn_process(act(move |events, _| {
                may_go.wait();
                while let Some(event) = events.next() {
                    handles.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
                }
                Ok(())
            }));
            let pid = pid.start().unwrap();
            let end = pid.join();
            (0..10_u64).for_each(|number| runtime.send(pid, number).unwrap());
            assert!(pid.cancel(reason.clone()));
            go.open();
            assert_eq!(end.wait(), reason);
            assert_eq!(handled.load(SeqCst), 0);
        }
    });
}

/// A join from before the exit and a join during `close` are both answered only when the state has been dropped.
///
/// Mutation: in `exit.rs`, answer joins before `close`; or in `slot/requests.rs`, `push_request`, accept requests for
/// live processes only.
#[test]
fn a_join_is_answered_when_the_state_is_dropped_the_name_free_and_the_pid_unroutable() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        for _ in 0..50 {
            let (closing, go, dropped) = (Latch::new(), Latch::new(), Latch::new());
            let (is_closing, may_go) = (closing.clone(), go.clone());
            let held = OpensOnDrop(dropped.clone());
            let process = act(move |events, _| {
                let _state = &held;
                while events.next().is_some() {}
                Ok(())
            });
            let process = process.close(move || {
                is_closing.open();
                may_go.wait();
            });
            let pid = runtime.spawn_process(process).named("holder").start().unwrap();
            let early = pid.join();
            assert!(pid.kill());
            closing.wait();
            // From here on the process is unroutable, but it has not exited.
            assert!(!pid.is_alive());
            let late = pid.join();
            let waits = std::thread::spawn({
                let (dropped, host) = (dropped.clone(), runtime.host());
                move || {
                    let reason = late.wait();
                    (reason, dropped.is_open(), host.whereis("holder"))
                }
            });
            // These yields give a premature answer time to arrive.
            (0..20).for_each(|_| std::thread::yield_now());
            go.open();
            assert_eq!(early.wait(), ExitReason::Killed);
            assert!(dropped.is_open(), "the early one was told before the state was dropped");
            assert_eq!(runtime.whereis("holder"), None);
            is_gone(&runtime, pid);
            let (reason, was_dropped, name) = waits.join().unwrap();
            assert!(was_dropped, "the late one was told before the state was dropped");
            assert_eq!(name, None);
            assert!(matches!(reason, ExitReason::Killed | ExitReason::NoProcess), "{reason}");
        }
    });
}

/// As soon as a join is answered, the name is free: a successor can register it. This is repeated thousands of times.
#[test]
fn a_name_can_be_had_again_as_soon_as_its_holder_was_joined() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        for _ in 0..2_000 {
            let pid = runtime.spawn_process(idle_for_ever()).named("one").start().unwrap();
            assert_eq!(runtime.whereis("one"), Some(pid));
            let taken = runtime.spawn_process(idle_for_ever()).named("one").start();
            assert!(matches!(&taken, Err(SpawnError::Name { holder, .. }) if *holder == pid), "{taken:?}");
            let end = pid.join();
            assert!(pid.stop());
            assert_eq!(end.wait(), ExitReason::Normal);
        }
    });
}

#[test]
fn sixty_four_racers_for_a_name_have_one_winner() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        for _ in 0..20 {
            let (host, start) = (runtime.host(), Arc::new(std::sync::Barrier::new(64)));
            let racers: Vec<_> = (0..64)
                .map(|_| {
                    let start = start.clone();
                    std::thread::spawn(move || {
                        start.wait();
                        host.spawn_process(idle_for_ever()).named("prize").start()
                    })
                })
                .collect();
            let results: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
            let winners: Vec<Pid> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
            assert_eq!(winners.len(), 1);
            for lost in results.iter().filter_map(|result| result.as_ref().err()) {
                assert!(matches!(lost, SpawnError::Name { holder, .. } if *holder == winners[0]), "{lost}");
            }
            let end = winners[0].join();
            assert!(winners[0].kill());
            drop(end.wait());
        }
    });
}

#[process]
struct Server {
    go: Latch,
    inside: Latch,
}

#[process]
impl Server {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ask(&mut self) -> u64 {
        self.inside.open();
        self.go.wait();
        7
    }
}

/// The current call is answered. The callers of later ones get the exit reason.
#[test]
fn callers_of_an_exiting_process_get_the_reason_at_once() {
    soon(|| {
        let runtime = one_worker();
        let (go, inside) = (Latch::new(), Latch::new());
        let server = runtime.spawn(Server { go: go.clone(), inside: inside.clone() }).serve().unwrap();
        let ask = || std::thread::spawn(move || server.ask().timeout(Duration::MAX).wait());
        let first = ask();
        inside.wait();
        let behind = [ask(), ask()];
        eventually(|| server.pid().info().is_some_and(|info| info.mailbox == 2));
        assert!(server.pid().kill());
        go.open();
        assert_eq!(first.join().unwrap(), Ok(7));
        for waiting in behind {
            assert_eq!(waiting.join().unwrap(), Err(CallError::Gone(ExitReason::Killed)));
        }
    });
}

/// For each kind of exit, `close` is called once, before the state is dropped.
#[test]
fn close_is_called_once_whatever_happened() {
    soon(|| {
        let (builder, requests) = Requests::at(Runtime::builder().workers(2));
        let witness = Witness::new();
        let runtime = builder.hook(witness.clone()).build().unwrap();
        for way in 0..8 {
            let (closes, dropped) = (Arc::new(AtomicU64::new(0)), Latch::new());
            let (closed, held, early) = (closes.clone(), OpensOnDrop(dropped.clone()), dropped.clone());
            let process = act(move |events, out| {
                let _state = &held;
                while events.next().is_some() {}
                match way {
                    0 => out.done(),
                    1 => return Err(ProcessError::new("wrong")),
                    2 => panic!("burst"),
                    3 => out.wait(),
                    4 => {
                        out.perform(Ask(1), 1);
                        out.wait();
                    }
                    _ => out.idle(),
                }
                Ok(())
            });
            let process = process.close(move || {
                assert!(!early.is_open(), "closed after the drop");
                closed.fetch_add(1, SeqCst);
                if way == 7 {
                    panic!("close burst")
                }
            });
            let pid = runtime.spawn_process(process).start().unwrap();
            match way {
                4 => {
                    let (_, completion) = requests.next();
                    assert!(pid.kill());
                    eventually(|| dropped.is_open());
                    completion.complete(1);
                }
                5 => assert!(pid.kill()),
                6 | 7 => assert!(pid.stop()),
                _ => {}
            }
            eventually(|| witness.record().completed.contains_key(&pid));
            assert_eq!((closes.load(SeqCst), dropped.is_open()), (1, true), "way {way}");
            if way == 7 {
                let (_, reason) = witness.record().completed[&pid].clone();
                assert!(matches!(reason, ExitReason::Panic(panic) if panic.message == "close burst"));
            }
        }
    });
}

/// Many threads kill, stop, cancel and finish a process at the same time. There is one exit and one `close`, and all
/// joins return.
#[test]
fn ends_that_race_are_one_end() {
    soon(|| {
        let witness = Witness::new();
        let runtime = Runtime::builder().workers(2).hook(witness.clone()).build().unwrap();
        for round in 0..500 {
            let closes = Arc::new(AtomicU64::new(0));
            let closed = closes.clone();
            let process = act(move |events, out| {
                if let Some(Event::Message(_)) = events.next() {
                    out.done();
                }
                Ok(())
            });
            let process = process.close(move || {
                closed.fetch_add(1, SeqCst);
            });
            let pid = runtime.spawn_process(process).start().unwrap();
            let (host, start) = (runtime.host(), Arc::new(std::sync::Barrier::new(4)));
            let racers: Vec<_> = (0..4)
                .map(|racer| {
                    let start = start.clone();
                    std::thread::spawn(move || {
                        let end = pid.join();
                        start.wait();
                        (0..(round * 37 + racer * 101) % 300).for_each(|_| std::hint::spin_loop());
                        match racer {
                            0 => {
                                pid.kill();
                            }
                            1 => {
                                pid.stop();
                            }
                            2 => {
                                pid.cancel("race");
                            }
                            _ => drop(host.send(pid, ())),
                        }
                        end.wait()
                    })
                })
                .collect();
            let reasons: Vec<ExitReason> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
            assert!(reasons.iter().all(|reason| *reason == reasons[0]), "{reasons:?}");
            assert_eq!(closes.load(SeqCst), 1);
        }
        eventually(|| runtime.statistics().processes.live == 0);
        assert!(witness.record().completed.values().all(|(times, _)| *times == 1));
    });
}
