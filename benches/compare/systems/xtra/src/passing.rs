//! One message that goes from process to process.

use std::time::Instant;

use ::tokio::spawn;
use ::xtra::{Actor, Address, Context, Handler};

use super::{mailbox, outcome, share, tell};
use crate::plan::Outcome;

struct Ball<const N: usize> {
    /// Number of passes after this one.
    left: u64,
    payload: [u8; N],
}

/// A process that passes balls on until the last pass, or until no player is left to pass to.
///
/// The receiver of the last pass exits, and so drops its address of the next player. So the others exit in sequence.
struct Player<const N: usize> {
    next: Address<Self>,
    received: u64,
}

impl<const N: usize> Actor for Player<N> {
    /// The number of balls received.
    type Stop = u64;

    async fn stopped(self) -> u64 {
        self.received
    }
}

impl<const N: usize> Handler<Ball<N>> for Player<N> {
    type Return = ();

    async fn handle(&mut self, Ball { left, payload }: Ball<N>, context: &mut Context<Self>) {
        self.received += 1;
        if left == 0 {
            context.stop_self();
        } else {
            tell(&self.next, Ball { left: left - 1, payload }).await;
        }
    }
}

pub async fn ping_pong<const N: usize>(bound: Option<usize>, size: u64) -> Outcome {
    circle::<N>(bound, vec![size], 2).await
}

pub async fn pairs(bound: Option<usize>, size: u64, width: u64) -> Outcome {
    circle::<0>(bound, (0..width).map(|pair| share(size, width, pair)).collect(), 2).await
}

pub async fn ring(bound: Option<usize>, size: u64, width: u64) -> Outcome {
    circle::<0>(bound, vec![size], width).await
}

/// Runs a circle of `width` players for each ball. `passes` has the number of passes that each ball makes.
async fn circle<const N: usize>(bound: Option<usize>, passes: Vec<u64>, width: u64) -> Outcome {
    let mut firsts = Vec::new();
    let mut players = Vec::new();
    for _ in &passes {
        let (first, mut own) = mailbox::<Player<N>>(bound);
        for _ in 1..width {
            let (next, mailbox_of_next) = mailbox(bound);
            let own = std::mem::replace(&mut own, mailbox_of_next);
            players.push(spawn(::xtra::run(own, Player { next, received: 0 })));
        }
        players.push(spawn(::xtra::run(own, Player { next: first.clone(), received: 0 })));
        firsts.push(first);
    }

    let start = Instant::now();
    for (first, &passes) in firsts.into_iter().zip(&passes) {
        if let Some(left) = passes.checked_sub(1) {
            tell(&first, Ball { left, payload: [0; N] }).await;
        }
    }
    let mut received = 0;
    for player in players {
        received += player.await.expect("a player ends well");
    }
    outcome(start.elapsed(), passes.iter().sum(), received)
}
