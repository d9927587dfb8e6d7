//! Names: however threads race, each name has at most one holder at any time, and nothing is left behind when a holder
//! exits.
//!
//! Not covered: an exit at every point between the count and the check of a registration. The model in `tests/models`
//! explores those points; these tests often hit the window by chance.

use postroom::Mailbox;
use postroom::error::{AddressError, BadName, NameError, SendFailure, WhereisError};
use postroom::inspect::DeadLetterReason;
use postroom::manual::{Events, Process, StepOutput};
use postroom::prelude::*;
use postroom_tests::face::{Log, OnDrop, builder, watched, with_dead_letters, with_runtime};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

#[process]
#[derive(Default)]
pub(crate) struct Printer {
    pub(crate) printed: Vec<String>,
    pub(crate) _held: Option<OnDrop>,
}

#[process]
impl Printer {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    /// Fails to start after it has registered a second name.
    #[entry]
    fn fail(&mut self, ctx: &mut Context<Self>) -> Result<(), std::fmt::Error> {
        ctx.register_name("second").map_err(|_| std::fmt::Error)?;
        Err(std::fmt::Error)
    }

    #[entry]
    async fn live(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }

    #[message]
    fn print(&mut self, text: String) -> usize {
        self.printed.push(text);
        self.printed.len()
    }

    #[message]
    pub(crate) fn call_yourself(&mut self, ctx: &mut Context<Self>, name: String) -> Result<(), NameError> {
        ctx.register_name(name)
    }

    #[message]
    fn look_up(&mut self, ctx: &mut Context<Self>, name: String) -> Option<Pid> {
        ctx.whereis(&name)
    }
}

#[process]
struct Shop;

#[process]
impl Shop {
    #[entry]
    fn serve(&mut self) {}
}

fn printer(runtime: &Runtime) -> Address<Printer> {
    runtime.spawn(Printer::default()).serve().unwrap()
}

fn end(pid: Pid) {
    let ended = pid.join();
    pid.stop();
    ended.wait();
}

#[test]
fn a_name_registered_twice_for_one_process_is_fine_and_for_another_names_the_holder() {
    with_runtime(|runtime| {
        let (one, other) = (printer(runtime), printer(runtime));
        assert_eq!(runtime.register_name("p", one), Ok(()));
        assert_eq!(runtime.register_name("p", one), Ok(()));
        let taken = NameError::Taken { name: "p".to_string(), holder: one.pid() };
        assert_eq!(runtime.register_name("p", other), Err(taken.clone()));
        assert!(taken.to_string().contains(&one.pid().to_string()), "{taken}");
        assert_eq!((runtime.whereis("p"), runtime.statistics().directory.names), (Some(one.pid()), 1));
    });
}

#[test]
fn a_process_may_have_several_names_each_of_which_can_be_taken_away() {
    with_runtime(|runtime| {
        let one = printer(runtime);
        for name in ["a", "b", "c"] {
            runtime.register_name(name, one).unwrap();
        }
        let names = || {
            let mut names: Vec<String> = one.pid().info().unwrap().names.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["a", "b", "c"]);
        assert_eq!(runtime.unregister_name("b"), Some(one.pid()));
        assert_eq!((runtime.unregister_name("b"), runtime.whereis("b")), (None, None));
        assert_eq!(names(), ["a", "c"]);
        assert_eq!(runtime.register_name("b", printer(runtime)), Ok(()));
        end(one.pid());
        assert_eq!(["a", "b", "c"].map(|name| runtime.whereis(name).is_some()), [false, true, false]);
        assert_eq!(runtime.statistics().directory.names, 1);
    });
}

