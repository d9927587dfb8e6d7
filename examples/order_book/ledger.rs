//! The ledger. It stands in for a database: it alone owns money and shares.

use std::collections::{BTreeMap, HashMap, HashSet};

use postroom::prelude::*;

use crate::order::{Asset, Id, Order, Rejected, Side, Trade};

/// The process that owns everything. All its messages are idempotent.
#[process]
#[derive(Default)]
pub struct Ledger {
    pub free: BTreeMap<(char, Asset), u64>,
    /// The orders whose cost is held, with the quantity that has not been traded yet.
    held: HashMap<Id, Order>,
    settled: HashSet<(Id, Id)>,
}

#[process]
impl Ledger {
    #[entry]
    pub fn serve(&mut self) {}

    #[message]
    pub fn hold(&mut self, order: Order) -> Result<(), Rejected> {
        if !self.held.contains_key(&order.id) {
            let (asset, cost) = order.cost();
            let free = self.free.entry((order.trader, asset)).or_default();
            *free = free.checked_sub(cost).ok_or(Rejected::NotEnough(asset))?;
            self.held.insert(order.id, order);
        }
        Ok(())
    }

    #[message]
    pub fn settle(&mut self, trade: Trade) {
        // Two orders trade with each other at most once, since a trade fills one of them.
        if !self.settled.insert((trade.buy, trade.sell)) {
            return;
        }
        for id in [trade.buy, trade.sell] {
            let order = self.held.get_mut(&id).expect("the cost of an order in a book is held");
            order.quantity -= trade.quantity;
            let Order { trader, side, asset, price, .. } = *order;
            let (gets, cash) = match side {
                Side::Buy => (trade.quantity, price - trade.price), // the surplus that was held is free again
                Side::Sell => (0, trade.price),
            };
            *self.free.entry((trader, asset)).or_default() += gets;
            *self.free.entry((trader, Asset::Cash)).or_default() += cash * trade.quantity;
        }
    }

    #[message]
    pub fn totals(&self) -> BTreeMap<Asset, u64> {
        let mut totals = BTreeMap::new();
        let free = self.free.iter().map(|(&(_, asset), &amount)| (asset, amount));
        for (asset, amount) in free.chain(self.held.values().map(Order::cost)) {
            *totals.entry(asset).or_default() += amount;
        }
        totals
    }
}
