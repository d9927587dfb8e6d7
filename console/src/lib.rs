//! The console of Postroom: shows what the processes of a running program do, wait for and cost, in a browser, as JSON
//! and as Prometheus metrics. The [guide] shows its views, and lists all [metrics].
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
//! The console has its own thread and uses none of the runtime's workers, so it answers even when all of them are
//! stuck. It inspects the runtime only on request. Two more threads keep a statistical profile while someone uses it,
//! and stop a minute after the last request for the profile. While there are no requests, the console only records the
//! most recent abnormal ends, stalls and dead letters. It is read-only unless [`Builder::controls`] allows more.
//!
//! # Access
//! Requests need a token, which is generated at startup or read from the file given to [`Builder::token_file`]. The
//! browser sends the token once, in the URL, and then receives a cookie; scripts send `Authorization: Bearer TOKEN`.
//! The console listens on loopback, unless [`Builder::allow_remote`] allows other addresses. It speaks HTTP without
//! TLS: put a proxy in front of it on any other address.
//!
//! # Endpoints
//! | path | content |
//! |---|---|
//! | `/` | the page |
//! | `/metrics` | all figures in the text format of Prometheus |
//! | `/api/overview` | workers, threads and counters of the runtime |
//! | `/api/processes` | processes, selected by `sort`, `count`, `filter`, `type` and `state` |
//! | `/api/process?pid=` | one process, its children, and why it waits |
//! | `/api/types` | processes by type, with the times of their methods |
//! | `/api/ends` | the most recent abnormal ends, stalls and dead letters; `count` limits how many |
//! | `/api/tree` | the tree of processes, by parent |
//! | `/api/waits` | which processes wait for which |
//! | `/api/stop?pid=`, `/api/kill?pid=` | by POST, with [`Builder::controls`]: stops or kills a process |
//! | `/api/tap?pid=` | by POST, with [`Builder::controls`]: records the next messages, shown by `/api/process` |
//! | `/api/record?milliseconds=` | by POST, with [`Builder::controls`]: records what the runtime does |
//! | `/api/slow`, `/api/slow?flow=` | the slowest messages of the last recording; the breakdown of one of them |
//! | `/api/trace` | the last recording, as a file for Perfetto |
//! | `/api/watch?view=` | one of these views every second, as server-sent events, for ten minutes |
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | `options` | the builder |
//! | `error` | why a console could not be started |
//! | `token` | access control |
//! | `server` | connections and their limits |
//! | `routes` | routing of requests |
//! | `answer` | helpers that build responses |
//! | `acts` | stopping, killing and tapping processes |
//! | `taps` | the next messages of tapped processes |
//! | `methods` | method names, derived from message types |
//! | `api` | the views, as values that serialize to JSON |
//! | `samples` | a statistical profile, kept while someone looks |
//! | `priority` | the scheduling priority of the console's threads |
//! | `metrics` | the figures in the format of Prometheus |
//! | `trace` | recordings as files for Perfetto, and explanations of slow calls |
//! | `watch` | a view that is sent every second |
//!
//! # Features
//! * `metrics` (off by default): `publish_metrics`, which reports the same figures to the recorder of the crate
//!   `metrics`.
//!
#![doc = concat!("[guide]: ", env!("CARGO_PKG_HOMEPAGE"), "/console.html")]
#![doc = concat!("[metrics]: ", env!("CARGO_PKG_HOMEPAGE"), "/metrics.html")]
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