#[test]
fn a_name_is_free_after_the_state_is_dropped_and_before_the_exit_is_reported() {
    watched(|| {
        let seen = Log::new();
        let runtime = Arc::new(std::sync::OnceLock::<Host>::new());
        let (in_hook, log) = (runtime.clone(), seen.clone());
        /// A hook that looks the name up. Hooks are called before joins return.
        struct Look(Arc<std::sync::OnceLock<Host>>, Log<(bool, Vec<&'static str>)>, Log<&'static str>);
        impl postroom::inspect::Hook for Look {
            fn complete(&self, _: &postroom::inspect::Started, _: &ExitReason) {
                self.1.add((self.0.get().unwrap().whereis("p").is_some(), self.2.all()));
            }
        }
        let drops = Log::new();
        let built = builder().hook(Look(in_hook, log, drops.clone())).build().unwrap();
        runtime.set(built.host()).unwrap();
        for end in [Pid::stop as fn(Pid) -> bool, Pid::kill, |pid| pid.cancel("enough")] {
            let _held = Some(OnDrop(drops.clone(), "dropped"));
            let one = built.spawn(Printer { _held, ..Printer::default() }).named("p").serve().unwrap();
            built.register_name("q", one).unwrap();
            let ended = one.pid().join();
            end(one.pid());
            ended.wait();
            assert_eq!((built.whereis("p"), built.whereis("q")), (None, None));
        }
        let all = seen.all();
        assert_eq!(all.iter().map(|(named, _)| *named).collect::<Vec<_>>(), [false; 3]);
        assert_eq!(all.iter().map(|(_, drops)| drops.len()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(built.statistics().directory.memberships, 0);
    });
}

#[test]
fn exited_unknown_and_remote_processes_get_no_name() {
    with_runtime(|runtime| {
        let one = printer(runtime);
        end(one.pid());
        let living = printer(runtime).pid();
        // The PIDs below differ from that of a live process only in the node or in the host.
        let parts = living.to_string();
        let parts: Vec<&str> = parts.trim_matches(['<', '>']).split('.').collect();
        let [node, host, slot, generation] = parts[..] else { panic!("{parts:?}") };
        let elsewhere: Pid = format!("<1.{host}.{slot}.{generation}>").parse().unwrap();
        let other_host: Pid = format!("<{node}.4711.{slot}.{generation}>").parse().unwrap();
        for pid in [one.pid(), elsewhere, other_host] {
            let error = runtime.register_name("p", pid).unwrap_err();
            assert_eq!(error, NameError::Gone { name: "p".to_string(), pid });
        }
        assert_eq!(
            (runtime.whereis("p"), runtime.statistics().directory.names, runtime.statistics().directory.memberships),
            (None, 0, 0)
        );
    });
}

#[test]
fn names_of_nothing_and_beyond_a_kilobyte_are_refused_everywhere() {
    with_runtime(|runtime| {
        let one = printer(runtime);
        let (fits, long) = ("n".repeat(1024), "n".repeat(1 << 20));
        assert_eq!(runtime.register_name(fits.clone(), one), Ok(()));
        assert_eq!(runtime.whereis(&fits), Some(one.pid()));
        let too_long = BadName::TooLong { bytes: 1 << 20, longest: 1024 };
        for (name, bad) in [("", BadName::Empty), (&long, too_long)] {
            assert_eq!(runtime.register_name(name, one), Err(NameError::BadName(bad.clone())));
            match runtime.spawn(Printer::default()).named(name).serve() {
                Err(SpawnError::BadName(error)) => assert_eq!(error, bad),
                other => panic!("{other:?}"),
            }
            assert_eq!((runtime.whereis(name), runtime.unregister_name(name)), (None, None));
            let unknown = runtime.whereis_as::<Printer>(name).unwrap_err();
            assert!(unknown.to_string().len() < 300, "{unknown}");
        }
        assert_eq!((runtime.statistics().directory.names, runtime.statistics().processes.live), (1, 1));
    });
}

#[test]
fn a_name_resolves_to_a_typed_address_or_an_error() {
    with_runtime(|runtime| {
        let one = runtime.spawn(Printer::default()).named("p").serve().unwrap();
        assert_eq!(runtime.whereis_as::<Printer>("p"), Ok(one));
        let wrong = AddressError::Type { pid: one.pid(), expected: "Shop", found: "Printer" };
        assert_eq!(runtime.whereis_as::<Shop>("p"), Err(WhereisError::Address(wrong)));
        let unknown = WhereisError::Unknown { name: "q".to_string() };
        assert_eq!(runtime.whereis_as::<Shop>("q"), Err(unknown));
    });
}

#[test]
fn a_message_sent_by_name_arrives_or_is_returned() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let one = runtime.spawn(Printer::default()).named("p").serve().unwrap();
        runtime.send_named("p", PrinterPrint { text: "hello".to_string() }).unwrap();
        assert_eq!(one.print("again".to_string()).wait(), Ok(2));
        // The message may have any type. The type is checked at delivery.
        runtime.send_named("p", 7_u8).unwrap();
        assert_eq!(one.print("and again".to_string()).wait(), Ok(3));
        assert_eq!(dead.all(), [("u8", DeadLetterReason::Unhandled)]);
        end(one.pid());
        let back = runtime.send_named("p", "hello".to_string()).unwrap_err();
        assert_eq!((back.message.as_str(), back.reason), ("hello", SendFailure::UnknownName));
    });
}

