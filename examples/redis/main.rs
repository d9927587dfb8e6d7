//! A server that speaks the protocol of Redis: a process for each connection, the keys spread over processes.
//!
//! ```text
//! cargo run --release --example redis               # on 127.0.0.1:6379
//! cargo run --release --example redis -- --port 7000
//! ```
//!
//! ```text
//!            spawns              GET, SET, …, by message
//! listener ────────▶ connections ───────────────────────▶ shards
//!                      ▲     │
//!                      └─────┘ PUBLISH, to the group that a channel is
//! ```
//!
//! Each key is in one shard, found by a hash of the key, and nothing is shared: a GET is a call from one process to
//! another. A connection executes its requests in sequence, so its client reads its own writes, on any shard.
//! Successive requests for one shard are sent to it in one message. A request for several keys is executed key by key:
//! other clients may intervene, unlike in Redis.
//!
//! It supports GET, SET (without options), DEL, INCR, MGET, EXPIRE, TTL, EXISTS, PING, SUBSCRIBE, UNSUBSCRIBE, PUBLISH
//! and QUIT, in RESP2 and typed as lines, one or many at a time.
//!
//! On Ctrl-C the supervisor stops its children in reverse order: the listener stops accepting, each connection answers
//! the requests that it has read, and then the shards stop.

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use postroom::prelude::*;
use postroom::{Builder, ChildSpawn, Interrupt};
use tokio::net::TcpListener;

use crate::keys::Keys;
use crate::listen::Listener;
use crate::options::Options;
use crate::shard::Shard;

mod answer;
mod batch;
mod channel;
mod command;
mod connection;
mod inline;
mod keys;
mod listen;
mod options;
mod reply;
mod resp;
mod shard;

const USAGE: &str = "usage: redis [--port N]

Serves the Redis protocol on 127.0.0.1, until it is interrupted.

  --port N  the port to listen on; 6379 if nothing is said, any that is free for 0
  --help    print this

It uses all cores but one; POSTROOM_WORKERS says how many instead.";

/// Time limit of the shutdown. The connections are killed long before that; this limit is for an overloaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An error that ends the program, and is only shown to the user.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let (complaint, code) = match Options::parse(env::args_os().skip(1)) {
        Ok(options) if options.help => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(options) => match serve(options.port) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => (failure.to_string(), 1),
        },
        Err(error) => (format!("{error}\n{USAGE}"), 2),
    };
    eprintln!("redis: {complaint}");
    ExitCode::from(code)
}

fn serve(port: u16) -> Result<(), Failure> {
    let interrupt = Interrupt::catch()?;
    let runtime = builder().tokio().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))?;
    let address = listener.local_addr()?;

    let count = runtime.workers();
    let tree = Supervisor::one_for_one()
        .child("shards", move |spawn| supervise(count).spawn(spawn))
        .child("connections", |spawn| Supervisor::dynamic().spawn(spawn))
        .spawn(&runtime)?;
    let (shards, connections) = (tree.tree("shards")?, tree.tree("connections")?);
    let shards = (0..count).map(|number| shards.child(&name(number))).collect::<Result<Vec<_>, _>>()?;
    runtime.spawn(Listener::new(Keys::over(shards), connections)).accept(listener)?;

    println!("listening on {address}");
    interrupt.wait();
    let report = runtime.shutdown_within(PATIENCE)?;
    // Requests of clients that are still connected may be lost, as they are when a Redis server is stopped.
    if report.was_forced() { Err(report.to_string().into()) } else { Ok(()) }
}

/// Builds a runtime with `POSTROOM_WORKERS` workers if that variable is set. Otherwise it has a worker for each core
/// but one, which is left to the system's network and to clients on the same machine, as Redis advises for its own
/// threads.
fn builder() -> Builder {
    let builder = Runtime::builder();
    match env::var_os("POSTROOM_WORKERS") {
        Some(_) => builder,
        None => builder.workers(available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))),
    }
}

/// Returns the supervisor of `shards` shards. A connection waits for the answer before it sends its next message, so a
/// shard's mailbox has at most one message from each connection.
fn supervise(shards: usize) -> Supervisor {
    let shard = |spawn: ChildSpawn| spawn.of(Shard::default()).mailbox(Bound::Unbounded).serve();
    (0..shards).fold(Supervisor::one_for_one(), |supervisor, number| supervisor.child(name(number), shard))
}

fn name(shard: usize) -> String {
    format!("shard {shard}")
}
