//! A process that traps exits receives them instead of exiting.

use super::{linked_pair, partners};
use postroom::manual::Event;
use postroom::prelude::*;
use postroom_tests::bomb::with_one_worker;
use postroom_tests::face::{Gate, with_runtime};
use postroom_tests::partner::{Begin, Bound, LONG, Partner, Report, Trapper, fell_with};
use postroom_tests::{Act, act};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[test]
fn a_process_with_a_method_for_exits_gets_each_once_and_survives() {
    with_runtime(|runtime| {
        let (trapper, reports) = Trapper::reporting();
        let trapper = runtime.spawn(trapper).serve().unwrap();
        let node = trapper.spawn(Bound::Linked, Begin::Serve).wait().unwrap();
        assert_eq!(node.bindings().wait().unwrap().links, [trapper.pid()]);
        node.kill();
        let exit = reports.exit();
        assert_eq!((exit.pid, exit.reason), (node, ExitReason::Killed));
        assert_eq!(trapper.pid().bindings().wait().unwrap().count(), 0);
        trapper.say("lives").wait().unwrap();
        assert_eq!(reports.next(), Report::Word("lives"));
    });
}

#[test]
fn a_normal_exit_is_not_reported_to_a_trapping_partner_and_a_shutdown_is() {
    with_runtime(|runtime| {
        let (trapper, reports) = Trapper::reporting();
        let trapper = runtime.spawn(trapper).serve().unwrap();
        let done = trapper.spawn(Bound::Linked, Begin::Serve).wait().unwrap();
        let cancelled = trapper.spawn(Bound::Linked, Begin::Serve).wait().unwrap();
        let end = done.join();
        done.stop();
        end.wait_timeout(LONG).unwrap();
        cancelled.cancel(ExitReason::Shutdown);
        assert_eq!(reports.exit(), Exit { pid: cancelled, reason: ExitReason::Shutdown });
    });
}

#[test]
fn trapping_by_the_context_discards_exits_without_a_method_until_it_is_switched_off() {
    with_runtime(|runtime| {
        let (one, other) = linked_pair(runtime);
        one.trap(true).wait().unwrap();
        let end = other.pid().join();
        other.pid().kill();
        end.wait_timeout(LONG).unwrap();
        one.ping().wait().unwrap();
        assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);

        one.trap(false).wait().unwrap();
        let another = partners(runtime, 1)[0];
        one.link(another.pid()).wait().unwrap();
        let end = one.pid().join();
        another.pid().kill();
        assert!(fell_with(&end.wait_timeout(LONG).unwrap(), another.pid()));
    });
}

#[test]
fn one_with_a_method_for_exits_can_stop_trapping_them() {
    with_runtime(|runtime| {
        let (trapper, reports) = Trapper::reporting();
        let trapper = runtime.spawn(trapper).serve().unwrap();
        trapper.trap(false).wait().unwrap();
        let node = trapper.spawn(Bound::Linked, Begin::Serve).wait().unwrap();
        let end = trapper.pid().join();
        node.kill();
        assert!(fell_with(&end.wait_timeout(LONG).unwrap(), node));
        assert_eq!(reports.rest(), []);
    });
}

/// Catches: the choice of a sync entry that is overridden by the default. By default, a process with a method for exits
/// traps them.
#[test]
fn a_sync_entry_can_say_that_exits_are_not_trapped() {
    #[process]
    struct Falls;

    #[process]
    impl Falls {
        #[entry]
        fn serve(&mut self, ctx: &mut Context<Self>, with: Pid) {
            ctx.trap_exits(false);
            with.link().expect("another process");
        }
        #[signal]
        fn exit(&mut self, exit: Exit) {
            panic!("{exit:?} was trapped");
        }
    }

    with_runtime(|runtime| {
        let other = partners(runtime, 1)[0].pid();
        let end = runtime.spawn(Falls).serve(other).unwrap().pid().join();
        other.kill();
        assert!(fell_with(&end.wait_timeout(LONG).unwrap(), other));
    });
}

