//! Monitors: each fires once when its process exits, for every kind of process and exit.

use postroom::Mailbox;
use postroom::error::TopologyError;
use postroom::prelude::*;
use postroom_tests::face::{Gate, Log, OnDrop, builder, with_runtime};
use postroom_tests::partner::{LONG, Partner, Report, Reports};

mod given;

/// Spawns a partner that monitors, and returns its reports.
fn watcher(runtime: &Runtime) -> (Address<Partner>, Reports) {
    let (watcher, reports) = Partner::reporting();
    (runtime.spawn(watcher).serve().unwrap(), reports)
}

fn partner(runtime: &Runtime) -> Address<Partner> {
    runtime.spawn(Partner::default()).serve().unwrap()
}

#[test]
fn every_exit_is_reported_with_its_reason() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let ends: [fn(Address<Partner>); 6] = [
            |partner| assert!(partner.pid().stop()),
            |partner| partner.finish().send().unwrap(),
            |partner| partner.fail().send().unwrap(),
            |partner| assert!(partner.pid().kill()),
            |partner| assert!(partner.pid().cancel("enough")),
            |partner| assert!(partner.pid().cancel(ExitReason::Shutdown)),
        ];
        for end in ends {
            let watched = partner(runtime);
            let monitor = watcher.watch(watched.pid()).wait().unwrap();
            let joined = watched.pid().join();
            end(watched);
            let down = reports.down();
            assert_eq!((down.pid, down.monitor), (watched.pid(), monitor));
            assert_eq!(Some(down.reason), joined.wait_timeout(LONG));
        }
        assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn the_exit_of_a_dead_process_is_reported_at_once() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let gone = partner(runtime).pid();
        gone.stop();
        gone.join().wait();
        let monitor = watcher.watch(gone).wait().unwrap();
        let down = reports.down();
        assert_eq!((down.pid, down.monitor, down.reason), (gone, monitor, ExitReason::NoProcess));
        assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_process_of_an_unknown_node_is_lost() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let far: Pid = "<54321.1.7.3>".parse().unwrap();
        watcher.watch(far).wait().unwrap();
        let down = reports.down();
        assert_eq!((down.pid, down.reason), (far, ExitReason::NodeLost));
    });
}

#[test]
fn a_process_of_another_runtime_is_watched_as_one_of_its_own() {
    with_runtime(|runtime| {
        let elsewhere = builder().name("elsewhere").build().unwrap();
        let (watcher, reports) = watcher(runtime);
        let far = partner(&elsewhere).pid();
        watcher.watch(far).wait().unwrap();
        assert_eq!(far.bindings().wait().unwrap().monitored_by, [watcher.pid()]);
        elsewhere.shutdown().unwrap();
        let down = reports.down();
        assert_eq!((down.pid, down.reason), (far, ExitReason::Shutdown));
    });
}

#[test]
fn two_monitors_of_one_process_both_fire() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let watched = partner(runtime);
        let mut monitors = [(); 2].map(|()| watcher.watch(watched.pid()).wait().unwrap());
        assert_eq!(watched.pid().bindings().wait().unwrap().monitored_by, [watcher.pid(); 2]);
        assert_eq!(watcher.pid().bindings().wait().unwrap().monitors, [watched.pid(); 2]);
        watched.pid().kill();
        let mut downs = [reports.down().monitor, reports.down().monitor];
        downs.sort_by_key(|monitor| format!("{monitor:?}"));
        monitors.sort_by_key(|monitor| format!("{monitor:?}"));
        assert_eq!(downs, monitors);
        watcher.say("all").wait().unwrap();
        assert_eq!(reports.until_word(), []);
    });
}

/// Catches: a monitor that is found by its number alone, although another process may use the same number for a monitor
/// of its own.
#[test]
fn a_process_cannot_remove_the_monitor_of_another() {
    with_runtime(|runtime| {
        let watched = partner(runtime).pid();
        let ((first, _first_reports), (second, second_reports)) = (watcher(runtime), watcher(runtime));
        let [of_first, of_second] = [&first, &second].map(|watcher| watcher.watch(watched).wait().unwrap());
        assert_ne!(of_first, of_second);
        assert!(!second.unwatch(of_first).wait().unwrap(), "it is of the first");
        watched.kill();
        assert_eq!(second_reports.down().monitor, of_second);
        assert!(!second.unwatch(of_first).wait().unwrap());
    });
}

