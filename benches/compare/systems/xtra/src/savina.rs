//! The benchmarks of the Savina suite whose processes meet, share and pay.

use std::time::Instant;

use ::tokio::spawn;
use ::xtra::{Actor, Address, Context, Handler, Mailbox};

use super::{outcome, share, tell};
use crate::kernel::{Colour, OPENING, Transfers};
use crate::plan::Outcome;

/// A creature that wants to meet another one. It is sent to the mall, and then by the mall to the other creature.
struct Guest {
    colour: Colour,
    address: Address<Creature>,
}

/// A new colour, from the creature that the mall sent to this one.
struct Become(Colour);

struct Closed;

struct Mall {
    meetings_left: u64,
    waiting: Option<Guest>,
}

impl Actor for Mall {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Guest> for Mall {
    type Return = ();

    async fn handle(&mut self, guest: Guest, _context: &mut Context<Self>) {
        if self.meetings_left == 0 {
            tell(&guest.address, Closed).await;
        } else if let Some(first) = self.waiting.take() {
            self.meetings_left -= 1;
            tell(&first.address, guest).await;
        } else {
            self.waiting = Some(guest);
        }
    }
}

struct Creature {
    colour: Colour,
    own: Address<Self>,
    mall: Address<Mall>,
    met: u64,
}

impl Creature {
    async fn visit(&self) {
        tell(&self.mall, Guest { colour: self.colour, address: self.own.clone() }).await;
    }
}

impl Actor for Creature {
    /// The number of creatures that this one met.
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        self.visit().await;
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.met
    }
}

impl Handler<Guest> for Creature {
    type Return = ();

    async fn handle(&mut self, other: Guest, _context: &mut Context<Self>) {
        self.met += 1;
        self.colour = self.colour.complement(other.colour);
        tell(&other.address, Become(self.colour)).await;
        self.visit().await;
    }
}

impl Handler<Become> for Creature {
    type Return = ();

    async fn handle(&mut self, Become(colour): Become, _context: &mut Context<Self>) {
        self.met += 1;
        self.colour = colour;
        self.visit().await;
    }
}

impl Handler<Closed> for Creature {
    type Return = ();

    async fn handle(&mut self, Closed: Closed, context: &mut Context<Self>) {
        context.stop_self();
    }
}

pub async fn chameneos(size: u64, width: u64) -> Outcome {
    let mall = ::xtra::spawn_tokio(Mall { meetings_left: size, waiting: None }, Mailbox::unbounded());
    let start = Instant::now();
    let creatures: Vec<_> = (0..width as usize)
        .map(|number| {
            let (own, inbox) = Mailbox::unbounded();
            let creature = Creature { colour: Colour::ALL[number % 3], own, mall: mall.clone(), met: 0 };
            spawn(::xtra::run(inbox, creature))
        })
        .collect();
    let mut met = 0;
    for creature in creatures {
        met += creature.await.expect("a creature ends well");
    }
    outcome(start.elapsed(), size, met)
}

/// The philosopher with this number is hungry.
struct Hungry(usize);

/// The philosopher with this number has eaten.
struct Sated(usize);

struct Arbiter {
    taken: Vec<bool>,
    philosophers: Vec<Address<Philosopher>>,
}

impl Arbiter {
    /// Returns the two forks of a philosopher.
    fn forks(&self, number: usize) -> [usize; 2] {
        [number, (number + 1) % self.taken.len()]
    }
}

impl Actor for Arbiter {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Hungry> for Arbiter {
    type Return = ();

    async fn handle(&mut self, Hungry(number): Hungry, _context: &mut Context<Self>) {
        let forks = self.forks(number);
        if forks.iter().any(|&fork| self.taken[fork]) {
            tell(&self.philosophers[number], Forks::Refused).await;
            return;
        }
        for fork in forks {
            self.taken[fork] = true;
        }
        tell(&self.philosophers[number], Forks::Granted).await;
    }
}

impl Handler<Sated> for Arbiter {
    type Return = ();

    async fn handle(&mut self, Sated(number): Sated, _context: &mut Context<Self>) {
        for fork in self.forks(number) {
            self.taken[fork] = false;
        }
    }
}

enum Forks {
    Granted,
    Refused,
}

struct Philosopher {
    number: usize,
    meals: u64,
    eaten: u64,
    arbiter: Address<Arbiter>,
}

impl Actor for Philosopher {
    /// The number of meals that the philosopher has eaten.
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        if self.meals == 0 {
            return Err(0);
        }
        tell(&self.arbiter, Hungry(self.number)).await;
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.eaten
    }
}

