//! What a user implements: [`Process`], by hand or through `#[process]`.
//!
//! * [`event`]: what a step receives; [`mail`]: a message in place;
//! * [`output`]: what a step yields, and what comes next; [`slice`](mod@slice): how much a time slice may
//!   take;
//! * [`body`]: where its state lies; [`pinned`]: one that stays on its thread;
//! * [`kind`]: what is known of its type; [`handover`]: how another definition takes its place;
//! * [`control`]: what the runtime says to a process; [`handling`]: which message it was handling when it failed;
//! * [`guardian`]: the supervisor of a process, as the engine sees it.

pub(crate) mod body;
pub(crate) mod control;
pub(crate) mod event;
pub(crate) mod guardian;
pub(crate) mod handling;
pub(crate) mod handover;
pub(crate) mod kind;
pub(crate) mod mail;
pub(crate) mod output;
pub(crate) mod pinned;
pub(crate) mod slice;

pub use event::{Event, Events};
pub use output::StepOutput;

use handover::{Successor, Upgrade, UpgradeRefusal};
use output::StepStatus;

use crate::errors::{EntryError, InitError, ProcessError};
use crate::mailbox::payload::Payloads;
use crate::pid::Pid;
use std::marker::PhantomData;

/// A state machine that the scheduler runs, one step at a time and never two at once.
///
/// `#[process]` writes this for a struct; writing it by hand is as good. The life of a process:
///
/// 1. `init`, once, on the thread of the spawner (or on its own, if it is pinned: see
///    [`Host::spawn_process_pinned`](crate::Host::spawn_process_pinned)). Messages that arrive meanwhile wait. If it
///    fails, the spawner gets the error and nothing else happens but `close`.
/// 2. `step`, each time something has arrived (and, harmlessly, sometimes when nothing has), on any worker.
/// 3. `close`, once, whatever happened; then the state is dropped, and then all that wait for the end are told.
///
/// A panic in any of them ends this process alone.
pub trait Process: 'static {
    /// The names that `init` can be called with. The first is the default one.
    fn entries(&self) -> &'static [&'static str] {
        &["main"]
    }

    /// Starts at `entry` with `input`.
    ///
    /// # Errors
    /// [`EntryError`] for an entry or for inputs that do not fit, any other error for a start that failed.
    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        let _ = ctx;
        let has = self.entries();
        if !has.contains(&entry) {
            return Err(unknown_entry(std::any::type_name::<Self>(), entry, has).into());
        }
        if !input.is_empty() {
            let process = std::any::type_name::<Self>().to_string();
            let entry = entry.to_string();
            return Err(EntryError::Count { process, entry, expected: 0, came: input.len(), inputs: vec![] }.into());
        }
        Ok(())
    }

    /// Takes from `events` what has arrived and writes to `out` what to do and what to be next. Without a word in `out`
    /// the process is idle.
    ///
    /// # Errors
    /// An error ends the process, and is its exit reason.
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError>;

    /// The last thing that happens to the process before its state is dropped.
    fn close(&mut self) {}

    /// Returns whether a cancel signal is to be given to `step`. If not, it ends the process before its next step.
    fn handles_cancel(&self) -> bool {
        false
    }

    /// Returns whether the failure of a linked process is to be given to `step`, as
    /// [`Signal::Exit`](crate::Signal::Exit). If not, it ends the process. Asked once, after `init`.
    fn traps_exits(&self) -> bool {
        false
    }

    /// Another definition is to take this one's place. For the runtime: a process that is written by hand
    /// decides itself, by [`StepOutput::upgrade`].
    #[doc(hidden)]
    fn asked_to_upgrade(&mut self, upgrade: Upgrade) {
        upgrade.refuse(UpgradeRefusal::Type(std::any::type_name::<Self>()));
    }
}

impl StepOutput<'_> {
    /// Another definition takes this process's place, under the same PID, with its mailbox, names, links, monitors and
    /// outstanding tags. The old one is closed and dropped, the new one is not initialised: it takes its next step.
    /// From then on `info` and [`Host::address`](crate::Host::address) know the process by its new type.
    pub fn upgrade(&mut self, process: impl Process + Send) {
        self.set(StepStatus::Upgrade(Box::new(Successor::by_hand(process))));
    }
}

/// What a process knows while it starts.
#[derive(Debug)]
pub struct InitContext<'a> {
    pid: Option<Pid>,
    parent: Option<Pid>,
    place: PhantomData<&'a ()>,
}

impl InitContext<'_> {
    /// For a process that is driven by hand, without a runtime: it has no PID.
    pub fn detached() -> Self {
        Self { pid: None, parent: None, place: PhantomData }
    }

    pub(crate) fn of(pid: Pid, parent: Option<Pid>) -> Self {
        Self { pid: Some(pid), parent, place: PhantomData }
    }

    /// The PID of the process; `None` if it is driven by hand.
    pub fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// The process that spawns this one; `None` if it is a thread, or driven by hand.
    pub fn parent(&self) -> Option<Pid> {
        self.parent
    }
}

/// The error for a name that is no entry.
pub(crate) fn unknown_entry(process: &str, entry: &str, has: &[&str]) -> EntryError {
    EntryError::Unknown {
        process: process.to_string(),
        entry: entry.chars().take(80).collect(),
        has: has.iter().map(ToString::to_string).collect(),
    }
}
