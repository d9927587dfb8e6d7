//! Writes the trace file for Perfetto, and limits its size.

use super::moment::{Legend, moments};
use super::packet::Refused;
use super::perfetto::Writer;
use postroom::record::Recording;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Maximum size of a file in bytes. Perfetto's page holds a file in memory several times over.
const LIMIT: u64 = 256 << 20;

/// A recording as a file for Perfetto: `Trace::of(&recording).save("app.pftrace")?`.
///
/// The file has a track for each thread, on which the time slices contain the messages that they handled; a counter of
/// the messages in the mailboxes of each process type; and flows from each send to the handling of the message, and
/// from each answer to its caller. Events are written as they are read, so memory use depends on the number of
/// processes, not of events.
#[derive(Clone, Debug)]
#[must_use = "nothing is written until `save` or `write` is called"]
pub struct Trace<'a> {
    recording: &'a Recording,
    with_processes: bool,
    limit: u64,
}

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The trace exceeds the size limit.
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
        /// The path of the file.
        path: PathBuf,
        /// The error that the system reported.
        source: io::Error,
    },
    /// The writer passed by the caller has failed.
    #[error("the trace cannot be written: {0}")]
    Writer(#[from] io::Error),
}

impl<'a> Trace<'a> {
    /// Returns a trace of this recording. Nothing is written yet.
    pub fn of(recording: &'a Recording) -> Self {
        Self { recording, with_processes: false, limit: LIMIT }
    }

    /// Sets whether each process has a track as well. On it, a message is a single slice, even if several threads took
    /// turns in handling it.
    pub fn process_tracks(mut self, with: bool) -> Self {
        self.with_processes = with;
        self
    }

    /// Sets the maximum size in bytes. The default is 256 MiB; larger values are reduced to it.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes.min(LIMIT);
        self
    }

    /// Writes the trace to a file and returns its size in bytes. An existing file is replaced only by a complete trace.
    ///
    /// # Errors
    /// Returns a [`TraceError`] if the trace is too large or the file cannot be written. No partial file is left
    /// behind.
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

    /// Writes the trace, in chunks of about 64 KiB, and returns its size in bytes.
    ///
    /// # Errors
    /// Returns a [`TraceError`] if the trace is too large or the writer fails. Part of the trace may have been written
    /// by then.
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
