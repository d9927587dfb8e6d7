//! The code of a process itself.

use super::Case;
use super::deed::{Fuse, Hostile};
use futures_util::stream;
use postroom::inspect::{DescribeError, TappedValue};
use postroom::manual::{Event, Events, InitContext, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Cancel, Host, ProcessError, Signal};
use postroom_tests::bomb::{Listener, PATIENCE, ended};
use postroom_tests::face::Log;
use postroom_tests::{act, eventually, idle_for_ever};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    ("its making on a thread of its own", "Make", |hostile| {
        let host = hostile.plain();
        let own = hostile.clone();
        let made = host.spawn_process_pinned(move || {
            own.strike();
            idle_for_ever()
        });
        started(hostile, host, made.named("it").start());
    }),
    ("its start", "Start", |hostile| {
        let host = hostile.plain();
        started(hostile, host, host.spawn_process(Wild::at(At::Init, hostile)).named("it").start());
    }),
    ("its start on a thread of its own", "Start", |hostile| {
        let host = hostile.plain();
        let wild = Wild::at(At::Init, hostile);
        started(hostile, host, host.spawn_process_pinned(move || wild).named("it").start());
    }),
    ("whether it traps exits", "Start", |hostile| {
        let host = hostile.plain();
        started(hostile, host, host.spawn_process(Wild::at(At::TrapsExits, hostile)).named("it").start());
    }),
    ("its step", "Slice", |hostile| {
        let host = hostile.plain();
        fails(hostile, host, Wild::at(At::Step, hostile), |pid| _ = host.send(pid, ()));
    }),
    ("its step on a thread of its own", "Slice", |hostile| {
        let host = hostile.plain();
        let wild = Wild::at(At::Step, hostile);
        let Ok(pid) = host.spawn_process_pinned(move || wild).start() else { return };
        let end = pid.join();
        let _sent = host.send(pid, ());
        settle(hostile, pid, end);
    }),
    ("its async method", "Slice", |hostile| {
        let host = hostile.plain();
        let Ok(wild) = host.spawn(Async { hostile: hostile.clone() }).serve() else { return };
        let end = wild.pid().join();
        let answer = wild.strike().timeout(PATIENCE).wait();
        if hostile.panics() {
            assert!(matches!(answer, Err(CallError::Died(ExitReason::Panic(_)))), "{answer:?}");
        } else if !hostile.shuts_down() {
            assert_eq!(answer, Ok(7));
        }
        settle(hostile, wild.pid(), end);
    }),
    ("a stream that is attached to it", "Slice", |hostile| {
        let host = hostile.plain();
        let Ok(wild) = host.spawn(Async { hostile: hostile.clone() }).serve() else { return };
        let end = wild.pid().join();
        let _sent = wild.attach().send();
        settle(hostile, wild.pid(), end);
    }),
    ("whether it handles a cancel", "HandlesCancel", |hostile| {
        let host = hostile.plain();
        fails(hostile, host, Wild::at(At::HandlesCancel, hostile), |pid| _ = pid.cancel("enough"));
    }),
    ("whether its successor traps exits", "TrapsExits", |hostile| {
        let host = hostile.plain();
        let mut successor = Some(Wild::at(At::TrapsExits, hostile));
        let upgrades = act(move |events, out| {
            if events.next().is_some()
                && let Some(successor) = successor.take()
            {
                out.upgrade(successor);
            }
            Ok(())
        });
        fails(hostile, host, upgrades, |pid| _ = host.send(pid, ()));
    }),
    ("an upgrade that it refuses, as that is dropped", "AskedToUpgrade", |hostile| {
        let host = hostile.plain();
        let fuse = Fuse(hostile.clone());
        let make = move |old: Async| {
            let _dropped_with_this = &fuse;
            old
        };
        fails(hostile, host, idle_for_ever(), |pid| {
            if !hostile.panics() {
                return drop(pid.upgrade(make).wait());
            }
            let upgrading = pid.upgrade(make);
            eventually(|| hostile.has_struck());
            drop(upgrading);
        });
    }),
    ("what makes its successor", "UpgradeMake", |hostile| {
        let host = hostile.plain();
        let Ok(wild) = host.spawn(Async { hostile: hostile.clone() }).serve() else { return };
        let (end, own) = (wild.pid().join(), hostile.clone());
        let outcome = wild.pid().upgrade(move |old: Async| {
            own.strike();
            old
        });
        assert!(outcome.wait().is_err() || !hostile.panics());
        settle(hostile, wild.pid(), end);
    }),
    ("its close", "Close", |hostile| {
        let host = hostile.plain();
        closes(host, Wild::at(At::Close, hostile));
    }),
    ("its drop", "StateDrop", |hostile| {
        let host = hostile.plain();
        closes(host, Wild::at(At::Drop, hostile));
    }),
    ("the drop of a successor that came to nothing", "StatusDrop", |hostile| {
        let host = hostile.plain();
        let mut successor = Some(Wild::at(At::Drop, hostile));
        let fails = act(move |events, out| {
            if events.next().is_none() {
                return Ok(());
            }
            out.upgrade(successor.take().expect("it ends with its first message"));
            Err(ProcessError::new("and yet it fails"))
        });
        let Ok(pid) = host.spawn_process(fails).start() else { return };
        let end = pid.join();
        let _sent = host.send(pid, ());
        assert!(matches!(ended(pid, end), ExitReason::Error(_)));
    }),
    ("the drop of events that it had put in the place of its own", "EventDrop", |hostile| {
        let host = hostile.plain();
        let mut fuse = Some(super::values::Reason(Fuse(hostile.clone())));
        let swaps = act(move |events, _| {
            if events.next().is_some()
                && let Some(fuse) = fuse.take()
            {
                *events = Events::of([Event::Signal(Signal::Cancel(Cancel { reason: ExitReason::error(fuse) }))]);
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(swaps).start() else { return };
        let _sent = host.send(pid, ());
        eventually(|| hostile.has_struck());
        pid.kill();
    }),
    ("the `Debug` of its state", "StateDebug", |hostile| {
        let host = hostile.plain();
        let Ok(shown) = host.spawn(Shown { state: Striking(hostile.clone()) }).serve() else { return };
        let state = shown.pid().describe().wait();
        if hostile.panics() {
            assert!(matches!(state, Err(DescribeError::Panicked(..))), "{state:?}");
        } else {
            assert!(state.is_ok(), "{state:?}");
        }
        shown.pid().kill();
    }),
    ("the `Debug` of a message that is tapped", "MessageDebug", |hostile| {
        let host = hostile.plain();
        let Ok(shown) = host.spawn(Shown { state: Striking(hostile.clone()) }).serve() else { return };
        let tap = shown.pid().tap(1, Duration::from_secs(10));
        let handled = shown.take(Striking(hostile.clone())).wait();
        assert!(handled.is_ok() || hostile.shuts_down(), "{handled:?}");
        match tap.messages().first().map(|tapped| &tapped.value) {
            Some(TappedValue::Panicked(_)) => assert!(hostile.panics()),
            Some(TappedValue::Shown { .. }) => assert!(!hostile.panics()),
            other => assert!(hostile.shuts_down(), "{other:?}"),
        }
        shown.pid().kill();
    }),
    ("the drop of a value that it inherits", "InheritedDrop", |hostile| {
        let host = hostile.plain();
        let Ok(pid) = host.spawn_process(idle_for_ever()).value(Fuse(hostile.clone())).start() else { return };
        pid.kill();
    }),
];

/// A process whose state performs its deed when it is formatted.
#[process(inspect)]
struct Shown {
    state: Striking,
}

#[process]
impl Shown {
    #[entry]
    fn serve(&mut self) {}

    #[message(inspect)]
    fn take(&mut self, striking: Striking) {
        drop(striking);
    }
}

struct Striking(Arc<Hostile>);

impl fmt::Debug for Striking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strike();
        f.write_str("struck")
    }
}

