//! The scheduler moves processes: it finds one that is ready, runs a step of it, and does what the step asks for.
//!
//! From the bottom up:
//! * [`counters`]: what each thread counts; [`gate`]: who may still come in, and who waits until all have left;
//! * [`idle`]: who sleeps and who is woken; [`wheel`], [`next`] and [`timers`]: what happens later; [`dispatch`]: who handles
//!   which command;
//! * [`hooks`]: what the user wants to be told; [`reactor`]: what processes wait with for sockets and the like;
//! * [`worker`] and [`thread`]: the right to run steps, and who may have it; they are two things, since a thread that blocks
//!   hands its worker to another one; [`running`]: which process a thread runs; [`threads`]: the records of all threads, and [`post`]: those of pinned processes;
//!   [`permits`] and [`line`]: who has which worker, and who waits for a thread to block with; [`handoff`]: how a worker passes
//!   from one to the other; [`census`]: what they all do;
//! * [`stall`]: which steps take too long; [`monitored`]: what is known of that;
//! * [`host`]: one scheduler with its workers, threads and queues; [`local`]: what each of the threads has to itself;
//! * [`within`] and [`driving`]: how code runs with the reactor, and how threads drive it;
//! * [`quiet`] and [`settle`]: when nothing of a host runs or can run;
//! * [`find`]: where a thread finds its next process, and how it comes to rest; [`step`]: running it;
//! * [`aside`]: a step blocks, and [`lined_up`]: one of async code does; [`standby`]: how a thread rests; [`launch`]: how threads
//!   start and end; [`monitor`]: the one that looks for steps that do not end;
//! * [`budget`]: what a turn may spend; [`crowd`]: what keeps mailboxes from growing without bound;
//! * [`starting`], [`values`] and [`own`]: whose code a thread runs, and what that reaches of its slot;
//! * [`birth`] and [`end`]: how a process comes and goes; [`keeper`]: what the host is to their slots;
//! * [`pinned`]: processes with a thread of their own;
//! * [`backlog`]: what keeps messages outside of mailboxes; [`drain`]: when all that was sent has been handled; [`shutdown`]:
//!   how all of them go.

pub(crate) mod aside;
pub(crate) mod backlog;
pub(crate) mod birth;
mod budget;
pub(crate) mod census;
pub(crate) mod counters;
pub(crate) mod crowd;
pub(crate) mod dispatch;
mod drain;
mod driving;
pub(crate) mod end;
pub(crate) mod find;
pub(crate) mod gate;
pub(crate) mod handoff;
pub(crate) mod hooks;
pub(crate) mod host;
pub(crate) mod idle;
mod keeper;
pub(crate) mod launch;
pub(crate) mod line;
pub(crate) mod lined_up;
pub(crate) mod local;
mod monitor;
pub(crate) mod monitored;
mod next;
pub(crate) mod own;
pub(crate) mod permits;
pub(crate) mod pinned;
pub(crate) mod post;
pub(crate) mod quiet;
pub(crate) mod reactor;
pub(crate) mod running;
mod settle;
pub(crate) mod shutdown;
pub(crate) mod stall;
mod standby;
mod starting;
pub(crate) mod step;
mod succeed;
pub(crate) mod thread;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod values;
pub(crate) mod wheel;
mod within;
pub(crate) mod worker;
