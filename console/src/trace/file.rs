//! Where the file for Perfetto goes, and how large it may be.

use super::moment::{Legend, moments};
use super::packet::Refused;
use super::perfetto::Writer;
use postroom::record::Recording;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The most bytes of a file. Perfetto's page holds a file in memory, several times over.
const LIMIT: u64 = 256 << 20;

/// A recording as a file for Perfetto: `Trace::of(&recording).save("app.pftrace")?`.
///
/// It has a track for each thread, with a slice for each slice and, within it, each message; a counter of the messages
/// in the mailboxes of each type; and flows from each send to the handling of the message, and from each answer to its
/// caller. The events are written as they are read: the memory that this takes depends on the number of processes and
/// not on that of events.
#[derive(Clone, Debug)]
#[must_use = "nothing is written until `save` or `write` is called"]
pub struct Trace<'a> {
    recording: &'a Recording,
    with_processes: bool,
    limit: u64,
}

/// Why a trace was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The trace has more bytes than it may.
    #[error(
        "the trace would have more than {limit} bytes, the most that it may; record for a shorter time, or with less \
         memory for each thread"
    )]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The file cannot be written.
    #[error(
        "the trace cannot be written to `{}`: {source}; name a file in a folder that exists and has room",
        .path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The writer that was given has failed.
    #[error("the trace cannot be written: {0}")]
    Writer(#[from] io::Error),
}

impl<'a> Trace<'a> {
    /// Begins a trace of this recording.
    pub fn of(recording: &'a Recording) -> Self {
        Self { recording, with_processes: false, limit: LIMIT }
    }

    /// Has a track for each process too: where its messages are whole, though threads take turns with them.
    pub fn process_tracks(mut self, with: bool) -> Self {
        self.with_processes = with;
        self
    }

    /// Sets the most bytes that it may have: 256 MiB by default, which is also the most.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes.min(LIMIT);
        self
    }

    /// Writes it to a file, which is replaced if it exists, and only by a whole trace. Returns the number of bytes.
    ///
    /// # Errors
    /// [`TraceError`], if it is too large or the file cannot be written. Nothing is left of it then.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64, TraceError> {
        let path = path.as_ref();
        let mut name = OsString::from(path);
        name.push(".partial");
        let partial = PathBuf::from(name);
        let failed = |source| TraceError::File { path: path.to_owned(), source };
        let written = File::create(&partial)
            .map_err(failed)
            .and_then(|file| match self.write(file) {
                Err(TraceError::Writer(source)) => Err(failed(source)),
                written => written,
            })
            .and_then(|bytes| fs::rename(&partial, path).map(|()| bytes).map_err(failed));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }

    /// Writes it, in pieces of some kilobytes. Returns the number of bytes.
    ///
    /// # Errors
    /// [`TraceError`], if it is too large or the writer fails. A part may have been written.
    pub fn write(&self, writer: impl Write) -> Result<u64, TraceError> {
        let legend = Legend::from(self.recording);
        let out = BufWriter::with_capacity(64 << 10, writer);
        let written = Writer::write(out, self.limit, &legend, self.with_processes, || moments(self.recording));
        written.map_err(|refused| match refused {
            Refused::Limit => TraceError::TooLarge { limit: self.limit },
            Refused::System(error) => TraceError::Writer(error),
        })
    }
}