/// The method in which a [`Wild`] performs its deed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Init,
    Step,
    HandlesCancel,
    TrapsExits,
    Close,
    Drop,
}

/// A process that performs its deed in one of its methods.
pub(crate) struct Wild(At, Arc<Hostile>);

impl Wild {
    pub(crate) fn at(at: At, hostile: &Arc<Hostile>) -> Self {
        Self(at, hostile.clone())
    }

    fn comes_to(&self, at: At) {
        if self.0 == at {
            self.1.strike();
        }
    }
}

impl Process for Wild {
    fn init(&mut self, _: &mut InitContext<'_>, _: &str, _: postroom::Payloads) -> Result<(), InitError> {
        self.comes_to(At::Init);
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Message(_) = event {
                self.comes_to(At::Step);
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.comes_to(At::Close);
    }

    fn handles_cancel(&self) -> bool {
        self.comes_to(At::HandlesCancel);
        false
    }

    fn traps_exits(&self) -> bool {
        self.comes_to(At::TrapsExits);
        true
    }
}

impl Drop for Wild {
    fn drop(&mut self) {
        self.comes_to(At::Drop);
    }
}

#[process]
struct Async {
    hostile: Arc<Hostile>,
}

#[process]
impl Async {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn strike(&mut self, ctx: &mut Context<Self>) -> u8 {
        ctx.sleep(std::time::Duration::from_nanos(1)).await;
        self.hostile.strike();
        7
    }

