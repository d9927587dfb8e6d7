//! Calls and messages from tasks, and from a thread.

use ::xtra::{Actor, Context, Handler};
use compare_frame::outside::{self, Handled};

use super::calls::Callee;
use super::{mailbox, tell};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let callee = |_| ::xtra::spawn_tokio(Callee, mailbox(plan.bound));
        let callees: Vec<_> = (0..outside::called(&plan)).map(callee).collect();
        let task = |number: usize, calls| {
            let callee = callees[number % callees.len()].clone();
            async move {
                let mut sum = 0;
                for number in 0..calls {
                    sum += callee.send(number).await.expect("an answer");
                }
                sum
            }
        };
        outside::ask_from_tasks(&plan, task).await
    })
}

struct Receiver(Handled);

impl Actor for Receiver {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<u64> for Receiver {
    type Return = ();

    async fn handle(&mut self, number: u64, _context: &mut Context<Self>) {
        self.0.note(number);
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (handled, ended) = Handled::new(plan.size);
        let receiver = ::xtra::spawn_tokio(Receiver(handled), mailbox(plan.bound));
        let task = |messages| {
            let receiver = receiver.clone();
            async move {
                for number in 0..messages {
                    tell(&receiver, number).await;
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

/// Blocks in the runtime's `block_on`, since xtra has no blocking call of its own.
pub fn ask_from_thread(plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let callee = runtime.block_on(async { ::xtra::spawn_tokio(Callee, mailbox(plan.bound)) });
    outside::ask_from_thread(plan, |number| runtime.block_on(async { callee.send(number).await.expect("an answer") }))
}
