//! A shop under load, with a console. Prints the URL of the page, and runs until it is interrupted.
//!
//! Run it with `cargo run --release --example console`, optionally with a number of seconds after `--`. The page shows
//! customers that wait in chains for the till, which waits for the bank; a printer with a full mailbox, at which clerks
//! are suspended; a supervisor that restarts failed clerks; and a step that takes too long.

use postroom::prelude::*;
use postroom_console::Console;
use std::thread;
use std::time::Duration;

/// Number of clerks.
const CLERKS: u64 = 8;
/// Number of customers.
const CUSTOMERS: u64 = 200;

/// A bank that answers slowly.
#[process]
struct Bank;

#[process]
impl Bank {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn withdraw(&mut self, ctx: &mut Context<Self>, amount: u64) -> u64 {
        ctx.sleep(Duration::from_millis(3)).await;
        amount
    }
}

/// A till that asks the bank before it takes the next customer.
#[process]
struct Till {
    bank: Address<Bank>,
}

#[process]
impl Till {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn pay(&mut self, amount: u64) -> Result<u64, CallError> {
        self.bank.withdraw(amount).await
    }
}

/// A printer that prints receipts more slowly than they arrive.
#[process]
struct Printer;

#[process]
impl Printer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn print(&mut self, ctx: &mut Context<Self>, _text: String) {
        ctx.sleep(Duration::from_millis(1)).await;
    }
}

/// A clerk that serves customers, but sometimes fails or sleeps on its worker. The page shows its state.
#[process(inspect)]
struct Clerk {
    printer: Address<Printer>,
    served: u64,
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn serve_one(&mut self, number: u64) -> Result<(), SendFailure> {
        self.served += 1;
        if number.is_multiple_of(5_003) {
            panic!("customer {number} asks for the manager");
        }
        if number.is_multiple_of(2_003) {
            thread::sleep(Duration::from_millis(200));
        }
        self.printer.print(format!("receipt {number}")).send().map_err(|refused| refused.reason)
    }
}

/// A customer that shops forever.
#[process]
struct Customer {
    number: u64,
    clerk: Address<Clerk>,
    till: Address<Till>,
}

#[process]
impl Customer {
    #[entry]
    async fn shop(&mut self, ctx: &mut Context<Self>) {
        for round in 0.. {
            // Errors are ignored: a failed clerk is soon restarted, and a slow till is asked again later.
            let _ = self.clerk.serve_one(round * CUSTOMERS + self.number).await;
            if round % 10 == self.number % 10 {
                let _ = self.till.pay(round).await;
            }
            ctx.sleep(Duration::from_millis(20)).await;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map(|text| text.parse()).transpose()?;
    let runtime = Runtime::new()?;
    let bank = runtime.spawn(Bank).named("bank").serve()?;
    let till = runtime.spawn(Till { bank }).label("till 1").serve()?;
    let printer = runtime.spawn(Printer).named("printer").mailbox(Bound::Soft(64)).serve()?;
    let clerk = |number: u64| {
        Child::new(format!("clerk {number}"), move |spawn| spawn.of(Clerk { printer, served: 0 }).serve())
    };
    let shop = Supervisor::one_for_one().intensity(u32::MAX, Duration::from_secs(1));
    let shop = (0..CLERKS).fold(shop, |shop, number| shop.add(clerk(number))).spawn(&runtime)?;
    for number in 0..CUSTOMERS {
        let clerk = shop.child(&format!("clerk {}", number % CLERKS))?;
        let customer = runtime.spawn(Customer { number, clerk, till }).label(format!("customer {number}"));
        drop(customer.shop()?);
    }

    let console = Console::of(&runtime).start()?;
    println!("{}", console.url());
    match seconds {
        Some(seconds) => thread::sleep(Duration::from_secs(seconds)),
        None => loop {
            thread::park();
        },
    }
    Ok(())
}
