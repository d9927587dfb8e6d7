//! The messages of the processes: orders, trades and rejections.

/// The number of an order, which is also its idempotency key.
pub type Id = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asset {
    Cash,
    Tea,
    Rum,
}

#[derive(Clone, Copy, Debug)]
pub enum Side {
    Buy,
    Sell,
}

#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub id: Id,
    pub trader: char,
    pub side: Side,
    pub asset: Asset,
    pub quantity: u64,
    pub price: u64,
}

impl Order {
    /// Returns the asset that the order is paid with, and the maximum amount of it.
    pub fn cost(&self) -> (Asset, u64) {
        match self.side {
            Side::Buy => (Asset::Cash, self.quantity * self.price),
            Side::Sell => (self.asset, self.quantity),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Trade {
    pub buy: Id,
    pub sell: Id,
    pub quantity: u64,
    pub price: u64,
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Rejected {
    #[error("the order is too large")]
    TooLarge,
    #[error("not enough {0:?}")]
    NotEnough(Asset),
}
