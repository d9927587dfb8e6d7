//! Requests to the stable PID of a child that has no process, because it has not started yet or is between two
//! processes. Also what must be up to date when the end of a child is reported.

use super::*;
use postroom::future::Ended;
use postroom::inspect::{Hook, Started};
use postroom::supervision::{Child, ChildError, ChildState};
use postroom_tests::face::{poll_once, until};
use postroom_tests::partner::{Partner, Reports, Trapper, fell_with};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};

fn dynamic(runtime: &Runtime) -> Tree {
    eager(Supervisor::dynamic()).spawn(runtime).unwrap()
}

/// Returns a runtime and a supervisor on it. Nothing runs there before the runtime is resumed.
fn paused() -> (Runtime, Tree) {
    let runtime = Runtime::builder().workers(1).paused().build().unwrap();
    let tree = dynamic(&runtime);
    (runtime, tree)
}

/// Returns the address of a child that is down and is restarted only on request, and the child's tree.
fn crashed(runtime: &Runtime) -> (Tree, Address<Worker>) {
    let tree = Supervisor::one_for_one().intensity(u32::MAX, Duration::MAX).backoff(Backoff::constant(Duration::MAX));
    let tree = tree.child("a", worker("a", &Log::new())).spawn(runtime).unwrap();
    let a: Address<Worker> = tree.child("a").unwrap();
    crash(a);
    eventually(|| tree.children()[0].state == ChildState::BackingOff);
    (tree, a)
}

fn partner(runtime: &Runtime) -> (Address<Partner>, Reports) {
    let (partner, reports) = Partner::reporting();
    (runtime.spawn(partner).serve().unwrap(), reports)
}

/// Spawns a process that traps exits, and also returns its reports of them.
fn trapping(runtime: &Runtime) -> (Address<Trapper>, Reports) {
    let (trapper, reports) = Trapper::reporting();
    (runtime.spawn(trapper).serve().unwrap(), reports)
}

#[test]
fn a_thousand_children_are_joined_before_they_have_begun() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        let (watcher, reports) = partner(&runtime);
        for number in 0..1_000 {
            let child = Child::new(format!("s{number}"), worker("s", &log)).temporary();
            let session = tree.start(child).unwrap();
            let end = session.pid().join();
            let monitor = watcher.watch(session.pid()).wait().unwrap();
            session.finish().send().unwrap();
            assert_eq!(end.wait(), ExitReason::Normal);
            let down = reports.down();
            assert_eq!((down.monitor, down.reason), (monitor, ExitReason::Normal));
            assert_eq!(session.pid().join().wait(), ExitReason::NoProcess, "it has ended");
        }
    });
}

#[test]
fn a_thousand_children_end_that_are_told_to_before_they_have_begun() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        for number in 0..1_000 {
            let session = tree.start(Child::new(format!("s{number}"), worker("s", &log)).temporary()).unwrap();
            let end = session.pid().join();
            let (is_told, reason) = match number % 3 {
                0 => (session.pid().kill(), ExitReason::Killed),
                1 => (session.pid().cancel("enough"), "enough".into()),
                _ => (session.pid().stop(), ExitReason::Normal),
            };
            assert!(is_told);
            assert_eq!(end.wait(), reason);
        }
    });
}

#[test]
fn a_request_to_end_finds_the_messages_as_in_a_mailbox() {
    soon(|| {
        let (runtime, tree) = paused();
        let book = Log::new();
        let child = |name: &str| tree.start(crate::supervision::kept::scribe_called(name, &book).temporary()).unwrap();
        let [stopped, killed, both] = ["stopped", "killed", "both"].map(child);
        let ends = [stopped, killed, both].map(|scribe| scribe.pid().join());
        let write = |scribe: Address<crate::supervision::kept::Scribe>, number| scribe.write(number).send().unwrap();
        write(stopped, 1);
        assert!(stopped.pid().stop());
        write(stopped, 2);
        write(killed, 3);
        assert!(killed.pid().kill());
        write(both, 4);
        assert!(both.pid().stop() && both.pid().cancel("enough") && both.pid().stop());
        runtime.resume().unwrap();
        let reasons = ends.map(Ended::wait);
        assert_eq!(reasons, [ExitReason::Normal, ExitReason::Killed, "enough".into()]);
        assert_eq!(book.all(), [1], "those before a stop are handled, and none before a kill or a cancel");
    });
}

