//! The work inside messages: the same code for every system.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A small random generator (xorshift64*), the same for every system.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    #[inline]
    pub fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }
}

/// Computes for about `work`, without reading a clock. On a disturbed core, the computation is the same but takes
/// longer.
pub fn spin(work: Duration) {
    static PER_MICROSECOND: OnceLock<f64> = OnceLock::new();
    let per_microsecond = PER_MICROSECOND.get_or_init(|| {
        let quickest = (0..20).map(|_| {
            let start = Instant::now();
            turn(20_000);
            start.elapsed().as_secs_f64() * 1e6
        });
        20_000.0 / quickest.fold(f64::INFINITY, f64::min)
    });
    turn((work.as_secs_f64() * 1e6 * per_microsecond) as u64);
}

fn turn(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
    }
    black_box(value);
}

/// Number of rows that are placed by messages. A single process then searches the remaining rows.
pub const QUEENS_DEPTH: usize = 3;

/// Returns whether a queen in `column` of the next row is safe from those in `rows`.
#[inline]
fn is_safe(rows: &[u8], column: u8) -> bool {
    rows.iter().rev().zip(1..).all(|(&other, distance)| other != column && other.abs_diff(column) != distance)
}

/// Returns the columns in which the next row's queen can stand.
#[inline]
pub fn queens_next(rows: &[u8], width: u8) -> impl Iterator<Item = u8> {
    (0..width).filter(move |&column| is_safe(rows, column))
}

/// Returns the number of solutions that begin with `rows`.
pub fn queens_solve(rows: &mut Vec<u8>, width: u8) -> u64 {
    if rows.len() == usize::from(width) {
        return 1;
    }
    let mut solutions = 0;
    for column in 0..width {
        if is_safe(rows, column) {
            rows.push(column);
            solutions += queens_solve(rows, width);
            rows.pop();
        }
    }
    solutions
}

/// Number of rows of a matrix that one message computes.
pub const BLOCK: usize = 32;

/// Seeds of the two matrices, the left one first.
pub const MATRIX_SEEDS: [u64; 2] = [1, 2];

/// Returns the left and the right matrix.
pub fn matrices(width: usize) -> [Vec<f64>; 2] {
    MATRIX_SEEDS.map(|seed| matrix(width, seed))
}

/// Returns a square matrix, row by row.
fn matrix(width: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::seeded(seed);
    (0..width * width).map(|_| random.below(1_000) as f64 / 1_000.0).collect()
}

/// Returns rows of the product of two matrices: those from `first` on, at most [`BLOCK`].
pub fn multiply(left: &[f64], right: &[f64], width: usize, first: usize) -> Vec<f64> {
    let rows = BLOCK.min(width - first);
    let mut product = vec![0.0; rows * width];
    for row in 0..rows {
        for inner in 0..width {
            let factor = left[(first + row) * width + inner];
            for column in 0..width {
                product[row * width + column] += factor * right[inner * width + column];
            }
        }
    }
    product
}

/// Returns a checksum of a block. The checksum of a product is the sum of the checksums of its blocks.
pub fn matrix_check(block: &[f64]) -> u64 {
    block.iter().fold(0, |sum, value| sum.wrapping_add(value.to_bits()))
}

/// Returns the numbers to be sorted.
pub fn numbers(size: u64) -> impl Iterator<Item = u16> {
    let mut random = Random::seeded(7);
    (0..size).map(move |_| random.below(1 << 16) as u16)
}

/// Returns a checksum of a sequence, which depends on the order of its numbers.
pub fn sorted_check(numbers: impl Iterator<Item = u16>) -> u64 {
    numbers.fold(0, |sum, number| sum.wrapping_mul(31).wrapping_add(u64::from(number)))
}

/// The opening balance of each account. Accounts may be overdrawn.
pub const OPENING: i64 = 1_000;

/// The seed with which the teller draws accounts.
pub const TELLER_SEED: u64 = 1;

/// The transfers that the teller orders: pairs of a source and a destination account.
#[derive(Clone, Debug)]
pub struct Transfers {
    random: Random,
    left: u64,
    accounts: u64,
}

impl Transfers {
    pub fn new(size: u64, accounts: u64) -> Self {
        Self { random: Random::seeded(TELLER_SEED), left: size, accounts }
    }
}

impl Iterator for Transfers {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        self.left = self.left.checked_sub(1)?;
        let from = self.random.below(self.accounts);
        let other = self.random.below(self.accounts - 1);
        Some((from as usize, (other + u64::from(other >= from)) as usize))
    }
}

/// Number of keys in the dictionary, which is empty at the start.
pub const KEYS: u64 = 512;

/// Average number of requests for each write.
const REQUESTS_PER_WRITE: u64 = 10;

/// A client's request to the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Read { key: u64 },
    Write { key: u64, value: u64 },
}

/// The requests of one client. They are drawn with the client's number as the seed. A write stores the number of the
/// request.
#[derive(Clone, Debug)]
pub struct Requests {
    random: Random,
    made: u64,
    size: u64,
}

impl Requests {
    pub fn new(client: u64, size: u64) -> Self {
        Self { random: Random::seeded(client), made: 0, size }
    }
}

impl Iterator for Requests {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        if self.made == self.size {
            return None;
        }
        let value = self.made;
        self.made += 1;
        let writes = self.random.below(REQUESTS_PER_WRITE) == 0;
        let key = self.random.below(KEYS);
        Some(if writes { Request::Write { key, value } } else { Request::Read { key } })
    }
}

/// The colour of a creature of chameneos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Blue,
    Red,
    Yellow,
}

impl Colour {
    pub const ALL: [Self; 3] = [Self::Blue, Self::Red, Self::Yellow];

    /// Returns the colour of two creatures after they have met: the one that they share, or else the one that neither
    /// has.
    pub fn complement(self, other: Self) -> Self {
        match (self, other) {
            (Self::Blue, Self::Red) | (Self::Red, Self::Blue) => Self::Yellow,
            (Self::Blue, Self::Yellow) | (Self::Yellow, Self::Blue) => Self::Red,
            (Self::Red, Self::Yellow) | (Self::Yellow, Self::Red) => Self::Blue,
            (same, _) => same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_between_different_accounts_and_reach_all() {
        let mut transfers = [[0; 3]; 3];
        for (from, to) in Transfers::new(600, 3) {
            transfers[from][to] += 1;
        }
        for (from, row) in transfers.iter().enumerate() {
            assert!(row.iter().enumerate().all(|(to, &count)| (count > 50) == (to != from)), "{transfers:?}");
        }
    }

    #[test]
    fn one_request_of_ten_writes_and_clients_differ() {
        let requests: Vec<_> = Requests::new(1, 10_000).collect();
        let writes = requests.iter().filter(|request| matches!(request, Request::Write { .. })).count();
        assert!(requests.len() == 10_000 && (900..1_100).contains(&writes), "{writes}");
        assert!(!requests.into_iter().eq(Requests::new(2, 10_000)));
    }
}
