//! The data benchmarks of the Savina suite: the radix sort and the dictionary.

use std::collections::HashMap;
use std::time::Instant;

use ::tokio::spawn;
use ::tokio::sync::oneshot;

use super::mailbox::{Address, Inbox, Kind};
use super::{outcome, share};
use crate::kernel::{self, Request, Requests};
use crate::plan::Outcome;

/// Width of the numbers in bits. Each bit has its own sorter.
const BITS: u32 = 16;

pub async fn radix_sort<K: Kind>(kind: K, size: u64) -> Outcome {
    let (first, mut inbox) = kind.mailbox::<u16>();
    for bit in 0..BITS {
        let (next, inbox_of_next) = kind.mailbox();
        let inbox = std::mem::replace(&mut inbox, inbox_of_next);
        spawn(sorter::<K>(bit, size, inbox, next));
    }
    let last = spawn(async move {
        let mut sorted = Vec::with_capacity(size as usize);
        while let Some(number) = inbox.receive().await {
            sorted.push(number);
        }
        sorted
    });

    let start = Instant::now();
    spawn(async move {
        for number in kernel::numbers(size) {
            first.send(number).await;
        }
    });
    let sorted = last.await.expect("the last process ends well");
    outcome(start.elapsed(), size * u64::from(BITS), kernel::sorted_check(sorted.into_iter()))
}

async fn sorter<K: Kind>(bit: u32, size: u64, mut inbox: K::Inbox<u16>, next: K::Address<u16>) {
    let mut held = Vec::new();
    for _ in 0..size {
        let number = inbox.receive().await.expect("as many numbers as were said");
        if number >> bit & 1 == 1 {
            held.push(number);
        } else {
            next.send(number).await;
        }
    }
    for number in held {
        next.send(number).await;
    }
}

/// A request, and the sender for its answer.
type Asked = (Request, oneshot::Sender<Option<u64>>);

pub async fn dictionary<K: Kind>(kind: K, size: u64, width: u64) -> Outcome {
    let (address, mut inbox) = kind.mailbox::<Asked>();
    spawn(async move {
        let mut values = HashMap::new();
        while let Some((request, reply)) = inbox.receive().await {
            let answer = match request {
                Request::Read { key } => values.get(&key).copied(),
                Request::Write { key, value } => values.insert(key, value),
            };
            reply.send(answer).expect("the asking process waits");
        }
    });

    let start = Instant::now();
    let users: Vec<_> = (0..width)
        .map(|number| spawn(user::<K>(Requests::new(number, share(size, width, number)), address.clone())))
        .collect();
    let mut answers = 0;
    for user in users {
        answers += user.await.expect("a user ends well");
    }
    outcome(start.elapsed(), size, answers)
}

/// Returns the number of answers that the client got.
async fn user<K: Kind>(requests: Requests, dictionary: K::Address<Asked>) -> u64 {
    let mut answers = 0;
    for request in requests {
        let (reply, answer) = oneshot::channel();
        dictionary.send((request, reply)).await;
        answer.await.expect("an answer");
        answers += 1;
    }
    answers
}
