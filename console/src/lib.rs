//! The console of Postroom: what the processes of a running program do, wait for and cost, in a browser, as JSON, and
//! as metrics for Prometheus.
//!
//! ```
//! use postroom::prelude::*;
//! use postroom_console::Console;
//!
//! let runtime = Runtime::new()?;
//! let console = Console::of(&runtime).start()?; // on 127.0.0.1, at a free port
//! println!("{}", console.url());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The console has a thread of its own and takes none of the runtime's workers: it answers when all of them are stuck.
//! It looks at the runtime when it is asked. Two more threads make a statistical profile, until a minute after the last
//! look. While no one asks, the console keeps the last ends, stalls and dead letters, and does nothing else. It only
//! reads, unless [`Builder::controls`] says otherwise.
//!
//! # Who may look
//! Those who have the token, which is drawn at the start: the URL has it once, and the browser then gets a cookie;
//! scripts send `Authorization: Bearer TOKEN`. The console listens on loopback, unless [`Builder::allow_remote`] says
//! otherwise. It speaks HTTP without TLS: on other addresses put a proxy in front.
//!
//! # What it serves
//! | path | what |
//! |---|---|
//! | `/` | the page |
//! | `/metrics` | all figures in the text format of Prometheus |
//! | `/api/overview` | workers, threads and counters of the runtime |
//! | `/api/processes` | processes; `sort`, `count`, `filter`, `type` and `state` choose which |
//! | `/api/process?pid=` | one process, its children, and why it waits |
//! | `/api/types` | processes by type, with the times of their methods |
//! | `/api/ends` | the last abnormal ends, stalls and dead letters; `count` says how many |
//! | `/api/tree` | who has spawned whom |
//! | `/api/waits` | who waits for whom |
//! | `/api/stop?pid=`, `/api/kill?pid=` | by POST, with [`Builder::controls`]: stops or kills a process |
//! | `/api/tap?pid=` | by POST, with [`Builder::controls`]: notes the next messages, for `/api/process` |
//! | `/api/record?milliseconds=` | by POST, with [`Builder::controls`]: records what the runtime does |
//! | `/api/slow`, `/api/slow?flow=` | the slowest messages of the last recording; one of them taken apart |
//! | `/api/trace` | the last recording as a file for Perfetto |
//! | `/api/watch?view=` | one of these views each second, as server-sent events, for ten minutes |
//!
//! # Modules
//! | module | what it does |
//! |---|---|
//! | `options` | the builder |
//! | `error` | why a console has not started |
//! | `token` | who may look |
//! | `server` | connections and their limits |
//! | `routes` | from a request to an answer |
//! | `answer` | what an answer is made of |
//! | `acts` | stopping, killing and tapping |
//! | `taps` | the next messages of processes |
//! | `methods` | methods by the names that their authors gave them |
//! | `api` | the views, as values that become JSON |
//! | `samples` | a statistical profile, while someone looks |
//! | `priority` | that of the console's threads |
//! | `metrics` | the figures as text |
//! | `trace` | recordings as files for Perfetto, and why a call was slow |
//! | `watch` | a view again and again |
//!
//! # Features
//! * `metrics` (off): `publish_metrics`, which gives the same figures to the recorder of the crate `metrics`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acts;
mod answer;
mod api;
mod error;
mod methods;
mod metrics;
mod options;
mod priority;
mod routes;
mod samples;
mod server;
mod taps;
mod token;
pub mod trace;
mod watch;

pub use error::ConsoleError;
#[cfg(feature = "metrics")]
pub use metrics::publish_metrics;
pub use options::Builder;
pub use server::Console;
