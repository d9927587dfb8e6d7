//! The deeds of hostile code, and the runtime that calls it.

use postroom::prelude::*;
use postroom::{Builder, Host};
use postroom_tests::bomb::{PATIENCE, explode, unharmed};
use postroom_tests::{eventually, idle_for_ever};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// A deed of hostile code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Panics,
    /// Panics with a payload whose drop panics with another payload of this kind.
    PanicsInDroppingThePanic,
    /// Calls all functions of the runtime that may be called anywhere.
    ReEnters,
    /// Does not return before other processes have completed a round of work.
    TakesLong,
    /// Forgets the value that it was given.
    Forgets,
    /// Shuts the runtime down.
    ShutsDown,
}

/// User code that performs its deed once.
pub(crate) struct Hostile {
    deed: Deed,
    is_armed: AtomicBool,
    struck: AtomicUsize,
    is_over: AtomicBool,
    runtime: Mutex<Option<Runtime>>,
    host: OnceLock<Host>,
    /// A process that lives as long as the runtime.
    target: OnceLock<Pid>,
    /// Another process that lives as long as the runtime, and that answers calls.
    answers: OnceLock<Address<Sleeper>>,
}

impl Hostile {
    pub(crate) fn new(deed: Deed) -> Arc<Self> {
        Arc::new(Self {
            deed,
            is_armed: AtomicBool::new(true),
            struck: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            runtime: Mutex::default(),
            host: OnceLock::new(),
            target: OnceLock::new(),
            answers: OnceLock::new(),
        })
    }

    /// Builds the runtime of a case.
    pub(crate) fn run(&self, build: impl FnOnce(Builder) -> Builder) -> Host {
        let builder = Runtime::builder().workers(2).shutdown_deadline(PATIENCE);
        let armed = self.is_armed.swap(false, SeqCst);
        let runtime = build(builder).build().expect("a runtime with two workers can be built");
        let host = *self.host.get_or_init(|| runtime.host());
        self.target.get_or_init(|| runtime.spawn_process(idle_for_ever()).start().expect("it starts"));
        self.answers.get_or_init(|| runtime.spawn(Sleeper).serve().expect("it starts"));
        *self.runtime.lock().expect("no panic") = Some(runtime);
        self.is_armed.store(armed, SeqCst);
        host
    }

    /// Builds a runtime without options, for a case that needs none.
    pub(crate) fn plain(&self) -> Host {
        self.run(|builder| builder)
    }

    pub(crate) fn panics(&self) -> bool {
        matches!(self.deed, Deed::Panics | Deed::PanicsInDroppingThePanic)
    }

    pub(crate) fn shuts_down(&self) -> bool {
        self.deed == Deed::ShutsDown
    }

    /// Prevents the deed until the code is armed again.
    pub(crate) fn disarm(&self) {
        self.is_armed.store(false, SeqCst);
    }

    pub(crate) fn arm(&self) {
        self.is_armed.store(true, SeqCst);
    }

    pub(crate) fn has_struck(&self) -> bool {
        self.struck.load(SeqCst) > 0
    }

    /// Performs the deed, if the code is armed. The runtime calls this.
    pub(crate) fn strike(&self) {
        self.strike_with(());
    }

    /// Like [`strike`](Self::strike), with the value that was given to the code.
    pub(crate) fn strike_with<T>(&self, given: T) {
        // A second panic while the first one unwinds would abort the program, even if the first one would have been
        // caught.
        if thread::panicking() || !self.is_armed.swap(false, SeqCst) {
            return;
        }
        self.struck.fetch_add(1, SeqCst);
        let _over = Over(&self.is_over);
        match self.deed {
            Deed::Panics => explode(0),
            Deed::PanicsInDroppingThePanic => explode(2),
            Deed::ReEnters => self.re_enter(),
            Deed::TakesLong => {
                let Some(&host) = self.host.get() else { return };
                thread::spawn(move || others_go_on(host)).join().expect("others were kept from their work");
            }
            Deed::Forgets => std::mem::forget(given),
            Deed::ShutsDown => {
                let runtime = self.runtime.lock().expect("no panic").take();
                // Inside a process this returns an error, but still starts the shutdown.
                let _outcome = runtime.map(Runtime::shutdown);
            }
        }
    }

    fn re_enter(&self) {
        let (Some(&host), Some(&target), Some(answers)) = (self.host.get(), self.target.get(), self.answers.get())
        else {
            return;
        };
        let _bound = target.link().and_then(|()| target.unlink());
        let _watched = target.monitor().map(|monitor| monitor.demonitor());
        let _sent = host.send(target, 7_u8);
        let _tried = host.try_send(target, 7_u8);
        let call: Call<u8, (), Infallible> = Call::new(target, "none", 7);
        let _later = call.send_after(Duration::from_nanos(1));
        slept(answers.sleep().timeout(PATIENCE).wait());
        for end in [Pid::kill, Pid::stop] {
            if let Ok(pid) = host.spawn_process(idle_for_ever()).start() {
                let _waits = pid.join();
                end(pid);
            }
        }
        let _cancelled = host.spawn_process(idle_for_ever()).named("re-entered").start().map(|pid| pid.cancel("over"));
        let _seen = (host.whereis("re-entered"), host.statistics(), host.processes(), target.info());
    }

    /// Checks that the deed has been performed, and that the runtime still works and shuts down properly.
    pub(crate) fn finish(&self) {
        // The deed may still occupy a worker that the check of other processes needs.
        eventually(|| !self.has_struck() || self.is_over.load(SeqCst));
        let runtime = self.runtime.lock().expect("no panic").take();
        match runtime {
            Some(runtime) => {
                unharmed(&runtime);
                let report = runtime.shutdown().expect("asked from outside");
                assert!(!report.was_forced(), "{report}");
            }
            None => {
                let host = self.host.get().expect("a case has a runtime");
                eventually(|| host.statistics().processes.live == 0);
            }
        }
        eventually(|| self.has_struck());
        assert_eq!(self.struck.load(SeqCst), 1);
    }
}

/// A guard that sets a flag when a deed ends, however it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Checks that a call is answered, unless the runtime shuts down.
fn slept(answer: Result<(), CallError>) {
    assert!(
        matches!(answer, Ok(()) | Err(CallError::Gone(_) | CallError::Died(_) | CallError::Shutdown)),
        "{answer:?}"
    );
}

/// Checks that a process can be spawned, called and joined, and that its sleep ends, unless the runtime shuts down.
fn others_go_on(host: Host) {
    let Ok(sleeper) = host.spawn(Sleeper).serve() else { return };
    slept(sleeper.sleep().timeout(PATIENCE).wait());
    let over = sleeper.pid().join();
    sleeper.pid().stop();
    assert!(over.wait_timeout(PATIENCE).is_some());
    let _seen = (host.statistics(), host.processes());
}

#[process]
struct Sleeper;

#[process]
impl Sleeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn sleep(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(Duration::from_nanos(1)).await;
    }
}

/// A value that performs the deed when it is dropped.
pub(crate) struct Fuse(pub(crate) Arc<Hostile>);

impl Drop for Fuse {
    fn drop(&mut self) {
        self.0.strike();
    }
}
