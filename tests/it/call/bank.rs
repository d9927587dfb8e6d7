//! The guide's bank neither creates nor loses money, however its calls fail.

use super::*;
use postroom::supervision::{Backoff, Child};
use postroom::{Bound, Overflow};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

// The program of the guide's chapter *Calls*, word for word; the guide's own tests check that.
include!("bank/program.rs");

/// An injected fault of one booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The account refuses: `Failed`.
    Refuse,
    /// The account's process panics before the booking: `Died`.
    PanicBefore,
    /// The account's process panics after the booking: `Died`.
    PanicAfter,
    /// The account's process is killed before the booking, while it holds the reply: `Died`.
    KilledBefore,
    /// The account's process is killed after the booking, while it holds the reply: `Died`.
    KilledAfter,
    /// The reply is dropped before the booking: `Dropped`.
    DropBefore,
    /// The reply is dropped after the booking: `Dropped`.
    DropAfter,
    /// The call times out, and the booking is made afterwards: `Timeout`.
    Late,
    /// The call times out although the booking has been made: `Timeout`.
    Mute,
}

/// The faults that a [`Branch`] can have. Those of a [`Sloppy`] account are in [`SLOPPY`].
pub(crate) const FAULTS: [Fault; 7] = [
    Fault::Refuse,
    Fault::PanicBefore,
    Fault::PanicAfter,
    Fault::KilledBefore,
    Fault::KilledAfter,
    Fault::Late,
    Fault::Mute,
];
const SLOPPY: [Fault; 4] = [Fault::PanicBefore, Fault::PanicAfter, Fault::DropBefore, Fault::DropAfter];

/// The state of an account and its next faults. It outlives the account's process, as a bank's database would.
#[derive(Clone)]
pub(crate) struct Vault(Arc<Mutex<(Account, VecDeque<Fault>)>>);

impl Vault {
    pub(crate) fn of(balance: i64, faults: impl IntoIterator<Item = Fault>) -> Self {
        let account = Account { balance, ..Account::default() };
        Self(Arc::new(Mutex::new((account, faults.into_iter().collect()))))
    }

    fn with<R>(&self, look: impl FnOnce(&mut Account, &mut VecDeque<Fault>) -> R) -> R {
        let mut vault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (account, faults) = &mut *vault;
        look(account, faults)
    }

    fn balance(&self) -> i64 {
        self.with(|account, _| account.balance)
    }

    fn fault(&self) -> Option<Fault> {
        self.with(|_, faults| faults.pop_front())
    }

    fn book(&self, AccountBook { part, amount }: AccountBook) -> Result<i64, Refused> {
        self.with(|account, _| account.book(part, amount))
    }

    fn is_sloppy(&self) -> bool {
        self.with(|_, faults| faults.iter().any(|fault| matches!(fault, Fault::DropBefore | Fault::DropAfter)))
    }

    /// Records a refusal as the outcome of the booking, unless the booking already has an outcome.
    fn refuse(&self, part: Part) -> Result<i64, Refused> {
        self.with(|account, _| *account.outcomes.entry(part).or_insert(Err(Refused::Overdrawn)))
    }
}

/// An account whose bookings suffer the faults of its vault.
#[process]
pub(crate) struct Branch(Vault);

#[process]
impl Branch {
    #[entry]
    fn serve(&mut self) {}

    #[message(AccountBook)]
    async fn book(&mut self, ctx: &mut Context<Self>, booking: AccountBook) -> Result<i64, Refused> {
        let (vault, given_up) = (&self.0, ctx.deadline().map(|deadline| deadline + Duration::from_millis(1)));
        match vault.fault() {
            // A refund is never refused: a refusal would be final, and the transfer repeats the refund until it is
            // booked.
            Some(Fault::Refuse) if !matches!(booking.part, Part::Refund(_)) => vault.refuse(booking.part),
            Some(Fault::PanicBefore) => panic!("before it was booked"),
            Some(Fault::PanicAfter) => {
                _ = vault.book(booking);
                panic!("after it was booked")
            }
            Some(Fault::KilledBefore) => {
                ctx.pid().kill();
                std::future::pending().await
            }
            Some(Fault::KilledAfter) => {
                _ = vault.book(booking);
                ctx.pid().kill();
                std::future::pending().await
            }
            Some(Fault::Late) => {
                ctx.sleep_until(given_up.expect("it was called")).await;
                vault.book(booking)
            }
            Some(Fault::Mute) => {
                let outcome = vault.book(booking);
                ctx.sleep_until(given_up.expect("it was called")).await;
                outcome
            }
            Some(Fault::Refuse | Fault::DropBefore | Fault::DropAfter) | None => vault.book(booking),
        }
    }

