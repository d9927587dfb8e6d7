//! Test texts, and their word counts by `tr`, `sort` and `uniq`, which are independent of the tested code.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub type Tested = Result<(), Box<dyn Error>>;

/// Returns the word counts of the usual tools, one file at a time.
pub fn reference(files: &[PathBuf]) -> Result<Vec<u8>, Box<dyn Error>> {
    // The steps: one word per line, in lower case, sorted, counted.
    const PIPELINE: &str = r#"export LC_ALL=C; tr -cs 'A-Za-z' '\n' <"$0" | tr A-Z a-z | sort | uniq -c"#;
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for file in files {
        let output = Command::new("sh").args(["-c", PIPELINE]).arg(file).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for line in output.stdout.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii_start();
            let Some(space) = line.iter().position(|byte| *byte == b' ') else { continue };
            let (count, word) = (&line[..space], &line[space + 1..]);
            if !word.is_empty() {
                *counts.entry(word.to_vec()).or_default() += str::from_utf8(count)?.parse::<u64>()?;
            }
        }
    }
    let mut text = Vec::new();
    for (word, count) in counts {
        write!(text, "{count} ")?;
        text.extend(word);
        text.push(b'\n');
    }
    Ok(text)
}

/// Returns all regular files under a path, without links.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(files(&entry.path())?),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(found)
}

/// Compares line by line, so that a failure shows one line and not megabytes.
#[track_caller]
pub fn same(found: &[u8], expected: &[u8]) {
    let short = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    let (mut found, mut expected) = (found.split(|b| *b == b'\n'), expected.split(|b| *b == b'\n'));
    loop {
        let pair = (found.next(), expected.next());
        assert!(pair.0 == pair.1, "found {:?}, expected {:?}", pair.0.map(short), pair.1.map(short));
        if pair == (None, None) {
            return;
        }
    }
}

/// A small pseudorandom generator (xorshift), so that each run tests the same files.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub fn text(&mut self, length: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(length + 16);
        while text.len() < length {
            let letters = 1 + self.below(4) * self.below(4);
            for _ in 0..letters {
                text.push(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[self.below(52) as usize]);
            }
            text.extend_from_slice([&b" "[..], b"\n", b", ", b"-", b"7"][self.below(5) as usize]);
        }
        text.truncate(length);
        text
    }
}
