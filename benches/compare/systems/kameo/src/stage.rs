//! Common code of the workloads: a runtime, mailboxes as the plan wants them, sends, and the end of a run.

use std::pin::Pin;
use std::time::Instant;

use ::kameo::mailbox;
use ::kameo::prelude::*;
use ::tokio::runtime::Builder;
use ::tokio::sync::oneshot;

use crate::plan::{Outcome, Plan};

/// Runs a workload on a runtime of its own. With one worker the runtime is a current-thread one, which avoids the costs
/// of several threads.
pub fn run<T>(plan: &Plan, work: impl Future<Output = T>) -> T {
    let mut builder = match plan.workers {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(plan.workers).enable_time().build().expect("the runtime starts");
    // The future is boxed, so that this function is compiled once and not for each workload.
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime.block_on(work)
}

/// Returns a mailbox that holds `bound` messages (kameo's default would be 64).
pub fn mailbox<A: Actor>(bound: Option<usize>) -> (MailboxSender<A>, MailboxReceiver<A>) {
    bound.map_or_else(mailbox::unbounded, mailbox::bounded)
}

/// Spawns an actor that is its own argument, like all actors with the derived trait.
pub fn spawn<A: Actor<Args = A>>(bound: Option<usize>, actor: A) -> ActorRef<A> {
    A::spawn_with_mailbox(actor, mailbox(bound))
}

/// Sends a message. If the mailbox is bounded and full, waits for room. Uses `send` and not the request's own `await`,
/// which would box a future. Uses `try_send` for mailboxes without a bound, since it needs no future at all.
pub async fn tell<A: Actor + Message<M>, M: Send + 'static>(to: &ActorRef<A>, message: M) {
    let request = to.tell(message);
    let sent = if to.mailbox_sender().capacity().is_none() { request.try_send() } else { request.send().await };
    assert!(sent.is_ok(), "a process that a message was for has stopped");
}

/// Number of spawns or messages after which a process yields its worker to the others. An actor takes about 7 kB, so a
/// million actors at once would measure the allocation of memory pages. Values from 30 to 300 make little difference,
/// but 1,000 costs half as much again.
pub const LITTER: u64 = 100;

/// Returns the share of `total` that process `index` of `width` has.
pub fn share(total: u64, width: u64, index: u64) -> u64 {
    total / width + u64::from(index < total % width)
}

/// The time of the end, and the result, as observed by the last process.
pub struct End {
    pub at: Instant,
    pub sum: u64,
}

impl End {
    pub fn outcome(&self, start: Instant, operations: u64) -> Outcome {
        Outcome { elapsed: self.at - start, operations, check: self.sum, ..Outcome::default() }
    }
}

/// An actor that adds up the reports of a number of processes, and then ends the run.
#[derive(Actor)]
pub struct Collector {
    missing: u64,
    sum: u64,
    end: Option<oneshot::Sender<End>>,
}

impl Collector {
    /// Spawns a collector for `reports` reports. Its mailbox has no bound, since it gets few messages, or only serves
    /// to end the workload.
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

/// Ends a run. Must be called only once.
pub fn finish(end: &mut Option<oneshot::Sender<End>>, sum: u64) {
    let end = end.take().expect("a run ends once");
    // The thread outside waits until then, so the send cannot fail.
    let _ = end.send(End { at: Instant::now(), sum });
}

/// Tells a process to begin.
pub struct Begin;

/// Asks for the count of a process, after the clock has stopped.
pub struct Count;

/// Returns the sum of the counts of all processes.
pub async fn counted<A: Actor + Message<Count, Reply = u64>>(actors: &[ActorRef<A>]) -> u64 {
    let mut sum = 0;
    for actor in actors {
        sum += actor.ask(Count).send().await.expect("a process answers");
    }
    sum
}