#[test]
fn names_are_registered_and_looked_up_inside_processes() {
    with_runtime(|runtime| {
        let (one, other) = (printer(runtime), printer(runtime));
        assert_eq!(one.call_yourself("p".to_string()).wait(), Ok(()));
        assert_eq!(other.look_up("p".to_string()).wait(), Ok(Some(one.pid())));
        let taken = NameError::Taken { name: "p".to_string(), holder: one.pid() };
        assert_eq!(other.call_yourself("p".to_string()).wait(), Err(CallError::Failed(taken)));
    });
}

#[test]
fn all_names_of_a_process_that_fails_to_start_are_free() {
    with_runtime(|runtime| {
        for _ in 0..3 {
            let failed = runtime.spawn(Printer::default()).named("first").fail();
            assert!(matches!(failed, Err(SpawnError::Init(_))), "{failed:?}");
            assert_eq!((runtime.whereis("first"), runtime.whereis("second")), (None, None));
        }
        let statistics = runtime.statistics();
        assert_eq!(
            (statistics.directory.names, statistics.directory.memberships, statistics.processes.live),
            (0, 0, 0)
        );
    });
}

#[test]
fn a_mailbox_and_a_process_of_another_host_can_have_names() {
    with_runtime(|runtime| {
        let elsewhere = builder().build().unwrap();
        let (mut mailbox, one) = (Mailbox::new().unwrap(), printer(&elsewhere));
        runtime.register_name("mailbox", mailbox.pid()).unwrap();
        runtime.register_name("elsewhere", one).unwrap();
        runtime.send_named("mailbox", 7_u32).unwrap();
        assert_eq!(mailbox.receive().take::<u32>().ok(), Some(7));
        assert_eq!(runtime.whereis_as::<Printer>("elsewhere"), Ok(one));
        assert_eq!(elsewhere.whereis("elsewhere"), None);
        drop(mailbox);
        elsewhere.shutdown().unwrap();
        assert_eq!((runtime.whereis("mailbox"), runtime.whereis("elsewhere")), (None, None));
        assert_eq!(runtime.statistics().directory.names, 0);
    });
}

/// A mailbox has no process type. If its address had the type of the slot's previous process, users could send messages
/// that the mailbox cannot answer. Catches: a slot that keeps that type.
#[test]
fn a_mailbox_in_the_slot_of_a_process_is_none_of_its_type() {
    watched(|| {
        let (mut mailboxes, mut is_used_again) = (Vec::new(), false);
        // Other tests take slots, too, so this repeats until a mailbox gets one of these slots.
        while !is_used_again {
            let runtime = builder().build().unwrap();
            let slots: Vec<u32> = (0..64).map(|_| printer(&runtime).pid().slot()).collect();
            // The threads of the runtime give back the slots that they keep.
            runtime.shutdown().unwrap();
            let made: Vec<_> = (0..128).map(|_| Mailbox::new().unwrap()).collect();
            is_used_again = made.iter().any(|mailbox| slots.contains(&mailbox.pid().slot()));
            mailboxes.extend(made);
        }
        let runtime = builder().build().unwrap();
        for pid in mailboxes.iter().map(Mailbox::pid) {
            assert_eq!(runtime.address::<Printer>(pid), Err(AddressError::Gone(pid)));
            assert!(pid.info().is_none());
        }
    });
}

