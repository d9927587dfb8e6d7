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
//! Under it a work-stealing scheduler runs each process as a state machine, one step at a time, never two at once. The
//! guide in the repository's `book` folder explains both.
//!
//! # Where to find what
//! * Start: [`Runtime`], [`Builder`], [`Spawn`]; [`Context`] is what a process sees of it all, and [`Process`] what one
//!   is that is written by hand.
//! * Send and call: [`Address`], [`Recipient`], [`Pid`], [`protocol`] traits; [`Call`] says how (`send`, `wait`,
//!   `.await`, `send_after`, …), [`Reply`] and [`Replies`] answer later and often, [`Bound`] says how much may wait.
//! * Fail: [`Pid::link`] and [`Pid::monitor`] tell others ([`Exit`], [`Down`]); a
//!   [`Supervisor`](supervision::Supervisor) starts again what has ended, and its children's addresses stay valid.
//! * Meet: names ([`Host::whereis`], [`Host::named`]), [`Group`], [`Topic`]; a [`Pool`] is many processes behind one
//!   address.
//! * Wait and block: whatever is a future is awaited; what blocks stands in [`Context::blocking`] or
//!   [`block_in_place`]; [`Host::spawn_pinned`] gives a process a thread of its own, and lets its state be not `Send`;
//!   [`Context::attach`] has a stream's items come as messages; [`Builder::stall_limit`] and [`Stall`] are about steps
//!   that do not end.
//! * Time: [`Timer`], [`Interval`]; in tests a [`Clock`] that is moved by hand, and a [`Probe`].
//! * Change: [`Pid::upgrade`] goes on under the same PID as another definition.
//! * See: [`Host::statistics`], [`Pid::info`], [`Hook`], [`DeadLetter`], [`Stall`].
//!
//! # Features
//! * `serde`: text and binary forms of [`Pid`], and starting and sending by name with inputs as JSON.
//! * `futures`: sending as a `Sink` (`Recipient::sink`). What gives one thing after the other is a `Stream` without it.
//! * `ctrl-c`: `Runtime::run_until_ctrl_c`, `Runtime::drain_at_ctrl_c`, and `Interrupt`.
//! * `tokio`: Tokio's sockets, timers, files and tasks inside processes (`Builder::tokio`, `Builder::tokio_handle`);
//!   the runtime of `#[postroom::main]` has it from the start.

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
mod routing;
mod slots;
pub mod supervision;
mod sync;
mod time;
mod util;

