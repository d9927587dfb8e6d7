//! Links, monitors and joins between two nodes, and their end with the connection.

use super::wire::{Mode, Pair, with_pair};
use postroom::prelude::*;
use postroom::routing::Router;
use postroom_tests::face::{Gate, until};
use postroom_tests::partner::{Partner, Report, Reports, Trapper, fell_with};
use std::sync::mpsc::channel;

/// Spawns a partner, and also returns its reports.
fn reporting(runtime: &Runtime) -> (Address<Partner>, Reports) {
    let (partner, reports) = Partner::reporting();
    (runtime.spawn(partner).serve().unwrap(), reports)
}

/// Spawns a process that traps exits, and also returns its reports of them.
fn trapping(runtime: &Runtime) -> (Address<Trapper>, Reports) {
    let (trapper, reports) = Trapper::reporting();
    (runtime.spawn(trapper).serve().unwrap(), reports)
}

/// A process that sends a few last words before it fails.
#[process]
struct Doomed;

#[process]
impl Doomed {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn say_and_fail(&mut self, to: Address<Trapper>) {
        for word in ["first", "second", "third"] {
            to.say(word).send().unwrap();
        }
        panic!("failed as it was reports");
    }
}

/// A process that links in the middle of a step, and traps exits.
#[process]
struct Busy {
    heard: Vec<Exit>,
}

#[process]
impl Busy {
    #[entry]
    fn serve(&mut self) {}
    /// Stays in this step until the gate is open, and then links with `other`.
    #[message]
    fn hold_and_link(&mut self, begun: Gate, gate: Gate, other: Option<Pid>) {
        begun.open();
        gate.pass();
        other.into_iter().for_each(|other| other.link().unwrap());
    }
    #[message]
    fn heard(&mut self) -> Vec<Exit> {
        self.heard.clone()
    }
    #[signal]
    fn exit(&mut self, exit: Exit) {
        self.heard.push(exit);
    }
}

fn quiet(runtime: &Runtime) -> Address<Partner> {
    runtime.spawn(Partner::default()).serve().unwrap()
}

/// Delivers parcels until both partners know that they are linked, or that they are not.
fn until_linked(pair: &Pair, one: Pid, other: Pid, is_linked: bool) {
    let knows = |one: Pid, other: Pid| one.bindings().wait().unwrap().links.contains(&other) == is_linked;
    pair.net.pump_until(|| knows(one, other) && knows(other, one));
}

/// A function that ends a process, and a function that checks the reason that its monitors get.
type End = (fn(Address<Partner>), fn(&ExitReason) -> bool);

fn ends() -> [End; 5] {
    [
        (|it| _ = it.finish().send(), |reason| *reason == ExitReason::Normal),
        (|it| _ = it.fail().send(), |reason| matches!(reason, ExitReason::Panic(_))),
        (|it| _ = it.pid().kill(), |reason| *reason == ExitReason::Killed),
        (|it| _ = it.pid().cancel("enough"), |reason| *reason == ExitReason::from("enough")),
        (|it| _ = it.pid().cancel(ExitReason::Shutdown), |reason| *reason == ExitReason::Shutdown),
    ]
}

#[test]
fn a_monitor_hears_of_each_end_of_a_process_elsewhere_once() {
    with_pair(|pair| {
        for (end, is_reason) in ends() {
            let (watcher, reports) = reporting(&pair.here);
            let watched = quiet(&pair.there);
            let monitors = [(); 2].map(|()| watcher.watch(watched.pid()).wait().unwrap());
            pair.net.pump_until(|| watched.pid().bindings().wait().unwrap().monitored_by == [watcher.pid(); 2]);
            end(watched);
            let mut heard = Vec::new();
            pair.net.pump_until(|| {
                heard.extend(reports.so_far());
                heard.len() == 2
            });
            for report in heard {
                let Report::Down(down) = report else { panic!("{report:?}") };
                assert!(monitors.contains(&down.monitor) && is_reason(&down.reason), "{down:?}");
                assert_eq!(down.pid, watched.pid());
            }
            watcher.say("no more").wait().unwrap();
            pair.net.pump();
            assert_eq!(reports.until_word(), []);
            assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
        }
    });
}