    #[message]
    fn block(&mut self, here: Gate, gate: Gate) {
        here.open();
        gate.pass();
    }
}

/// A hand-written account that drops calls.
struct Sloppy(Vault);

impl Process for Sloppy {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), postroom::ProcessError> {
        while let Some(event) = events.next() {
            let Event::Message(package) = event else { continue };
            let vault = self.0.clone();
            match vault.fault() {
                Some(Fault::DropBefore) => drop(package.take::<AccountBook>()),
                Some(Fault::DropAfter) => _ = package.take::<AccountBook>().map(|booking| vault.book(booking)),
                // Answers with a balance: these accounts are never overdrawn.
                fault => {
                    _ = package.answer(move |booking: AccountBook| {
                        assert_ne!(fault, Some(Fault::PanicBefore));
                        let balance = vault.book(booking).unwrap();
                        assert_ne!(fault, Some(Fault::PanicAfter));
                        balance
                    })
                }
            }
        }
        Ok(())
    }
}

/// A bank whose branches are restarted when they crash.
pub(crate) struct Bank {
    host: Host,
    tree: postroom::supervision::Tree,
    vaults: Vec<Vault>,
}

pub(crate) const OPENING: i64 = 100;

impl Bank {
    pub(crate) fn of(host: Host, vaults: Vec<Vault>) -> Self {
        let mut tree = Supervisor::one_for_one().intensity(u32::MAX, Duration::MAX).backoff(Backoff::none());
        for (number, vault) in vaults.iter().enumerate() {
            let vault = vault.clone();
            let (name, is_sloppy) = (number.to_string(), vault.is_sloppy());
            tree = match is_sloppy {
                true => tree
                    .add(Child::new(name, move |spawn| spawn.process(Sloppy(vault.clone())).start()).keep_messages()),
                false => {
                    tree.add(Child::new(name, move |spawn| spawn.of(Branch(vault.clone())).serve()).keep_messages())
                }
            };
        }
        Self { tree: tree.spawn(host).unwrap(), host, vaults }
    }

    fn books(&self, number: usize) -> Books {
        Recipient::of(self.tree.child_pid(&number.to_string()).unwrap())
    }

    fn transfer(&self, from: usize, to: usize, id: u64, amount: i64) -> postroom::Running<Transfer, (), Refused> {
        let (from, to) = (self.books(from), self.books(to));
        self.host.spawn(Transfer { from, to }).run(id, amount).unwrap()
    }

    /// Makes all transfers (from, to, id, amount) concurrently. Returns for each transfer whether it was made (true) or
    /// refused (false).
    pub(crate) fn transfer_all(&self, routes: &[(usize, usize, u64, i64)]) -> Vec<bool> {
        let running: Vec<_> =
            routes.iter().map(|&(from, to, id, amount)| self.transfer(from, to, id, amount)).collect();
        let outcomes = running.into_iter().map(|transfer| match transfer.wait() {
            Ok(()) => true,
            Err(RunError::Failed(_)) => false,
            Err(other) => panic!("{other:?}"),
        });
        outcomes.collect()
    }

    /// Returns the balances.
    pub(crate) fn balances(&self) -> Vec<i64> {
        self.vaults.iter().map(Vault::balance).collect()
    }

    /// Returns the total number of restarts of the branches.
    pub(crate) fn restarts(&self) -> u64 {
        self.tree.children().iter().map(|child| child.restarts).sum()
    }
}

/// Returns a runtime with a short call timeout. Calls without a fault may time out, too; the sum must still be right.
fn hasty() -> Runtime {
    builder().call_timeout(Duration::from_millis(20)).build().unwrap()
}

