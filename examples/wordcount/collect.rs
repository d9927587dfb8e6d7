//! The collector: adds up and shows the progress of the others, reports skipped paths, and prints the result.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use postroom::prelude::*;

use crate::count::{Counter, Order};
use crate::merge::Merge;
use crate::program::{Failure, complain, say};
use crate::walk::Skipped;

/// Number of the most frequent words that are printed.
const TOP: usize = 20;

/// The interval of the progress line: short, but readable.
const REDRAW: Duration = Duration::from_millis(100);

/// The escape sequence that returns to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[K";

#[process]
pub struct Collector {
    files: u64,
    bytes: u64,
    words: u64,
    skipped: BTreeSet<PathBuf>,
    started: Instant,
    /// The time at which the progress line is due; `None` if standard error is not a terminal.
    redraw: Option<Instant>,
}

#[process]
impl Collector {
    pub fn new() -> Self {
        let started = Instant::now();
        let redraw = io::stderr().is_terminal().then(|| started + REDRAW);
        Self { files: 0, bytes: 0, words: 0, skipped: BTreeSet::new(), started, redraw }
    }

    #[entry]
    pub fn serve(&mut self) {}

    #[message]
    pub fn progress(&mut self, files: u64, bytes: u64, words: u64) {
        self.files += files;
        self.bytes += bytes;
        self.words += words;
        if self.redraw.is_some_and(|due| Instant::now() >= due) {
            self.redraw = Some(Instant::now() + REDRAW);
            say(format_args!("{CLEAR_LINE}{}", self.rate()));
        }
    }

    /// Reports a path that could not be read: once, however many of its pieces failed.
    #[message]
    pub fn skip(&mut self, skipped: Skipped) {
        let Skipped { path, error } = skipped;
        self.clear_line();
        if !self.skipped.contains(&path) {
            complain(format_args!("{}: {error}", path.display()));
            self.skipped.insert(path);
        }
    }

    /// Prints the words: all in alphabetical order, or the most frequent and the totals. Returns the number of skipped
    /// paths.
    #[message]
    pub async fn print(&mut self, counters: Vec<Address<Counter>>, all: bool) -> Result<usize, Failure> {
        self.clear_line();
        let rate = self.rate();
        let printed = if all {
            say(format_args!("{rate}\n"));
            print_all(Merge::new(Order::Word, counters).await?).await
        } else {
            print_top(Merge::new(Order::Frequency, counters).await?, rate).await
        };
        match printed {
            // The reader of the output has closed it.
            Err(error) if is_closed(&error) => {}
            printed => printed?,
        }
        Ok(self.skipped.len())
    }

    fn rate(&self) -> String {
        let Self { files, words, skipped, .. } = self;
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let rate = mib / self.started.elapsed().as_secs_f64();
        let skipped = match skipped.len() {
            0 => String::new(),
            skipped => format!(", {skipped} skipped"),
        };
        format!("{files} files, {mib:.1} MiB, {words} words, {rate:.0} MiB/s{skipped}")
    }

    fn clear_line(&self) {
        if self.redraw.is_some() {
            say(format_args!("{CLEAR_LINE}"));
        }
    }
}

async fn print_all(mut words: Merge) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout());
    while let Some((word, count)) = words.next().await? {
        write!(out, "{count} ")?;
        out.write_all(&word)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

async fn print_top(mut words: Merge, rate: String) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout());
    for _ in 0..TOP {
        let Some((word, count)) = words.next().await? else { break };
        writeln!(out, "{count:>12} {}", String::from_utf8_lossy(&word))?;
    }
    writeln!(out, "{rate}, {} different words", words.distinct)?;
    Ok(out.flush()?)
}

fn is_closed(error: &Failure) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
