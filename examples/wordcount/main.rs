//! Counts words, with every job a process of its own.
//!
//! ```text
//! cargo run --release --example wordcount                    # this repository's own text
//! cargo run --release --example wordcount -- FILE DIRECTORY  # the 20 most frequent words, and the rate
//! cargo run --release --example wordcount -- --all FILE      # every word: `COUNT WORD`
//! ```
//!
//! ```text
//! walker ──pieces──▶ readers ──chunks──▶ parsers ──batches──▶ counters ──pages──▶ collector
//! ```
//!
//! Nothing is shared: text, words and counts are moved from process to process in messages of at most 64 KiB. Pieces,
//! chunks and pages come as the answers to whoever wants them, and a batch is a call that the parser waits for: nobody
//! is ever ahead of anybody, and the memory in use depends on the number of different words, not on the size of the
//! input.
//!
//! A word is a run of ASCII letters, counted in lower case. What cannot be read is named on standard error and skipped.
//! The exit status is 0, or 1 if something was skipped or went wrong, or 2 for an option that does not exist.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use postroom::prelude::*;

use crate::collect::Collector;
use crate::count::Counter;
use crate::options::{Options, USAGE};
use crate::parse::Parser;
use crate::read::Reader;
use crate::walk::Walker;

mod batch;
mod collect;
mod count;
mod merge;
mod options;
mod parse;
mod read;
mod split;
mod tally;
mod walk;

/// The most text, or words, that one message carries.
const MESSAGE_LIMIT: usize = 64 * 1024;

/// How long a call waits: a disk, a pipe or whoever reads our output may take its time, and that is no error.
const PATIENCE: Duration = Duration::MAX;

/// What ends the program: it is only ever told to the user.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let options = match Options::parse(env::args_os().skip(1)) {
        Ok(options) => options,
        Err(error) => return complain(&format!("{error}\n{USAGE}"), 2),
    };
    if options.help {
        return match writeln!(io::stdout(), "{USAGE}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error.to_string(), 1),
        };
    }
    match count(options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => complain(&error.to_string(), 1),
    }
}

/// Returns how many paths were skipped.
fn count(options: Options) -> Result<usize, Failure> {
    let runtime = Runtime::new()?;
    let walker = match options.paths {
        paths if paths.is_empty() => Walker::new(vec![repository()], &["target", ".git"]),
        paths => Walker::new(paths, &[]),
    };
    let walker = runtime.spawn(walker).serve()?;
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

/// The workspace that this program was built from.
fn repository() -> PathBuf {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    examples.parent().map_or(examples.clone(), PathBuf::from)
}

fn complain(what: &str, status: u8) -> ExitCode {
    // If standard error is closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "wordcount: {what}");
    ExitCode::from(status)
}
