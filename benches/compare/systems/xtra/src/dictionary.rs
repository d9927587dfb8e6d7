//! Savina's concurrent dictionary.

use std::collections::HashMap;
use std::time::Instant;

use ::tokio::spawn;
use ::xtra::{Actor, Address, Context, Handler};

use super::{mailbox, outcome, share};
use crate::kernel::{Request, Requests};
use crate::plan::Outcome;

struct Read(u64);

struct Write(u64, u64);

struct Dictionary {
    values: HashMap<u64, u64>,
}

impl Actor for Dictionary {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Read> for Dictionary {
    type Return = Option<u64>;

    async fn handle(&mut self, Read(key): Read, _context: &mut Context<Self>) -> Option<u64> {
        self.values.get(&key).copied()
    }
}

impl Handler<Write> for Dictionary {
    type Return = Option<u64>;

    async fn handle(&mut self, Write(key, value): Write, _context: &mut Context<Self>) -> Option<u64> {
        self.values.insert(key, value)
    }
}

pub async fn dictionary(bound: Option<usize>, size: u64, width: u64) -> Outcome {
    let dictionary = ::xtra::spawn_tokio(Dictionary { values: HashMap::new() }, mailbox(bound));
    let start = Instant::now();
    let users: Vec<_> = (0..width)
        .map(|number| spawn(user(Requests::new(number, share(size, width, number)), dictionary.clone())))
        .collect();
    let mut answers = 0;
    for user in users {
        answers += user.await.expect("a user ends well");
    }
    outcome(start.elapsed(), size, answers)
}

/// Returns the number of answers that the client got.
async fn user(requests: Requests, dictionary: Address<Dictionary>) -> u64 {
    let mut answers = 0;
    for request in requests {
        match request {
            Request::Read { key } => dictionary.send(Read(key)).await.expect("an answer"),
            Request::Write { key, value } => dictionary.send(Write(key, value)).await.expect("an answer"),
        };
        answers += 1;
    }
    answers
}
