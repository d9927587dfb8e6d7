//! The [`Process`] trait, which users implement by hand or through `#[process]`.
//!
//! * [`event`]: the events of a step; [`input`], [`input_controls`], [`input_data`], [`rare_events`] and
//!   [`input_recording`]: the sources of these events; [`mail`]: a message in its mailbox node;
//! * [`output`]: the output of a step; [`slice`](mod@slice): the budget of a time slice;
//! * [`resume`]: steps that begin with an answer;
//! * [`body`]: the storage of a process's state; [`kind`]: facts about a process type;
//! * [`handover`]: the replacement of a process by another definition;
//! * [`description`]: the state of a process as text; [`wait_probe`]: the waiting time of messages; [`tap`]: the next
//!   messages of a process;
//! * [`control`]: requests from the runtime; [`handling`]: the message that a failed process was handling;
//! * [`guardian`]: the supervisor of a process, as the engine sees it.

pub(crate) mod body;
pub(crate) mod control;
pub(crate) mod description;
pub(crate) mod event;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod guardian;
pub(crate) mod handling;
pub(crate) mod handover;
pub(crate) mod input;
pub(crate) mod input_controls;
pub(crate) mod input_data;
pub(crate) mod input_recording;
pub(crate) mod kind;
pub(crate) mod mail;
pub(crate) mod output;
pub(crate) mod rare_events;
pub(crate) mod resume;
pub(crate) mod slice;
pub(crate) mod tap;
pub(crate) mod wait_probe;

pub use event::{Event, Events};
pub use output::StepOutput;

use description::StateShown;
use handover::{Successor, Upgrade, UpgradeRefusal};
use output::StepStatus;
use resume::{FirstAnswer, StepParts};

use crate::errors::{EntryError, InitError, ProcessError};
use crate::{mailbox::payload::Payloads, pid::Pid, util::thread_bound::Anchored};
use std::fmt;
use std::marker::PhantomData;

/// A state machine whose steps the scheduler runs one at a time.
///
/// `#[process]` implements this trait for a struct; it can also be implemented by hand. The life cycle of a process:
///
/// 1. `init` runs once, on the spawner's thread (or on the process's own thread if it is pinned: see
///    [`Host::spawn_process_pinned`](crate::Host::spawn_process_pinned)). Messages that arrive in the meantime wait. If
///    `init` fails, the spawner gets the error, and only `close` follows.
/// 2. `step` runs on any worker whenever input has arrived, and occasionally without input.
/// 3. `close` always runs, once. Then the state is dropped, and everything that waits for the end of the process is
///    notified.
///
/// A panic in any of these methods ends only this process. A step must return soon, and must neither block nor wait,
/// since it keeps a worker from other processes.
///
/// ```
/// use postroom::ProcessError;
/// use postroom::manual::{Event, Events, Process, StepOutput};
/// use postroom::prelude::*;
///
/// /// Adds numbers until it receives a zero, then ends with the sum.
/// struct Sum(u64);
///
/// impl Process for Sum {
///     fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
///         while let Some(event) = events.next() {
///             let Event::Message(package) = event else { continue };
///             match package.take::<u64>() {
///                 Ok(0) => out.done_with(self.0),
///                 Ok(number) => self.0 += number,
///                 Err(_other) => {} // dropped, so it becomes a dead letter
///             }
///         }
///         Ok(())
///     }
/// }
///
/// let runtime = Runtime::new()?;
/// let sum = runtime.spawn_process(Sum(0)).run::<u64>()?;
/// for number in [20, 22, 0] {
///     runtime.send(sum.pid(), number as u64)?;
/// }
/// assert_eq!(sum.wait()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Process: 'static {
    /// Returns the entry names that `init` accepts. The first is the default.
    fn entries(&self) -> &'static [&'static str] {
        &["main"]
    }

    /// Starts the process at `entry` with `input`.
    ///
    /// # Errors
    /// [`EntryError`] if the entry is unknown or the input does not fit it; any other error if the start fails.
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

    /// Takes input from `events`, and writes actions and the next status to `out`. By default the process becomes idle.
    ///
    /// # Errors
    /// An error ends the process and becomes its exit reason.
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError>;

    /// Cleans up. Called once before the state is dropped, however the process ends. A panic is logged.
    fn close(&mut self) {}

    /// Returns whether a cancel signal is delivered to `step`. If not, it ends the process before its next step.
    fn handles_cancel(&self) -> bool {
        false
    }

    /// Returns whether the failure of a linked process is delivered to `step`, as
    /// [`Signal::Exit`](crate::Signal::Exit). If not, it ends this process too. Called once, after `init`.
    fn traps_exits(&self) -> bool {
        false
    }

    /// Runs a step whose input begins with an answer. Called only by the runtime.
    #[doc(hidden)]
    fn resume(&mut self, answer: FirstAnswer, parts: StepParts<'_>) -> Result<(), ProcessError> {
        parts.input.begin_with_answer(answer.0);
        parts.step(|events, out| self.step(events, out))
    }

    /// Runs a step whose input consists of messages. Called only by the runtime.
    #[doc(hidden)]
    fn serve(&mut self, parts: StepParts<'_>) -> Result<(), ProcessError> {
        parts.step(|events, out| self.step(events, out))
    }

    /// Handles an upgrade request. Called only by the runtime; hand-written processes use [`StepOutput::upgrade`].
    #[doc(hidden)]
    fn asked_to_upgrade(&mut self, upgrade: Upgrade) {
        upgrade.refuse(UpgradeRefusal::Type(std::any::type_name::<Self>()));
    }

    /// Writes the state as text. Called only by the runtime; implemented by `#[process(inspect)]`.
    #[doc(hidden)]
    fn describe(&self, to: &mut dyn fmt::Write) -> StateShown {
        let _ = to;
        StateShown::Hidden
    }
}

