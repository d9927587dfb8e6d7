//! An actor runtime: processes with mailboxes on a work-stealing scheduler.
//!
//! A **process** is a struct that handles messages, one at a time. Mark the struct and its `impl` block with
//! `#[process]`, and methods with [`entry`] or [`message`]:
//!
//! ```
//! use postroom::prelude::*;
//!
//! #[process]
//! struct Account { balance: u64 }
//!
//! #[process]
//! impl Account {
//!     #[entry]
//!     fn serve(&mut self) {}
//!
//!     #[message]
//!     fn deposit(&mut self, amount: u64) -> u64 { self.balance += amount; self.balance }
//! }
//!
//! let runtime = Runtime::new()?;
//! let account = runtime.spawn(Account { balance: 100 }).serve()?;
//! account.deposit(20).send()?; // a message: does not wait
//! assert_eq!(account.deposit(5).wait()?, 125); // a call; `.await` in async code
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [guide] explains each feature with example programs; begin with its [quick start]. This page names the types
//! for each part of the program above. `use postroom::prelude::*` imports what most programs need.
//!
//! # Runtime
//! A [`Runtime`] owns its worker threads and processes; a [`Builder`] configures it. A runtime dereferences to a
//! [`Host`], which is `Copy` and is also used inside processes. Dropping a runtime shuts it down and discards queued
//! messages; [`Runtime::drain`] handles them first. [`#[postroom::main]`](macro@main) runs `main` inside a runtime.
//!
//! # Processes
//! [`Spawn`] sets the options of a new process, such as its name or a [`Bound`] for its mailbox. A sync entry
//! initializes a process that then serves messages. An async entry is the body of the process, and spawning it returns
//! a [`Running`], a future of the result. A method that takes a [`Context`] can spawn, send, wait and stop; a method
//! with [`signal`](macro@signal) handles a [`Signal`] from the runtime, such as the request to end.
//!
//! # Messages and calls
//! A spawn returns an [`Address`], with a method for each message. The method builds a [`Call`]: finish it with
//! [`send`](Call::send), [`wait`](Call::wait), `.await` or [`send_after`](Call::send_after). The macro also generates a
//! type for each message, such as `AccountDeposit`, which [`Host::send`] sends to any [`Pid`]. A [`Recipient`] is the
//! address of any process that handles one type of message; a [`protocol`] is a set of messages that several types of
//! process handle. Delivery is at most once, in order between a sender and a receiver.
//!
//! A method answers by returning, later with a [`Reply`], or repeatedly with [`Replies`]. [`Context::call`] and
//! [`Context::run`] handle a result between two messages.
//!
//! # Errors
//! A message that cannot be queued returns to its sender in a [`SendError`]. A call fails with a [`CallError`],
//! whose [`delivery`](CallError::delivery) tells whether the message was handled. Calls have a deadline, and a
//! cycle of calls fails immediately.
//!
//! A panic ends one process. [`Pid::join`] waits for the end and returns the [`ExitReason`]; [`Pid::link`] and
//! [`Pid::monitor`] notify other processes ([`Exit`], [`Down`]). A [`Supervisor`](supervision::Supervisor) restarts
//! failed children, whose addresses stay valid:
//!
//! ```
//! # use postroom::prelude::*;
//! # #[process] struct Account { balance: u64 }
//! # #[process]
//! # impl Account {
//! #     #[entry] fn serve(&mut self) {}
//! #     #[message] fn deposit(&mut self, amount: u64) -> u64 { self.balance += amount; self.balance }
//! #     #[message] fn split(&self, people: u64) -> u64 { self.balance / people }
//! # }
//! # let runtime = Runtime::new()?;
//! let account = Child::new("account", |spawn| spawn.of(Account { balance: 100 }).serve()).keep_messages();
//! let tree = Supervisor::one_for_one().add(account).spawn(&runtime)?;
//! let account: Address<Account> = tree.child("account")?;
//!
//! assert!(matches!(account.split(0).wait(), Err(CallError::Died(ExitReason::Panic(_)))));
//! assert_eq!(account.deposit(5).wait()?, 105); // handled by a new process
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Discovery
//! Processes find each other by name ([`Host::whereis`], [`Host::named_address`]), in a [`Group`], or as subscribers
//! of a [`Topic`]. A [`Pool`] is a set of processes behind one address. Code outside of processes can call them, or
//! receive messages in its own [`Mailbox`].
//!
//! # Waiting, blocking and time
//! Async entries and methods can await any future. Blocking code belongs in [`Context::blocking`] or
//! [`block_in_place`]; [`Host::spawn_pinned`] gives a process its own thread. [`Context::attach`] delivers the items
//! of a stream as messages. [`Context::sleep`], [`Interval`] and [`Timer`] use the clock of the runtime. A [`Command`]
//! is a request to code outside of processes, which answers it later.
//!
//! # Testing
//! With a [`Clock`](crate::test::Clock) that the test advances, hours pass instantly. A [`Probe`](crate::test::Probe)
//! stands in for a process and checks the messages that it receives. [`#[postroom::test]`](macro@test) runs a test
//! under many seeded schedules (feature `test`).
//!
//! # Modules
//! * [`prelude`]: the items that most programs use;
//! * [`supervision`]: supervisors and their trees;
//! * [`test`](mod@test): a virtual clock and probes, and with the feature `test` simulations;
//! * [`inspect`]: [`Host::statistics`], [`Pid::info`], hooks, stalls and dead letters;
//! * [`error`](mod@error), [`future`], [`generic`]: further errors, return types, and bounds for generic code;
//! * [`manual`]: processes written by hand, without `#[process]`;
//! * [`routing`]: messages to other nodes;
//! * `remote` (feature `serde`): the description of messages that may travel between nodes.
//!
//! [`Pid::upgrade`] replaces the definition of a running process.
//!
//! # Features
//! All are off by default.
//! * `serde`: [`Pid`] and addresses as text or 16 bytes, starting and sending by name with JSON inputs, and
//!   `#[process(remote)]`, for messages that travel between nodes.
//! * `futures`: sending as a `Sink` (`Recipient::sink`). Sources are `Stream`s even without this feature.
//! * `ctrl-c`: `Runtime::run_until_ctrl_c`, `Runtime::drain_at_ctrl_c`, and `Interrupt`.
//! * `tokio`: Tokio's sockets, timers, files and tasks inside processes (`Builder::tokio`,
//!   `Builder::tokio_handle`); the runtime of `#[postroom::main]` includes it.
//! * `spans`: each message is handled in a root span of `tracing`, `postroom.message`, which follows from the span of
//!   its sender.
//! * `test`: simulated tests with [`#[postroom::test]`](macro@test), for dev-dependencies.
//!
#![doc = concat!("[guide]: ", env!("CARGO_PKG_HOMEPAGE"))]
#![doc = concat!("[quick start]: ", env!("CARGO_PKG_HOMEPAGE"), "/quick-start.html")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("postroom packs addresses and tags into one word, and needs a 64-bit target");
#[cfg(panic = "abort")]
compile_error!("postroom contains panics in processes by unwinding; build without `panic = \"abort\"`");

