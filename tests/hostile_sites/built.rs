//! Code with which a runtime is configured (handlers, hooks, types), and the program's subscriber.

use super::Case;
use super::deed::{Fuse, Hostile};
use super::processes::{At, Wild};
use postroom::inspect::{Hook, Started};
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::record::FlightRecorder;
use postroom::{Builder, Command, Host};
use postroom_tests::bomb::ended;
use postroom_tests::{act, eventually, idle_for_ever};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;

pub(crate) const CASES: &[Case] = &[
    ("a command handler", "Handler", |hostile| {
        let own = hostile.clone();
        let host = hostile.run(|builder| builder.handler::<Errand>(move |_, completion| own.strike_with(completion)));
        let errand = act(|events, out| {
            match events.next() {
                Some(Event::Message(_)) => {
                    out.perform(Errand, 7);
                    out.wait();
                }
                Some(Event::Completed { .. }) => out.done(),
                _ => {}
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(errand).start() else { return };
        let end = pid.join();
        let _sent = host.send(pid, ());
        eventually(|| hostile.has_struck());
        if hostile.panics() {
            // The panic answers the command.
            assert_eq!(ended(pid, end), ExitReason::Normal);
        }
        pid.kill();
    }),
    ("a start hook", "StartHook", |hostile| {
        let host = hooked(hostile, On::Start);
        let outcome = host.spawn_process(idle_for_ever()).start();
        assert_eq!(outcome.is_err(), hostile.panics() || hostile.shuts_down() && outcome.is_err(), "{outcome:?}");
    }),
    ("the undoing of a start hook", "UndoHook", |hostile| {
        let host = hooked(hostile, On::Undo);
        let refuses = act(|_, _| Ok(())).init(|_| Err(InitError::failed("no")));
        assert!(host.spawn_process(refuses).start().is_err());
    }),
    ("a complete hook", "CompleteHook", |hostile| {
        let host = hooked(hostile, On::Complete);
        let Ok(pid) = host.spawn_process(idle_for_ever()).start() else { return };
        let end = pid.join();
        pid.kill();
        assert_eq!(ended(pid, end), ExitReason::Killed);
    }),
    ("the dead-letter hook", "DeadLetterHook", |hostile| {
        let own = hostile.clone();
        let host = hostile.run(|builder| builder.on_dead_letter(move |letter| own.strike_with(letter)));
        let Ok(pid) = host.spawn_process(act(|_, _| Ok(()))).start() else { return };
        let _sent = host.send(pid, 7);
        let end = pid.join();
        pid.kill();
        assert_eq!(ended(pid, end), ExitReason::Killed);
    }),
    ("a stall hook", "StallHook", |hostile| {
        let own = hostile.clone();
        let stalls =
            move |builder: Builder| builder.stall_limit(Duration::from_millis(1)).on_stall(move |_| own.strike());
        stalls_until_told(hostile, hostile.run(stalls));
    }),
    ("the hook of a flight recorder", "DumpHook", |hostile| {
        let before = super::caught_at("DumpHook");
        let host = hostile.run(|builder| builder.stall_limit(Duration::from_millis(1)));
        let own = hostile.clone();
        let flight = host.flight_recorder(FlightRecorder::new().on_dump(move |_, _| own.strike())).expect("it starts");
        stalls_until_told(hostile, host);
        eventually(|| !hostile.panics() || super::caught_at("DumpHook") > before);
        drop(flight);
    }),
    ("the log of a stall", "Log", |hostile| {
        let host = hostile.run(|builder| builder.stall_limit(Duration::from_millis(1)));
        listen(hostile, "stall");
        stalls_until_told(hostile, host);
    }),
    ("the log of a shutdown that has lost messages", "Log", |hostile| {
        hostile.plain();
        listen(hostile, "a runtime was shut down");
        let loses = Runtime::builder().workers(1).paused().build().expect("one worker");
        let pid = loses.spawn_process(idle_for_ever()).start().expect("it starts");
        loses.send(pid, 7).expect("it lives");
        // In `shutdown_async`, the log line is written on a separate thread, and the report still arrives.
        let report = pollster::block_on(loses.shutdown_async()).expect("asked from outside");
        assert_eq!(report.thrown_away, 1);
    }),
    ("the log of a step that contradicts itself", "Log", |hostile| {
        let host = hostile.plain();
        listen(hostile, "a step wrote");
        let contradicts = act(|events, out| {
            if events.next().is_some() {
                out.done();
                out.go_on();
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(contradicts).start() else { return };
        let end = pid.join();
        let _sent = host.send(pid, ());
        eventually(|| hostile.has_struck());
        let _reason = ended(pid, end);
    }),
    ("the drop of a handler", "HookDrop", |hostile| {
        let fuse = Fuse(hostile.clone());
        hostile.run(|builder| {
            builder.handler::<Errand>(move |_, _| {
                let _dropped_with_this = &fuse;
            })
        });
    }),
    ("the factory of a type", "TypeStart", |hostile| {
        let (host, own) = (hostile.plain(), hostile.clone());
        host.register_type_with("wild", move || {
            own.strike();
            Mild
        });
        let outcome = host.start("wild", "serve", payloads![]);
        assert!(outcome.is_err() || !hostile.panics());
    }),
    ("the drop of the factory of a type", "TypeDrop", |hostile| {
        let (host, fuse) = (hostile.plain(), Fuse(hostile.clone()));
        host.register_type_with("wild", move || {
            let _dropped_with_this = &fuse;
            Mild
        });
    }),
    ("the drop of an upgrade", "TypeDrop", |hostile| {
        let (host, fuse) = (hostile.plain(), Fuse(hostile.clone()));
        host.register_upgrade(move |old: Mild| {
            let _dropped_with_this = &fuse;
            old
        });
    }),
    ("the start of a type's process", "Start", |hostile| {
        let host = hostile.plain();
        let outcome = host.spawn_process(Wild::at(At::Init, hostile)).start();
        assert_eq!(outcome.is_err(), hostile.panics() || hostile.shuts_down() && outcome.is_err());
    }),
];

struct Errand;

impl Command for Errand {
    type Output = ();
}

#[process]
struct Mild;

#[process]
impl Mild {
    #[entry]
    fn serve(&mut self) {}
}

#[derive(PartialEq, Eq)]
enum On {
    Start,
    Undo,
    Complete,
}

struct Hooked(On, Arc<Hostile>);

impl Hooked {
    fn comes_to(&self, on: On) {
        if self.0 == on {
            self.1.strike();
        }
    }
}

impl Hook for Hooked {
    fn start(&self, _: &Started) -> Result<(), String> {
        self.comes_to(On::Start);
        Ok(())
    }

    fn undo(&self, _: &Started) {
        self.comes_to(On::Undo);
    }

    fn complete(&self, _: &Started, _: &ExitReason) {
        self.comes_to(On::Complete);
    }
}

fn hooked(hostile: &Arc<Hostile>, on: On) -> Host {
    hostile.run(|builder| builder.hook(Hooked(on, hostile.clone())))
}

/// Runs steps until one of them is reported as stalled. There are more steps than workers, since a step is only
/// reported if another process waits.
fn stalls_until_told(hostile: &Arc<Hostile>, host: Host) {
    let stalls = || {
        let own = hostile.clone();
        act(move |events, out| {
            if events.next().is_some() {
                eventually(|| own.has_struck());
                out.done();
            }
            Ok(())
        })
    };
    let pids: Vec<Pid> = (0..4).filter_map(|_| host.spawn_process(stalls()).start().ok()).collect();
    let ends: Vec<_> = pids.iter().map(|pid| (*pid, pid.join())).collect();
    pids.iter().for_each(|pid| _ = host.send(*pid, ()));
    ends.into_iter().for_each(|(pid, end)| _ = ended(pid, end));
}

/// The hostile code that runs at an event, and a text that the event contains.
static LISTENS: Mutex<Option<(Arc<Hostile>, &str)>> = Mutex::new(None);

/// Makes the program's subscriber perform the deed at an event that contains `what`.
fn listen(hostile: &Arc<Hostile>, what: &'static str) {
    install();
    *LISTENS.lock().unwrap_or_else(PoisonError::into_inner) = Some((hostile.clone(), what));
}

/// Whether the program's subscriber panics at every event.
static PANICS_ALWAYS: AtomicBool = AtomicBool::new(false);

/// Runs `body` while the program's subscriber panics at every event of the runtime, at any level.
pub(crate) fn while_the_subscriber_panics(body: impl FnOnce()) {
    install();
    PANICS_ALWAYS.store(true, SeqCst);
    let _again_quiet = Quiet;
    body();
}

struct Quiet;

impl Drop for Quiet {
    fn drop(&mut self) {
        PANICS_ALWAYS.store(false, SeqCst);
    }
}

fn install() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| tracing::subscriber::set_global_default(Wiretap).expect("there is no other subscriber"));
}

struct Wiretap;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?} ");
        if field.name() == "message" {
            self.0 += &text;
        }
    }
}

impl tracing::Subscriber for Wiretap {
    /// Returns `sometimes`, so that each event is checked, since the set of enabled events changes.
    fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "postroom" && (metadata.level() <= &tracing::Level::WARN || PANICS_ALWAYS.load(SeqCst))
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let listens = LISTENS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((hostile, _)) = listens.filter(|(_, what)| text.0.contains(what)) {
            hostile.strike();
        }
        assert!(!PANICS_ALWAYS.load(SeqCst) || std::thread::panicking(), "the subscriber does not like `{}`", text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
