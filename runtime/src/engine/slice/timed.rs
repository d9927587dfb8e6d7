//! Time slices of one message. They are run and timed on request, so that a running program can be observed.
//!
//! The request is a bit of the word that each thread checks between time slices anyway, so a thread that is not asked
//! pays nothing. The time slice is one message long, whatever else is queued, so its time is that of the message. The
//! process then goes to the end of the global queue, as after any time slice that was used up. The message is the first
//! of the first process that a thread takes after the request, so long messages are no more likely to be timed than
//! short ones.

use super::run::SliceBudget;
use super::scratch::StepScratch;
use crate::engine::context::thread::ThreadContext;
use crate::engine::workers::timed::TimedStep;
use crate::env::clock::Moment;
use crate::slots::Token;

/// Maximum number of timed steps that are kept until they are read.
const KEPT: usize = 1024;

/// Number of times that a request is repeated because its time slice had no message.
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
            // The input was an answer or a timer; the next time slice may have a message.
            _ if self.untimed.get() < TRIES => {
                self.untimed.set(self.untimed.get() + 1);
                self.thread.ask_for_time();
            }
            _ => self.untimed.set(0),
        }
    }
}