mod actor;
mod api;
mod call;
mod deadlock;
mod engine;
mod env;
mod errors;
mod exit;
mod links;
mod mailbox;
mod mem;
mod names;
mod observe;
mod pid;
mod pool;
mod process;
mod recorder;
mod registry;
pub mod routing;
mod signal;
#[cfg(feature = "test")]
mod simulation;
mod slots;
pub mod supervision;
mod sync;
mod thread_cache;
mod time;
mod util;

pub use actor::definition::context::Context;
pub use actor::definition::reply::Reply;
pub use actor::handle::address::{Address, Recipient};
pub use actor::machine::blocking::block_in_place;
pub use actor::send::call::{Call, DEFAULT_TIMEOUT};
pub use actor::send::replies::Replies;
pub use actor::send::send_after::Timer;
pub use actor::spawn::builder::{Running, Spawn};
pub use actor::tasks::interval::{Interval, MissedTicks};
pub use api::block_on::block_on;
pub use api::builder::Builder;
pub use api::child_spawn::ChildSpawn;
#[cfg(feature = "ctrl-c")]
pub use api::interrupt::Interrupt;
pub use api::mailbox::Mailbox;
pub use api::runtime::{Host, Runtime};
pub use call::command::{Command, Completion};
pub use call::package::Package;
pub use env::program::this_node;
pub use errors::{CallError, CommandError, Delivery, InitError, ProcessError, RunError, SendError, SpawnError};
pub use exit::ExitReason;
pub use mailbox::bound::{Bound, Overflow};
pub use mailbox::payload::{Payload, Payloads};
pub use pid::{NodeId, Pid};
pub use pool::builder::{KeyedPool, Pool, RunningPool};
pub use registry::group::Group;
pub use registry::group_table::GroupEvent;
pub use registry::topic::Topic;
pub use signal::{Cancel, Down, Exit, Monitor, Signal};