#[test]
fn a_kill_cannot_be_trapped() {
    with_runtime(|runtime| {
        let (trapper, reports) = Trapper::reporting();
        let trapper = runtime.spawn(trapper).serve().unwrap();
        let end = trapper.pid().join();
        trapper.pid().kill();
        assert_eq!(end.wait_timeout(LONG), Some(ExitReason::Killed));
        assert_eq!(reports.rest(), []);
    });
}

/// When the process's step begins, both signals have arrived, the kill first.
#[test]
fn a_killed_process_whose_partner_fails_too_was_killed() {
    with_runtime(|runtime| {
        let (one, reports) = Partner::reporting();
        let one = runtime.spawn(one).serve().unwrap();
        let other = partners(runtime, 1)[0];
        one.link(other.pid()).wait().unwrap();
        let gate = Gate::new();
        one.hold(gate.clone()).send().unwrap();
        assert_eq!(reports.next(), Report::Word("holds"));
        let (end, others) = (one.pid().join(), other.pid().join());
        one.pid().kill();
        other.pid().kill();
        others.wait_timeout(LONG).unwrap();
        gate.open();
        assert_eq!(end.wait_timeout(LONG), Some(ExitReason::Killed));
    });
}

/// When the process unlinks, the exit has been sent, but has not been delivered.
#[test]
fn unlinking_discards_an_exit_in_flight() {
    with_runtime(|runtime| {
        let (trapper, reports) = Trapper::reporting();
        let trapper = runtime.spawn(trapper).serve().unwrap();
        let node = partners(runtime, 1)[0].pid();
        trapper.link(node).wait().unwrap();
        let gate = Gate::new();
        trapper.hold_and_unlink(gate.clone(), node).send().unwrap();
        assert_eq!(reports.next(), Report::Word("holds"));
        let end = node.join();
        node.kill();
        end.wait_timeout(LONG).unwrap();
        gate.open();
        trapper.say("and").wait().unwrap();
        assert_eq!(reports.until_word(), []);
    });
}

#[test]
fn the_last_message_comes_before_the_exit() {
    #[process]
    struct Keeper(Sender<String>);

    #[process]
    impl Keeper {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn note(&mut self, what: &'static str) {
            let _over = self.0.send(what.to_string());
        }
        #[message]
        fn link(&mut self, other: Pid) {
            other.link().unwrap();
        }
        #[signal]
        fn exit(&mut self, exit: Exit) {
            let _over = self.0.send(exit.reason.to_string());
        }
    }

    #[process]
    struct Dying(Address<Keeper>);

    #[process]
    impl Dying {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn die(&mut self) -> Result<(), String> {
            for _ in 0..100 {
                self.0.note("words").send().unwrap();
            }
            panic!("last words are said");
        }
    }

    with_runtime(|runtime| {
        for _ in 0..50 {
            let (sender, receiver) = channel();
            let keeper = runtime.spawn(Keeper(sender)).serve().unwrap();
            let dying = runtime.spawn(Dying(keeper)).serve().unwrap();
            keeper.link(dying.pid()).wait().unwrap();
            dying.die().send().unwrap();
            let words: Vec<_> = (0..101).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
            assert!(words[..100].iter().all(|word| word == "words"));
            assert!(words[100].starts_with("panic: last words are said"), "{}", words[100]);
        }
    });
}

/// Returns a hand-written process that links with and monitors each PID that it receives, and reports its events.
fn by_hand(sender: Sender<String>) -> Act {
    act(move |events, out| {
        while let Some(event) = events.next() {
            let said = match event {
                Event::Message(package) => match package.take::<Pid>() {
                    Ok(pid) => {
                        pid.link().unwrap();
                        pid.monitor().unwrap();
                        "linked".to_string()
                    }
                    Err(other) => other.take::<&'static str>().ok().unwrap_or("?").to_string(),
                },
                Event::Signal(Signal::Down(down)) => format!("down {} {}", down.pid, down.reason),
                Event::Signal(Signal::Exit(exit)) => format!("exit {} {}", exit.pid, exit.reason),
                other => format!("{other:?}"),
            };
            let _over = sender.send(said);
        }
        out.idle();
        Ok(())
    })
}

