//! The benchmarks of the Savina suite whose processes meet, share and pay.

use std::time::Instant;

use ::tokio::spawn;
use ::tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{outcome, share};
use crate::kernel::{Colour, OPENING, Transfers};
use crate::plan::Outcome;

/// A creature that wants to meet another one.
struct Guest {
    colour: Colour,
    address: UnboundedSender<ToCreature>,
}

enum ToCreature {
    /// From the mall: another creature has come, too.
    Meet(Guest),
    /// A new colour, from the creature that the mall sent to this one.
    Become(Colour),
    /// The mall is closed.
    Closed,
}

pub async fn chameneos(size: u64, width: u64) -> Outcome {
    let (mall, mut inbox) = unbounded_channel::<Guest>();
    let start = Instant::now();
    let creatures: Vec<_> =
        (0..width as usize).map(|number| spawn(creature(Colour::ALL[number % 3], mall.clone()))).collect();
    drop(mall);

    let mut meetings = 0;
    let mut waiting: Option<Guest> = None;
    while let Some(guest) = inbox.recv().await {
        if meetings == size {
            guest.address.send(ToCreature::Closed).expect("creatures live");
        } else if let Some(first) = waiting.take() {
            meetings += 1;
            first.address.send(ToCreature::Meet(guest)).expect("creatures live");
        } else {
            waiting = Some(guest);
        }
    }
    let mut met = 0;
    for creature in creatures {
        met += creature.await.expect("a creature ends well");
    }
    outcome(start.elapsed(), size, met)
}

/// Returns the number of creatures that this one met.
async fn creature(mut colour: Colour, mall: UnboundedSender<Guest>) -> u64 {
    let (own, mut inbox) = unbounded_channel();
    let visit = |colour| mall.send(Guest { colour, address: own.clone() }).expect("the mall waits for all creatures");
    let mut met = 0;
    visit(colour);
    while let Some(message) = inbox.recv().await {
        match message {
            ToCreature::Meet(other) => {
                colour = colour.complement(other.colour);
                other.address.send(ToCreature::Become(colour)).expect("it waits for its new colour");
            }
            ToCreature::Become(new) => colour = new,
            ToCreature::Closed => break,
        }
        met += 1;
        visit(colour);
    }
    met
}

enum ToArbiter {
    /// The philosopher with this number is hungry.
    Hungry(usize),
    /// The philosopher with this number has eaten.
    Sated(usize),
}

enum Forks {
    Granted,
    Refused,
}

pub async fn philosophers(size: u64, width: u64) -> Outcome {
    let (arbiter, mut inbox) = unbounded_channel();
    let (tables, inboxes): (Vec<_>, Vec<_>) = (0..width).map(|_| unbounded_channel()).unzip();
    let start = Instant::now();
    let seated: Vec<_> = (0..)
        .zip(inboxes)
        .map(|(number, inbox)| spawn(philosopher(number as usize, share(size, width, number), inbox, arbiter.clone())))
        .collect();
    drop(arbiter);

    let mut taken = vec![false; width as usize];
    while let Some(message) = inbox.recv().await {
        match message {
            ToArbiter::Hungry(number) => {
                let right = (number + 1) % taken.len();
                let free = !taken[number] && !taken[right];
                if free {
                    taken[number] = true;
                    taken[right] = true;
                }
                let answer = if free { Forks::Granted } else { Forks::Refused };
                tables[number].send(answer).expect("it waits for the answer");
            }
            ToArbiter::Sated(number) => {
                let right = (number + 1) % taken.len();
                taken[number] = false;
                taken[right] = false;
            }
        }
    }
    let mut meals = 0;
    for philosopher in seated {
        meals += philosopher.await.expect("a philosopher ends well");
    }
    outcome(start.elapsed(), size, meals)
}

/// Returns the number of meals that the philosopher has eaten.
async fn philosopher(
    number: usize,
    meals: u64,
    mut inbox: UnboundedReceiver<Forks>,
    arbiter: UnboundedSender<ToArbiter>,
) -> u64 {
    let tell = |message| arbiter.send(message).expect("the arbiter waits for all philosophers");
    let mut eaten = 0;
    while eaten < meals {
        tell(ToArbiter::Hungry(number));
        if let Forks::Granted = inbox.recv().await.expect("an answer") {
            eaten += 1;
            tell(ToArbiter::Sated(number));
        }
    }
    eaten
}

enum ToAccount {
    /// An order from the teller: pay 1 to this account.
    Pay(UnboundedSender<ToAccount>),
    /// A request to take 1, and to confirm this to the account in the request.
    Take(UnboundedSender<ToAccount>),
    /// The confirmation that the other account has received the payment.
    Taken,
    /// No transfers are left.
    Close,
}

pub async fn banking(size: u64, width: u64) -> Outcome {
    let (teller, mut inbox) = unbounded_channel();
    let mut accounts = Vec::new();
    let mut balances = Vec::new();
    for _ in 0..width {
        let (address, inbox) = unbounded_channel();
        balances.push(spawn(account(inbox, address.clone(), teller.clone())));
        accounts.push(address);
    }

    let start = Instant::now();
    for (from, to) in Transfers::new(size, width) {
        accounts[from].send(ToAccount::Pay(accounts[to].clone())).expect("accounts live");
    }
    let mut transfers = 0;
    while transfers < size {
        let () = inbox.recv().await.expect("accounts live");
        transfers += 1;
    }
    let elapsed = start.elapsed();

    for account in &accounts {
        account.send(ToAccount::Close).expect("accounts live");
    }
    let mut sum = 0;
    for balance in balances {
        sum += balance.await.expect("an account ends well");
    }
    assert_eq!(sum, OPENING * width as i64, "no money is lost");
    outcome(elapsed, size, transfers)
}

/// Returns the final balance of the account.
async fn account(
    mut inbox: UnboundedReceiver<ToAccount>,
    own: UnboundedSender<ToAccount>,
    teller: UnboundedSender<()>,
) -> i64 {
    let mut balance = OPENING;
    while let Some(message) = inbox.recv().await {
        match message {
            ToAccount::Pay(to) => {
                balance -= 1;
                to.send(ToAccount::Take(own.clone())).expect("accounts live");
            }
            ToAccount::Take(from) => {
                balance += 1;
                from.send(ToAccount::Taken).expect("accounts live");
            }
            ToAccount::Taken => teller.send(()).expect("the teller lives"),
            ToAccount::Close => break,
        }
    }
    balance
}
