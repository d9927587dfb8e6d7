//! Postroom is an actor runtime: annotate a struct with `#[process]`, give it entries and messages, spawn as many as
//! you like, and send to them by address or by PID.
//!
//! ```
//! use postroom::prelude::*;
//!
//! #[process]
//! struct Account { balance: i64 }
//!
//! #[process]
//! impl Account {
//!     /// An entry: spawn with it, and the process serves messages until it is stopped.
//!     #[entry]
//!     fn serve(&mut self, opening: i64) { self.balance = opening; }
//!
//!     /// A message with its reply.
//!     #[message]
//!     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
//! }
//!
//! let runtime = Runtime::new()?;
//! let account = runtime.spawn(Account { balance: 0 }).serve(100)?;
//! account.deposit(20).send()?; // fire and forget
//! assert_eq!(account.deposit(5).wait()?, 125); // a call
//! runtime.send(account.pid(), AccountDeposit { amount: 5 })?; // by PID, any message type
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A work-stealing scheduler runs each process as a state machine, one step at a time, never two at once. The guide in
//! the repository's `book` folder explains both.
//!
//! # Overview
//! * Start: [`Runtime`], [`Builder`], [`Spawn`]; [`Context`] is a process's view of its runtime.
//! * Send and call: [`Address`], [`Recipient`], [`Pid`], [`protocol`] traits; [`Call`] offers the variants (`send`,
//!   `wait`, `.await`, `send_after`, …), [`Reply`] and [`Replies`] answer later or repeatedly, [`Bound`] limits a
//!   mailbox.
//! * Fail: [`Pid::link`] and [`Pid::monitor`] notify others ([`Exit`], [`Down`]); a
//!   [`Supervisor`](supervision::Supervisor) restarts failed processes, and their addresses stay valid.
//! * Find: names ([`Host::whereis`], [`Host::named_address`]), [`Group`], [`Topic`]; a [`Pool`] is many processes behind one
//!   address.
//! * Wait and block: any future can be awaited; blocking code goes into [`Context::blocking`] or [`block_in_place`];
//!   [`Host::spawn_pinned`] gives a process its own thread, and its state need not be `Send`; [`Context::attach`]
//!   delivers a stream's items as messages.
//! * Time: [`Timer`], [`Interval`].
//! * Upgrade: [`Pid::upgrade`] replaces a process's definition under the same PID.
//!
//! The rest is sorted by theme:
//! * [`supervision`]: supervisors and their trees;
//! * [`manual`]: processes written by hand, without `#[process]`;
//! * [`inspect`]: [`Host::statistics`], [`Pid::info`], hooks, stalls, dead letters;
//! * [`testing`]: a virtual clock, and probes;
//! * [`error`](mod@error), [`future`], [`generic`]: errors, return types, and the traits for bounds of generic code;
//! * [`routing`]: messages to other nodes.
//!
//! # Features
//! * `serde`: text and binary forms of [`Pid`], and starting and sending by name with JSON inputs.
//! * `futures`: sending as a `Sink` (`Recipient::sink`). Sources are `Stream`s without it.
//! * `ctrl-c`: `Runtime::run_until_ctrl_c`, `Runtime::drain_at_ctrl_c`, and `Interrupt`.
//! * `tokio`: Tokio's sockets, timers, files and tasks inside processes (`Builder::tokio`, `Builder::tokio_handle`);
//!   the runtime of `#[postroom::main]` includes it.

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
mod registry;
pub mod routing;
mod slots;
pub mod supervision;
mod sync;
mod time;
mod util;

pub use actor::definition::context::Context;
pub use actor::definition::reply::Reply;
pub use actor::handle::address::{Address, Recipient};
pub use actor::send::call::{Call, DEFAULT_TIMEOUT};
pub use actor::send::replies::Replies;
pub use actor::send::send_after::Timer;
pub use actor::spawn::builder::{Running, Spawn};
pub use actor::tasks::interval::{Interval, MissedTicks};
pub use api::builder::Builder;
pub use api::child_spawn::ChildSpawn;
#[cfg(feature = "ctrl-c")]
pub use api::interrupt::Interrupt;
pub use api::mailbox::Mailbox;
pub use api::runtime::{Host, Runtime};
pub use call::command::{Command, Completion};
pub use call::package::Package;
pub use engine::blocking::block_in_place::block_in_place;
pub use env::program::this_node;
pub use errors::{CallError, CommandError, Delivery, InitError, ProcessError, RunError, SendError, SpawnError};
pub use exit::{Cancel, Down, Exit, ExitReason, Monitor, Signal};
pub use mailbox::bound::{Bound, Overflow};
pub use mailbox::payload::{Payload, Payloads};
pub use pid::{NodeId, Pid};
pub use pool::builder::{KeyedPool, Pool, RunningPool};
pub use registry::group::Group;
pub use registry::group::GroupEvent;
pub use registry::topic::Topic;

/// Hand-written processes: the trait that `#[process]` implements, the input and output of a step, and commands.
pub mod manual {
    pub use crate::actor::machine::state_machine::Machine;
    pub use crate::actor::spawn::by_hand::SpawnProcess;
    pub use crate::errors::StepError;
    pub use crate::process::{Event, Events, InitContext, Process, StepOutput};
}

