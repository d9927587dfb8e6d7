//! Time slices of one message, with the time that it takes: by request, for those who look at a running program.
//!
//! The request is a bit of the word that each thread looks at between time slices anyway, so that a thread which is not
//! asked pays nothing. The time slice is one message long whatever else is queued, so that its time is that message's;
//! its process then goes to the end of the global queue, as after any time slice that was used up. The message is the
//! first of the first process that a thread takes up after the request: long ones are no more likely than short ones.

use super::step::{SliceBudget, StepScratch};
use crate::engine::context::thread::ThreadContext;
use crate::engine::workers::timed::TimedStep;
use crate::env::clock::Moment;
use crate::slots::Token;

/// How many timed steps are kept until they are looked at.
const KEPT: usize = 1024;

/// How many time slices without a message a request outlives.
const TRIES: u8 = 8;

impl ThreadContext {
    pub(crate) fn run_timed(&self, scratch: &mut StepScratch, token: Token) {
        let process = token.slot().metadata.names().map(|(process, _)| process);
        let (counters, began) = (&self.thread.counters, Moment::now_by(None));
        let before = counters.messages.get();
        self.run_any_slice(scratch, self.thread.local.push_answer(token), SliceBudget::Exactly(1));
        let took = Moment::now_by(None).since(began);
        let is_one = counters.messages.get() == before + 1;
        match (process, self.thread.slice.message(), is_one) {
            (Some(process), Some(message), true) => {
                self.untimed.set(0);
                if self.host.timed.len() < KEPT {
                    self.host.timed.push(TimedStep { process, message, took });
                }
            }
            // An answer or a timer: the next time slice perhaps has a message.
            _ if self.untimed.get() < TRIES => {
                self.untimed.set(self.untimed.get() + 1);
                self.thread.ask_for_time();
            }
            _ => self.untimed.set(0),
        }
    }
}
