//! Recordings as files for Perfetto, and explanations of slow calls.
//!
//! A [`Recording`](postroom::record::Recording) contains the events of all threads. [`Trace`] writes them to a file
//! that <https://ui.perfetto.dev> opens; [`Analysis`] lists the slow calls, and breaks down the time of one:
//!
//! ```
//! use postroom::prelude::*;
//! use postroom_console::trace::{Analysis, Trace};
//! use std::time::Duration;
//!
//! #[process]
//! struct Clerk;
//!
//! #[process]
//! impl Clerk {
//!     #[entry]
//!     fn serve(&mut self) {}
//!     #[message]
//!     fn stamp(&mut self, number: u64) -> u64 { number + 1 }
//! }
//!
//! let runtime = Runtime::new()?;
//! let clerk = runtime.spawn(Clerk).serve()?;
//! let active = runtime.record(Duration::from_secs(10)).start()?;
//! clerk.stamp(1).wait()?;
//! runtime.until_idle()?;
//! let recording = active.stop();
//!
//! # let folder = std::env::temp_dir().join(format!("postroom-trace-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("app.pftrace");
//! Trace::of(&recording).save(&path)?;
//! # std::fs::remove_dir_all(&folder)?;
//! let analysis = Analysis::of(&recording);
//! let slowest = analysis.slowest();
//! println!("{}", slowest[0]); // Clerk::stamp: 1 messages, p50 8.21 µs, …
//! println!("{}", analysis.explain(slowest[0].slowest[0].flow)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | `moment` | the events of a recording, as the other modules read them |
//! | `protobuf`, `packet`, `perfetto`, `file` | the file for Perfetto, from its encoding up |
//! | `index` | events by message, process and thread |
//! | `part`, `slow` | the parts of a call's time, and the walk that finds them |
//! | `explain`, `text` | explanations, as values and as text |
//! | `serve` | the console's recording |

mod explain;
mod file;
mod index;
mod moment;
mod packet;
mod part;
mod perfetto;
mod protobuf;
mod serve;
mod slow;
mod text;

#[cfg(test)]
mod invented;
#[cfg(test)]
mod known;

pub use explain::{Analysis, ExplainError, Explanation, Timed, TypeTimes};
pub use file::{Trace, TraceError};
pub use part::{Cause, Part, PathStep, Remedy, TracedProcess};
pub(crate) use serve::LastRecording;