#[test]
fn a_host_that_shuts_down_leaves_no_name_behind() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let host = runtime.host();
        let mailbox = Mailbox::new().unwrap();
        runtime.register_name("mailbox", mailbox.pid()).unwrap();
        runtime.group("room").join(mailbox.pid()).unwrap();
        runtime.subscribe::<u32>(mailbox.pid()).unwrap();
        assert_eq!(runtime.statistics().directory.memberships, 3);
        runtime.shutdown().unwrap();
        let statistics = host.statistics();
        assert_eq!(
            (host.whereis("mailbox"), statistics.directory.names, statistics.directory.memberships),
            (None, 0, 0)
        );
        assert_eq!((statistics.directory.groups, statistics.directory.topics), (0, 0));
    });
}

#[test]
fn of_64_that_want_a_name_at_once_one_gets_it() {
    watched(|| {
        let runtime = Arc::new(builder().build().unwrap());
        for round in 0..20 {
            let (start, name) = (Arc::new(Barrier::new(64)), format!("p{round}"));
            let racers: Vec<_> = (0..64)
                .map(|_| {
                    let (start, runtime, name) = (start.clone(), runtime.clone(), name.clone());
                    thread::spawn(move || {
                        let one = printer(&runtime);
                        start.wait();
                        (one.pid(), runtime.register_name(name, one))
                    })
                })
                .collect();
            let outcomes: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
            let winners: Vec<Pid> =
                outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(pid, _)| *pid).collect();
            assert_eq!(winners, [runtime.whereis(&name).unwrap()]);
            for (pid, outcome) in outcomes.into_iter().filter(|(pid, _)| *pid != winners[0]) {
                assert_eq!(outcome, Err(NameError::Taken { name: name.clone(), holder: winners[0] }), "{pid}");
            }
        }
    });
}

#[test]
fn of_64_that_spawn_or_get_at_once_one_spawns() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    #[process]
    struct Cache;
    #[process]
    impl Cache {
        #[entry]
        fn serve(&mut self) {
            STARTED.fetch_add(1, Ordering::SeqCst);
        }
        #[message]
        fn get(&mut self) -> u32 {
            7
        }
    }
    watched(|| {
        let runtime = Arc::new(builder().build().unwrap());
        let rounds = 20;
        for round in 0..rounds {
            let (start, name) = (Arc::new(Barrier::new(64)), format!("cache{round}"));
            let racers: Vec<_> = (0..64)
                .map(|_| {
                    let (start, runtime, name) = (start.clone(), runtime.clone(), name.clone());
                    thread::spawn(move || {
                        start.wait();
                        runtime.spawn(Cache).named(name).or_existing().serve().unwrap()
                    })
                })
                .collect();
            let got: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
            assert!(got.iter().all(|cache| *cache == got[0]), "{got:?}");
            assert_eq!(got[0].get().wait(), Ok(7));
        }
        assert_eq!(STARTED.load(Ordering::SeqCst), rounds);
        assert_eq!(
            (runtime.statistics().processes.live, runtime.statistics().directory.names),
            (rounds as u64, rounds)
        );
    });
}

#[test]
fn spawn_or_get_spawns_anew_after_the_end_and_never_takes_another_type() {
    with_runtime(|runtime| {
        let get = || runtime.spawn(Printer::default()).named("p").or_existing().serve();
        let first = get().unwrap();
        assert_eq!(get().unwrap(), first);
        match runtime.spawn(Shop).named("p").or_existing().serve() {
            Err(SpawnError::NameType { name, pid, expected, found }) => {
                assert_eq!((name.as_str(), pid, expected, found), ("p", first.pid(), "Shop", "Printer"));
            }
            other => panic!("{other:?}"),
        }
        end(first.pid());
        let second = get().unwrap();
        assert_ne!(second, first);
        // An async entry's result belongs to its spawner, so an existing process cannot be returned.
        match runtime.spawn(Printer::default()).named("p").or_existing().live() {
            Err(SpawnError::Name { name, holder }) => assert_eq!((name.as_str(), holder), ("p", second.pid())),
            other => panic!("{other:?}"),
        }
        // Without a name there is nothing to find.
        assert_ne!(runtime.spawn(Printer::default()).or_existing().serve().unwrap(), second);
    });
}