#[test]
fn a_monitor_of_a_process_that_has_ended_or_cannot_be_reached_fires_at_once() {
    with_pair(|pair| {
        let (watcher, reports) = reporting(&pair.here);
        let watched = quiet(&pair.there);
        let end = watched.pid().join();
        assert!(watched.pid().kill());
        end.wait();
        let dead = watcher.watch(watched.pid()).wait().unwrap();
        let mut heard = Vec::new();
        pair.net.pump_until(|| {
            heard.extend(reports.so_far());
            !heard.is_empty()
        });
        assert_eq!(heard, [Report::Down(Down::of(dead, ExitReason::NoProcess))]);
        // First there is a transport that takes no link messages, and then none at all.
        let alive = quiet(&pair.there).pid();
        for cut in [false, true] {
            if cut {
                pair.net.set_mode(Mode::Takes);
                pair.cut();
            } else {
                pair.net.set_mode(Mode::MessagesOnly);
            }
            let lost = watcher.watch(alive).wait().unwrap();
            assert_eq!(reports.down(), Down::of(lost, ExitReason::NodeLost));
            assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
            let partner = quiet(&pair.here);
            let end = partner.pid().join();
            partner.link(alive).send().unwrap();
            assert_eq!(end.wait(), ExitReason::Linked { pid: alive, reason: ExitReason::NodeLost.into() });
            assert_eq!(pair.as_here(|| alive.join()).wait(), ExitReason::NodeLost);
            assert!(!pair.as_here(|| alive.stop() || alive.cancel("no") || alive.kill()));
        }
        assert!(alive.is_alive());
    });
}

#[test]
fn a_monitor_that_is_removed_does_not_fire_and_is_forgotten_elsewhere() {
    with_pair(|pair| {
        let (watcher, reports) = reporting(&pair.here);
        let watched = quiet(&pair.there);
        let monitor = watcher.watch(watched.pid()).wait().unwrap();
        pair.net.pump_until(|| !watched.pid().bindings().wait().unwrap().monitored_by.is_empty());
        assert!(watcher.unwatch(monitor).wait().unwrap());
        pair.net.pump_until(|| watched.pid().bindings().wait().unwrap().monitored_by.is_empty());
        // This monitor is removed while its notice is under way.
        let monitor = watcher.watch(watched.pid()).wait().unwrap();
        pair.net.pump_until(|| !watched.pid().bindings().wait().unwrap().monitored_by.is_empty());
        watched.fail().send().unwrap();
        until(|| pair.net.under_way() > 0);
        assert!(watcher.unwatch(monitor).wait().unwrap());
        pair.net.pump();
        watcher.say("no more").wait().unwrap();
        assert_eq!(reports.until_word(), []);
    });
}

/// A failure spreads over a link from either side, whichever side made the link.
#[test]
fn a_failure_reaches_the_partner_elsewhere_and_a_normal_end_only_unlinks() {
    with_pair(|pair| {
        for (end, _) in ends() {
            for (linker_is_here, first_ends) in [(true, true), (true, false), (false, true), (false, false)] {
                let both = if linker_is_here { (&pair.here, &pair.there) } else { (&pair.there, &pair.here) };
                let (one, other) = (quiet(both.0), quiet(both.1));
                one.link(other.pid()).wait().unwrap();
                until_linked(pair, one.pid(), other.pid(), true);
                let (ending, left) = if first_ends { (one, other) } else { (other, one) };
                let (end_of_left, end_of_ending) = (left.pid().join(), ending.pid().join());
                end(ending);
                let reason = end_of_ending.wait();
                if reason == ExitReason::Normal {
                    pair.net.pump_until(|| left.pid().bindings().wait().unwrap().count() == 0);
                    assert!(left.pid().kill());
                    continue;
                }
                let mut end_of_left = Some(end_of_left);
                pair.net.pump_until(|| !left.pid().is_alive());
                let why = end_of_left.take().unwrap().wait();
                assert_eq!(why, ExitReason::Linked { pid: ending.pid(), reason: reason.into() });
            }
        }
    });
}