#[test]
fn one_of_two_monitors_can_be_removed() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let watched = partner(runtime);
        let [first, second] = [(); 2].map(|()| watcher.watch(watched.pid()).wait().unwrap());
        assert!(watcher.unwatch(first).wait().unwrap());
        assert!(!watcher.unwatch(first).wait().unwrap(), "taken back already");
        watched.pid().kill();
        assert_eq!(reports.down().monitor, second);
        assert!(!watcher.unwatch(second).wait().unwrap(), "told already");
        watcher.say("all").wait().unwrap();
        assert_eq!(reports.until_word(), []);
    });
}

#[test]
fn a_removed_monitor_leaves_nothing_on_either_side() {
    with_runtime(|runtime| {
        let (watcher, _told) = watcher(runtime);
        let watched = partner(runtime);
        let monitor = watcher.watch(watched.pid()).wait().unwrap();
        assert!(watcher.unwatch(monitor).wait().unwrap());
        assert_eq!(watched.pid().bindings().wait().unwrap().count(), 0);
        assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
    });
}

/// When the monitor is removed, the process has exited, and the notice is in the mailbox.
#[test]
fn a_removed_monitor_does_not_fire_even_if_the_notice_is_in_flight() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let watched = partner(runtime).pid();
        let monitor = watcher.watch(watched).wait().unwrap();
        let gate = Gate::new();
        watcher.hold_and_unwatch(gate.clone(), monitor).send().unwrap();
        assert_eq!(reports.next(), Report::Word("holds"));
        let end = watched.join();
        watched.kill();
        end.wait_timeout(LONG).unwrap();
        gate.open();
        watcher.say("all").wait().unwrap();
        assert_eq!(reports.until_word(), []);
        assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_watcher_that_exits_leaves_nothing_with_the_processes_it_monitored() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let watched = partner(runtime);
        for _ in 0..10 {
            watcher.watch(watched.pid()).wait().unwrap();
        }
        let end = watcher.pid().join();
        watcher.pid().kill();
        end.wait_timeout(LONG).unwrap();
        assert_eq!(watched.pid().bindings().wait().unwrap().count(), 0);
        assert_eq!(reports.rest(), []);
    });
}

#[test]
fn the_watched_knows_nothing_of_it_and_a_failure_of_the_watcher_does_not_touch_it() {
    with_runtime(|runtime| {
        let (watcher, _told) = watcher(runtime);
        let watched = partner(runtime);
        watcher.watch(watched.pid()).wait().unwrap();
        let end = watcher.pid().join();
        watcher.fail().send().unwrap();
        end.wait_timeout(LONG).unwrap();
        watched.ping().wait().unwrap();
    });
}

#[test]
fn a_thousand_exits_are_reported_once_each() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let watched: Vec<_> = (0..1_000).map(|_| partner(runtime).pid()).collect();
        for pid in &watched {
            watcher.watch(*pid).send().unwrap();
        }
        watched.iter().for_each(|pid| assert!(pid.kill()));
        let mut downs: Vec<_> = watched.iter().map(|_| reports.down().pid).collect();
        let mut watched = watched;
        downs.sort();
        watched.sort();
        assert_eq!(downs, watched);
    });
}

#[test]
fn a_mailbox_is_watched_until_it_is_dropped_and_a_link_with_it_is_forgotten_by_it() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let mut mailbox = Mailbox::new().unwrap();
        let linked = partner(runtime);
        linked.link(mailbox.pid()).wait().unwrap();
        let asked = mailbox.pid().bindings();
        assert!(mailbox.try_receive().is_none());
        assert_eq!(asked.wait().unwrap().links, [linked.pid()]);

        // A partner's failure does not affect a mailbox, since a mailbox is not a process.
        let end = linked.pid().join();
        linked.pid().kill();
        end.wait_timeout(LONG).unwrap();
        runtime.send(mailbox.pid(), 7).unwrap();
        assert_eq!(mailbox.receive().take::<i32>().ok(), Some(7));
        let asked = mailbox.pid().bindings();
        assert!(mailbox.try_receive().is_none());
        assert_eq!(asked.wait().unwrap().count(), 0);

        let monitor = watcher.watch(mailbox.pid()).wait().unwrap();
        let pid = mailbox.pid();
        drop(mailbox);
        let down = reports.down();
        assert_eq!((down.pid, down.monitor, down.reason), (pid, monitor, ExitReason::Normal));
    });
}

