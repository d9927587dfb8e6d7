//! PIDs, and the table behind them. PIDs are unique forever, readable, and routable while their process is alive. The
//! slots of the table are reused.

use postroom::error::SendFailure;
use postroom::inspect::ProcessState;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::{Host, NodeId, this_node};
use postroom_tests::{Latch, act, eventually, idle_for_ever, soon, within};
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[path = "slots/forged.rs"]
mod forged;

fn two_workers() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

/// Returns `pid` with its four parts changed by `change`.
fn altered(pid: Pid, change: impl FnOnce(&mut [u64; 4])) -> Pid {
    let mut parts = [pid.node().get(), pid.host_number().into(), pid.slot().into(), pid.generation()];
    change(&mut parts);
    format!("<{:x}.{}.{}.{}>", parts[0], parts[1], parts[2], parts[3]).parse().unwrap()
}

#[test]
fn a_send_to_a_live_process_is_accepted_and_to_an_exited_one_is_returned() {
    soon(|| {
        let runtime = two_workers();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        runtime.send(pid, "hello".to_string()).unwrap();
        let end = pid.join();
        assert!(pid.stop());
        drop(end.wait());
        let refused = runtime.send(pid, "hello again".to_string()).unwrap_err();
        assert_eq!((refused.message.as_str(), refused.reason), ("hello again", SendFailure::Gone(pid)));
        assert!(refused.reason.to_string().contains(&pid.to_string()));
    });
}

/// The PIDs have unused slots, past and future generations, generation zero (which no process has), and slots in a part
/// of the table that does not exist.
#[test]
fn a_send_to_a_pid_that_never_existed_is_returned() {
    soon(|| {
        let runtime = two_workers();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        let never = [
            altered(pid, |parts| parts[3] += 1),
            altered(pid, |parts| parts[3] -= 1),
            altered(pid, |parts| parts[3] = 0),
            altered(pid, |parts| parts[3] = (1 << 36) - 1),
            altered(pid, |parts| parts[2] = (1 << 28) - 1),
            altered(pid, |parts| (parts[2], parts[3]) = (4_000, 1)),
            altered(pid, |parts| (parts[2], parts[3]) = (4_000, 0)),
        ];
        for pid in never {
            let refused = runtime.send(pid, 5_u64).unwrap_err();
            assert_eq!((refused.message, refused.reason), (5, SendFailure::Gone(pid)), "{pid}");
            assert!(!pid.is_alive() && !pid.kill() && !pid.stop() && !pid.cancel("no"));
            assert!(pid.info().is_none());
            assert_eq!(pid.join().wait(), ExitReason::NoProcess);
        }
        assert!(pid.is_alive());
    });
}

#[test]
fn the_text_and_the_serde_forms_of_a_pid_parse_back() {
    soon(|| {
        let runtime = two_workers();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        assert_eq!(pid.to_string().parse(), Ok(pid));
        assert_eq!(format!("{pid:?}"), pid.to_string());
        let json = serde_json::to_string(&pid).unwrap();
        assert_eq!(json, format!("\"{pid}\""));
        assert_eq!(serde_json::from_str::<Pid>(&json).unwrap(), pid);
        assert_eq!((pid.node(), pid.host_number()), (this_node(), runtime.number()));
        assert_eq!(size_of::<Option<Pid>>(), 16);
        for text in ["", "<>", "<1.2.3>", "<0.0.0.1>", "<1.2.3.4.5>", "1.2.3.4", "<1.99999.3.4>", "<-1.2.3.4>"] {
            assert!(text.parse::<Pid>().is_err(), "{text}");
            assert!(serde_json::from_str::<Pid>(&format!("{text:?}")).is_err(), "{text}");
        }
        let long = "<".repeat(1 << 20).parse::<Pid>().unwrap_err();
        assert!(long.to_string().len() < 1_000, "an over-long text is not repeated");
        assert_eq!((NodeId::new(0), NodeId::new(1 << 48)), (None, None));
    });
}

/// The two halves of a PID. Their bytes are the form of a PID in binary formats.
struct Binary(u64, u64);