/// Shuts the runtime down, so that no more bookings are made, and returns the balances.
fn audit(runtime: Runtime, bank: &Bank) -> Vec<i64> {
    runtime.shutdown().unwrap();
    bank.balances()
}

/// Checks that the outcome and the balances agree: either the amount has moved, or nothing has.
fn assert_settled(outcome: &Result<(), RunError<Refused>>, balances: &[i64], context: &dyn std::fmt::Debug) {
    match outcome {
        Ok(()) => assert_eq!(balances, [OPENING - 30, OPENING + 30], "{context:?}"),
        Err(RunError::Failed(_)) => assert_eq!(balances, [OPENING, OPENING], "{context:?}"),
        other => panic!("{context:?}: {other:?}"),
    }
}

/// Returns each fault alone, and each pair of faults.
fn pairs(faults: &'static [Fault]) -> impl Iterator<Item = (Fault, Option<Fault>)> {
    faults.iter().flat_map(|first| {
        [None].into_iter().chain(faults.iter().map(|second| Some(*second))).map(|second| (*first, second))
    })
}

/// Injects each fault, and each sequence of two faults, into the account on each side of a transfer.
///
/// Mutation: in the program, give up when any of several calls fails, not only the first (leave out `in_doubt`); or
/// treat a `Timeout` as a refusal; or make `Account::book` forget the outcomes.
#[test]
fn the_bank_keeps_its_sum_whatever_becomes_of_a_call() {
    watched(|| {
        for at_source in [true, false] {
            for (first, second) in pairs(&FAULTS).chain(pairs(&SLOPPY)) {
                let faults = || [first].into_iter().chain(second);
                let vaults = match at_source {
                    true => vec![Vault::of(OPENING, faults()), Vault::of(OPENING, [])],
                    false => vec![Vault::of(OPENING, []), Vault::of(OPENING, faults())],
                };
                let runtime = hasty();
                let bank = Bank::of(*runtime, vaults);
                let outcome = bank.transfer(0, 1, 1, 30).wait();
                assert_settled(&outcome, &audit(runtime, &bank), &(at_source, first, second));
            }
        }
    });
}

/// Injects each fault into the refund, after other faults of the same account. When many transfers share an account,
/// chance decides which faults hit a refund.
///
/// Mutation: in `Branch::book`, refuse a refund too.
#[test]
fn the_bank_keeps_its_sum_whatever_meets_the_refund() {
    watched(|| {
        for fault in FAULTS {
            // The debit is booked before the kill, so its repetition returns that outcome in spite of the `Refuse`.
            let source = Vault::of(OPENING, [Fault::KilledAfter, Fault::Refuse, fault]);
            let runtime = hasty();
            let bank = Bank::of(*runtime, vec![source, Vault::of(OPENING, [Fault::Refuse])]);
            let outcome = bank.transfer(0, 1, 1, 30).wait();
            assert_settled(&outcome, &audit(runtime, &bank), &fault);
        }
    });
}

/// If an account is gone or does not handle the message, nothing was delivered, and the money is refunded. If an
/// account is full, the call is repeated.
#[test]
fn the_bank_keeps_its_sum_if_an_account_cannot_be_reached() {
    with_runtime(|runtime| {
        let open = |balance| runtime.spawn(Account::default()).serve(balance).unwrap();
        let send = |from: Address<Account>, to: Books| {
            runtime.spawn(Transfer { from: from.narrow(), to }).run(1, 30).unwrap().wait()
        };
        let (one, gone) = (open(OPENING), open(OPENING));
        gone.pid().kill();
        gone.pid().join().wait();
        assert_eq!(send(one, gone.narrow()), Err(RunError::Failed(Refused::Unreachable)));
        assert_eq!(one.balance().wait(), Ok(OPENING));

        let (one, stranger) = (open(OPENING), desk(runtime));
        assert_eq!(send(one, Recipient::of(stranger.pid())), Err(RunError::Failed(Refused::Unreachable)));
        assert_eq!(one.balance().wait(), Ok(OPENING));

        // The call to a full account is repeated until there is room.
        let (one, vault) = (open(OPENING), Vault::of(OPENING, []));
        let bound = Bound::Hard(1, Overflow::Refuse);
        let full = runtime.spawn(Branch(vault.clone())).mailbox(bound).serve().unwrap();
        let (here, gate) = (Gate::new(), Gate::new());
        full.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        full.block(Gate::new(), gate.clone()).send().unwrap();
        let transfer = runtime.spawn(Transfer { from: one.narrow(), to: full.narrow() }).run(1, 30).unwrap();
        until(|| one.balance().wait() == Ok(OPENING - 30));
        gate.open();
        assert_eq!(transfer.wait(), Ok(()));
        assert_eq!((one.balance().wait(), vault.balance()), (Ok(OPENING - 30), OPENING + 30));
    });
}