/// Hand-written processes: the trait that `#[process]` implements, its spawn, and the input and output of a step.
pub mod manual {
    pub use crate::actor::machine::state_machine::Machine;
    pub use crate::actor::spawn::by_hand::SpawnProcess;
    pub use crate::errors::StepError;
    pub use crate::process::{Event, Events, InitContext, Process, StepOutput};
}

/// Observation of a running program: statistics, snapshots of processes, hooks, stalls and dead letters.
pub mod inspect {
    pub use crate::actor::definition::entry::EntryInfo;
    pub use crate::actor::definition::inputs::InputInfo;
    pub use crate::actor::send::addressed::ProtocolInfo;
    pub use crate::actor::send::links::Inspection;
    pub use crate::api::observation::{Incidents, RunningStep};
    pub use crate::api::statistics::{
        BackpressureStatistics, BlockingStatistics, DeadLetterStatistics, DirectoryStatistics, ProcessInfo,
        ProcessState, ProcessStatistics, ProgramStatistics, Statistics, ThreadState, ThreadStatistics, WaitsFor,
        WatchdogStatistics, WorkerStatistics,
    };
    pub use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
    pub use crate::engine::host::hooks::{Hook, Started};
    pub use crate::engine::host::incidents::{AbnormalEnd, KeptStall, LostMessage, Recent};
    pub use crate::engine::shutdown::{Remaining, ShutdownReport, Unfinished};
    pub use crate::engine::watchdog::report::Stall;
    pub use crate::engine::workers::timed::TimedStep;
    pub use crate::links::message::Bindings;
    pub use crate::pool::plan::PoolStatistics;
    pub use crate::process::description::{DescribeError, Description};
    pub use crate::process::tap::{Tap, TappedMessage, TappedValue};
    pub use crate::process::wait_probe::{WaitMeasurement, Waited};
}

/// Recordings: the activity of a host's threads, event by event. See [`Host::record`].
pub mod record {
    pub use crate::api::record::{ActiveRecording, FlightRecorder, FlightRecording, RecordError, RecordingOptions};
    pub use crate::recorder::event::{
        EndKind, EventKind, Fate, FlowId, Party, RecordedEvent, SliceEnd, ThreadIndex, TypeIndex,
    };
    pub use crate::recorder::recording::{RecordedEvents, RecordedThread, Recording};
    pub use crate::recorder::session::DumpCause;
}

/// Tests: a virtual clock, probes in place of processes, and, with the feature `test`, simulations.
pub mod test {
    pub use crate::api::probe::{Probe, ProbeError};
    #[cfg(feature = "test")]
    pub use crate::simulation::{
        campaign::{Simulation, TestResult},
        report::{Coverage, Departure, FailedRun, SimulationError},
        sim::Sim,
        strategy::Schedules,
    };
    pub use crate::time::virtual_clock::{Clock, ClockError, IdleError};
    #[cfg(feature = "test")]
    #[doc(inline)]
    pub use crate::{__buggify as buggify, __sometimes as sometimes};
}