#[test]
fn one_that_traps_exits_hears_of_a_failure_elsewhere_behind_the_last_messages() {
    with_pair(|pair| {
        let (trapper, reports) = trapping(&pair.here);
        let doomed = pair.there.spawn(Doomed).serve().unwrap();
        trapper.link(doomed.pid()).wait().unwrap();
        until_linked(pair, trapper.pid(), doomed.pid(), true);
        doomed.say_and_fail(trapper).send().unwrap();
        let mut heard = Vec::new();
        pair.net.pump_until(|| {
            heard.extend(reports.so_far());
            heard.len() == 4
        });
        let Report::Exit(exit) = heard.pop().unwrap() else { panic!("{heard:?}") };
        assert!(exit.pid == doomed.pid() && matches!(exit.reason, ExitReason::Panic(_)), "{exit:?}");
        assert_eq!(heard, ["first", "second", "third"].map(Report::Word));
    });
}

#[test]
fn an_unlink_holds_on_both_sides_even_if_the_failure_is_on_its_way() {
    with_pair(|pair| {
        let (one, other) = (quiet(&pair.here), quiet(&pair.there));
        one.link(other.pid()).wait().unwrap();
        until_linked(pair, one.pid(), other.pid(), true);
        one.unlink(other.pid()).wait().unwrap();
        until_linked(pair, one.pid(), other.pid(), false);
        one.link(other.pid()).wait().unwrap();
        until_linked(pair, one.pid(), other.pid(), true);
        // The exit of the other process crosses the unlink.
        let end = other.pid().join();
        other.fail().send().unwrap();
        end.wait();
        until(|| pair.net.under_way() > 0);
        one.unlink(other.pid()).wait().unwrap();
        pair.net.pump_until(|| pair.net.under_way() == 0);
        one.ping().wait().unwrap();
        assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn all_ties_end_with_the_connection_and_each_is_told_once() {
    with_pair(|pair| {
        let (watcher, reports) = trapping(&pair.here);
        let (falls, stays, watched) = (quiet(&pair.here), quiet(&pair.there), quiet(&pair.there));
        let monitors = [(); 2].map(|()| watcher.watch(watched.pid()).wait().unwrap());
        watcher.link(watched.pid()).wait().unwrap();
        falls.link(stays.pid()).wait().unwrap();
        until_linked(pair, falls.pid(), stays.pid(), true);
        until_linked(pair, watcher.pid(), watched.pid(), true);
        let joined = pair.as_here(|| stays.pid().join());
        // The unlink of this process is not answered. The process is monitored from the other node.
        let (unlinks, was_linked) = (quiet(&pair.here), quiet(&pair.there));
        unlinks.link(was_linked.pid()).wait().unwrap();
        until_linked(pair, unlinks.pid(), was_linked.pid(), true);
        let watches = quiet(&pair.there);
        watches.watch(unlinks.pid()).wait().unwrap();
        pair.net.pump_until(|| unlinks.pid().bindings().wait().unwrap().monitored_by == [watches.pid()]);
        unlinks.unlink(was_linked.pid()).wait().unwrap();
        let ends = [falls.pid().join(), stays.pid().join()];
        pair.cut();
        assert_eq!(joined.wait(), ExitReason::NodeLost);
        for (end, other) in ends.into_iter().zip([stays, falls]) {
            let reason = end.wait();
            assert!(fell_with(&reason, other.pid()), "{reason}");
            assert!(matches!(reason, ExitReason::Linked { reason, .. } if *reason == ExitReason::NodeLost));
        }
        let mut downs = 0;
        let mut exits = 0;
        for _ in 0..3 {
            match reports.next() {
                Report::Down(down) => {
                    assert!(monitors.contains(&down.monitor) && down.reason == ExitReason::NodeLost);
                    downs += 1;
                }
                Report::Exit(exit) => {
                    assert_eq!((exit.pid, exit.reason), (watched.pid(), ExitReason::NodeLost));
                    exits += 1;
                }
                Report::Word(word) => panic!("{word}"),
            }
        }
        assert_eq!((downs, exits), (2, 1));
        // The partner of the other link exits too, as it does not trap exits. The surviving processes have no ties
        // left.
        until(|| !watched.pid().is_alive());
        for it in [watcher.pid(), unlinks.pid()] {
            assert_eq!(it.bindings().wait().unwrap().count(), 0);
        }
        // After a new connection the same processes can be tied again.
        let (one, other) = pair.nodes();
        pair.net.connect(one, other);
        let alive = quiet(&pair.there);
        watcher.link(alive.pid()).wait().unwrap();
        until_linked(pair, watcher.pid(), alive.pid(), true);
        assert_eq!(reports.so_far(), []);
        assert_eq!(Router::of_node(one).nodes(), [other]);
    });
}

/// Catches: the notice of a lost connection that ends a newer link, too. The other process made that link over the next
/// connection while this process was busy, and would keep its half of it.
#[test]
fn the_loss_of_one_connection_does_not_end_a_link_over_the_next() {
    with_pair(|pair| {
        let busy = pair.here.spawn(Busy { heard: Vec::new() }).serve().unwrap();
        let (other, reports) = trapping(&pair.there);
        other.link(busy.pid()).wait().unwrap();
        until_linked(pair, busy.pid(), other.pid(), true);
        let (begun, gate) = (Gate::new(), Gate::new());
        busy.hold_and_link(begun.clone(), gate.clone(), None).send().unwrap();
        begun.pass();
        pair.cut();
        let lost = |pid| Exit { pid, reason: ExitReason::NodeLost };
        assert_eq!(reports.exit(), lost(busy.pid()));
        let (one, there) = pair.nodes();
        pair.net.connect(one, there);
        other.link(busy.pid()).wait().unwrap();
        pair.net.pump_until(|| pair.net.under_way() == 0);
        gate.open();
        assert_eq!(busy.heard().wait().unwrap(), [lost(other.pid())]);
        until_linked(pair, busy.pid(), other.pid(), true);
        assert_eq!(reports.so_far(), []);
    });
}

/// Catches: an unlink over one connection that ends a link over the next one. The process made that link before it got
/// to the unlink.
#[test]
fn an_unlink_over_one_connection_does_not_end_a_link_over_the_next() {
    with_pair(|pair| {
        let busy = pair.here.spawn(Busy { heard: Vec::new() }).serve().unwrap();
        let (other, reports) = trapping(&pair.there);
        let (begun, gate) = (Gate::new(), Gate::new());
        busy.hold_and_link(begun.clone(), gate.clone(), Some(other.pid())).send().unwrap();
        begun.pass();
        other.link(busy.pid()).wait().unwrap();
        other.unlink(busy.pid()).wait().unwrap();
        pair.net.pump_until(|| pair.net.under_way() == 0);
        pair.cut();
        let (one, there) = pair.nodes();
        pair.net.connect(one, there);
        gate.open();
        // When it answers this call, it has handled everything that came over the previous connection.
        assert_eq!(busy.heard().wait().unwrap(), []);
        until_linked(pair, busy.pid(), other.pid(), true);
        assert_eq!(reports.so_far(), []);
    });
}

#[test]
fn a_join_across_nodes_waits_for_the_end_and_gets_its_reason() {
    with_pair(|pair| {
        for (end, is_reason) in ends() {
            let it = quiet(&pair.there);
            let joined = pair.as_here(|| it.pid().join());
            pair.net.pump();
            end(it);
            let (tell, told) = channel();
            std::thread::spawn(move || tell.send(joined.wait()).unwrap());
            let mut reason = None;
            pair.net.pump_until(|| {
                reason = told.try_recv().ok();
                reason.is_some()
            });
            assert!(is_reason(reason.as_ref().unwrap()), "{reason:?}");
            // This join comes after the exit.
            it.pid().join().wait();
            let joined = pair.as_here(|| it.pid().join());
            pair.net.pump();
            assert_eq!(joined.wait(), ExitReason::NoProcess);
        }
    });
}

/// Other nodes know a child by its alias, which only the child's own node resolves.
#[test]
fn ties_with_an_alias_are_with_the_process_that_it_means_there() {
    with_pair(|pair| {
        let tree = Supervisor::one_for_one().child("shop", |spawn| spawn.of(Partner::default()).serve());
        let tree = tree.spawn(pair.there.host()).unwrap();
        let shop = tree.child_pid("shop").unwrap();
        assert!(shop.is_alias() && shop.node() == pair.there.node());
        let first = shop.resolve().unwrap();
        let (watcher, reports) = trapping(&pair.here);
        let monitor = watcher.watch(shop).wait().unwrap();
        watcher.link(shop).wait().unwrap();
        pair.net.pump_until(|| {
            let bindings = first.bindings().wait().unwrap();
            bindings.links == [watcher.pid()] && bindings.monitored_by == [watcher.pid()]
        });
        assert_eq!(watcher.pid().bindings().wait().unwrap().links, [shop]);
        assert!(first.kill());
        let mut heard = Vec::new();
        pair.net.pump_until(|| {
            heard.extend(reports.so_far());
            heard.len() == 2
        });
        assert!(heard.contains(&Report::Down(Down::of(monitor, ExitReason::Killed))), "{heard:?}");
        assert!(heard.contains(&Report::Exit(Exit { pid: shop, reason: ExitReason::Killed })), "{heard:?}");
        // The restarted child is another process. Its ties are its own.
        pair.net.pump_until(|| shop.resolve().is_some_and(|next| next != first));
        let next = shop.resolve().unwrap();
        let monitor = watcher.watch(shop).wait().unwrap();
        watcher.link(shop).wait().unwrap();
        pair.net.pump_until(|| next.bindings().wait().unwrap().count() == 2);
        assert!(watcher.unwatch(monitor).wait().unwrap());
        watcher.unlink(shop).wait().unwrap();
        pair.net.pump_until(|| next.bindings().wait().unwrap().count() == 0);
        pair.net.pump_until(|| pair.net.under_way() == 0);
        assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
        assert_eq!(reports.so_far(), []);
    });
}

/// Catches: notices about a tie with an alias that go to whichever process the alias refers to when they arrive.
#[test]
fn ties_with_a_name_stay_with_the_process_that_had_it() {
    with_pair(|pair| {
        let host = pair.there.host();
        let (first, second) = (quiet(&pair.there), quiet(&pair.there));
        let name = host.named_address::<Partner>("moves").unwrap().pid();
        assert!(name.is_alias());
        host.register_name("moves", first.pid()).unwrap();
        let (watcher, _reports) = reporting(&pair.here);
        let monitor = watcher.watch(name).wait().unwrap();
        watcher.link(name).wait().unwrap();
        pair.net.pump_until(|| first.pid().bindings().wait().unwrap().count() == 2);
        host.unregister_name("moves");
        host.register_name("moves", second.pid()).unwrap();
        assert_eq!(name.resolve(), Some(second.pid()));
        assert!(watcher.unwatch(monitor).wait().unwrap());
        watcher.unlink(name).wait().unwrap();
        pair.net.pump_until(|| first.pid().bindings().wait().unwrap().count() == 0);
        // The new link is with the second process. The watcher's failure reaches that process even after the name has
        // been unregistered.
        watcher.link(name).wait().unwrap();
        pair.net.pump_until(|| second.pid().bindings().wait().unwrap().count() == 1);
        host.unregister_name("moves");
        assert!(watcher.pid().kill());
        pair.net.pump_until(|| !second.pid().is_alive());
    });
}
