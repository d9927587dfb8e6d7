//! Savina's *big*: many processes, each of which pings random others.

use std::sync::Arc;
use std::time::Instant;

use ::tokio::spawn;

use super::mailbox::{Address, Inbox, Kind};
use super::{outcome, share};
use crate::kernel::Random;
use crate::plan::Outcome;

enum Message {
    /// A ping, with the number of its sender.
    Ping(usize),
    Pong,
    /// All processes have received all their pongs.
    End,
}

type Others<K> = Arc<[<K as Kind>::Address<Message>]>;

pub async fn big<K: Kind>(kind: K, size: u64, width: u64) -> Outcome {
    let (addresses, inboxes): (Vec<_>, Vec<_>) = (0..width).map(|_| kind.mailbox::<Message>()).unzip();
    let others: Others<K> = addresses.into();
    let (sink, mut done) = kind.mailbox::<()>();

    let start = Instant::now();
    let processes: Vec<_> = (0..)
        .zip(inboxes)
        .map(|(number, inbox)| {
            let pings = share(size / 2, width, number);
            spawn(process::<K>(number as usize, pings, inbox, Arc::clone(&others), sink.clone()))
        })
        .collect();
    for _ in 0..width {
        done.receive().await.expect("a report of each");
    }
    for other in others.iter() {
        other.send(Message::End).await;
    }
    let mut received = 0;
    for process in processes {
        received += process.await.expect("a process ends well");
    }
    outcome(start.elapsed(), size, received)
}

/// Returns the number of pings and pongs received.
async fn process<K: Kind>(
    own: usize,
    mut pings: u64,
    mut inbox: K::Inbox<Message>,
    others: Others<K>,
    sink: K::Address<()>,
) -> u64 {
    let mut random = Random::seeded(own as u64);
    let mut received = 0;
    ping::<K>(own, &mut pings, &mut random, &others, &sink).await;
    while let Some(message) = inbox.receive().await {
        match message {
            Message::Ping(from) => {
                received += 1;
                others[from].send(Message::Pong).await;
            }
            Message::Pong => {
                received += 1;
                ping::<K>(own, &mut pings, &mut random, &others, &sink).await;
            }
            Message::End => break,
        }
    }
    received
}

/// Sends the next ping to a random other process. If there is none left, tells the sink.
async fn ping<K: Kind>(own: usize, left: &mut u64, random: &mut Random, others: &Others<K>, sink: &K::Address<()>) {
    if *left == 0 {
        sink.send(()).await;
        return;
    }
    *left -= 1;
    let other = random.below(others.len() as u64 - 1) as usize;
    let other = if other < own { other } else { other + 1 };
    others[other].send(Message::Ping(own)).await;
}
