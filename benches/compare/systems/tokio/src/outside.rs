//! Calls and messages from tasks, and from a thread.

use ::tokio::spawn;
use ::tokio::sync::oneshot;
use compare_frame::outside::{self, Handled};

use super::calls::{Question, answer, call};
use super::mailbox::{Address, Inbox, Kind};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let callees: Vec<_> = (0..outside::called(&plan)).map(|_| callee(kind)).collect();
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

/// Starts a process on the current runtime.
fn callee<K: Kind>(kind: K) -> K::Address<Question> {
    let (callee, inbox) = kind.mailbox::<Question>();
    spawn(answer(inbox));
    callee
}

pub fn tell_from_tasks<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (address, mut inbox) = kind.mailbox::<u64>();
        let (mut handled, ended) = Handled::new(plan.size);
        spawn(async move {
            while let Some(number) = inbox.receive().await {
                handled.note(number);
            }
        });
        let task = |messages| {
            let address = address.clone();
            async move {
                for number in 0..messages {
                    address.send(number).await;
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

pub fn ask_from_thread<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let (callee, inbox) = kind.mailbox::<Question>();
    runtime.spawn(answer(inbox));
    outside::ask_from_thread(plan, |number| {
        let (reply, answer) = oneshot::channel();
        callee.send_from_outside(Question { number, reply });
        answer.blocking_recv().expect("an answer")
    })
}
