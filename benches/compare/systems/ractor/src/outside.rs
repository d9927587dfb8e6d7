//! Calls and messages from tasks, and from a thread.

use ::ractor::{Actor, ActorProcessingErr, ActorRef};
use compare_frame::outside::{self, Handled};

use super::calls::{Callee, call};
use super::{send, start};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let mut callees = Vec::new();
        for _ in 0..outside::called(&plan) {
            callees.push(start(Callee, ()).await);
        }
        let task = |number: usize, calls| {
            let callee = callees[number % callees.len()].clone();
            async move {
                let mut sum = 0;
                for number in 0..calls {
                    sum += call(&callee, number).await;
                }
                sum
            }
        };
        outside::ask_from_tasks(&plan, task).await
    })
}

struct Receiver;

struct Number(u64);

impl Actor for Receiver {
    type Msg = Number;
    type State = Handled;
    type Arguments = Handled;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Number>,
        Number(number): Number,
        handled: &mut Handled,
    ) -> Result<(), ActorProcessingErr> {
        handled.note(number);
        Ok(())
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (handled, ended) = Handled::new(plan.size);
        let receiver = start(Receiver, handled).await;
        let task = |messages| {
            let receiver = receiver.clone();
            async move {
                for number in 0..messages {
                    send(&receiver, Number(number));
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

/// Blocks in the runtime's `block_on`, since Ractor has no blocking call of its own.
pub fn ask_from_thread(plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let callee = runtime.block_on(start(Callee, ()));
    outside::ask_from_thread(plan, |number| runtime.block_on(call(&callee, number)))
}
