//! Runs a target on inputs that are mutated from good ones.

use postroom_tests::variable;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The longest input, in bytes.
pub const LONGEST: usize = 4096;

/// The number of inputs if `POSTROOM_FUZZ_SECONDS` is not set.
const INPUTS: u64 = 5_000;

/// The maximum size of a corpus. An input is added if it is the first one with its kind of outcome.
const MOST: usize = 4_096;

/// The material from which inputs are made.
pub struct Food<'a> {
    /// Good inputs, and bad ones that are useful starting points.
    pub corpus: &'a [&'a [u8]],
    /// Meaningful pieces of input.
    pub words: &'a [&'a [u8]],
}

/// Random numbers: xorshift64 (Marsaglia, 2003).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() >> 11) as usize % bound }
    }
}

/// Prints the input if the target panics.
struct OnPanic<'a>(&'a str, &'a [u8]);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fails with b\"{}\"", self.0, self.1.escape_ascii());
        }
    }
}

/// Runs the target `name` until the time or the inputs run out.
pub fn fuzz(name: &str, food: &Food<'_>, target: impl Fn(&[u8]) -> u64) {
    let time = variable("POSTROOM_FUZZ_SECONDS").map(Duration::from_secs);
    let by_chance = || Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 24;
    let seed = variable("POSTROOM_FUZZ_SEED").unwrap_or_else(|| time.map_or(1, |_| by_chance()));
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    println!("{name}: seed {seed}");
    let (began, mut inputs, mut kinds) = (Instant::now(), 0, BTreeSet::new());
    let run = |input: &[u8]| {
        let _tells = OnPanic(name, input);
        target(input)
    };
    let mut corpus: Vec<Vec<u8>> = food.corpus.iter().map(|input| input.to_vec()).collect();
    for input in &corpus {
        kinds.insert(run(input));
    }
    let first = kinds.len();
    while time.map_or(inputs < INPUTS, |time| began.elapsed() < time) {
        let input = mutate(&corpus, food.words, &mut dice);
        inputs += 1;
        if kinds.insert(run(&input)) && corpus.len() < MOST {
            corpus.push(input);
        }
    }
    println!(
        "{name}: {inputs} inputs in {:?}, {} kinds of outcome, {first} of them of the corpus",
        began.elapsed(),
        kinds.len()
    );
    assert!(kinds.len() > first, "{name}: no input had an outcome that the corpus has not");
}

fn mutate(corpus: &[Vec<u8>], words: &[&[u8]], dice: &mut Dice) -> Vec<u8> {
    let mut input = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = dice.below(input.len() + 1);
        let end = (at + 1 + dice.below(8)).min(input.len());
        match dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = dice.next() as u8,
            2 => input.insert(at, dice.next() as u8),
            3 => drop(input.drain(at.min(end)..end)),
            4 => input.truncate(at),
            5 => {
                let piece = input[at.min(end)..end].to_vec();
                let times = 1 << dice.below(9);
                input.splice(at..at, piece.repeat(times));
            }
            6 => {
                let other = &corpus[dice.below(corpus.len())];
                let from = dice.below(other.len() + 1);
                input.splice(at.., other[from..].iter().copied());
            }
            7 => drop(input.splice(at..at, dice.next().to_string().into_bytes())),
            _ if !words.is_empty() => drop(input.splice(at..at, words[dice.below(words.len())].iter().copied())),
            _ => {}
        }
        input.truncate(LONGEST);
    }
    input
}
