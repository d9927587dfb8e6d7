//! The record of a host that has ended is reused for the next host with the same configuration. That host inherits
//! nothing.

use super::*;
use postroom::error::{GroupError, MessageError, NameError};
use postroom::inspect::Statistics;
use postroom::{Mailbox, Spawn};
use postroom_tests::HOUR;
use std::sync::atomic::AtomicBool;
use std::thread;

#[derive(Default)]
#[process]
struct Guest;

#[process]
impl Guest {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn greet(&mut self) {}
}

/// Builds a runtime with a configuration that no other test uses. So only the next runtime built here reuses its
/// record.
fn build(name: &str) -> Runtime {
    Runtime::builder().name(name).workers(1).process_limit(1_000).build().expect("it starts")
}

fn figures(statistics: &Statistics) -> (u64, u64, u64, usize) {
    let steps = statistics.threads.iter().map(|thread| thread.steps).sum();
    (statistics.processes.spawned, statistics.dead_letters.ended, steps, statistics.threads.len())
}

/// Mutation: in `reuse.rs`, `renew`, leave out a reset; or in `runtime.rs`, let a `Host` of an earlier generation use
/// its old record rather than `HostRecord::ended`.
#[test]
fn an_ended_host_is_distinct_from_the_next_one() {
    soon(|| {
        let first = build("reused");
        let (host, guest) = (first.host(), first.spawn(Guest).serve().expect("it takes spawns"));
        first.register_type::<Guest>();
        (0..100).for_each(|_| guest.greet().send().expect("it serves"));
        guest.greet().wait().expect("it serves");
        let (later, join) =
            (guest.greet().send_after(Duration::from_secs(3_600)).expect("it serves"), guest.pid().join());
        let early: Spawn<Guest> = host.spawn(Guest).named("early");
        assert!(first.shutdown_within(HOUR).expect("asked from outside").is_clean());

        let second = build("reused");
        let next = second.host();
        assert_ne!(host, next);
        assert_ne!(host.number(), next.number());
        assert_eq!(figures(&second.statistics()).0, 0, "spawned by the one before");
        assert!(figures(&second.statistics()).2 <= 2, "steps of the one before");
        let other = second.spawn(Guest).named("other").serve().expect("it takes spawns");
        // Handles of the ended host refuse every operation, and none of its state is left.
        assert!(matches!(early.serve(), Err(SpawnError::Shutdown)));
        spawns_nothing(host);
        assert!(second.start("Guest", "serve", payloads![]).is_err(), "a type of the one before");
        assert_eq!((host.whereis("other"), second.whereis("early")), (None, None));
        assert_eq!(figures(&host.statistics()), (0, 0, 0, 0));
        assert!(guest.greet().send().is_err());
        assert_eq!((Host::of(guest.pid()), Host::of(other.pid())), (None, Some(next)));
        assert!(host.until_idle().is_err());
        drop(later);
        assert_eq!(join.wait(), ExitReason::Shutdown);
        assert_eq!(second.statistics().processes.live, 1);
        other.greet().wait().expect("it serves");
    });
}

/// Threads with a runtime's handle spawn and send while that runtime ends and others reuse its record: each process
/// runs on the runtime of its handle.
///
/// Mutation: in `reuse.rs`, `enter`, do not compare the incarnations.
#[test]
fn late_spawns_never_reach_the_next_host() {
    soon(|| {
        let (stop, strays) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let latest = Arc::new(Mutex::new(None::<Host>));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (stop, strays, latest) = (stop.clone(), strays.clone(), latest.clone());
                thread::spawn(move || {
                    let mut spawned = 0_u64;
                    while !stop.load(SeqCst) {
                        let Some(host) = *latest.lock().expect("no panic") else { continue };
                        let spawn = host.spawn(Guest);
                        thread::yield_now();
                        if let Ok(guest) = spawn.serve() {
                            spawned += 1;
                            strays.fetch_add(u64::from(guest.pid().host_number() != host.number()), SeqCst);
                            let _gone = guest.greet().send();
                        }
                    }
                    spawned
                })
            })
            .collect();
        for _ in 0..300 {
            let runtime = build("late");
            *latest.lock().expect("no panic") = Some(runtime.host());
            let guest = runtime.spawn(Guest).serve();
            drop(guest.map(|guest| guest.greet().wait()));
            let spawned = runtime.statistics();
            assert!(spawned.processes.live <= spawned.processes.spawned);
            drop(runtime);
        }
        stop.store(true, SeqCst);
        let spawned: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert!(spawned > 0, "nothing was tried");
        assert_eq!(strays.load(SeqCst), 0, "spawned on a runtime that it was not asked of");
    });
}