impl StepOutput<'_> {
    /// Replaces this process with another definition. The PID, mailbox, names, links, monitors and outstanding tags are
    /// kept. The old process is closed and dropped; the new one is not initialized but takes the next step. From then
    /// on, `info` and [`Host::address`](crate::Host::address) report the new type.
    pub fn upgrade(&mut self, process: impl Process + Send) {
        self.set(StepStatus::Upgrade(Box::new(Successor::by_hand(process))));
    }
}

/// The context of a process's start.
#[derive(Debug)]
pub struct InitContext<'a> {
    pid: Option<Pid>,
    parent: Option<Pid>,
    place: PhantomData<&'a ()>,
}

impl InitContext<'_> {
    /// Creates a context for a process that is driven by hand, without a runtime or a PID.
    pub fn detached() -> Self {
        Self { pid: None, parent: None, place: PhantomData }
    }

    pub(crate) fn of(pid: Pid, parent: Option<Pid>) -> Self {
        Self { pid: Some(pid), parent, place: PhantomData }
    }

    /// Returns the PID of the process; `None` if it is driven by hand.
    pub fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Returns the process that spawns this one; `None` if a thread spawns it, or if it is driven by hand.
    pub fn parent(&self) -> Option<Pid> {
        self.parent
    }
}

pub(crate) fn unknown_entry(process: &str, entry: &str, has: &[&str]) -> EntryError {
    EntryError::Unknown {
        process: process.to_string(),
        entry: entry.chars().take(80).collect(),
        has: has.iter().map(ToString::to_string).collect(),
    }
}

/// Wraps a process that is confined to one thread so that it is `Send`: each method panics on any other thread.
impl<P: Process> Process for Anchored<P> {
    fn entries(&self) -> &'static [&'static str] {
        self.get().entries()
    }

    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        self.get_mut().init(ctx, entry, input)
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        self.get_mut().step(events, out)
    }

    fn resume(&mut self, answer: FirstAnswer, parts: StepParts<'_>) -> Result<(), ProcessError> {
        self.get_mut().resume(answer, parts)
    }

    fn serve(&mut self, parts: StepParts<'_>) -> Result<(), ProcessError> {
        self.get_mut().serve(parts)
    }

    fn close(&mut self) {
        self.get_mut().close();
    }

    fn handles_cancel(&self) -> bool {
        self.get().handles_cancel()
    }

    fn traps_exits(&self) -> bool {
        self.get().traps_exits()
    }

    fn asked_to_upgrade(&mut self, upgrade: Upgrade) {
        self.get_mut().asked_to_upgrade(upgrade);
    }

    fn describe(&self, to: &mut dyn fmt::Write) -> StateShown {
        self.get().describe(to)
    }
}
