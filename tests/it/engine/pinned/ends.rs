//! Exits and restarts of pinned processes.

use super::*;
use postroom::error::UpgradeError;
use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A process that fails on request, and records its calls with their threads.
#[process]
struct Frail {
    trace: Trace,
    partner: Option<Pid>,
}

#[process]
impl Frail {
    #[entry]
    fn serve(&mut self) {
        self.trace.note("serve");
    }

    #[message]
    fn fail(&mut self) {
        panic_any("as it was told");
    }

    #[message]
    fn watch(&mut self, other: Pid) -> bool {
        self.partner = Some(other);
        other.link().is_ok() && other.monitor().is_ok()
    }

    #[message]
    fn partner(&self) -> Option<Pid> {
        self.partner
    }

    #[message]
    fn place(&self) -> ThreadId {
        current().id()
    }

    #[signal]
    fn exited(&mut self, exit: Exit) {
        assert_eq!(self.partner, Some(exit.pid));
        self.trace.note("exit");
    }

    #[signal]
    fn down(&mut self, down: Down) {
        assert_eq!(self.partner, Some(down.pid));
        self.trace.note("down");
    }
}

impl Drop for Frail {
    fn drop(&mut self) {
        self.trace.note("drop");
    }
}

fn frail(runtime: &Runtime, trace: &Trace) -> Address<Frail> {
    let trace = trace.clone();
    runtime.spawn_pinned(move || Frail { trace, partner: None }).serve().unwrap()
}

#[test]
fn a_panic_ends_only_its_process_and_notifies_the_partners() {
    soon(|| {
        let runtime = with_workers(1);
        let (one, two, other) = (Trace::default(), Trace::default(), Trace::default());
        let (first, second) = (frail(&runtime, &one), frail(&runtime, &two));
        let theirs = other.clone();
        let ordinary = runtime.spawn(Frail { trace: theirs, partner: None }).serve().unwrap();
        assert!(second.watch(first.pid()).wait().unwrap() && ordinary.watch(first.pid()).wait().unwrap());
        let end = first.pid().join();
        first.fail().send().unwrap();
        assert!(matches!(end.wait(), ExitReason::Panic(_)));
        assert_eq!(one.parts(), ["serve", "drop"]);
        for trace in [&two, &other] {
            eventually(|| trace.parts().len() == 3);
            assert!(trace.parts().contains(&"exit") && trace.parts().contains(&"down"));
        }
        assert_eq!(two.threads().len(), 1);
        assert!(second.pid().is_alive() && ordinary.pid().is_alive());
    });
}

#[test]
fn a_supervisor_starts_it_again_on_another_thread_and_stops_it_in_order() {
    soon(|| {
        let (runtime, trace) = (with_workers(1), Trace::default());
        let theirs = trace.clone();
        let tree = Supervisor::one_for_one()
            .backoff(Backoff::none())
            .child("frail", move |spawn| {
                let trace = theirs.clone();
                spawn.of_pinned(move || Frail { trace, partner: None }).serve()
            })
            .spawn(&runtime)
            .unwrap();
        let frail: Address<Frail> = tree.child("frail").unwrap();
        let before = frail.place().wait().unwrap();
        frail.fail().send().unwrap();
        let after = loop {
            match frail.place().wait() {
                Ok(place) if place != before => break place,
                _ => std::thread::yield_now(),
            }
        };
        assert_ne!(before, after);
        runtime.shutdown().unwrap();
        assert_eq!(trace.parts(), ["serve", "drop", "serve", "drop"]);
        assert_eq!(trace.threads(), [before, after]);
    });
}

#[test]
fn stop_comes_in_its_place_and_cancel_and_kill_ahead() {
    soon(|| {
        let (runtime, go) = (with_workers(1), Latch::new());
        let waits = |inside: &Latch, go: &Latch| {
            let state = Waits(inside.clone(), go.clone());
            runtime.spawn_pinned(move || state).serve().unwrap()
        };
        let inside = Latch::new();
        let stopped = waits(&inside, &go);
        stopped.wait().send().unwrap();
        inside.wait();
        (0..10).for_each(|_| stopped.wait().send().unwrap());
        stopped.pid().stop();
        let (inside, killed) = (Latch::new(), Latch::new());
        let other = waits(&inside, &killed);
        other.wait().send().unwrap();
        inside.wait();
        (0..10).for_each(|_| other.wait().send().unwrap());
        let (one, two) = (stopped.pid().join(), other.pid().join());
        other.pid().kill();
        go.open();
        killed.open();
        assert_eq!((one.wait(), two.wait()), (ExitReason::Normal, ExitReason::Killed));
    });
}