#[test]
fn monitors_and_links_with_a_child_that_has_not_begun_are_told_of_its_end() {
    soon(|| {
        let ((paused, tree), log) = (paused(), Log::new());
        let runtime = runtime();
        let a = tree.start(Child::new("a", worker("a", &log)).temporary()).unwrap();
        let (monitors, downs) = trapping(&runtime);
        let first = monitors.watch(a.pid()).wait().unwrap();
        let second = monitors.watch(a.pid()).wait().unwrap();
        let removed = monitors.watch(a.pid()).wait().unwrap();
        assert_eq!(monitors.unwatch(removed).wait(), Ok(true));
        let (traps, exits) = trapping(&runtime);
        let (falls, _) = partner(&runtime);
        let (unlinks, silence) = trapping(&runtime);
        for partner in [traps, traps, unlinks] {
            partner.link(a.pid()).wait().unwrap();
        }
        falls.link(a.pid()).wait().unwrap();
        unlinks.unlink(a.pid()).wait().unwrap();
        let fall = falls.pid().join();
        for (partner, reports) in [(monitors, &downs), (traps, &exits)] {
            partner.say("so far").wait().unwrap();
            assert_eq!(reports.until_word(), [], "it has not ended");
        }
        assert!(falls.pid().is_alive());
        paused.resume().unwrap();
        let reason = crash(a);
        for monitor in [first, second] {
            let down = downs.down();
            assert_eq!((down.monitor, down.pid, &down.reason), (monitor, a.pid(), &reason));
        }
        let exit = exits.exit();
        assert_eq!((exit.pid, &exit.reason), (a.pid(), &reason));
        assert!(fell_with(&fall.wait(), a.pid()));
        for (partner, reports) in [(monitors, downs), (traps, exits), (unlinks, silence)] {
            partner.pid().stop();
            assert_eq!(reports.rest(), [], "each is told once");
        }
    });
}

#[test]
fn a_child_fails_with_those_that_were_linked_with_it_before_it_began() {
    soon(|| {
        let ((paused, tree), log) = (paused(), Log::new());
        let runtime = runtime();
        let start = |name: &'static str| tree.start(Child::new(name, worker(name, &log)).temporary()).unwrap();
        let [early, late, calm] = ["early", "late", "calm"].map(start);
        let ends = [early, late, calm].map(|child| child.pid().join());
        let [fails, fails_later, unlinks] = [(); 3].map(|()| partner(&runtime).0);
        for (partner, child) in [(fails, early), (fails_later, late), (unlinks, calm)] {
            partner.link(child.pid()).wait().unwrap();
        }
        // One partner fails before its child has started, one while its child runs, and one after it has unlinked.
        let end = fails.pid().join();
        fails.fail().send().unwrap();
        end.wait();
        paused.resume().unwrap();
        assert_eq!([late, calm].map(|child| child.add(1).wait()), [Ok(1), Ok(1)]);
        unlinks.unlink(calm.pid()).wait().unwrap();
        unlinks.fail().send().unwrap();
        fails_later.fail().send().unwrap();
        let [early_end, late_end, calm_end] = ends;
        assert!(fell_with(&early_end.wait(), fails.pid()));
        assert!(fell_with(&late_end.wait(), fails_later.pid()));
        assert_eq!(calm.add(1).wait(), Ok(2));
        calm.finish().send().unwrap();
        assert_eq!(calm_end.wait(), ExitReason::Normal);
    });
}

#[test]
fn a_child_that_never_begins_ends_for_those_that_wait() {
    soon(|| {
        let ((paused, tree), log) = (paused(), Log::new());
        let runtime = runtime();
        let (monitors, downs) = trapping(&runtime);
        let (links, exits) = trapping(&runtime);
        let ties = |a: Pid| {
            monitors.watch(a).wait().unwrap();
            links.link(a).wait().unwrap();
            a.join()
        };
        let are_told = |a: Pid, end: Ended, why: &ExitReason| {
            assert_eq!(end.wait(), *why);
            assert!(tree.child_pid("stopped").is_err(), "its name is free");
            assert_eq!((downs.down().reason, exits.exit().reason), (why.clone(), why.clone()));
            assert_eq!(a.join().wait(), ExitReason::NoProcess);
        };
        // The first child is stopped before it has started.
        let stopped = tree.start(Child::new("stopped", worker("a", &log))).unwrap().pid();
        let stopped_end = ties(stopped);
        tree.stop_child("stopped").unwrap();
        paused.resume().unwrap();
        are_told(stopped, stopped_end, &ExitReason::Shutdown);
        // The second child's only start fails.
        let closure = |_: postroom::ChildSpawn| Err::<Address<Worker>, _>("no such disk".to_string());
        let (go, here) = (Latch::new(), Latch::new());
        let (inside, opened) = (go.clone(), here.clone());
        let held = Child::once("held", move |spawn| {
            opened.open();
            inside.wait();
            spawn.of(Worker { name: "held", log: Log::new(), sum: 0 }).serve()
        });
        tree.start(held).unwrap();
        here.wait();
        let failed = tree.start(Child::once("failed", closure)).unwrap().pid();
        let end = ties(failed);
        go.open();
        let why = end.wait();
        assert!(why.to_string().contains("no such disk"), "{why}");
        assert!(tree.child_pid("failed").is_err(), "its name is free");
        assert_eq!((downs.down().reason, exits.exit().reason), (why.clone(), why));
    });
}

