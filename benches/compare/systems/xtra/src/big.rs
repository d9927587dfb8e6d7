//! Savina's *big*: many processes, each of which pings random others.

use std::sync::Arc;
use std::time::Instant;

use ::tokio::spawn;
use ::xtra::{Actor, Address, Context, Handler, Mailbox};

use super::{mailbox, outcome, share, tell};
use crate::kernel::Random;
use crate::plan::Outcome;

/// A ping, with the number of its sender.
struct Ping(usize);

struct Pong;

/// All processes have received all their pongs.
struct End;

struct Process {
    own: usize,
    /// Number of pings that are still to be sent.
    pings: u64,
    others: Arc<[Address<Self>]>,
    sink: Address<Sink>,
    random: Random,
    received: u64,
}

impl Process {
    /// Sends the next ping to a random other process. If there is none left, tells the sink.
    async fn ping(&mut self) {
        if self.pings == 0 {
            tell(&self.sink, End).await;
            return;
        }
        self.pings -= 1;
        let other = self.random.below(self.others.len() as u64 - 1) as usize;
        let other = if other < self.own { other } else { other + 1 };
        tell(&self.others[other], Ping(self.own)).await;
    }
}

impl Actor for Process {
    /// The number of pings and pongs received.
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        self.ping().await;
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.received
    }
}

impl Handler<Ping> for Process {
    type Return = ();

    async fn handle(&mut self, Ping(from): Ping, _context: &mut Context<Self>) {
        self.received += 1;
        tell(&self.others[from], Pong).await;
    }
}

impl Handler<Pong> for Process {
    type Return = ();

    async fn handle(&mut self, Pong: Pong, _context: &mut Context<Self>) {
        self.received += 1;
        self.ping().await;
    }
}

impl Handler<End> for Process {
    type Return = ();

    async fn handle(&mut self, End: End, context: &mut Context<Self>) {
        context.stop_self();
    }
}

/// An actor that waits for the end of all pings, and then ends all processes.
struct Sink {
    left: u64,
    others: Arc<[Address<Process>]>,
}

impl Actor for Sink {
    type Stop = ();

    async fn stopped(self) {
        for other in self.others.iter() {
            tell(other, End).await;
        }
    }
}

impl Handler<End> for Sink {
    type Return = ();

    async fn handle(&mut self, End: End, context: &mut Context<Self>) {
        self.left -= 1;
        if self.left == 0 {
            context.stop_self();
        }
    }
}

pub async fn big(bound: Option<usize>, size: u64, width: u64) -> Outcome {
    let (addresses, inboxes): (Vec<_>, Vec<_>) = (0..width).map(|_| mailbox(bound)).unzip();
    let others: Arc<[Address<Process>]> = addresses.into();
    let sink = ::xtra::spawn_tokio(Sink { left: width, others: Arc::clone(&others) }, mailbox(bound));

    let start = Instant::now();
    let processes: Vec<_> = (0..)
        .zip(inboxes)
        .map(|(number, inbox)| {
            let process = Process {
                own: number as usize,
                pings: share(size / 2, width, number),
                others: Arc::clone(&others),
                sink: sink.clone(),
                random: Random::seeded(number),
                received: 0,
            };
            spawn(::xtra::run(inbox, process))
        })
        .collect();
    let mut received = 0;
    for process in processes {
        received += process.await.expect("a process ends well");
    }
    outcome(start.elapsed(), size, received)
}
