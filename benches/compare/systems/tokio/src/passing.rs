//! One message that goes from process to process.

use std::time::Instant;

use ::tokio::spawn;

use super::mailbox::{Address, Inbox, Kind};
use super::{outcome, share};
use crate::plan::Outcome;

struct Ball<const N: usize> {
    /// Number of passes after this one.
    left: u64,
    payload: [u8; N],
}

/// Passes balls on until the last pass, or until no player is left to pass to. Returns the number of balls received.
///
/// The receiver of the last pass exits, and so drops its address of the next player. So the others exit in sequence.
async fn player<K: Kind, const N: usize>(mut inbox: K::Inbox<Ball<N>>, next: K::Address<Ball<N>>) -> u64 {
    let mut received = 0;
    while let Some(Ball { left, payload }) = inbox.receive().await {
        received += 1;
        if left == 0 {
            break;
        }
        next.send(Ball { left: left - 1, payload }).await;
    }
    received
}

pub async fn ping_pong<K: Kind, const N: usize>(kind: K, size: u64) -> Outcome {
    circle::<K, N>(kind, vec![size], 2).await
}

pub async fn pairs<K: Kind>(kind: K, size: u64, width: u64) -> Outcome {
    circle::<K, 0>(kind, (0..width).map(|pair| share(size, width, pair)).collect(), 2).await
}

pub async fn ring<K: Kind>(kind: K, size: u64, width: u64) -> Outcome {
    circle::<K, 0>(kind, vec![size], width).await
}

/// Runs a circle of `width` players for each ball. `passes` has the number of passes that each ball makes.
async fn circle<K: Kind, const N: usize>(kind: K, passes: Vec<u64>, width: u64) -> Outcome {
    let mut firsts = Vec::new();
    let mut players = Vec::new();
    for _ in &passes {
        let (first, mut inbox) = kind.mailbox::<Ball<N>>();
        for _ in 1..width {
            let (next, inbox_of_next) = kind.mailbox();
            players.push(spawn(player::<K, N>(std::mem::replace(&mut inbox, inbox_of_next), next)));
        }
        players.push(spawn(player::<K, N>(inbox, first.clone())));
        firsts.push(first);
    }

    let start = Instant::now();
    for (first, &passes) in firsts.into_iter().zip(&passes) {
        if let Some(left) = passes.checked_sub(1) {
            first.send(Ball { left, payload: [0; N] }).await;
        }
    }
    let mut received = 0;
    for player in players {
        received += player.await.expect("a player ends well");
    }
    outcome(start.elapsed(), passes.iter().sum(), received)
}