pub use actor::definition::actor::{Actor, Declared, Handles, Mobile};
pub use actor::definition::context::{Answered, CallThen, Context, Finished, RunThen};
pub use actor::definition::entry::EntryInfo;
pub use actor::definition::inputs::InputInfo;
#[cfg(feature = "serde")]
pub use actor::definition::json::JsonInputs;
pub use actor::definition::protocol::{Protocol, Serves};
pub use actor::definition::reply::Reply;
pub use actor::handle::address::{Address, NarrowOf, Recipient};
#[cfg(feature = "futures")]
pub use actor::handle::sink::MessageSink;
pub use actor::machine::attach::Attached;
pub use actor::machine::blocking::Blocking;
pub use actor::machine::state_machine::Machine;
pub use actor::machine::upgrade::{Successive, UpgradeError, Upgrading};
pub use actor::send::addressed::{Addressed, ProtocolInfo};
pub use actor::send::call::{Call, CallFuture, DEFAULT_TIMEOUT};
pub use actor::send::links::{Inspection, TopologyError};
pub use actor::send::pid_ops::Ended;
pub use actor::send::replies::{Replies, ReplyIter, ReplyStream, Streaming};
pub use actor::send::restart_wait::{PatientCall, PatientCallFuture};
pub use actor::send::send_after::Timer;
pub use actor::send::target::SendTo;
pub use actor::spawn::builder::{Running, Spawn};
pub use actor::spawn::by_hand::SpawnProcess;
pub use actor::tasks::interval::{Interval, Missed};
pub use api::builder::Builder;
pub use api::child_spawn::{ChildSpawn, Spawned};
#[cfg(feature = "ctrl-c")]
pub use api::interrupt::Interrupt;
pub use api::mailbox::Mailbox;
pub use api::probe::{Probe, ProbeError};
pub use api::runtime::{Host, Runtime};
pub use api::shutdown::ShuttingDown;
pub use api::statistics::{
    ProcessInfo, ProcessState, Statistics, ThreadState, ThreadStatistics, WaitsFor, WorkerStatistics,
};
pub use call::command::{Command, Completion};
pub use call::dead_letter::{DeadLetter, DeadLetterReason};
pub use call::package::{Package, Refused};
pub use engine::blocking::block_in_place::block_in_place;
pub use engine::host::hooks::{Hook, Started};
pub use engine::shutdown::ShutdownReport;
pub use engine::watchdog::report::Stall;
pub use env::program::this_node;
pub use errors::{
    AddressError, BadName, BuildError, CallError, CommandError, Cycle, Delivery, Elapsed, EntryError, InitError,
    JoinError, MessageError, NameError, ProcessError, RunError, SendError, SendFailure, ShutdownError, SpawnError,
    StartError, StepError, WhereisError,
};
pub use exit::{Cancel, Down, Exit, ExitReason, Monitor, Panic, Signal, SignalKind};
pub use links::message::Bindings;
pub use mailbox::bound::{Bound, Overflow};
pub use mailbox::payload::{Payload, Payloads};
pub use pid::{NodeId, ParsePidError, Pid};
pub use pool::builder::{KeyedPool, Pool, PoolStatistics, RunningPool};
pub use pool::plan::PoolGaveUp;
pub use process::{Event, Events, InitContext, Process, StepOutput};
pub use registry::group::Group;
pub use registry::group_event::GroupEvent;
pub use registry::topic::Topic;
pub use routing::router::{Node, Receiver, Router};
pub use time::virtual_clock::{Clock, ClockError, IdleError};

pub use postroom_macros::{entry, main, message, process, protocol, signal};

/// What a program that uses processes wants in scope.
pub mod prelude {
    pub use crate::payloads;
    pub use crate::supervision::{Backoff, Supervisor};
    pub use crate::{
        Address, Bound, Call, CallError, Cancel, Command, CommandError, Completion, Context, Delivery, Down, Event,
        Events, Exit, ExitReason, Group, GroupEvent, Host, InitContext, InitError, Monitor, Package, Payload, Payloads,
        Pid, Pool, Process, ProcessError, Recipient, Replies, Reply, RunError, Running, Runtime, SendError, Signal,
        SpawnError, StepOutput, Topic,
    };
    pub use crate::{entry, message, process, protocol, signal};
}

/// For generated code only: no promise is made about what is here.
#[doc(hidden)]
pub mod __private {
    pub use crate::actor::definition::actor::{Actor, Declared, Dispatched, Errand, Handles, no_such_entry};
    pub use crate::actor::definition::entry::{
        AnswerType, ByDebug, ByDisplay, ByType, EntryFuture, EntryInfo, ErrorText, Fallible, FutureOutput, InitOutcome,
        MayBeResult, Start, Wire, wire, wire_result,
    };
    #[cfg(feature = "serde")]
    pub use crate::actor::definition::inputs::TakeJson;
    pub use crate::actor::definition::inputs::{CheckedInputs, InputInfo, InputOf, Inputs, TakeNothing, TakeValue};
    pub use crate::actor::definition::named_message::{ByName, GoesOut, MessageOf, Outgoing, StaysHere};
    pub use crate::actor::definition::placement::{
        Kept, NotPinned, OfAll, OfFaulty, OfMobile, OfPinned, OnItsThread, OnWorkers, Place,
    };
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

    /// Without the feature `serde` there is nothing to take from JSON.
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