impl<'de> serde::Deserializer<'de> for Binary {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let bytes = [self.0.to_be_bytes(), self.1.to_be_bytes()].concat();
        visitor.visit_seq(serde::de::value::SeqDeserializer::new(bytes.into_iter()))
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The refused PIDs have node 0. Most of them have a host number, so that their first half is not zero.
#[test]
fn the_binary_form_of_a_pid_without_a_node_is_refused() {
    let (node, host) = (7, 3);
    let pid = Pid::deserialize(Binary(node << 16 | host, 5)).unwrap();
    assert_eq!((pid.node().get(), u64::from(pid.host_number())), (node, host));
    for place in [0, 1, host, u64::from(u16::MAX)] {
        let error = Pid::deserialize(Binary(place, 5)).unwrap_err();
        assert_eq!(error.to_string(), "a PID without a node", "{place}");
    }
    assert!(Pid::deserialize(Binary(1 << 16, 5)).is_ok(), "the first node");
}

/// PIDs are created from short-lived threads and inside processes, on two runtimes at the same time.
#[test]
fn no_pid_is_reused() {
    within(Duration::from_secs(60), || {
        let runtimes = [two_workers(), two_workers()];
        let all = Arc::new(Mutex::new(HashSet::new()));
        let threads: Vec<_> = (0..8_usize)
            .map(|number| {
                let (host, all) = (runtimes[number % 2].host(), all.clone());
                std::thread::spawn(move || {
                    let mut own = vec![];
                    for round in 0..1_500_u32 {
                        let inner = Arc::new(Mutex::new(None));
                        let place = inner.clone();
                        let process = act(move |_, out| {
                            if round % 8 == 0 {
                                let child = Host::current().unwrap().spawn_process(idle_for_ever()).start()?;
                                child.kill();
                                *place.lock().unwrap() = Some(child);
                            }
                            out.done();
                            Ok(())
                        });
                        let pid = host.spawn_process(process).start().unwrap();
                        own.push(pid);
                        if round % 8 == 0 {
                            drop(pid.join().wait());
                            own.extend(inner.lock().unwrap().take());
                        }
                    }
                    all.lock().unwrap().extend(own.iter().copied());
                    own.len()
                })
            })
            .collect();
        let given: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(given >= 8 * 1_500);
        assert_eq!(all.lock().unwrap().len(), given);
    });
}

/// Spawns 50,000 processes, but only a hundred at a time. Slots are reused, whichever thread ended their process. (Each
/// thread caches some slots, so a few hundred slots per thread are in use.)
///
/// Mutation: in `slot/release.rs`, `vacate`, do not return the index.
#[test]
fn slots_are_used_again() {
    within(Duration::from_secs(60), || {
        let runtime = two_workers();
        let mut slots = HashSet::new();
        for _ in 0..500 {
            let pids: Vec<Pid> = (0..100).map(|_| runtime.spawn_process(idle_for_ever()).start().unwrap()).collect();
            slots.extend(pids.iter().map(|pid| pid.slot()));
            pids.iter().for_each(|pid| assert!(pid.kill()));
            eventually(|| runtime.statistics().processes.live == 0);
        }
        assert!(slots.len() < 5_000, "{} slots for 100 processes at a time", slots.len());
    });
}

/// The sender looks up the PID just before the process exits and its slot is reused.
///
/// Mutation: in `process/input_data.rs`, `StepInput::mail`, take every message regardless of its generation.
#[test]
fn a_message_that_races_with_death_and_reuse_never_reaches_a_stranger() {
    within(Duration::from_secs(120), || {
        let dead = Arc::new(AtomicU64::new(0));
        let buries = dead.clone();
        let builder = Runtime::builder().workers(2).on_dead_letter(move |_| {
            buries.fetch_add(1, SeqCst);
        });
        let runtime = builder.build().unwrap();
        let current = Arc::new(Mutex::new(None::<(Pid, u64)>));
        let (strange, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let over = Latch::new();
        let senders: Vec<_> = (0..3)
            .map(|_| {
                let (current, over, host) = (current.clone(), over.clone(), runtime.host());
                std::thread::spawn(move || {
                    let (mut sent, mut last) = (0_u64, None);
                    while !over.is_open() {
                        let now = *current.lock().unwrap();
                        // The previous process also gets a message, although it is dead or exiting.
                        for (pid, number) in [now, last].into_iter().flatten() {
                            sent += u64::from(host.send(pid, number).is_ok());
                        }
                        last = now;
                        // Without this yield, the three floods would occupy both cores.
                        std::thread::yield_now();
                    }
                    sent
                })
            })
            .collect();
        for number in 0..1_000_u64 {
            let (strangers, receives) = (strange.clone(), received.clone());
            let process = act(move |events, _| {
                while let Some(event) = events.next() {
                    if let Event::Message(package) = event {
                        let meant = package.take::<u64>().unwrap();
                        strangers.fetch_add(u64::from(meant != number), SeqCst);
                        receives.fetch_add(1, SeqCst);
                    }
                }
                Ok(())
            });
            // The process is spawned inside the runtime. There the slot that was freed last is taken first.
            let (place, mut process) = (current.clone(), Some(process));
            let spawner = runtime.spawn_process(act(move |_, out| {
                let pid = Host::current().unwrap().spawn_process(process.take().unwrap()).start()?;
                let before = place.lock().unwrap().replace((pid, number));
                before.into_iter().for_each(|(pid, _)| {
                    pid.kill();
                });
                out.done();
                Ok(())
            }));
            drop(spawner.start().unwrap().join().wait());
        }
        over.open();
        let sent: u64 = senders.into_iter().map(|thread| thread.join().unwrap()).sum();
        current.lock().unwrap().take().into_iter().for_each(|(pid, _)| {
            pid.stop();
        });
        eventually(|| runtime.statistics().processes.live == 0);
        assert_eq!(strange.load(SeqCst), 0);
        assert_eq!(sent, received.load(SeqCst) + dead.load(SeqCst), "each message was received or is a dead letter");
        assert_eq!(runtime.statistics().dead_letters.total(), dead.load(SeqCst));
    });
}

/// Messages of different senders interleave, but those of each sender keep their order. Five messages that wait before
/// the receiver first runs arrive as 1 to 5.
#[test]
fn messages_of_one_sender_keep_their_order() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).paused().build().unwrap();
        let seen = Arc::new(Mutex::new(vec![]));
        let sees = seen.clone();
        let pid = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                if let Event::Message(package) = event {
                    sees.lock().unwrap().push(package.take::<(usize, u64)>().unwrap());
                }
            }
            Ok(())
        }));
        let pid = pid.start().unwrap();
        (1..=5).for_each(|number| runtime.send(pid, (9_usize, number as u64)).unwrap());
        assert_eq!(pid.info().unwrap().mailbox, 5);
        runtime.resume().unwrap();
        eventually(|| seen.lock().unwrap().len() == 5);
        let host = runtime.host();
        let threads: Vec<_> = (0..8_usize)
            .map(|sender| {
                std::thread::spawn(move || {
                    (0..5_000_u64).for_each(|number| host.send_wait(pid, (sender, number)).unwrap())
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        eventually(|| seen.lock().unwrap().len() == 40_005);
        let mut seen = seen.lock().unwrap().clone();
        assert_eq!(seen[..5], [(9, 1), (9, 2), (9, 3), (9, 4), (9, 5)]);
        seen.drain(..5);
        for sender in 0..8 {
            let own = seen.iter().filter(|(from, _)| *from == sender).map(|(_, number)| *number);
            assert!(own.eq(0..5_000), "sender {sender}");
        }
    });
}

#[test]
fn the_info_of_a_process_is_available_by_its_pid() {
    soon(|| {
        let runtime = two_workers();
        let (inside, go) = (Latch::new(), Latch::new());
        let (is_inside, may_go, child) = (inside.clone(), go.clone(), Arc::new(Mutex::new(None)));
        let place = child.clone();
        let process = act(move |events, _| {
            if let Some(Event::Message(_)) = events.next() {
                let born = Host::current().unwrap().spawn_process(idle_for_ever()).label("small").start()?;
                *place.lock().unwrap() = Some(born);
                is_inside.open();
                may_go.wait();
            }
            Ok(())
        });
        let line = line!() + 1;
        let pid = runtime.spawn_process(process).label("big").start().unwrap();
        eventually(|| pid.info().unwrap().state == ProcessState::Idle);
        runtime.send(pid, ()).unwrap();
        inside.wait();
        (0..3).for_each(|_| runtime.send(pid, ()).unwrap());
        let info = pid.info().unwrap();
        assert_eq!((info.pid, info.state, info.mailbox), (pid, ProcessState::Running, 3));
        assert_eq!((info.label.as_deref(), info.parent, info.entry), (Some("big"), None, "main"));
        assert!(info.process.contains("Act") && info.worker.is_some() && info.steps >= 1);
        let place = info.place.unwrap();
        assert!(place.file().ends_with("slots.rs") && place.line() == line, "{place}");
        let born = child.lock().unwrap().unwrap();
        assert_eq!((born.info().unwrap().parent, born.info().unwrap().label.as_deref()), (Some(pid), Some("small")));
        assert!(runtime.processes().iter().any(|info| info.pid == born));
        go.open();
    });
}
