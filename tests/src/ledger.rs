//! A protocol for processes of other crates to implement.

use postroom::prelude::*;

/// The error of a booking.
#[derive(Debug, PartialEq, Eq)]
pub struct Overdrawn;

/// Books amounts.
#[protocol]
pub trait Ledger<A> {
    /// Books `amount` and returns the balance.
    fn book(&mut self, amount: A) -> Result<A, Overdrawn>;
    /// Returns the balance.
    fn balance(&self) -> A;
    #[message(String)]
    fn note(&mut self, text: String);
}
