//! The walker: finds the files and returns them one piece at a time, to any reader that requests one.
//!
//! A large file is cut into pieces, so that several readers work on it at once. The walker does not read the file:
//! `read.rs` defines which reader counts a word that lies across a cut.
//!
//! A symbolic link on the command line is followed, but one found on the way is not, so a walk cannot go in circles.

use std::collections::VecDeque;
use std::fs::{self, ReadDir};
use std::io;
use std::path::{Path, PathBuf};

use postroom::prelude::*;

/// Size in bytes of the piece of a file that a reader takes at a time: large enough that the cuts cost nothing, and
/// small enough that a single file of a few hundred MiB keeps every core busy. The value is a guess; a run over one
/// large file would settle it.
const PIECE: u64 = 16 << 20;

/// A part of a file.
#[derive(Debug)]
pub struct Piece {
    pub path: PathBuf,
    pub start: u64,
    /// The end of the part. `None` is the end of the file, wherever that is when the part is read.
    pub end: Option<u64>,
}

/// A file or directory that could not be read.
#[derive(Debug)]
pub struct Skipped {
    pub path: PathBuf,
    pub error: io::Error,
}

#[process]
pub struct Walker {
    /// Names of directories to skip.
    pruned: &'static [&'static str],
    /// The given paths that have not been visited.
    paths: VecDeque<PathBuf>,
    /// The directories found that have not been listed.
    directories: Vec<PathBuf>,
    /// The directory being listed.
    listing: Option<(PathBuf, ReadDir)>,
    /// The rest of a large file, and the length of the file.
    rest: Option<(Piece, u64)>,
}

#[process]
impl Walker {
    /// Returns a walker of these paths, or of this repository's text if there are none.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let (paths, pruned): (_, &[_]) = match paths {
            paths if paths.is_empty() => (vec![repository()], &["target", ".git"]),
            paths => (paths, &[]),
        };
        Self { pruned, paths: paths.into(), directories: Vec::new(), listing: None, rest: None }
    }

    #[entry]
    pub fn serve(&mut self) {}

    /// Returns the next piece, or a path that has to be skipped; `None` at the end.
    #[message]
    pub fn next(&mut self) -> Option<Result<Piece, Skipped>> {
        loop {
            let found = if let Some((rest, length)) = self.rest.take() {
                Ok(Some(self.cut(rest, length)))
            } else if let Some((directory, listing)) = self.listing.take() {
                self.list(directory, listing)
            } else if let Some(directory) = self.directories.pop() {
                self.open(directory)
            } else {
                let path = self.paths.pop_front()?;
                self.start(path)
            };
            if let Some(found) = found.transpose() {
                return Some(found);
            }
        }
    }

    fn start(&mut self, path: PathBuf) -> Result<Option<Piece>, Skipped> {
        let metadata = fs::metadata(&path).map_err(Skipped::at(&path))?;
        if metadata.is_dir() {
            self.directories.push(path);
            return Ok(None);
        }
        // Anything but a regular file, such as a pipe, has no length and is one piece, up to its end.
        Ok(Some(self.cut(Piece { path, start: 0, end: None }, metadata.len())))
    }

    fn open(&mut self, directory: PathBuf) -> Result<Option<Piece>, Skipped> {
        let listing = fs::read_dir(&directory).map_err(Skipped::at(&directory))?;
        self.listing = Some((directory, listing));
        Ok(None)
    }

    fn list(&mut self, directory: PathBuf, mut listing: ReadDir) -> Result<Option<Piece>, Skipped> {
        let Some(entry) = listing.next() else { return Ok(None) };
        let entry = entry.map_err(Skipped::at(&directory))?;
        self.listing = Some((directory, listing));
        let path = entry.path();
        let metadata = entry.metadata().map_err(Skipped::at(&path))?;
        if metadata.is_file() {
            return Ok(Some(self.cut(Piece { path, start: 0, end: None }, metadata.len())));
        }
        if metadata.is_dir() && !self.pruned.iter().any(|name| entry.file_name() == *name) {
            self.directories.push(path);
        }
        Ok(None)
    }

    /// Cuts a piece off the front and keeps the rest.
    fn cut(&mut self, whole: Piece, length: u64) -> Piece {
        let end = whole.start + PIECE;
        if end >= length {
            return whole;
        }
        self.rest = Some((Piece { path: whole.path.clone(), start: end, end: None }, length));
        Piece { end: Some(end), ..whole }
    }
}

/// Returns the workspace that this program was built from.
fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap_or(package).to_owned()
}

impl Skipped {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, error }
    }
}
