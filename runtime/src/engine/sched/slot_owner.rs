//! The host as the owner of its processes' slots: their wake-ups, mailbox bounds, timers and dead letters.

use crate::call::dead_letter::{DeadLetter, Internal, Sink};
use crate::engine::backpressure::suspend::{ResumeReason, end_suspension};
use crate::engine::backpressure::{congestion, placeholders};
use crate::engine::context::thread::with_current;
use crate::engine::host::incidents::lost_message;
use crate::engine::host::losses::log_dead_letter;
use crate::engine::host::{Scheduler, UserCode};
use crate::env::clock::{ClockOverride, Moment, TimeKeeper, TimerKey, instant_now};
use crate::mailbox::bound::Bound;
use crate::mailbox::node::{Envelope, NodeBox};
use crate::pid::Pid;
use crate::recorder::session::Recorder;
use crate::slots::{Admission, Schedule, SendPolicy, Slot, SlotHost, TABLE, Token};
use crate::sync::Arc;
use crate::thread_cache;
use crate::time::timers::TimerAction;
use crate::util::dispose::dispose;
use crate::util::notifiers;
use crate::util::panics::{Site, contain};
use std::ptr;
use std::time::Duration;

impl Schedule for Scheduler {
    fn wake(&'static self, token: Token) {
        with_current(|context| match context {
            Some(context) if ptr::eq(context.host, self) => context.push_next(token),
            _ => {
                match self.permits.get(token.slot().permit.get()) {
                    Some(permit) => permit.inject.push(token),
                    None => self.global.push(token),
                }
                if !super::driving::is_seen_to(self) {
                    self.announce();
                }
            }
        });
    }

    /// Takes the token if the calling thread keeps the process; otherwise performs *notify* of `thread_cache::cache`.
    #[cold]
    fn take_kept(&'static self, slot: &'static Slot) -> Option<Token> {
        let token = thread_cache::take_kept(slot);
        if token.is_none()
            && slot.permit.is_in_table()
            && let Some((_, thread)) = self.threads_in_use().find(|(_, thread)| thread.local.has_in_table(slot))
        {
            thread.local.lock.notify();
        }
        token
    }
}

impl SlotHost for Scheduler {
    fn bound(&self) -> Bound {
        self.config.mailbox
    }

    fn check_length(&self, slot: &'static Slot) {
        congestion::check_length(slot);
    }

    fn known(&self, slot: &'static Slot) -> u64 {
        congestion::known(slot)
    }

    fn admit(&self, slot: &'static Slot, node: NodeBox, policy: SendPolicy) -> Admission {
        if slot.is_hard_bounded() {
            return placeholders::admit(slot, node, policy);
        }
        match policy {
            SendPolicy::Bounded => congestion::admit(slot, node),
            SendPolicy::Anyway => Admission::Accepted(node),
        }
    }

    fn release_suspended(&self, slot: &'static Slot) {
        end_suspension(slot, ResumeReason::Called);
    }

    fn recorder(&'static self) -> Option<&'static Recorder> {
        Some(&self.recorder)
    }

    fn redeem(&self, slot: &'static Slot, generation: u64) -> Option<Envelope> {
        placeholders::redeem(slot, generation)
    }

    fn label_of(&self, pid: Pid) -> Option<Arc<str>> {
        self.label(pid)
    }

    fn time_keeper(&'static self) -> Option<&'static dyn TimeKeeper> {
        Some(self)
    }

    fn call_timeout(&self) -> Option<Duration> {
        Some(self.config.call_timeout)
    }
}

impl TimeKeeper for Scheduler {
    fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
        if self.is_stopped() { None } else { self.set_timer(due, TimerAction::Run(action)) }
    }

    fn forget(&'static self, key: TimerKey) -> bool {
        self.timers.cancel(key)
    }

    fn reset(&'static self, key: TimerKey, due: Moment) -> bool {
        let (was_pending, first) = self.timers.reset(key, due);
        if first {
            self.wake_for_timer();
        }
        was_pending
    }

    fn is_pending(&'static self, key: TimerKey) -> bool {
        self.timers.is_pending(key)
    }

    fn clock_override(&self) -> ClockOverride {
        self.clock_override()
    }
}

/// Maximum number of dead letters that may wait for the hook, because they come from threads that must not run it
/// (mostly messages from other nodes). A guess.
const LETTERS: usize = 65_536;

impl Sink for Scheduler {
    fn dead_letter(&'static self, letter: DeadLetter) {
        if letter.message.is::<Internal>() {
            return dispose(Site::ValueDrop, letter);
        }
        self.dead_letters[letter.reason as usize].add_shared(1);
        if self.incidents.is_watched() {
            let process = TABLE.last(letter.to).and_then(|slot| slot.metadata.names()).map(|(process, _)| process);
            self.incidents.lost(lost_message(&letter, instant_now(), process, self.label(letter.to)));
        }
        if notifiers::is_needed() {
            return self.report_elsewhere(letter);
        }
        let mut letter = Some(letter);
        self.with_user(|user| letter.take().into_iter().for_each(|letter| self.report_loss(letter, Some(user))));
        letter.into_iter().for_each(|letter| self.report_loss(letter, None));
    }
}

impl Scheduler {
    /// Logs a dead letter and passes it to the hook. Dropping the message runs user code, with or without a hook, and a
    /// log subscriber is user code, too.
    fn report_loss(&self, letter: DeadLetter, user: Option<&UserCode>) {
        let outcome = contain(Site::DeadLetterHook, || {
            log_dead_letter(&letter, &self.loss_limits);
            if let Some(hook) = user.and_then(|user| user.hooks.dead_letter.as_ref()) {
                hook(letter);
            }
        });
        if let Err(panic) = outcome {
            crate::util::log::error!(%panic, "the dead-letter hook, or the drop of a dead letter, panicked");
            crate::call::caller::blame_nobody();
        }
    }

    /// Has a notifier report a dead letter, in the order of the messages. If [`LETTERS`] reports are already queued,
    /// the letter is only counted: while a hook blocks, messages from other nodes must not pile up without limit.
    #[cold]
    fn report_elsewhere(&'static self, letter: DeadLetter) {
        let mut letter = Some(letter);
        self.losses.push(LETTERS, || {
            let (letter, user) = (letter.take(), self.user());
            Box::new(move || letter.into_iter().for_each(|letter| self.report_loss(letter, user.as_deref())))
        });
        dispose(Site::ValueDrop, letter);
    }
}