/// Mutation: in `engine/shutdown/mod.rs`, look for stuck processes only among the workers.
#[test]
fn a_shutdown_ends_them_all_and_names_the_one_that_does_not_return() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).shutdown_deadline(Duration::from_millis(50)).build().unwrap();
        let (trace, inside, go) = (Trace::default(), Latch::new(), Latch::new());
        let calm: Vec<_> = (0..10).map(|_| frail(&runtime, &trace)).collect();
        let state = Waits(inside.clone(), go.clone());
        let stuck = runtime.spawn_pinned(move || state).serve().unwrap();
        stuck.wait().send().unwrap();
        inside.wait();
        let report = runtime.shutdown().unwrap();
        let is_named = report.stuck.iter().any(|left| (left.pid, left.process) == (stuck.pid(), "Waits"));
        assert!(is_named, "{report}");
        // Processes whose threads got no CPU time before the deadline were killed or left stuck.
        assert_eq!((report.alive, report.ended + report.killed + report.stuck.len() as u64), (11, 11), "{report}");
        eventually(|| calm.iter().all(|frail| !frail.pid().is_alive()));
        eventually(|| trace.parts().iter().filter(|part| **part == "drop").count() == 10);
        let end = stuck.pid().join();
        go.open();
        assert_eq!(end.wait(), ExitReason::Killed);
    });
}

#[test]
fn a_runtime_that_is_dropped_by_its_own_pinned_process_goes_down() {
    soon(|| {
        struct Dropper(Rc<()>);
        impl postroom::manual::Process for Dropper {
            fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
                while let Some(event) = events.next() {
                    if let Event::Message(package) = event {
                        drop(package.take::<Runtime>());
                    }
                }
                assert_eq!(Rc::strong_count(&self.0), 1);
                out.idle();
                Ok(())
            }
        }
        let runtime = with_workers(1);
        let host = runtime.host();
        let dropper = host.spawn_process_pinned(|| Dropper(Rc::new(()))).start().unwrap();
        let other = frail(&runtime, &Trace::default());
        let ends = [dropper.join(), other.pid().join()];
        host.send(dropper, runtime).unwrap();
        assert_eq!(ends.map(|end| end.wait()), [ExitReason::Shutdown, ExitReason::Shutdown]);
        eventually(|| host.statistics().processes.pinned == 0);
    });
}

#[test]
fn threads_and_posts_are_used_again_and_none_is_left() {
    soon(|| {
        let runtime = with_workers(2);
        let drops = Arc::new(AtomicU64::new(0));
        struct Counts(Arc<AtomicU64>, Rc<()>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        impl postroom::manual::Process for Counts {
            fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
                let _ = &self.1;
                match events.next() {
                    Some(_) => out.done(),
                    None => out.idle(),
                }
                Ok(())
            }
        }
        for _ in 0..300 {
            let drops = drops.clone();
            let pid = runtime.spawn_process_pinned(move || Counts(drops, Rc::new(()))).start().unwrap();
            let end = pid.join();
            runtime.send(pid, 1_u8).unwrap();
            assert_eq!(end.wait(), ExitReason::Normal);
        }
        assert_eq!(drops.load(SeqCst), 300);
        eventually(|| runtime.statistics().processes.pinned == 0);
        // A thread may still be ending when its successor starts.
        assert!(runtime.statistics().threads.len() < 150, "{}", runtime.statistics().threads.len());
        runtime.shutdown().unwrap();
    });
}

/// The upgrade of a pinned process: an ordinary definition, on the same thread.
#[process]
struct Report(Vec<String>, Trace);

#[process]
impl Report {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn text(&self) -> String {
        self.1.note("report");
        self.0.join(",")
    }
}

impl Window {
    fn into_report(self) -> Report {
        let (lines, trace) = (self.held.log.borrow().clone(), self.held.trace.clone());
        Report(lines, trace)
    }
}

#[test]
fn an_upgrade_happens_on_its_thread_and_leaves_it_there() {
    soon(|| {
        let (runtime, trace) = (with_workers(1), Trace::default());
        let theirs = trace.clone();
        let window = runtime.spawn_pinned(move || Window::new(theirs)).open("Log".into()).unwrap();
        window.show("one".into()).wait().unwrap();
        let wrong = window.pid().upgrade(|report: Report| report).wait();
        assert!(matches!(wrong, Err(UpgradeError::Type { .. })), "{wrong:?}");
        let report = window.pid().upgrade(Window::into_report).wait().unwrap();
        assert_eq!(report.text().wait().unwrap(), "Log,one");
        assert_eq!(trace.parts(), ["make", "open", "show", "drop", "report"]);
        assert_eq!(trace.threads().len(), 1);
    });
}