#[test]
fn between_two_processes_a_wait_is_for_the_next_and_a_request_to_end_finds_none() {
    soon(|| {
        let runtime = runtime();
        let (tree, a) = crashed(&runtime);
        let (monitors, downs) = trapping(&runtime);
        let (links, exits) = trapping(&runtime);
        let end = a.pid().join();
        let monitor = monitors.watch(a.pid()).wait().unwrap();
        links.link(a.pid()).wait().unwrap();
        assert!(![a.pid().kill(), a.pid().stop(), a.pid().cancel("enough")].contains(&true));
        tree.restart_child("a").unwrap();
        is_back(a);
        let reason = crash(a);
        assert_eq!(end.wait(), reason);
        assert_eq!((downs.down().monitor, exits.exit().pid), (monitor, a.pid()));
        // The same holds if there is no next process.
        eventually(|| tree.children()[0].state == ChildState::BackingOff);
        let end = a.pid().join();
        tree.stop_child("a").unwrap();
        assert_eq!(end.wait(), reason, "the reason of its last end");
        for (partner, reports) in [(monitors, downs), (links, exits)] {
            partner.pid().stop();
            assert_eq!(reports.rest(), [], "each is told once");
        }
    });
}

/// If a waiter joins again after each end, it is told of each end once.
#[test]
fn those_that_wait_again_are_told_of_each_end_once() {
    soon(|| {
        let runtime = runtime();
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &Log::new())).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let mut end = Box::pin(a.pid().join());
        for round in 0..300 {
            is_back(a);
            let life = a.pid().info().unwrap().pid;
            let own = life.join();
            assert!(poll_once(end.as_mut()).is_pending(), "in round {round}");
            life.kill();
            let reason = Pin::into_inner(end).wait();
            assert_eq!(reason, ExitReason::Killed, "in round {round}");
            end = Box::pin(a.pid().join());
            own.wait();
        }
        tree.stop();
        let last = Pin::into_inner(end).wait();
        assert!(matches!(last, ExitReason::Shutdown | ExitReason::Killed), "{last}");
    });
}

type Seen = Log<(bool, usize)>;

/// A hook that checks at each end of a worker whether the worker's name is free, and how many children there are.
struct Looks(Arc<Mutex<Option<Tree>>>, Seen);

impl Hook for Looks {
    fn complete(&self, ended: &Started, _reason: &ExitReason) {
        if ended.process.ends_with("Worker")
            && let Some(tree) = &*self.0.lock().unwrap()
        {
            self.1.add((tree.child_pid("alice").is_err(), tree.children().len()));
        }
    }
}

#[test]
fn the_name_of_a_dynamic_child_is_free_when_its_end_is_told() {
    soon(|| {
        let (known, seen) = (Arc::new(Mutex::new(None)), Log::new());
        let hook = Looks(known.clone(), seen.clone());
        let runtime = postroom_tests::face::builder().hook(hook).build().unwrap();
        let tree = dynamic(&runtime);
        *known.lock().unwrap() = Some(tree.clone());
        let (watcher, reports) = trapping(&runtime);
        let log = Log::new();
        for round in 0..1_000 {
            let alice = Child::new("alice", worker("alice", &log)).temporary();
            let alice = match tree.start(if round % 2 == 0 { alice } else { alice.transient() }) {
                Ok(alice) => alice,
                Err(error) => panic!("in round {round}: {error}"),
            };
            assert_eq!(alice.add(1).wait(), Ok(1));
            let life = alice.pid().info().unwrap().pid;
            let ends = [alice.pid().join(), life.join()];
            match round / 2 % 4 {
                0 => watcher.link(life).wait().unwrap(),
                1 => _ = watcher.watch(life).wait().unwrap(),
                _ => {}
            }
            let ways: [&dyn Fn(); 3] =
                [&|| tree.stop_child("alice").unwrap(), &|| alice.finish().send().unwrap(), &|| {
                    _ = alice.pid().cancel(ExitReason::Shutdown)
                }];
            ways[round % 3]();
            let [first, second] = ends;
            match (round / 2 % 4, round % 3) {
                // A link does not report a normal exit.
                (0, 0 | 2) => _ = reports.exit(),
                (1, _) => _ = reports.down(),
                (2, _) => _ = first.wait(),
                _ => _ = second.wait(),
            }
            let info = tree.children();
            assert!(info.is_empty(), "in round {round}: {info:?}");
        }
        assert!(seen.all().iter().all(|looked| *looked == (true, 0)), "{:?}", seen.all());
        assert!(tree.start(Child::new("alice", worker("alice", &log))).is_ok());
        let taken = tree.start(Child::new("alice", worker("alice", &log)));
        assert_eq!(taken.unwrap_err(), ChildError::Duplicate { name: "alice".into() });
    });
}

