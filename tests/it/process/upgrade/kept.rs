//! State that a process keeps across an upgrade.

use super::*;

#[test]
fn name_label_joins_and_links_outlive_an_upgrade() {
    soon(|| {
        let runtime = runtime();
        let old = runtime.spawn(Counter::default()).named("counter").label("counts").serve(0).unwrap();
        let (downs, heard): (Sender<Signal>, Receiver<Signal>) = channel();
        let pid = old.pid();
        let watcher = || {
            let downs = downs.clone();
            let watcher = act(move |events, out| {
                while let Some(event) = events.next() {
                    match event {
                        Event::Message(package) if package.is::<u8>() => drop(pid.monitor()),
                        Event::Message(_) => pid.link().unwrap(),
                        Event::Signal(signal) => downs.send(signal).unwrap(),
                        Event::Completed { .. } => {}
                    }
                }
                out.idle();
                Ok(())
            });
            runtime.spawn_process(watcher).start().unwrap()
        };
        let (monitors, links) = (watcher(), watcher());
        runtime.send(monitors, 1_u8).unwrap();
        runtime.send(links, ()).unwrap();
        eventually(|| pid.bindings().wait().is_some_and(|bindings| bindings.count() == 2));
        let (joined, new) = (pid.join(), better(old));
        assert_eq!(runtime.whereis("counter"), Some(new.pid()));
        assert_eq!(pid.info().unwrap().label.as_deref(), Some("counts"));
        new.pid().kill();
        assert_eq!(joined.wait(), ExitReason::Killed);
        let reason = links.join().wait();
        assert!(matches!(reason, ExitReason::Linked { .. } | ExitReason::NoProcess), "{reason}");
        let Ok(Signal::Down(down)) = heard.recv() else { panic!("a monitor is told") };
        assert_eq!((down.pid, down.reason), (pid, ExitReason::Killed));
    });
}

#[test]
fn a_bounded_mailbox_keeps_what_is_in_it() {
    soon(|| {
        let runtime = runtime();
        let old = runtime.spawn(Counter::default()).mailbox(Bound::Hard(3, Overflow::Refuse)).serve(0).unwrap();
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        (0..3).for_each(|_| old.add(1).send().unwrap());
        assert!(old.add(1).send().is_err());
        let upgrading = old.pid().upgrade(|old: Counter| Better::of(old, 10));
        leave.open();
        let new = upgrading.wait().unwrap();
        eventually(|| new.count().wait() == Ok(30));
    });
}

#[test]
fn the_state_is_moved_and_dropped_once() {
    soon(|| {
        let runtime = runtime();
        let drops = Drops::default();
        let old = runtime.spawn(Counter { kept: Some(drops.clone()), ..Counter::default() }).serve(1).unwrap();
        let new = better(old);
        new.count().wait().unwrap();
        assert_eq!(drops.0.load(SeqCst), 0);
        new.pid().stop();
        new.pid().join().wait();
        assert_eq!(drops.0.load(SeqCst), 1);
    });
}

#[test]
fn many_upgrades_back_and_forth_lose_no_message() {
    const TIMES: u64 = 300;
    soon(|| {
        let runtime = runtime();
        let old = runtime.spawn(Counter::default()).serve(0).unwrap();
        let sender = std::thread::spawn(move || {
            (0..TIMES * 10).for_each(|_| {
                // The mailbox may be full.
                while old.add(1).send().is_err() {
                    std::thread::yield_now();
                }
            })
        });
        for _ in 0..TIMES {
            let new = old.pid().upgrade(|old: Counter| Better::of(old, 1)).wait().unwrap();
            new.pid().upgrade(|old: Better| old.state).wait().unwrap();
        }
        sender.join().unwrap();
        assert_eq!(old.add(0).wait(), Ok(TIMES * 10));
    });
}

/// A definition without a method for exits.
#[process]
struct Plain;

#[process]
impl Plain {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn trap(&mut self, ctx: &mut Context<Self>) {
        ctx.trap_exits(true);
    }

    #[message]
    fn bind(&mut self, to: Pid) {
        to.link().unwrap();
    }
}

/// Another definition without a method for exits.
#[process]
struct Plainer;

#[process]
impl Plainer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ping(&mut self) {}
}

/// Catches: an upgrade that undoes the process's own choice to trap exits. (Mutation: in `engine/lifecycle/upgrade.rs`,
/// take the new definition's choice even if it is the same as the old one's.)
#[test]
fn that_a_process_traps_exits_by_its_own_word_outlasts_an_upgrade_between_definitions_that_are_alike() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let (plain, other) = (runtime.spawn(Plain).serve().unwrap(), runtime.spawn(Plain).serve().unwrap());
        plain.trap().wait().unwrap();
        plain.bind(other.pid()).wait().unwrap();
        let plainer = plain.pid().upgrade(|_: Plain| Plainer).wait().unwrap();
        let end = other.pid().join();
        other.pid().kill();
        assert_eq!(end.wait(), ExitReason::Killed);
        // The link was handled before the exit was sent, and the exit is handled before this message.
        assert_eq!(plainer.ping().wait(), Ok(()));
    });
}
