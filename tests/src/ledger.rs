//! A protocol of one crate that processes of others answer.

use postroom::prelude::*;

/// Why nothing was booked.
#[derive(Debug, PartialEq, Eq)]
pub struct Overdrawn;

/// Books amounts.
#[protocol]
pub trait Ledger<A> {
    /// Books `amount`; gives the balance.
    fn book(&mut self, amount: A) -> Result<A, Overdrawn>;
    /// The balance.
    fn balance(&self) -> A;
    #[message(String)]
    fn note(&mut self, text: String);
}