/// The end of a child that has no process is reported only after the child's name is free. The waker of a join checks
/// that, since it runs when the end is reported.
#[test]
fn the_name_of_a_child_that_never_begins_is_free_when_its_end_is_told() {
    soon(|| {
        let ((paused, tree), log, seen) = (paused(), Log::new(), Log::new());
        let a = tree.start(Child::new("a", worker("a", &log))).unwrap().pid();
        let looks = Arc::new(LooksWhenWoken(tree.clone(), seen.clone()));
        let mut end = a.join();
        assert!(Pin::new(&mut end).poll(&mut Context::from_waker(&looks.into())).is_pending());
        tree.stop_child("a").unwrap();
        paused.resume().unwrap();
        eventually(|| seen.len() == 1);
        assert_eq!(seen.all(), [true]);
    });
}

/// A waker that looks up the child `a`.
struct LooksWhenWoken(Tree, Log<bool>);

impl Wake for LooksWhenWoken {
    fn wake(self: Arc<Self>) {
        self.1.add(self.0.child_pid("a").is_err());
    }
}

#[test]
fn a_link_with_a_child_is_removed_by_whatever_name_it_was_made() {
    soon(|| {
        let log = Log::new();
        // The links are made to a pool that has no process yet, so that two aliases lead to the process.
        let (paused, _) = paused();
        let pools = eager(Supervisor::one_for_one()).child("w", {
            let log = log.clone();
            move |spawn: postroom::ChildSpawn| {
                let log = log.clone();
                Pool::fixed(1)
                    .spawn(spawn, move |member| member.of(Worker { name: "w", log: log.clone(), sum: 0 }).serve())
            }
        });
        let pools = pools.spawn(&paused).unwrap();
        let runtime = runtime();
        let w = pools.child_pid("w").unwrap();
        let (traps, silence) = trapping(&runtime);
        traps.link(w).wait().unwrap();
        traps.link(w).wait().unwrap();
        paused.resume().unwrap();
        eventually(|| pools.children()[0].state == ChildState::Running);
        traps.link(w).wait().unwrap();
        traps.unlink(w).wait().unwrap();
        let end = w.join();
        pools.stop();
        end.wait();
        traps.say("so far").wait().unwrap();
        assert_eq!(silence.until_word(), []);
    });
}

/// A process that links, sees the end of its partner and unlinks, all in one step. So it handles no signals in between.
#[process]
struct UnlinksLate {
    exits: Log<Pid>,
}

#[process]
impl UnlinksLate {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn unlink_after_the_end(&mut self, child: Pid) {
        child.link().unwrap();
        let life = child.info().unwrap().pid;
        let end = life.join();
        life.kill();
        end.wait();
        child.unlink().unwrap();
    }
    #[message]
    fn ping(&mut self) {}
    #[signal]
    fn exit(&mut self, exit: postroom::Exit) {
        self.exits.add(exit.pid);
    }
}

#[test]
fn a_link_with_a_child_is_removed_though_its_process_has_ended() {
    soon(|| {
        let (runtime, log, exits) = (runtime(), Log::new(), Log::new());
        let tree = Supervisor::one_for_one().backoff(Backoff::constant(Duration::MAX)).child("a", worker("a", &log));
        let tree = tree.spawn(&runtime).unwrap();
        let a = tree.child::<Worker>("a").unwrap();
        assert_eq!(a.add(1).wait(), Ok(1));
        let late = runtime.spawn(UnlinksLate { exits: exits.clone() }).serve().unwrap();
        late.unlink_after_the_end(a.pid()).wait().unwrap();
        (0..10).for_each(|_| late.ping().wait().unwrap());
        assert_eq!(exits.all(), []);
    });
}

#[test]
fn the_state_of_a_child_is_up_to_date_when_its_end_is_told() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one());
        let tree = tree.add(Child::new("a", worker("a", &log)).temporary()).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        for round in 0..300 {
            let reason = if round % 2 == 0 {
                crash(a)
            } else {
                let end = a.pid().join();
                a.pid().kill();
                end.wait()
            };
            let info = &tree.children()[0];
            let last = info.last.as_ref().map(|last| last.reason.clone());
            assert_eq!((info.pid, last), (None, Some(reason)), "in round {round}");
            until(|| tree.children()[0].state == ChildState::Down);
            tree.restart_child("a").unwrap();
            is_back(a);
        }
    });
}