/// A thread gets the host of each PID while the PID's runtime ends, and spawns on that host when the next runtime
/// exists.
///
/// Mutation: in `runtime.rs`, `look`, lock the records only for the removal, and sleep for a millisecond before it:
/// the host of a PID of the last runtime is then the next one.
#[test]
fn the_host_of_a_pid_is_never_the_next_one() {
    soon(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let latest = Arc::new(Mutex::new(None::<Pid>));
        let asks = thread::spawn({
            let (stop, latest) = (stop.clone(), latest.clone());
            move || {
                let (mut last, mut tried) = (None::<(Pid, Host)>, 0);
                while !stop.load(SeqCst) {
                    let Some(pid) = *latest.lock().expect("no panic") else { continue };
                    if let Some((before, host)) = last.take_if(|(before, _)| *before != pid) {
                        assert!(host.spawn(Guest).serve().is_err(), "{before} gave the host of {pid}");
                        tried += 1;
                    }
                    last = Host::of(pid).map(|host| (pid, host)).or(last);
                }
                tried
            }
        });
        for _ in 0..300 {
            let runtime = build("of");
            let guest = runtime.spawn(Guest).serve().expect("it takes spawns");
            *latest.lock().expect("no panic") = Some(guest.pid());
            drop(runtime);
        }
        stop.store(true, SeqCst);
        assert!(asks.join().expect("no panic") > 0, "nothing was tried");
    });
}

/// Catches: handles of an ended host that reach the groups, topics, names or types of the next one.
#[test]
fn the_handles_of_an_ended_host_reach_nothing_of_the_next_one() {
    soon(|| {
        let first = build("handles");
        let (room, topic, events) = (first.group("room"), first.topic::<u32>("news"), first.event_topic::<u32>());
        let existing = first.spawn(Guest).named("guest").or_existing();
        let existing_by_hand = first.spawn_process(idle_for_ever()).named("guest").or_existing();
        first.register_type::<Guest>();
        assert!(first.shutdown_within(HOUR).expect("asked from outside").is_clean());

        let second = build("handles");
        let guest = second.spawn(Guest).named("guest").serve().expect("it takes spawns");
        assert_eq!(second.group("room").join(guest), Ok(true));
        assert_eq!(second.topic::<u32>("news").subscribe(guest.pid()), Ok(true));
        assert_eq!(second.subscribe::<u32>(guest.pid()), Ok(true));
        assert_eq!((room.len(), topic.subscribers().len(), events.subscribers().len()), (0, 0, 0));
        assert_eq!((room.broadcast(1_u32), topic.publish(1), events.publish(1)), (0, 0, 0));
        assert!(!room.contains(guest) && !room.leave(guest) && !topic.unsubscribe(guest.pid()));
        let stranger = Mailbox::new().expect("there is room");
        assert_eq!(room.join(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!(room.subscribe(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!(topic.subscribe(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!((second.group("room").len(), second.topic::<u32>("news").subscribers().len()), (1, 1));
        assert!(matches!(existing.serve(), Err(SpawnError::Shutdown)));
        assert!(matches!(existing_by_hand.start(), Err(SpawnError::Shutdown)));
        let unregistered = second.send_to_method(guest.pid(), "greet", payloads![]);
        assert!(matches!(unregistered, Err(MessageError::Unregistered { .. })), "{unregistered:?}");
    });
}

/// Catches: a name, group or type of an ended host that other hosts find.
#[test]
fn an_ended_host_takes_nothing() {
    soon(|| {
        let hosts = ["one", "other"].map(|name| {
            let runtime = build(name);
            let host = runtime.host();
            assert!(runtime.shutdown_within(HOUR).expect("asked from outside").is_clean());
            host
        });
        // The start of another host checks their records.
        let _next = build("next");
        let [one, other] = hosts;
        eventually(|| one.until_idle().is_err() && other.until_idle().is_err());
        let stranger = Mailbox::new().expect("there is room");
        assert_eq!(one.register_name("stranger", stranger.pid()), Err(NameError::Shutdown));
        assert_eq!(one.group("room").join(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!(one.group("room").subscribe(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!(one.topic::<u32>("news").subscribe(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!(one.subscribe::<u32>(stranger.pid()), Err(GroupError::Shutdown));
        assert_eq!((other.whereis("stranger"), other.group("room").len(), other.publish(7_u32)), (None, 0, 0));
        let kept = Arc::new(());
        one.register_type_with("Guest", {
            let kept = kept.clone();
            move || {
                let _ = &kept;
                Guest
            }
        });
        one.register_pinned_type("Guest", {
            let kept = kept.clone();
            move || {
                let _ = &kept;
                Guest
            }
        });
        one.register_upgrade({
            let kept = kept.clone();
            move |guest: Guest| {
                let _ = &kept;
                guest
            }
        });
        assert_eq!(Arc::strong_count(&kept), 1);
    });
}
