//! Five workloads of the Savina suite.

mod banking;
mod chameneos;
mod dictionary;
mod philosophers;
mod radix_sort;

pub use banking::banking;
pub use chameneos::chameneos;
pub use dictionary::dictionary;
pub use philosophers::philosophers;
pub use radix_sort::radix_sort;
