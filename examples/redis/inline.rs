//! Requests as people type them: words separated by spaces, quoted if they contain spaces.
//!
//! `"…"` supports `\n`, `\r`, `\t`, `\b`, `\a`, `\x41`, and `\` before any other byte, which stands for that byte;
//! `'…'` supports `\'`.

use std::ops::Range;

/// Finds the words of a line. They are unquoted and unescaped in place, which never makes a word longer. Returns `None`
/// if a quote is not closed, or not followed by a space.
pub fn split(line: &mut [u8], words: &mut Vec<Range<usize>>) -> Option<()> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if at == line.len() {
            return Some(());
        }
        let start = at;
        let mut end = start;
        while let Some(&byte) = line.get(at).filter(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                b'"' | b'\'' => at = unquote(line, at, &mut end)?,
                _ => {
                    line[end] = byte;
                    (at, end) = (at + 1, end + 1);
                }
            }
        }
        words.push(start..end);
    }
}

/// Moves the quoted text at `at` to `end`. Returns the position after it.
fn unquote(line: &mut [u8], at: usize, end: &mut usize) -> Option<usize> {
    let quote = line[at];
    let mut at = at + 1;
    loop {
        let (byte, length) = match (line.get(at..)?, quote) {
            ([first, rest @ ..], _) if *first == quote => {
                return rest.first().is_none_or(u8::is_ascii_whitespace).then_some(at + 1);
            }
            ([b'\\', b'x', high, low, ..], b'"') if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hexadecimal(*high) * 16 + hexadecimal(*low), 4)
            }
            ([b'\\', escaped, ..], b'"') => (escape(*escaped), 2),
            ([b'\\', b'\'', ..], b'\'') => (b'\'', 2),
            ([plain, ..], _) => (*plain, 1),
            ([], _) => return None,
        };
        line[*end] = byte;
        (at, *end) = (at + length, *end + 1);
    }
}

fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

fn escape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}
