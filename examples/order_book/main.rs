//! A trading venue: one process per instrument matches limit orders, and no crash creates or destroys anything.
//!
//! ```text
//! cargo run --example order_book
//! ```
//!
//! ```text
//!              approve              hold
//! traders ──▶ books ──▶ risk check ──▶ ledger
//!              │ └──── settle, release ──▲
//!              └──▶ tape: trades, on a topic
//! ```
//!
//! The ledger stands in for a database: it alone owns money and shares. The risk check has the ledger hold what an
//! order may cost. The risk check has a bug: at every third approval it crashes, *after* the ledger has done its part,
//! but before the book has its answer. Things to look for in the output:
//!
//! * Orders trade by price, then by time. A buyer pays the price of the order that waited in the book.
//! * A book whose call has failed can't know whether the money is held. It repeats the call, and the ledger, which
//!   recognizes the order by its number, holds nothing twice.
//! * Then eight threads trade at random. What they do differs from run to run, but the totals never change.

use std::error::Error;
use std::time::Duration;
use std::{panic, thread};

use postroom::ChildSpawn;
use postroom::error::GroupError;
use postroom::prelude::*;

use crate::book::Book;
use crate::ledger::Ledger;
use crate::order::{Asset, Order, Rejected, Side, Trade};

mod book;
mod ledger;
mod order;

/// The panic message of the bug.
const CRASH: &str = "an off-by-one error";

#[process]
pub struct RiskCheck {
    ledger: Address<Ledger>,
    approvals: u32,
}

#[process]
impl RiskCheck {
    #[entry]
    fn serve(&mut self) {}

    /// Approves an order. Idempotent, since `hold` is.
    #[message]
    pub async fn approve(&mut self, order: Order) -> Result<(), Rejected> {
        if order.quantity > 1_000 || order.price > 1_000_000 {
            return Err(Rejected::TooLarge);
        }
        match self.ledger.hold(order).await {
            Err(CallError::Failed(rejected)) => return Err(rejected),
            held => held.expect("the ledger answers"), // if this panics, the book calls the restarted risk check
        }
        self.approvals += 1;
        if self.approvals == 3 {
            panic!("{CRASH}");
        }
        Ok(())
    }
}

/// A process that prints all trades.
#[process]
struct Tape;

#[process]
impl Tape {
    #[entry]
    fn print(&mut self, ctx: &mut Context<Self>) -> Result<(), GroupError> {
        ctx.topic::<Trade>("trades").subscribe(ctx.address()).map(drop)
    }

    #[message(Trade)]
    fn trade(&mut self, trade: Trade) {
        println!("  order {} buys {} from order {} at {}", trade.buy, trade.quantity, trade.sell, trade.price);
    }

    /// Answers when all earlier trades have been printed.
    #[message]
    fn flush(&mut self) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    // The crashes of the risk check are counted below and not reported. Other panics are reported.
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(CRASH) {
            report(panic);
        }
    }));

    let runtime = Runtime::new()?;
    let mut opening = Ledger::default();
    for (asset, amount) in [(Asset::Cash, 10_000), (Asset::Tea, 100), (Asset::Rum, 100)] {
        opening.free.extend(('a'..='h').map(|trader| ((trader, asset), amount)));
    }
    let ledger = runtime.spawn(opening).serve()?; // outside the tree, since a restart would lose the trades
    let before = ledger.totals().wait()?;
    let book = move |spawn: ChildSpawn| {
        let (risk, ledger, trades) = (spawn.sibling("risk")?, ledger, spawn.host().topic("trades"));
        spawn.of(Book::new(risk, ledger, trades)).run()
    };
    let risk = Child::new("risk", move |spawn| spawn.of(RiskCheck { ledger, approvals: 0 }).serve());
    let tree = Supervisor::one_for_one()
        .intensity(u32::MAX, Duration::MAX)
        .backoff(Backoff::none())
        .add(risk.keep_messages())
        .child("tea", book)
        .child("rum", book)
        .spawn(&runtime)?;
    let (tea, rum): (Address<Book>, Address<Book>) = (tree.child("tea")?, tree.child("rum")?);
    let tape = runtime.spawn(Tape).print()?;

    let script = [
        (tea, 'a', Side::Sell, Asset::Tea, 10, 21),
        (tea, 'b', Side::Sell, Asset::Tea, 10, 20),
        (tea, 'c', Side::Sell, Asset::Tea, 10, 20),
        (tea, 'd', Side::Buy, Asset::Tea, 25, 21),
        (rum, 'd', Side::Buy, Asset::Rum, 5, 50),
        (rum, 'e', Side::Sell, Asset::Rum, 8, 45),
        (rum, 'f', Side::Sell, Asset::Rum, 200, 45),
        (tea, 'g', Side::Buy, Asset::Tea, 5_000, 1),
    ];
    for (id, (book, trader, side, asset, quantity, price)) in (1..).zip(script) {
        println!("order {id}: {trader} {side:?} {quantity} {asset:?} at {price}");
        let outcome = book.place(Order { id, trader, side, asset, quantity, price }).wait();
        tape.flush().wait()?;
        match outcome {
            Ok(traded) => println!("  traded: {traded}"),
            Err(error) => println!("  rejected: {error}"),
        }
    }
    assert_eq!(ledger.totals().wait()?, before);
    println!("restarts of the risk check: {}, totals unchanged", tree.children()[0].restarts);

    tape.pid().stop();
    let traders = ('a'..='h').map(|trader| thread::spawn(move || trade_at_random(trader, tea, rum)));
    for trader in traders.collect::<Vec<_>>() {
        trader.join().map_err(|_| "a trader has panicked")??;
    }
    assert_eq!(ledger.totals().wait()?, before);
    println!("after random orders: totals unchanged");
    println!("clean shutdown: {}", runtime.drain(Duration::from_secs(10))?.is_clean());
    Ok(())
}

fn trade_at_random(trader: char, tea: Address<Book>, rum: Address<Book>) -> Result<(), CallError<Rejected>> {
    let mut state = u64::from(trader);
    for number in 0..25 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = |shift: u32, range: u64| -> u64 { (state >> shift) % range };
        let (book, asset) = if draw(60, 2) == 0 { (tea, Asset::Tea) } else { (rum, Asset::Rum) };
        let side = if draw(56, 2) == 0 { Side::Buy } else { Side::Sell };
        let (id, quantity, price) = (1_000 * u64::from(trader) + number, 1 + draw(40, 20), 20 + draw(32, 10));
        match book.place(Order { id, trader, side, asset, quantity, price }).timeout(Duration::MAX).wait() {
            Ok(_) | Err(CallError::Failed(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
