//! What every workload here needs: a runtime, mailboxes as the plan wants them, a way to send, and the end of a run.

use std::pin::Pin;
use std::time::Instant;

use ::kameo::mailbox;
use ::kameo::prelude::*;
use ::tokio::runtime::Builder;
use ::tokio::sync::oneshot;

use crate::plan::{Outcome, Plan};

/// Runs a workload on a runtime of its own. One worker is a current-thread runtime, which saves what several threads
/// cost.
pub fn run<T>(plan: &Plan, work: impl Future<Output = T>) -> T {
    let mut builder = match plan.workers {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(plan.workers).enable_time().build().expect("the runtime starts");
    // Boxed, so that this is compiled once and not for each workload.
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime.block_on(work)
}

/// A mailbox that holds `bound` messages (kameo's default would be 64).
pub fn mailbox<A: Actor>(bound: Option<usize>) -> (MailboxSender<A>, MailboxReceiver<A>) {
    bound.map_or_else(mailbox::unbounded, mailbox::bounded)
}

/// Spawns an actor that is its own argument, as the derived ones are.
pub fn spawn<A: Actor<Args = A>>(bound: Option<usize>, actor: A) -> ActorRef<A> {
    A::spawn_with_mailbox(actor, mailbox(bound))
}

/// Sends, and waits while a bounded mailbox is full. `send` and not the request's own `await`, which would box a
/// future; `try_send` where nothing can be full, as it needs no future at all.
pub async fn tell<A: Actor + Message<M>, M: Send + 'static>(to: &ActorRef<A>, message: M) {
    let request = to.tell(message);
    let sent = if to.mailbox_sender().capacity().is_none() { request.try_send() } else { request.send().await };
    assert!(sent.is_ok(), "a process that a message was for has stopped");
}

/// After so many spawns or messages a process lets the others have its worker. An actor takes about 7 kB, and a million
/// of them at once would measure the memory's pages: 30 to 300 come to much the same, 1,000 to half as much again.
pub const LITTER: u64 = 100;

/// How much of `total` the process `index` of `width` does.
pub fn share(total: u64, width: u64, index: u64) -> u64 {
    total / width + u64::from(index < total % width)
}

/// What the last process knows when all is done.
pub struct End {
    pub at: Instant,
    pub sum: u64,
}

impl End {
    pub fn outcome(&self, start: Instant, operations: u64) -> Outcome {
        Outcome { elapsed: self.at - start, operations, check: self.sum, ..Outcome::default() }
    }
}

/// Adds the reports of so many processes, then ends the run.
#[derive(Actor)]
pub struct Collector {
    missing: u64,
    sum: u64,
    end: Option<oneshot::Sender<End>>,
}

impl Collector {
    /// Its own mailbox has no bound: it gets few messages, or is what a workload ends in.
    pub fn spawn_for(reports: u64) -> (ActorRef<Self>, oneshot::Receiver<End>) {
        let (end, ended) = oneshot::channel();
        (spawn(None, Self { missing: reports, sum: 0, end: Some(end) }), ended)
    }
}

/// A number for a [`Collector`].
pub struct Report(pub u64);

impl Message<Report> for Collector {
    type Reply = ();

    async fn handle(&mut self, Report(number): Report, _: &mut Context<Self, ()>) {
        self.sum = self.sum.wrapping_add(number);
        self.missing -= 1;
        if self.missing == 0 {
            finish(&mut self.end, self.sum);
        }
    }
}

/// Ends a run, once.
pub fn finish(end: &mut Option<oneshot::Sender<End>>, sum: u64) {
    let end = end.take().expect("a run ends once");
    // The thread outside waits until then, so that there is no error here.
    let _ = end.send(End { at: Instant::now(), sum });
}

/// The word to begin.
pub struct Begin;

/// Asks for what a process has counted, when the clock has stopped.
pub struct Count;

/// The counts of all processes together.
pub async fn counted<A: Actor + Message<Count, Reply = u64>>(actors: &[ActorRef<A>]) -> u64 {
    let mut sum = 0;
    for actor in actors {
        sum += actor.ask(Count).send().await.expect("a process answers");
    }
    sum
}