impl Handler<Forks> for Philosopher {
    type Return = ();

    async fn handle(&mut self, forks: Forks, context: &mut Context<Self>) {
        if let Forks::Granted = forks {
            self.eaten += 1;
            tell(&self.arbiter, Sated(self.number)).await;
        }
        if self.eaten < self.meals {
            tell(&self.arbiter, Hungry(self.number)).await;
        } else {
            context.stop_self();
        }
    }
}

pub async fn philosophers(size: u64, width: u64) -> Outcome {
    let (addresses, inboxes): (Vec<_>, Vec<_>) = (0..width).map(|_| Mailbox::unbounded()).unzip();
    let arbiter = Arbiter { taken: vec![false; width as usize], philosophers: addresses };
    let arbiter = ::xtra::spawn_tokio(arbiter, Mailbox::unbounded());
    let start = Instant::now();
    let seated: Vec<_> = (0..)
        .zip(inboxes)
        .map(|(number, inbox)| {
            let meals = share(size, width, number);
            let philosopher = Philosopher { number: number as usize, meals, eaten: 0, arbiter: arbiter.clone() };
            spawn(::xtra::run(inbox, philosopher))
        })
        .collect();
    let mut meals = 0;
    for philosopher in seated {
        meals += philosopher.await.expect("a philosopher ends well");
    }
    outcome(start.elapsed(), size, meals)
}

/// An order from the teller: pay 1 to this account.
struct Pay(Address<Account>);

/// A request to take 1, and to confirm this to the account in the request.
struct Take(Address<Account>);

/// The confirmation that the other account has received the payment.
struct Taken;

/// No transfers are left.
struct Close;

struct Account {
    balance: i64,
    own: Address<Self>,
    teller: Address<Teller>,
}

impl Actor for Account {
    /// The final balance of the account.
    type Stop = i64;

    async fn stopped(self) -> i64 {
        self.balance
    }
}

impl Handler<Pay> for Account {
    type Return = ();

    async fn handle(&mut self, Pay(to): Pay, _context: &mut Context<Self>) {
        self.balance -= 1;
        tell(&to, Take(self.own.clone())).await;
    }
}

impl Handler<Take> for Account {
    type Return = ();

    async fn handle(&mut self, Take(from): Take, _context: &mut Context<Self>) {
        self.balance += 1;
        tell(&from, Taken).await;
    }
}

impl Handler<Taken> for Account {
    type Return = ();

    async fn handle(&mut self, Taken: Taken, _context: &mut Context<Self>) {
        tell(&self.teller, Taken).await;
    }
}

impl Handler<Close> for Account {
    type Return = ();

    async fn handle(&mut self, Close: Close, context: &mut Context<Self>) {
        context.stop_self();
    }
}

struct Teller {
    accounts: Vec<Address<Account>>,
    size: u64,
    transfers: u64,
}

impl Actor for Teller {
    /// Number of transfers done.
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        for (from, to) in Transfers::new(self.size, self.accounts.len() as u64) {
            tell(&self.accounts[from], Pay(self.accounts[to].clone())).await;
        }
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.transfers
    }
}

impl Handler<Taken> for Teller {
    type Return = ();

    async fn handle(&mut self, Taken: Taken, context: &mut Context<Self>) {
        self.transfers += 1;
        if self.transfers == self.size {
            context.stop_self();
        }
    }
}

pub async fn banking(size: u64, width: u64) -> Outcome {
    let (teller, inbox) = Mailbox::unbounded();
    let mut accounts = Vec::new();
    let mut balances = Vec::new();
    for _ in 0..width {
        let (own, inbox) = Mailbox::unbounded();
        accounts.push(own.clone());
        let account = Account { balance: OPENING, own, teller: teller.clone() };
        balances.push(spawn(::xtra::run(inbox, account)));
    }

    let start = Instant::now();
    let teller = Teller { accounts: accounts.clone(), size, transfers: 0 };
    let transfers = spawn(::xtra::run(inbox, teller)).await.expect("the teller ends well");
    let elapsed = start.elapsed();

    for account in &accounts {
        tell(account, Close).await;
    }
    let mut sum = 0;
    for balance in balances {
        sum += balance.await.expect("an account ends well");
    }
    assert_eq!(sum, OPENING * width as i64, "no money is lost");
    outcome(elapsed, size, transfers)
}