#[test]
fn monitors_outside_of_processes_are_refused() {
    with_runtime(|runtime| {
        let pid = partner(runtime).pid();
        assert_eq!(pid.monitor().unwrap_err(), TopologyError::NoProcess(pid));
        assert_eq!(pid.link(), Err(TopologyError::NoProcess(pid)));
        assert_eq!(pid.unlink(), Err(TopologyError::NoProcess(pid)));
        let text = TopologyError::NoProcess(pid).to_string();
        assert!(text.contains(&pid.to_string()) && text.contains("pid.join()"), "{text}");
    });
}

#[test]
fn a_process_cannot_be_bound_to_itself() {
    with_runtime(|runtime| {
        let (partner, _told) = watcher(runtime);
        let pid = partner.pid();
        let refused = |result: Result<(), CallError<TopologyError>>| {
            assert!(matches!(result, Err(CallError::Failed(TopologyError::Itself(itself))) if itself == pid));
        };
        refused(partner.watch(pid).wait().map(drop));
        refused(partner.link(pid).wait());
        refused(partner.unlink(pid).wait());
        assert_eq!(pid.bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_process_that_is_being_dropped_cannot_be_bound() {
    #[process]
    struct Clings(Pid, Log<Result<(), TopologyError>>);

    impl Drop for Clings {
        fn drop(&mut self) {
            self.1.add(self.0.link());
            self.1.add(self.0.monitor().map(drop));
        }
    }

    #[process]
    impl Clings {
        #[entry]
        fn serve(&mut self) {}
    }

    with_runtime(|runtime| {
        let log = Log::new();
        let other = partner(runtime).pid();
        let clings = runtime.spawn(Clings(other, log.clone())).serve().unwrap().pid();
        let end = clings.join();
        clings.stop();
        end.wait_timeout(LONG).unwrap();
        assert_eq!(log.all(), [Err(TopologyError::NoProcess(other)); 2]);
        assert_eq!(other.bindings().wait().unwrap().count(), 0);
    });
}

/// When a process is notified of an exit, nothing is left of the exited process.
#[test]
fn when_an_exit_is_reported_the_state_is_dropped_the_name_free_and_the_pid_unroutable() {
    #[process]
    struct Looks(Log<&'static str>, std::sync::mpsc::Sender<(Vec<&'static str>, Option<Pid>, bool, bool)>);

    #[process]
    impl Looks {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn watch(&mut self, other: Pid) {
            other.monitor().unwrap();
        }
        #[signal]
        fn down(&mut self, down: Down) {
            let host = Host::current().unwrap();
            let seen = (self.0.all(), host.whereis("held"), down.pid.is_alive(), host.send(down.pid, 1_u8).is_err());
            let _over = self.1.send(seen);
        }
    }

    #[process]
    struct Holds(#[expect(dead_code, reason = "its drop is what matters")] OnDrop);

    #[process]
    impl Holds {
        #[entry]
        fn serve(&mut self) {}
    }

    with_runtime(|runtime| {
        for _ in 0..100 {
            let log = Log::new();
            let (sender, receiver) = std::sync::mpsc::channel();
            let looks = runtime.spawn(Looks(log.clone(), sender)).serve().unwrap();
            let holds = runtime.spawn(Holds(OnDrop(log.clone(), "dropped"))).named("held").serve().unwrap().pid();
            looks.watch(holds).wait().unwrap();
            holds.kill();
            let seen = receiver.recv_timeout(LONG).unwrap();
            assert_eq!(seen, (vec!["dropped"], None, false, true));
        }
    });
}
