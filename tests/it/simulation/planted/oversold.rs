use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
struct Bank;

#[process]
impl Bank {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn pay(&mut self, is_good: bool) -> bool {
        is_good
    }
}

#[process]
struct Stock {
    version: Version,
    bank: Address<Bank>,
    left: i32,
}

#[process]
impl Stock {
    #[entry]
    fn serve(&mut self) {}
    /// Other messages are handled while the payment is awaited, and may invalidate the check.
    #[message]
    fn buy(&mut self, ctx: &mut Context<Self>, is_good: bool, reply: Reply<bool>) {
        if self.left == 0 {
            return reply.send(false);
        }
        let takes_at_once = !self.version.is_wrong();
        self.left -= i32::from(takes_at_once);
        ctx.call(self.bank.pay(is_good)).then(move |this, paid, _| {
            let is_paid = paid.expect("the bank lives");
            this.left += i32::from(takes_at_once) - i32::from(is_paid);
            reply.send(is_paid);
        });
    }
    #[message]
    fn left(&mut self) -> i32 {
        self.left
    }
}

#[process]
struct Customer {
    stock: Address<Stock>,
}

#[process]
impl Customer {
    #[entry]
    async fn buy(&mut self, is_good: bool) -> Result<bool, CallError> {
        self.stock.buy(is_good).await
    }
}

pub fn run(sim: &Sim, version: Version) {
    let bank = sim.spawn(Bank).serve().expect("it starts");
    let stock = sim.spawn(Stock { version, bank, left: 1 }).serve().expect("it starts");
    let customers = [true, false, true].map(|good| sim.spawn(Customer { stock }).buy(good).expect("it starts"));
    for customer in customers {
        customer.wait().expect("it ends");
    }
    let left = stock.left().wait().expect("it lives");
    assert!(left >= 0, "{left} are left");
}
