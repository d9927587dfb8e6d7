//! Time slices that follow each other directly: those of two processes that send to each other.
//!
//! Nearly every time slice begins with a message and is one step long. If that step leaves nothing else to do and has
//! made another process run next, the idle process is [kept](crate::thread_cache::tokens) and the other one's time
//! slice follows. All checks between the two time slices ([`next`](ThreadContext::next)) then reduce to one critical
//! section, in which the attention word must be zero, and one comparison with the step count at which a shared queue or
//! the deque comes first. That step count is set at each visit to a shared queue, and is zero while the thread keeps no
//! processes.
//!
//! A caller and the process that it calls follow each other in the same way: the caller is kept while it waits, and the
//! answer is beside its token when its time slice follows ([`answered`](super::answered)).
//!
//! All other cases take the general path in [`step`](super::step), with the same checks in the same order.

use super::run::SliceBudget;
use super::scratch::{AfterStep, StepScratch};
use crate::call::caller;
use crate::engine::context::thread::ThreadContext;
use crate::exit::ExitReason;
use crate::slots::Token;
use crate::slots::slot::words::ParkKind;
use crate::sync::disturb;
use crate::thread_cache::tokens::Following;

impl ThreadContext {
    /// Runs the time slice of a process that has no answer on this thread and is marked as running, and the time slices
    /// that follow directly.
    #[inline(always)]
    pub(crate) fn run_slices(&self, scratch: &mut StepScratch, mut token: Token) {
        let (token, after) = loop {
            let slot = token.slot();
            if !slot.deficit.is_none() || slot.lanes.has_control() || token.is_special() {
                return self.run_any_slice(scratch, token.release(), SliceBudget::Usual);
            }
            self.begin_slice(scratch, &token, SliceBudget::Usual);
            disturb();
            // SAFETY: this is the token, and only the input uses the lanes until the step is over.
            unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
            let Some(body) = token.body() else {
                unreachable!("a token that is scheduled is that of a living process")
            };
            let outcome = body.serve(scratch.parts());
            if caller::has_orphans() {
                // These callers were dropped by a panic that the process caught itself.
                caller::blame_nobody();
            }
            self.count(scratch, slot);
            match outcome {
                Ok(()) if scratch.is_plain() => {}
                Ok(()) => break self.after_held(scratch, token, None),
                Err(error) => break self.after_held(scratch, token, Some(error.into_reason())),
            }
            disturb();
            match self.follow(token, ParkKind::Idle) {
                Ok(Following { token: next, has_answer: false }) => token = next,
                Ok(Following { token: next, has_answer: true }) => match self.run_answered_slices(scratch, next) {
                    Some(next) => token = next,
                    None => return,
                },
                Err(held) => break (held, AfterStep::ParkIdle),
            }
        };
        disturb();
        if let Some(token) = self.conclude(scratch, token, after) {
            self.go_on_apart(scratch, token);
        }
    }

    /// Calls [`after`](Self::after) with a copy of the token in memory, so that the loop above need not keep the token
    /// in memory.
    #[inline(always)]
    fn after_held(
        &self,
        scratch: &mut StepScratch,
        mut token: Token,
        failed: Option<ExitReason>,
    ) -> (Token, AfterStep) {
        let after = self.after(scratch, &mut token, failed);
        (token, after)
    }

    /// Continues with a process for which something has arrived in the meantime.
    #[cold]
    #[inline(never)]
    fn go_on_apart(&self, scratch: &mut StepScratch, token: Token) {
        self.go_on(scratch, token);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::context::thread::current_pid;
    use crate::process::fixtures::OnMessage;
    use crate::{Host, Package, Pid, Runtime};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    /// Number of times that a pair passes its ball in a round.
    const PASSES: u64 = 20_000;

    /// Catches: slices that follow each other until the next tick of the watchdog, while another process waits.
    #[test]
    fn a_pair_lets_the_next_process_run_after_some_steps() {
        // A streak has at most 64 steps, and each shared queue to which the process was moved adds at most 20. On a
        // slow machine a tick ends the streak sooner. Without a limit, thousands of steps would fit in before a tick.
        const MOST: u64 = 200;
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let passed = Arc::new(AtomicU64::new(0));
        let ((over, is_over), (seen, look)) = (channel(), channel());
        // Passes the ball to the other player of a pair.
        let player = || {
            let (passed, over) = (passed.clone(), over.clone());
            let player = OnMessage(move |message: Package| {
                let other: Pid = message.take().expect("the PID of the other");
                if passed.fetch_add(1, Ordering::Relaxed) + 1 < PASSES {
                    let (host, own) = (Host::current().expect("a host"), current_pid().expect("a process"));
                    host.send(other, own).expect("the other lives");
                } else {
                    over.send(()).expect("the test waits");
                }
            });
            runtime.spawn_process(player).start().expect("it starts")
        };
        let players = (player(), player());
        // Reports how many times the ball had been passed when this process ran.
        let by_then = passed.clone();
        let waits = OnMessage(move |_| seen.send(by_then.load(Ordering::Relaxed)).expect("the test waits"));
        let waits = runtime.spawn_process(waits).start().expect("it starts");
        // Sends to the waiting process, and then to a player. The player runs first.
        let starts = OnMessage(move |_| {
            let host = Host::current().expect("a host");
            host.send(waits, ()).expect("it lives");
            host.send(players.0, players.1).expect("it lives");
        });
        let starts = runtime.spawn_process(starts).start().expect("it starts");
        for round in 0..20 {
            passed.store(0, Ordering::Relaxed);
            runtime.send(starts, ()).expect("it lives");
            is_over.recv().expect("all is passed");
            let seen = look.recv().expect("its turn has come");
            assert!(seen <= MOST, "{seen} passes came first, in round {round}");
        }
    }
}