    #[message]
    fn attach(&mut self, ctx: &mut Context<Self>) {
        let hostile = self.hostile.clone();
        ctx.attach(stream::poll_fn(move |_| {
            hostile.strike();
            Poll::Ready(None::<Item>)
        }));
    }

    #[message(Item)]
    fn item(&mut self, _item: Item) {}
}

struct Item;

/// Checks that a start that panics returns an error to the spawner and leaves nothing behind.
fn started(hostile: &Hostile, host: Host, outcome: Result<Pid, SpawnError>) {
    match outcome {
        Ok(pid) => {
            assert!(!hostile.panics(), "the panic was lost");
            pid.kill();
        }
        Err(SpawnError::Init(InitError::Panicked(_))) if hostile.panics() => {
            assert_eq!(host.whereis("it"), None);
        }
        Err(SpawnError::Shutdown) if hostile.shuts_down() => {}
        Err(other) => panic!("a panic was expected, or none, and came: {other}"),
    }
}

/// Checks that a process that panics exits with that panic, and that the processes linked to it and monitoring it are
/// notified.
fn fails(hostile: &Hostile, host: Host, process: impl Process + Send, meet: impl FnOnce(Pid)) {
    let Ok(pid) = host.spawn_process(process).start() else { return };
    let heard = Log::new();
    let Ok(listener) = host.spawn_process(Listener { monitors: vec![pid], heard: heard.clone() }).start() else {
        return;
    };
    let linked = act(move |events, _| {
        while events.next().is_some() {}
        Ok(pid.link()?)
    });
    let Ok(linked) = host.spawn_process(linked).start() else { return };
    eventually(|| {
        pid.bindings().wait().is_none_or(|bindings| (bindings.links.len(), bindings.monitored_by.len()) == (1, 1))
    });
    let (end, with_it) = (pid.join(), linked.join());
    meet(pid);
    settle(hostile, pid, end);
    if hostile.panics() {
        let reason = ended(linked, with_it);
        assert!(
            matches!(&reason, ExitReason::Linked { reason, .. } if matches!(**reason, ExitReason::Panic(_))),
            "{reason}"
        );
        eventually(|| heard.len() == 1);
        assert!(matches!(heard.all()[..], [ExitReason::Panic(_)]));
    }
    listener.kill();
}

/// Kills the process unless the deed was a panic. Checks that the exit reason is a panic if, and only if, the deed was
/// one.
fn settle(hostile: &Hostile, pid: Pid, end: postroom::future::Ended) {
    if !hostile.panics() {
        eventually(|| hostile.has_struck());
        pid.kill();
    }
    let reason = ended(pid, end);
    assert_eq!(matches!(reason, ExitReason::Panic(_)), hostile.panics(), "{reason}");
}

/// Checks that the process exits, whatever its `close` does.
fn closes(host: Host, wild: Wild) {
    let Ok(pid) = host.spawn_process(wild).start() else { return };
    let end = pid.join();
    let _sent = host.send(pid, ());
    pid.kill();
    let _reason = ended(pid, end);
}