/// The booking is made, and then the account cannot be reached for a while. The errors of the calls made in that time
/// say nothing about the first call.
///
/// Mutation: in the program, `in_doubt =` instead of `|=`.
#[test]
fn a_transfer_in_doubt_stays_in_doubt_while_the_account_cannot_be_asked() {
    with_runtime(|runtime| {
        let (one, vault) =
            (runtime.spawn(Account::default()).serve(OPENING).unwrap(), Vault::of(OPENING, [Fault::PanicAfter]));
        let open = || runtime.spawn(Branch(vault.clone())).named("other").serve().unwrap();
        let over = open().pid().join();
        let to: Address<Branch> = runtime.named_address("other").unwrap();
        let transfer = runtime.spawn(Transfer { from: one.narrow(), to: to.narrow() }).run(1, 30).unwrap();
        over.wait();
        let steps = || transfer.pid().info().map(|info| info.steps);
        let before = steps().unwrap();
        until(|| steps().is_none_or(|steps| steps >= before + 20));
        assert_eq!((one.balance().wait(), vault.balance()), (Ok(OPENING - 30), OPENING + 30));
        open();
        assert_eq!(transfer.wait(), Ok(()));
        assert_eq!((one.balance().wait(), vault.balance()), (Ok(OPENING - 30), OPENING + 30));
    });
}

/// Makes many transfers at once between accounts with random faults, and then all of them again, like a bank that
/// does not know which of them it has made.
#[test]
fn the_bank_keeps_its_sum_under_many_transfers_and_when_all_are_made_again() {
    watched(|| {
        const ACCOUNTS: usize = 5;
        const TRANSFERS: u64 = 60;
        // A Lehmer generator with a fixed seed, so that the sequence is the same in each run.
        let mut state = 1_u64;
        let mut dice = move |sides: u64| {
            state = state * 48_271 % 2_147_483_647;
            state % sides
        };
        let mut some = |of: &[Fault]| -> Vec<Fault> { (0..40).map(|_| of[dice(of.len() as u64) as usize]).collect() };
        let vaults = (0..ACCOUNTS).map(|_| Vault::of(OPENING, some(&FAULTS))).collect();
        let runtime = hasty();
        let bank = Bank::of(*runtime, vaults);
        let routes: Vec<_> = (0..TRANSFERS)
            .map(|id| (id, dice(ACCOUNTS as u64) as usize, dice(ACCOUNTS as u64) as usize, dice(90) as i64))
            .collect();
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            let running: Vec<_> =
                routes.iter().map(|&(id, from, to, amount)| bank.transfer(from, to, id, amount)).collect();
            outcomes.push(running.into_iter().map(|transfer| transfer.wait()).collect::<Vec<_>>());
        }
        assert!(outcomes[0].iter().any(|outcome| outcome.is_ok()) && outcomes[0].iter().any(Result::is_err));
        let mut expected = [OPENING; ACCOUNTS];
        for (&(_, from, to, amount), outcome) in routes.iter().zip(&outcomes[1]) {
            if outcome.is_ok() {
                expected[from] -= amount;
                expected[to] += amount;
            }
        }
        let balances = audit(runtime, &bank);
        assert_eq!(balances.iter().sum::<i64>(), OPENING * ACCOUNTS as i64);
        assert_eq!(balances, expected);
    });
}
