//! The client's side of the protocol: parses requests from bytes that arrive in any pieces.
//!
//! A request is an array of words, each with its length before it, `*2\r\n$3\r\nGET\r\n$1\r\na\r\n`, or a line typed by
//! a person (see `inline`). The parser is independent of sockets. It keeps the parsed part of a request until the rest
//! arrives, so no byte is parsed twice except those of an incomplete line; words are not copied; and no memory is
//! reserved for data that is only announced.

use std::ops::Range;

use crate::inline;

/// Maximum number of words in a request. This limit and the next three are those of Redis.
const WORDS: i64 = 1024 * 1024;
/// Maximum number of bytes in a word.
const WORD: i64 = 512 * 1024 * 1024;
/// Maximum number of bytes in a line.
const LINE: usize = 64 * 1024;
/// Maximum number of bytes in a request.
const REQUEST: usize = 1024 * 1024 * 1024;

/// Minimum number of bytes to make room for before each read.
const CHUNK: usize = 16 * 1024;
/// Maximum memory in bytes that is kept for later requests.
const KEPT: usize = 64 * 1024;

/// An error after which the start of the next request is unknown, so the connection can't be used any more.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ProtocolError {
    #[error("too big inline request")]
    LongLine,
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("too big mbulk count string")]
    LongCount,
    #[error("invalid multibulk length")]
    Count,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoWord(u8),
    #[error("too big bulk count string")]
    LongLength,
    #[error("invalid bulk length")]
    Length,
    #[error("expected the end of a line after a bulk string")]
    NoEnd,
    #[error("too big request: more than {REQUEST} bytes")]
    LongRequest,
}

/// The words of a request, at least one.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
}

impl<'a> Words<'a> {
    pub fn len(self) -> usize {
        self.places.len()
    }

    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.places.iter().map(move |place| &self.bytes[place.clone()])
    }

    /// Returns the first word, and the others.
    pub fn split_first(self) -> Option<(&'a [u8], Self)> {
        let (first, places) = self.places.split_first()?;
        Some((&self.bytes[first.clone()], Self { places, ..self }))
    }

    /// Returns all words, if there are exactly `N`.
    pub fn exactly<const N: usize>(self) -> Option<[&'a [u8]; N]> {
        let places: &[Range<usize>; N] = self.places.try_into().ok()?;
        Some(places.each_ref().map(|place| &self.bytes[place.clone()]))
    }
}

/// The requests of one client.
#[derive(Default)]
pub struct Requests {
    buffer: Vec<u8>,
    /// The start of the current request in the buffer.
    start: usize,
    /// The length of the parsed part of the current request.
    at: usize,
    /// The words of the current request so far, relative to its start.
    places: Vec<Range<usize>>,
    /// The number of words that are still missing.
    missing: usize,
    /// The length of the next word, if known.
    length: Option<usize>,
}

impl Requests {
    /// Returns the buffer for the next read.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.missing == 0 {
            self.forget();
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        // The memory of a large request is not kept for later small ones.
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            (self.buffer, self.places) = (Vec::new(), Vec::new());
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// Returns the next request, if it is complete.
    pub fn next(&mut self) -> Result<Option<Words<'_>>, ProtocolError> {
        while self.missing == 0 {
            self.forget();
            let is_there = match self.buffer.get(self.start) {
                None => return Ok(None),
                Some(b'*') => self.begin()?,
                Some(_) => self.line()?,
            };
            if !is_there {
                return Ok(None);
            }
            if !self.places.is_empty() {
                return Ok(Some(self.words()));
            }
        }
        while self.missing > 0 {
            if !self.word()? {
                return Ok(None);
            }
        }
        Ok(Some(self.words()))
    }

    fn words(&self) -> Words<'_> {
        Words { bytes: &self.buffer[self.start..], places: &self.places }
    }

    /// Ends the current request.
    fn forget(&mut self) {
        self.start += self.at;
        self.at = 0;
        self.places.clear();
    }

    /// Takes `*2\r\n` if it is complete. A request without words is skipped.
    fn begin(&mut self) -> Result<bool, ProtocolError> {
        let Some(count) = self.number(ProtocolError::LongCount)? else { return Ok(false) };
        let count = count.filter(|count| *count <= WORDS).ok_or(ProtocolError::Count)?;
        self.missing = usize::try_from(count).unwrap_or(0);
        Ok(true)
    }

    /// Takes a line of words if it is complete.
    fn line(&mut self) -> Result<bool, ProtocolError> {
        let rest = &mut self.buffer[self.start..];
        let Some(end) = rest.iter().take(LINE).position(|byte| *byte == b'\n') else {
            return if rest.len() < LINE { Ok(false) } else { Err(ProtocolError::LongLine) };
        };
        inline::split(&mut rest[..end], &mut self.places).ok_or(ProtocolError::Quotes)?;
        self.at = end + 1;
        Ok(true)
    }

    /// Takes `$3\r\nGET\r\n` if it is complete, or only its length if only the length is complete.
    fn word(&mut self) -> Result<bool, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => match self.buffer.get(self.start + self.at) {
                None => return Ok(false),
                Some(b'$') => {
                    let Some(length) = self.number(ProtocolError::LongLength)? else { return Ok(false) };
                    let length = length.filter(|length| (0..=WORD).contains(length)).ok_or(ProtocolError::Length)?;
                    *self.length.insert(length as usize)
                }
                Some(other) => return Err(ProtocolError::NoWord(*other)),
            },
        };
        let end = self.at + length;
        if end > REQUEST {
            return Err(ProtocolError::LongRequest);
        }
        let Some(line_end) = self.buffer.get(self.start + end..self.start + end + 2) else { return Ok(false) };
        if line_end != b"\r\n" {
            return Err(ProtocolError::NoEnd);
        }
        self.places.push(self.at..end);
        (self.at, self.length, self.missing) = (end + 2, None, self.missing - 1);
        Ok(true)
    }

    /// Takes the number after a `*` or a `$` if its line is complete. Returns `Some(None)` if it is not a number.
    fn number(&mut self, too_long: ProtocolError) -> Result<Option<Option<i64>>, ProtocolError> {
        let rest = &self.buffer[self.start + self.at..];
        let Some(end) = rest.iter().take(LINE).position(|byte| *byte == b'\n') else {
            return if rest.len() < LINE { Ok(None) } else { Err(too_long) };
        };
        let number = rest[1..end].strip_suffix(b"\r").and_then(number);
        self.at += end + 1;
        Ok(Some(number))
    }
}

/// Parses an integer in the protocol's form: no `+`, no leading zeros, no spaces.
pub fn number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0', rest @ ..] if is_negative || !rest.is_empty() => return None,
        _ => {}
    }
    // Negative numbers are used because their range is larger by one.
    let negative = digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_sub(i64::from(digit))
    })?;
    if is_negative { Some(negative) } else { negative.checked_neg() }
}
