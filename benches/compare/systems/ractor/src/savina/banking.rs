//! A teller whose transfers go from account to account.

use std::sync::Arc;
use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::super::finish::{Finish, finish};
use super::super::{Peers, nobody, send, start};
use crate::kernel::{OPENING, Transfers};
use crate::plan::{Outcome, Plan};

struct Account;

enum Entry {
    Know(Peers<Entry>),
    /// Orders the source of a transfer to give 1 to the account in this message.
    Transfer {
        to: usize,
    },
    /// Asks the destination of a transfer to take 1.
    Take {
        from: usize,
    },
    /// Tells the source that the destination has taken the money.
    Taken,
    GetBalance(RpcReplyPort<i64>),
}

struct AccountState {
    index: usize,
    balance: i64,
    accounts: Peers<Entry>,
    teller: ActorRef<Errand>,
}

impl Actor for Account {
    type Msg = Entry;
    type State = AccountState;
    type Arguments = AccountState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Entry>,
        entry: Entry,
        state: &mut AccountState,
    ) -> Result<(), ActorProcessingErr> {
        match entry {
            Entry::Transfer { to } => {
                state.balance -= 1;
                send(&state.accounts[to], Entry::Take { from: state.index });
            }
            Entry::Take { from } => {
                state.balance += 1;
                send(&state.accounts[from], Entry::Taken);
            }
            Entry::Taken => send(&state.teller, Errand::Done),
            Entry::Know(accounts) => state.accounts = accounts,
            Entry::GetBalance(reply) => reply.send(state.balance)?,
        }
        Ok(())
    }
}

struct Teller;

enum Errand {
    Know(Peers<Entry>),
    Begin,
    /// Reports that a transfer is done.
    Done,
}

struct TellerState {
    transfers: Transfers,
    size: u64,
    done: u64,
    accounts: Peers<Entry>,
    finish: Option<Finish>,
}

impl Actor for Teller {
    type Msg = Errand;
    type State = TellerState;
    type Arguments = TellerState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Errand>,
        errand: Errand,
        state: &mut TellerState,
    ) -> Result<(), ActorProcessingErr> {
        match errand {
            Errand::Know(accounts) => state.accounts = accounts,
            Errand::Begin => {
                for (from, to) in state.transfers.by_ref() {
                    send(&state.accounts[from], Entry::Transfer { to });
                }
            }
            Errand::Done => {
                state.done += 1;
                if state.done == state.size {
                    state.finish.take().expect("a teller should finish once").with(state.done);
                }
            }
        }
        Ok(())
    }
}

pub async fn banking(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let transfers = Transfers::new(plan.size, plan.width);
    let teller = TellerState { transfers, size: plan.size, done: 0, accounts: nobody(), finish: Some(finish) };
    let teller = start(Teller, teller).await;
    let mut accounts = Vec::new();
    for index in 0..plan.width as usize {
        let account = AccountState { index, balance: OPENING, accounts: nobody(), teller: teller.clone() };
        accounts.push(start(Account, account).await);
    }
    let accounts = Peers::from(accounts);
    send(&teller, Errand::Know(Arc::clone(&accounts)));
    for account in accounts.iter() {
        send(account, Entry::Know(Arc::clone(&accounts)));
    }
    let start = Instant::now();
    send(&teller, Errand::Begin);
    let outcome = finished.outcome(start, plan.size).await;
    let mut balances = 0;
    for account in accounts.iter() {
        let balance = account.call(Entry::GetBalance, None).await;
        balances += balance.expect("an account should be alive").expect("an account should answer");
    }
    assert_eq!(balances, OPENING * plan.width as i64, "no money should come or go");
    outcome
}
