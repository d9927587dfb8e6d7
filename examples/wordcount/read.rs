//! A reader: turns the pieces it gets from the walker into one stream of text, a chunk at a time, as its parser asks.
//!
//! The stream has a newline after every piece, so that no word of one file runs into the next.
//!
//! A large file is read in pieces by different readers. Each owns the bytes after the first non-letter at or after its
//! start, up to and including the first non-letter at or after its end. So every byte has one owner, no word is cut,
//! and the readers need no communication.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use postroom::prelude::*;

use crate::collect::Collector;
use crate::program::{Failure, MESSAGE_LIMIT, PATIENCE};
use crate::walk::{Piece, Skipped, Walker};

/// Number of bytes to read at a time beyond the end of a piece, where only the end of one word is needed.
const OVERRUN: u64 = 1024;

/// Text for a parser. It is passed back and forth: full from the reader, and empty with the next request.
#[derive(Debug, Default)]
pub struct Chunk {
    pub text: Vec<u8>,
    /// The number of files that begin in the text.
    pub files: u64,
    /// The number of bytes that come from files.
    pub bytes: u64,
}

#[process]
pub struct Reader {
    walker: Address<Walker>,
    collector: Address<Collector>,
    piece: Option<OpenPiece>,
}

#[process]
impl Reader {
    pub fn new(walker: Address<Walker>, collector: Address<Collector>) -> Self {
        Self { walker, collector, piece: None }
    }

    #[entry]
    pub fn serve(&mut self) {}

    /// Fills the chunk. It is returned empty when no text is left.
    #[message]
    pub async fn fill(&mut self, mut chunk: Chunk) -> Result<Chunk, Failure> {
        chunk.text.clear();
        chunk.text.reserve_exact(MESSAGE_LIMIT);
        (chunk.files, chunk.bytes) = (0, 0);
        while chunk.room() > 0 {
            let mut piece = match self.piece.take() {
                Some(piece) => piece,
                None => match self.next_piece().await? {
                    Some(piece) => {
                        chunk.files += u64::from(piece.is_first);
                        piece
                    }
                    None => break,
                },
            };
            match piece.read(&mut chunk) {
                Ok(true) => self.piece = Some(piece),
                Ok(false) => chunk.text.push(b'\n'),
                Err(error) => {
                    chunk.text.push(b'\n');
                    self.collector.skip(Skipped { path: piece.path, error }).timeout(PATIENCE).await?;
                }
            }
        }
        Ok(chunk)
    }

    async fn next_piece(&mut self) -> Result<Option<OpenPiece>, Failure> {
        while let Some(found) = self.walker.next().timeout(PATIENCE).await? {
            match found.and_then(OpenPiece::open) {
                Ok(piece) => return Ok(Some(piece)),
                Err(skipped) => self.collector.skip(skipped).timeout(PATIENCE).await?,
            }
        }
        Ok(None)
    }
}

impl Chunk {
    /// Returns how many bytes still fit if a newline follows them.
    fn room(&self) -> usize {
        MESSAGE_LIMIT.saturating_sub(self.text.len() + 1)
    }
}

/// A piece being read.
struct OpenPiece {
    file: File,
    path: PathBuf,
    /// Whether the piece is the first one of its file.
    is_first: bool,
    /// Whether the next bytes may still belong to the reader of the previous piece.
    at_head: bool,
    /// The number of bytes up to the end of the piece.
    left: u64,
}

impl OpenPiece {
    fn open(piece: Piece) -> Result<Self, Skipped> {
        let Piece { path, start, end } = piece;
        let opened = File::open(&path).and_then(|mut file| {
            if start > 0 {
                file.seek(SeekFrom::Start(start))?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => {
                let left = end.map_or(u64::MAX, |end| end - start);
                Ok(Self { file, path, is_first: start == 0, at_head: start > 0, left })
            }
            Err(error) => Err(Skipped { path, error }),
        }
    }

    /// Appends as much of the text as there is room for. Returns whether there may be more.
    fn read(&mut self, chunk: &mut Chunk) -> io::Result<bool> {
        let limit = if self.left > 0 { self.left } else { OVERRUN };
        let limit = limit.min(chunk.room() as u64);
        let text = &mut chunk.text;
        let from = text.len();
        let read = self.file.by_ref().take(limit).read_to_end(text);
        let got = (text.len() - from) as u64;
        let boundary = || text[from..].iter().position(|byte| !byte.is_ascii_alphabetic());
        let mut more = got == limit;
        if self.left == 0 {
            if let Some(at) = boundary() {
                text.truncate(from + at + 1);
                more = false;
            }
        } else {
            self.left -= got;
            if self.at_head {
                match boundary() {
                    Some(at) => {
                        text.drain(from..=from + at);
                        self.at_head = false;
                    }
                    None => {
                        text.truncate(from);
                        more &= self.left > 0;
                    }
                }
            }
        }
        chunk.bytes += (text.len() - from) as u64;
        read.and(Ok(more))
    }
}
