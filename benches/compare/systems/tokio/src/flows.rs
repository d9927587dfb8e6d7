//! Messages that flow one way.

use std::hint::black_box;
use std::time::Instant;

use ::tokio::spawn;
use ::tokio::task::yield_now;

use super::mailbox::{Address, Inbox, Kind};
use super::{outcome, share};
use crate::plan::Outcome;

/// Number of messages that all producers together send before they yield to the consumer. Tokio lets a task receive up
/// to 128 messages in a turn, so the consumer takes all of them. With more, a backlog grows, which costs a fifth more,
/// and seven to ten times as much with 4 kB per message.
const LITTER: u64 = 100;

struct Numbered<const N: usize> {
    number: u64,
    payload: [u8; N],
}

pub async fn counting<K: Kind, const N: usize>(kind: K, size: u64) -> Outcome {
    let (address, mut inbox) = kind.mailbox::<Numbered<N>>();
    let consumer = spawn(async move {
        let mut expected = 0;
        let mut sum = 0;
        while let Some(message) = inbox.receive().await {
            // This forces a read of the payload from the mailbox, which an optimizer could otherwise leave out.
            black_box(&message.payload);
            assert_eq!(message.number, expected, "messages in the order they were sent in");
            expected += 1;
            sum += message.number;
        }
        sum
    });

    let start = Instant::now();
    spawn(async move {
        for number in 0..size {
            address.send(Numbered { number, payload: [number as u8; N] }).await;
            if (number + 1).is_multiple_of(LITTER) {
                yield_now().await;
            }
        }
    });
    let sum = consumer.await.expect("the consumer ends well");
    outcome(start.elapsed(), size, sum)
}

struct FromOne {
    producer: usize,
    number: u64,
}

pub async fn fan_in<K: Kind>(kind: K, size: u64, width: u64) -> Outcome {
    let (address, mut inbox) = kind.mailbox::<FromOne>();
    let consumer = spawn(async move {
        let mut expected = vec![0; width as usize];
        let mut sum = 0;
        while let Some(FromOne { producer, number }) = inbox.receive().await {
            assert_eq!(number, expected[producer], "each producer's messages in the order they were sent in");
            expected[producer] += 1;
            sum += number;
        }
        sum
    });

    let litter = (LITTER / width).max(1);
    let start = Instant::now();
    for producer in 0..width {
        let address = address.clone();
        spawn(async move {
            for number in 0..share(size, width, producer) {
                address.send(FromOne { producer: producer as usize, number }).await;
                if (number + 1).is_multiple_of(litter) {
                    yield_now().await;
                }
            }
        });
    }
    drop(address);
    let sum = consumer.await.expect("the consumer ends well");
    outcome(start.elapsed(), size, sum)
}

pub async fn fan_out<K: Kind>(kind: K, size: u64, width: u64) -> Outcome {
    let (collector, mut reports) = kind.mailbox::<u64>();
    let mut consumers = Vec::new();
    for _ in 0..width {
        let (address, mut inbox) = kind.mailbox::<u64>();
        let collector = collector.clone();
        spawn(async move {
            let mut received = 0;
            while let Some(number) = inbox.receive().await {
                black_box(number);
                received += 1;
            }
            collector.send(received).await;
        });
        consumers.push(address);
    }
    drop(collector);
    let collecting = spawn(async move {
        let mut received = 0;
        while let Some(count) = reports.receive().await {
            received += count;
        }
        received
    });

    let start = Instant::now();
    spawn(async move {
        let mut in_turn = consumers.iter().cycle();
        for number in 0..size {
            in_turn.next().expect("at least one consumer").send(number).await;
        }
    });
    let received = collecting.await.expect("the collector ends well");
    outcome(start.elapsed(), size, received)
}