/// Further errors; those of sends, calls, spawns and processes are in the crate root.
pub mod error {
    pub use crate::actor::machine::upgrade::UpgradeError;
    pub use crate::actor::send::links::TopologyError;
    pub use crate::errors::{
        AddressError, BadName, BuildError, Cycle, Elapsed, EntryError, GroupError, MessageError, NameError,
        SendFailure, ShutdownError, Skew, StartError, WhereisError,
    };
    pub use crate::exit::Panic;
    pub use crate::pid::ParsePidError;
    pub use crate::pool::plan::PoolGaveUp;
}

/// The return types of calls, streams and other operations, to be awaited, waited for or dropped.
pub mod future {
    pub use crate::actor::definition::context::{Answered, CallThen, Finished, RunThen};
    #[cfg(feature = "futures")]
    pub use crate::actor::handle::sink::MessageSink;
    pub use crate::actor::machine::attach::Attached;
    pub use crate::actor::machine::blocking::Blocking;
    pub use crate::actor::machine::upgrade::Upgrading;
    pub use crate::actor::send::call::CallFuture;
    pub use crate::actor::send::describe::Describing;
    pub use crate::actor::send::pid_ops::Ended;
    pub use crate::actor::send::replies::{ReplyIter, ReplyStream, Streaming};
    pub use crate::actor::send::restart_wait::{PatientCall, PatientCallFuture};
    pub use crate::api::shutdown::ShuttingDown;
}

/// Traits for bounds in generic code.
pub mod generic {
    pub use crate::actor::definition::actor::{Actor, Declared, Handles, Migratable};
    #[cfg(feature = "serde")]
    pub use crate::actor::definition::json::JsonInputs;
    pub use crate::actor::definition::protocol::{Protocol, Serves};
    pub use crate::actor::handle::address::NarrowOf;
    pub use crate::actor::machine::upgrade::IntoUpgrade;
    pub use crate::actor::send::addressed::Addressed;
    pub use crate::actor::send::addressed::SendTo;
    pub use crate::api::child_spawn::Spawned;
    pub use crate::signal::SignalKind;
}

/// Messages that travel between nodes: the interface between `#[process(remote)]` and a crate that encodes messages.
#[cfg(feature = "serde")]
pub mod remote {
    pub use crate::actor::definition::remote::{
        Remote, RemoteEntry, RemoteMessage, RemoteProtocol, RemoteValue, RemoteVisitor, WireCodec,
    };
}

pub use postroom_macros::{entry, main, message, process, protocol, signal, test};

/// The items that most programs use.
pub mod prelude {
    pub use crate::error::SendFailure;
    pub use crate::payloads;
    pub use crate::supervision::{Backoff, Child, Supervisor, Tree};
    pub use crate::test::{Clock, Probe};
    pub use crate::{
        Address, Bound, Call, CallError, Cancel, Command, CommandError, Completion, Context, Delivery, Down, Exit,
        ExitReason, Group, GroupEvent, Host, InitError, Monitor, Overflow, Payload, Payloads, Pid, Pool, ProcessError,
        Recipient, Replies, Reply, RunError, Running, Runtime, SendError, Signal, SpawnError, Timer, Topic,
    };
    pub use crate::{entry, message, process, protocol, signal};
}