/// Observing a running program: statistics, snapshots of processes, hooks, stalls and dead letters.
pub mod inspect {
    pub use crate::actor::definition::entry::EntryInfo;
    pub use crate::actor::definition::inputs::InputInfo;
    pub use crate::actor::send::addressed::ProtocolInfo;
    pub use crate::actor::send::links::Inspection;
    pub use crate::api::statistics::{
        BackpressureStatistics, BlockingStatistics, DeadLetterStatistics, DirectoryStatistics, ProcessInfo,
        ProcessState, ProcessStatistics, ProgramStatistics, Statistics, ThreadState, ThreadStatistics, WaitsFor,
        WatchdogStatistics, WorkerStatistics,
    };
    pub use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
    pub use crate::engine::host::hooks::{Hook, Started};
    pub use crate::engine::shutdown::ShutdownReport;
    pub use crate::engine::watchdog::report::Stall;
    pub use crate::links::message::Bindings;
    pub use crate::pool::builder::PoolStatistics;
}

/// Tests: a virtual clock, and probes in place of processes.
pub mod testing {
    pub use crate::api::probe::{Probe, ProbeError};
    pub use crate::time::virtual_clock::{Clock, ClockError, IdleError};
}

/// Further errors; those of sends, calls, spawns and processes are in the crate's root.
pub mod error {
    pub use crate::actor::machine::upgrade::UpgradeError;
    pub use crate::actor::send::links::TopologyError;
    pub use crate::errors::{
        AddressError, BadName, BuildError, Cycle, Elapsed, EntryError, GroupError, MessageError, NameError,
        SendFailure, ShutdownError, StartError, WhereisError,
    };
    pub use crate::exit::Panic;
    pub use crate::pid::ParsePidError;
    pub use crate::pool::plan::PoolGaveUp;
}

/// The return types of calls, streams and other operations: to be awaited, waited for or dropped.
pub mod future {
    pub use crate::actor::definition::context::{Answered, CallThen, Finished, RunThen};
    #[cfg(feature = "futures")]
    pub use crate::actor::handle::sink::MessageSink;
    pub use crate::actor::machine::attach::Attached;
    pub use crate::actor::machine::blocking::Blocking;
    pub use crate::actor::machine::upgrade::Upgrading;
    pub use crate::actor::send::call::CallFuture;
    pub use crate::actor::send::pid_ops::Ended;
    pub use crate::actor::send::replies::{ReplyIter, ReplyStream, Streaming};
    pub use crate::actor::send::restart_wait::{PatientCall, PatientCallFuture};
    pub use crate::api::shutdown::ShuttingDown;
}

/// Traits for the bounds of generic code.
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
    pub use crate::exit::SignalKind;
}

pub use postroom_macros::{entry, main, message, process, protocol, signal};

/// Everything that most programs use.
pub mod prelude {
    pub use crate::payloads;
    pub use crate::supervision::{Backoff, Child, Supervisor};
    pub use crate::testing::{Clock, Probe};
    pub use crate::{
        Address, Bound, Call, CallError, Cancel, Command, CommandError, Completion, Context, Delivery, Down, Exit,
        ExitReason, Group, GroupEvent, Host, InitError, Monitor, Overflow, Payload, Payloads, Pid, Pool, ProcessError,
        Recipient, Replies, Reply, RunError, Running, Runtime, SendError, Signal, SpawnError, Timer, Topic,
    };
    pub use crate::{entry, message, process, protocol, signal};
}

/// For generated code only: not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use crate::actor::definition::actor::{Actor, Declared, Dispatched, Handles, MethodEvent, no_such_entry};
    pub use crate::actor::definition::entry::{
        EntryFuture, EntryInfo, EntryResult, Fallible, FutureOutput, InitOutcome, Start,
    };
    #[cfg(feature = "serde")]
    pub use crate::actor::definition::inputs::TakeJson;
    pub use crate::actor::definition::inputs::{CheckedInputs, InputInfo, InputOf, Inputs, TakeNothing, TakeValue};
    pub use crate::actor::definition::named_message::{ByName, NamedMessage};
    pub use crate::actor::definition::placement::{MethodFuture, NotPinned, OnItsThread, OnWorkers};
    pub use crate::actor::definition::probe;
    pub use crate::actor::definition::protocol::{
        Answer, Chain, HandlesAll, Lists, MessagesFrom, Named, Plain, Protocol, Serves, complete,
    };
    pub use crate::actor::definition::reply::{Asked, apart, is_large, open, open_into};
    pub use crate::actor::definition::spawn_core::SpawnCore;
    pub use crate::actor::machine::serving::never_away;
    pub use crate::actor::send::addressed::{Addressed, End, Link, ProtocolInfo};
    pub use crate::errors::EntryError;
    pub use crate::process::mail::Mail;
    // For the tests of hostile users.
    pub use crate::util::panics::caught;

    /// Without the feature `serde` there are no JSON inputs.
    #[cfg(not(feature = "serde"))]
    pub trait TakeJson {}

    /// The runtime of `#[postroom::main]`.
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
