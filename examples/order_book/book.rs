//! The book of one instrument: matches orders, one after the other.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::time::Duration;

use postroom::prelude::*;

use crate::RiskCheck;
use crate::ledger::Ledger;
use crate::order::{Id, Order, Rejected, Side, Trade};

#[process]
pub struct Book {
    risk: Address<RiskCheck>,
    ledger: Address<Ledger>,
    trades: Topic<Trade>,
    incoming: Option<(Order, Reply<Result<u64, Rejected>>)>,
    /// The waiting orders to buy, best first: sorted by price, and then by time of arrival.
    buys: BTreeMap<(i128, usize), Order>,
    /// The waiting orders to sell, in the corresponding order.
    sells: BTreeMap<(i128, usize), Order>,
    /// The outcomes of all orders.
    known: HashMap<Id, Result<u64, Rejected>>,
}

#[process]
impl Book {
    pub fn new(risk: Address<RiskCheck>, ledger: Address<Ledger>, trades: Topic<Trade>) -> Self {
        let (incoming, buys, sells, known) = Default::default();
        Self { risk, ledger, trades, incoming, buys, sells, known }
    }

    /// Executes the orders in sequence. In a message method, the calls would inherit the deadline of the trader, and an
    /// order could remain half executed. Here the order is completed even if the trader stops waiting.
    #[entry]
    pub async fn run(&mut self, ctx: &mut Context<Self>) -> Result<Infallible, ProcessError> {
        loop {
            ctx.serve_next(self).await;
            if let Some((order, reply)) = self.incoming.take() {
                let outcome = match self.known.get(&order.id) {
                    Some(known) => *known,
                    None => self.execute(ctx, order).await?,
                };
                self.known.insert(order.id, outcome);
                reply.send(outcome);
            }
        }
    }

    /// Returns the quantity that was traded immediately; the rest waits in the book. Idempotent.
    #[message]
    pub fn place(&mut self, order: Order, reply: Reply<Result<u64, Rejected>>) {
        self.incoming = Some((order, reply));
    }
}

impl Book {
    async fn execute(&mut self, ctx: &Context<Self>, order: Order) -> Result<Result<u64, Rejected>, ProcessError> {
        let (risk, ledger) = (self.risk, self.ledger);
        match certain(ctx, || risk.approve(order)).await {
            Err(CallError::Failed(rejected)) => return Ok(Err(rejected)),
            approved => approved?,
        }
        // Of two ranks on one side, the lower one is better. The negative of a rank is its limit for ranks on the other
        // side.
        let (rank, ours, theirs) = match order.side {
            Side::Buy => (-i128::from(order.price), &mut self.buys, &mut self.sells),
            Side::Sell => (i128::from(order.price), &mut self.sells, &mut self.buys),
        };
        let mut rest = order.quantity;
        while rest > 0
            && let Some(mut best) = theirs.first_entry()
            && best.key().0 <= -rank
        {
            let other = best.get_mut();
            let (buy, sell) = match order.side {
                Side::Buy => (order.id, other.id),
                Side::Sell => (other.id, order.id),
            };
            let quantity = rest.min(other.quantity);
            let trade = Trade { buy, sell, quantity, price: other.price };
            certain(ctx, || ledger.settle(trade)).await?;
            self.trades.publish(trade);
            rest -= quantity;
            other.quantity -= quantity;
            if other.quantity == 0 {
                best.remove();
            }
        }
        if rest > 0 {
            ours.insert((rank, self.known.len()), Order { quantity: rest, ..order });
        }
        Ok(Ok(order.quantity - rest))
    }
}

/// Repeats an idempotent call until its outcome is certain. `Failed` is an outcome; any other error means that the call
/// has had no effect, and never will.
async fn certain<M: Send + 'static, T: Send + 'static, E: Send + 'static>(
    ctx: &Context<Book>,
    call: impl Fn() -> Call<M, T, E>,
) -> Result<T, CallError<E>> {
    let mut in_doubt = false;
    loop {
        match call().wait_for_restart().await {
            Err(error) if error.delivery() != Delivery::Handled => {
                in_doubt |= error.delivery() == Delivery::Unknown;
                if !in_doubt && !error.is_retryable() {
                    return Err(error);
                }
            }
            outcome => return outcome,
        }
        ctx.sleep(Duration::from_millis(1)).await;
    }
}