/// Items for generated code only: not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use crate::Payload;
    pub use crate::actor::definition::actor::{Actor, Declared, Dispatched, Handles, MethodEvent, no_such_entry};
    pub use crate::actor::definition::entry::{EntryFuture, EntryInfo, EntryResult, FutureOutput, InitOutcome, Start};
    #[cfg(feature = "serde")]
    pub use crate::actor::definition::inputs::TakeJson;
    pub use crate::actor::definition::inputs::{CheckedInputs, InputInfo, InputOf, Inputs, TakeNothing, TakeValue};
    pub use crate::actor::definition::named_message::{ByName, NamedMessage};
    pub use crate::actor::definition::outcome::{AnswerParts, EntryFutureOf, Outcome};
    pub use crate::actor::definition::placement::{MethodFuture, NotPinned, OnItsThread, OnWorkers};
    pub use crate::actor::definition::probe;
    pub use crate::actor::definition::protocol::{
        Chain, HandlesAll, Lists, MessagesFrom, Named, Plain, Protocol, Serves, complete,
    };
    #[cfg(feature = "serde")]
    pub use crate::actor::definition::remote::{
        FallibleRemoteAnswer, IsLocalProtocol, IsRemoteProtocol, Remote, RemoteAnswer, RemoteEntry, RemoteField,
        RemoteMessage, RemoteProtocol, RemoteProtocolProbe, RemoteVisitor, WireCodec,
    };
    pub use crate::actor::definition::reply::{Asked, Watch, apart, is_in_block, open, open_held};
    pub use crate::actor::definition::spawn_core::SpawnCore;
    pub use crate::actor::machine::serving::never_away;
    pub use crate::actor::send::addressed::{Addressed, End, Link, ProtocolInfo};
    pub use crate::actor::spawn::builder::RunningOf;
    pub use crate::errors::EntryError;
    pub use crate::mailbox::payload::{HeldMessage, MessagePlace};
    pub use crate::process::mail::Mail;
    #[cfg(feature = "test")]
    pub use crate::simulation::sim::{is_buggified, note_sometimes};
    /// The derives of remote messages use this, so that user crates need no dependency on serde.
    #[cfg(feature = "serde")]
    pub use serde;
    // Used by the hostile-user tests.
    pub use crate::sync::thread_kind::ThreadKind;
    pub use crate::util::panics::{caught, ran_on};
    // Lets the threads of a cluster hand user code to another thread, since they must not run it themselves.
    pub use crate::util::notifiers::run as run_users_code;
    // Drops the payload of a panic that a cluster has caught.
    pub use crate::util::panics::discard as discard_panic;

    /// Returns false, since nothing misbehaves without the feature `test`.
    #[cfg(not(feature = "test"))]
    #[inline]
    pub fn is_buggified(_file: &str, _line: u32) -> bool {
        false
    }

    /// Does nothing, since nothing is required of a run without the feature `test`.
    #[cfg(not(feature = "test"))]
    #[inline]
    pub fn note_sometimes(_holds: bool, _what: &str) {}

    /// A trait that no type implements: without the feature `serde` there are no JSON inputs.
    #[cfg(not(feature = "serde"))]
    pub trait TakeJson {}

    /// Builds the runtime of `#[postroom::main]`.
    pub fn main_runtime(workers: Option<usize>) -> crate::Runtime {
        let builder = crate::Builder::new();
        #[cfg(feature = "tokio")]
        let builder = builder.tokio();
        let builder = match workers {
            Some(workers) => builder.workers(workers),
            None => builder,
        };
        builder.build().unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(2)
        })
    }
}

/// Returns whether the program should misbehave here: write `if buggify!() { … }` in program code, for its simulated
/// tests. Each place is active in a quarter of the runs, and then returns true a quarter of the time (like
/// FoundationDB's `BUGGIFY`). The result is `false` outside of a simulation, and always without the feature `test`.
#[doc(hidden)]
#[macro_export]
macro_rules! __buggify {
    () => {
        $crate::__private::is_buggified(::core::file!(), ::core::line!())
    };
}

/// Requires a condition to hold in at least one run of a simulated test, in the body of the test or in its processes:
/// `sometimes!(retries > 0, "a transfer is retried")`. A test of retries proves nothing about them if no seed leads to
/// one, and then fails with [`SimulationError::Never`](crate::test::SimulationError::Never), although every run passed.
///
/// Unlike `assert!`, it lets a run continue in which the condition is false. The text names the condition in the error
/// and in [`Coverage::sometimes`](crate::test::Coverage::sometimes); conditions with the same text count as one.
///
/// A `sometimes!` that no run reaches is unknown to the test, and fails nothing. Write it where all runs come, with the
/// rare event as its condition, not inside the branch that is rare. It does nothing outside of simulations, without the
/// feature `test`, and if only one run is repeated (`POSTROOM_SEED`, `POSTROOM_REPLAY`).
#[doc(hidden)]
#[macro_export]
macro_rules! __sometimes {
    ($holds:expr, $what:literal) => {
        $crate::__private::note_sometimes($holds, $what)
    };
}
