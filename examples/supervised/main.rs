//! Counts words as `wordcount` does, with parsers that crash, but without losing a word or counting it twice.
//!
//! ```text
//! cargo run --release --example supervised -- --crash 0.01           # one message in a hundred crashes its parser
//! cargo run --release --example supervised -- --crash 0.3 --all FILE # all options of `wordcount`
//! ```
//!
//! ```text
//! walker ──pieces──▶ readers ──text──▶ parsers                       the parsers: children of a supervisor
//!                      ▲ └──────────────batches──▶ counters ──pages──▶ collector
//!                      └──counts───────┘
//! ```
//!
//! Every job is a process, and most of the processes are those of `wordcount`. Only the parsers may crash. A reader
//! calls a parser for the counts of a text. If the parser crashes, the reader's call fails with the reason, the
//! supervisor restarts the parser, and the reader repeats the call. This neither loses a message nor counts one twice:
//!
//! * a parser has no state between messages: its whole result is its answer;
//! * a reader keeps a text until it has the answer, and only then adds the counts: nothing of a crashed call is ever
//!   added, and each text has one answer;
//! * the address of a parser stays valid across restarts, and messages wait while it is down.
//!
//! At the end the number of restarts and their reasons are printed to standard error.

use std::env;
use std::panic;
use std::process::ExitCode;
use std::time::Duration;

use postroom::prelude::*;
use postroom::supervision::{Backoff, Child, ChildInfo, Supervisor, Tree};

use crate::collect::Collector;
use crate::count::Counter;
use crate::options::Options;
use crate::parse::{CRASH, Chance, Parser};
use crate::program::{Failure, PATIENCE, ended, explained, misused, say};
use crate::read::Reader;
use crate::walk::Walker;

mod options;
mod parse;
mod read;

// The parts of `wordcount` that are reused.
#[path = "../wordcount/batch.rs"]
mod batch;
#[path = "../wordcount/collect.rs"]
mod collect;
#[path = "../wordcount/count.rs"]
mod count;
#[path = "../wordcount/gather.rs"]
mod gather;
#[path = "../wordcount/merge.rs"]
mod merge;
#[path = "../wordcount/program.rs"]
mod program;
#[path = "../wordcount/read.rs"]
mod source;
#[path = "../wordcount/split.rs"]
mod split;
#[path = "../wordcount/tally.rs"]
mod tally;
#[path = "../wordcount/walk.rs"]
mod walk;
#[path = "../wordcount/options.rs"]
mod wordcount;

const USAGE: &str = "usage: supervised [--crash P] [--seed N] [--all] [PATH…]

Counts the words of files, and of all files in directories, and prints the most frequent ones.
Without a PATH it counts the text of this repository.

  --crash P  each message crashes its parser with this probability, from 0 (the default) to 1
  --seed N   what chance draws from, a number: the same draws for the same number (the default is 1)
  --all      print every word with its count, as `COUNT WORD`, in alphabetical order
  --help     print this
  --         what follows is a PATH, whatever it looks like";

fn main() -> ExitCode {
    match Options::parse(env::args_os().skip(1)) {
        Err(error) => misused(error, USAGE),
        Ok(options) if options.count.help => explained(USAGE),
        Ok(options) => ended(count(options)),
    }
}

/// Returns the number of skipped paths.
fn count(options: Options) -> Result<usize, Failure> {
    leave_crashes_to_the_tree();
    let runtime = Runtime::new()?;
    let tree = parsers(&options, runtime.workers()).spawn(&runtime)?;
    let skipped = count_with(&runtime, &tree, options.count);
    show(&tree.children());
    skipped
}

fn count_with(runtime: &Runtime, tree: &Tree, options: wordcount::Options) -> Result<usize, Failure> {
    let walker = runtime.spawn(Walker::new(options.paths)).serve()?;
    let collector = runtime.spawn(Collector::new()).serve()?;
    let counters =
        (0..runtime.workers()).map(|_| runtime.spawn(Counter::default()).serve()).collect::<Result<Vec<_>, _>>()?;
    let readers = (0..runtime.workers())
        .map(|number| {
            let parser = tree.child(&name(number))?;
            Ok(runtime.spawn(Reader::new(walker, collector, parser)).read(counters.clone())?)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    for reader in readers {
        reader.wait()?;
    }
    Ok(collector.print(counters, options.all).timeout(PATIENCE).wait()?)
}

/// Returns the supervisor of the parsers. A random crash has no lasting cause: the parser is restarted at once, any
/// number of times. The reader detects a message that crashes every parser.
fn parsers(options: &Options, parsers: usize) -> Supervisor {
    let supervisor = Supervisor::one_for_one().intensity(u32::MAX, Duration::MAX).backoff(Backoff::none());
    let (crash, mut chance) = (options.crash, Chance::new(options.seed));
    (0..parsers).fold(supervisor, |supervisor, number| {
        // Each incarnation of each parser has its own random numbers, so that it does not crash like its predecessor.
        let mut lives = chance.split();
        let parser = Child::new(name(number), move |spawn| spawn.of(Parser::new(crash, lives.split())).serve());
        supervisor.add(parser.keep_messages())
    })
}

fn name(number: usize) -> String {
    format!("parser {number}")
}

/// Suppresses the reports of intended crashes, since the tree shows them. Other panics are reported as usual.
fn leave_crashes_to_the_tree() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(CRASH) {
            report(panic);
        }
    }));
}

/// Prints a snapshot of the tree, which is still running.
fn show(parsers: &[ChildInfo]) {
    let restarts: u64 = parsers.iter().map(|parser| parser.restarts).sum();
    say(format_args!("restarts: {restarts}\n"));
    for parser in parsers {
        say(format_args!("{parser}\n"));
    }
}