#[test]
fn a_hand_written_process_gets_down_and_exit_in_their_place_among_messages() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let pid = runtime.spawn_process(by_hand(sender).traps_exits()).start().unwrap();
        let dying = partners(runtime, 1)[0].pid();
        let next = || receiver.recv_timeout(LONG).unwrap();
        runtime.send(pid, dying).unwrap();
        assert_eq!(next(), "linked");
        // One message is sent before the exit and one after it. The two notices arrive between them, in either order.
        runtime.send(pid, "before").unwrap();
        let end = dying.join();
        dying.kill();
        end.wait_timeout(LONG).unwrap();
        runtime.send(pid, "after").unwrap();
        assert_eq!(next(), "before");
        let mut notices = [next(), next()];
        notices.sort();
        assert_eq!(notices, [format!("down {dying} killed"), format!("exit {dying} killed")]);
        assert_eq!(next(), "after");
    });
}

#[test]
fn a_hand_written_process_that_does_not_trap_exits_fails() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let pid = runtime.spawn_process(by_hand(sender)).start().unwrap();
        let dying = partners(runtime, 1)[0].pid();
        runtime.send(pid, dying).unwrap();
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), "linked");
        let end = pid.join();
        dying.kill();
        assert!(fell_with(&end.wait_timeout(LONG).unwrap(), dying));
    });
}

/// A process that unlinks or demonitors another one when the other's exit has been received, but not yet delivered.
#[process]
struct TakesBack {
    sender: Sender<Pid>,
}

impl TakesBack {
    /// Receives the notices. They are delivered when the current method ends.
    async fn hear(ctx: &mut Context<Self>) {
        assert!(ctx.receive_within::<String>(Duration::ZERO).await.is_none());
    }
}

#[process]
impl TakesBack {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn unlink(&mut self, ctx: &mut Context<Self>, others: Vec<Pid>, left: Pid) {
        for other in &others {
            other.link().expect("a process");
            let end = other.join();
            other.kill();
            drop(end.await);
        }
        Self::hear(ctx).await;
        for other in others.into_iter().filter(|other| *other != left) {
            other.unlink().expect("a process");
        }
    }

    #[message]
    async fn demonitor(&mut self, ctx: &mut Context<Self>, others: Vec<Pid>, left: Pid) {
        let mut monitors = vec![];
        for other in &others {
            monitors.push(other.monitor().expect("a process"));
            let end = other.join();
            other.kill();
            drop(end.await);
        }
        Self::hear(ctx).await;
        for monitor in monitors.into_iter().filter(|monitor| monitor.pid() != left) {
            assert!(monitor.demonitor(), "it was still to come");
            assert!(!monitor.demonitor(), "it has been taken back");
        }
    }

    #[message]
    fn told_all(&self) {}

    #[signal]
    fn exit(&mut self, exit: Exit) {
        let _over = self.sender.send(exit.pid);
    }

    #[signal]
    fn down(&mut self, down: Down) {
        let _over = self.sender.send(down.pid);
    }
}

/// When a link or monitor is removed, its received notice is removed, too, and the notices of other processes stay. If
/// the notice stayed, a method would be called for an exit that the process no longer wants. If all notices were
/// removed, the process would miss the others.
#[test]
fn a_received_exit_is_not_delivered_after_its_link_or_monitor_is_removed() {
    // With one worker, the exits of the others are complete, and their notices sent, before this process runs again.
    with_one_worker(|runtime| {
        let (sender, receiver) = channel();
        let takes_back = runtime.spawn(TakesBack { sender }).serve().unwrap();
        let others = || partners(runtime, 3).iter().map(|other| other.pid()).collect::<Vec<_>>();
        let linked = others();
        takes_back.unlink(linked.clone(), linked[1]).wait().unwrap();
        takes_back.told_all().wait().unwrap();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [linked[1]]);
        let watched = others();
        takes_back.demonitor(watched.clone(), watched[1]).wait().unwrap();
        takes_back.told_all().wait().unwrap();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [watched[1]]);
    });
}