/// An exiting holder loses its name early: another process can register the name before the exit is complete, and keeps
/// it afterwards.
#[test]
fn a_name_can_be_taken_from_a_holder_that_is_being_taken_apart() {
    let (began, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    struct Slow(Arc<Barrier>, Arc<Barrier>);
    impl Process for Slow {
        fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            Ok(())
        }
        fn close(&mut self) {
            self.0.wait();
            self.1.wait();
        }
    }
    with_runtime(move |runtime| {
        let slow = runtime.spawn_process(Slow(began.clone(), go_on.clone())).named("p").start().unwrap();
        let ended = slow.join();
        slow.stop();
        began.wait();
        assert_eq!(runtime.whereis("p"), None);
        assert!(matches!(runtime.register_name("q", slow), Err(NameError::Gone { .. })));
        assert!(matches!(runtime.register_name("p", slow), Err(NameError::Gone { .. })));
        let next = runtime.spawn(Printer::default()).named("p").or_existing().serve().unwrap();
        go_on.wait();
        ended.wait();
        assert_eq!((runtime.whereis("p"), runtime.statistics().directory.names), (Some(next.pid()), 1));
    });
}

/// Threads register names for processes that are about to exit. Mutation: in `exit.rs`, do not call
/// `REGISTRATIONS.end`; in `registrations.rs`, `add`, leave out Y3: names are left behind.
#[test]
fn names_registered_while_their_holders_exit_are_never_left_behind() {
    watched(|| {
        let runtime = Arc::new(builder().build().unwrap());
        let over = Arc::new(AtomicBool::new(false));
        let given = Arc::new(AtomicUsize::new(0));
        let refused = Arc::new(AtomicUsize::new(0));
        // The process for which the threads register names.
        let target: Arc<std::sync::Mutex<Option<Address<Printer>>>> = Arc::default();
        let namers: Vec<_> = (0..4)
            .map(|namer| {
                let (runtime, over, target) = (runtime.clone(), over.clone(), target.clone());
                let (given, refused) = (given.clone(), refused.clone());
                thread::spawn(move || {
                    let mut round = 0_usize;
                    while !over.load(Ordering::Relaxed) {
                        let Some(printer) = *target.lock().unwrap() else { continue };
                        round += 1;
                        let name = format!("{namer}.{}", round % 3);
                        match runtime.register_name(name.clone(), printer) {
                            Ok(()) => given.fetch_add(1, Ordering::Relaxed),
                            Err(NameError::Gone { pid, .. }) => {
                                assert_eq!(pid, printer.pid());
                                refused.fetch_add(1, Ordering::Relaxed)
                            }
                            // Another one of the processes still holds the name.
                            Err(NameError::Taken { holder, .. }) => {
                                assert_ne!(holder, printer.pid());
                                0
                            }
                            Err(other) => panic!("{other}"),
                        };
                        if round.is_multiple_of(5) {
                            runtime.unregister_name(&name);
                        }
                    }
                })
            })
            .collect();
        let mut rounds = 0;
        while rounds < 1_000 || refused.load(Ordering::Relaxed) < 50 || given.load(Ordering::Relaxed) < 50 {
            rounds += 1;
            let one = printer(&runtime);
            *target.lock().unwrap() = Some(one);
            if rounds % 2 == 0 {
                thread::yield_now();
            }
            let ended = one.pid().join();
            match rounds % 3 {
                0 => one.pid().kill(),
                1 => one.pid().stop(),
                _ => one.pid().cancel("enough"),
            };
            ended.wait();
        }
        over.store(true, Ordering::Relaxed);
        namers.into_iter().for_each(|namer| namer.join().unwrap());
        let statistics = runtime.statistics();
        assert_eq!((statistics.directory.names, statistics.processes.live), (0, 0), "{rounds} rounds");
        for namer in 0..4 {
            for round in 0..3 {
                assert_eq!(runtime.whereis(&format!("{namer}.{round}")), None);
            }
        }
    });
}
