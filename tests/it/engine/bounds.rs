//! Mailbox bounds: which senders are suspended, and which get their message back. No sender waits forever.

mod churn;
mod congested;
mod flood;
mod hard;
mod listed;
mod outside;
mod room;
mod suspended;
mod suspension;

use postroom::prelude::*;
use postroom_tests::Latch;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// A gate at which one task waits until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        let waker = gate.1.take();
        drop(gate);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn passed(&self) {
        std::future::poll_fn(|context| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A process that checks the order of each sender's numbers, once its gate is open.
#[process]
pub(crate) struct Sink {
    pub(crate) next: Vec<u64>,
    pub(crate) left: u64,
    pub(crate) gate: Option<Latch>,
    pub(crate) done: Sender<()>,
}

#[process]
impl Sink {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    fn take(&mut self, from: usize, number: u64) {
        if let Some(gate) = self.gate.take() {
            gate.wait();
        }
        assert_eq!(self.next[from], number, "in order, from {from}");
        self.next[from] += 1;
        self.left -= 1;
        if self.left == 0 {
            let _ = self.done.send(());
        }
    }

    #[message]
    pub(crate) fn taken(&self) -> u64 {
        self.next.iter().sum()
    }
}

/// A process that sends up to `a_step` messages in each of its steps.
#[process]
pub(crate) struct Source {
    pub(crate) index: usize,
    pub(crate) sink: Address<Sink>,
    pub(crate) next: u64,
    pub(crate) until: u64,
    pub(crate) a_step: u64,
}

#[process]
impl Source {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    pub(crate) fn go(&mut self, ctx: &mut Context<Self>) {
        let to = self.until.min(self.next + self.a_step);
        for number in self.next..to {
            self.sink.take(self.index, number).send().unwrap();
        }
        self.next = to;
        if to < self.until {
            ctx.address().go().send().unwrap();
        }
    }

    #[message]
    fn go_and_die(&mut self, ctx: &mut Context<Self>) {
        ctx.pid().kill();
        self.go(ctx);
    }

    #[message]
    pub(crate) fn sent(&self) -> u64 {
        self.next
    }
}
