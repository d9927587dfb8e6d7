//! Counts words, with every job a process of its own.
//!
//! ```text
//! cargo run --release -p wordcount                    # this repository's own text
//! cargo run --release -p wordcount -- FILE DIRECTORY  # the 20 most frequent words, and the rate
//! cargo run --release -p wordcount -- --all FILE      # every word: `COUNT WORD`
//! ```
//!
//! ```text
//! walker ──pieces──▶ readers ──chunks──▶ parsers ──batches──▶ counters ──pages──▶ collector
//! ```
//!
//! Nothing is shared: text, words and counts are moved between processes in messages of at most 64 KiB. Pieces, chunks
//! and pages are answers to calls, and a batch is a call that the parser waits for: no process gets ahead of another,
//! and memory use depends on the number of different words, not on the size of the input.
//!
//! A word is a run of ASCII letters, counted in lower case. Unreadable files are named on standard error and skipped.
//! The exit status is 0, or 1 if something was skipped or went wrong, or 2 for an option that does not exist.

use std::env;
use std::process::ExitCode;

use postroom::prelude::*;

use crate::collect::Collector;
use crate::count::Counter;
use crate::options::Options;
use crate::parse::Parser;
use crate::program::{Failure, PATIENCE, ended, explained, misused};
use crate::read::Reader;
use crate::walk::Walker;

mod batch;
mod collect;
mod count;
mod gather;
mod merge;
mod options;
mod parse;
mod program;
mod read;
mod split;
mod tally;
mod walk;

const USAGE: &str = "usage: wordcount [--all] [PATH…]

Counts the words of files, and of all files in directories, and prints the most frequent ones.
Without a PATH it counts the text of this repository.

  --all    print every word with its count, as `COUNT WORD`, in alphabetical order
  --help   print this
  --       what follows is a PATH, whatever it looks like";

fn main() -> ExitCode {
    match Options::parse(env::args_os().skip(1)) {
        Err(error) => misused(error, USAGE),
        Ok(options) if options.help => explained(USAGE),
        Ok(options) => ended(count(options)),
    }
}

/// Returns the number of skipped paths.
fn count(options: Options) -> Result<usize, Failure> {
    let runtime = Runtime::new()?;
    let walker = runtime.spawn(Walker::new(options.paths)).serve()?;
    let collector = runtime.spawn(Collector::new()).serve()?;
    let counters =
        (0..runtime.workers()).map(|_| runtime.spawn(Counter::default()).serve()).collect::<Result<Vec<_>, _>>()?;
    let parsers = (0..runtime.workers())
        .map(|_| {
            let reader = runtime.spawn(Reader::new(walker, collector)).serve()?;
            runtime.spawn(Parser::default()).parse(reader, counters.clone(), collector)
        })
        .collect::<Result<Vec<_>, _>>()?;
    for parser in parsers {
        parser.wait()?;
    }
    Ok(collector.print(counters, options.all).timeout(PATIENCE).wait()?)
}
