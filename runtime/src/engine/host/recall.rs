//! Taking from a thread what it keeps to itself: see `slots/slot/local_tokens`.

use super::Scheduler;
use crate::engine::workers::worker::Worker;
use crate::slots::slot::local_tokens::Revoked;
use crate::slots::slot::release::LaidDown;
use crate::slots::{TABLE, Token};

impl Scheduler {
    /// Moves what a thread keeps to itself, the process in its run-next slot and those kept with input, to the inject
    /// queue of the permit that `holder` has, or to the global queue if it has none. Returns whether there was any.
    ///
    /// In the global queue it would be behind all others; the inject queue is visited next by the thread with the
    /// permit, and by all that search. Called while no thread can park: so it is in a queue again before its thread
    /// can, or the host would seem to be idle.
    pub(crate) fn move_local(&'static self, thread: &Worker, holder: usize) -> bool {
        let mut vacant = Vacant::default();
        let moved = self.idle.with_permits(|permits| {
            let queue = permits.permit(holder).map_or(&self.global, |permit| &self.permits[permit].inject);
            let tokens = with_input(thread.local.revoke(), &mut vacant);
            tokens.map(|token| queue.push(token)).count() > 0
        });
        vacant.give_back();
        if moved {
            self.announce();
        }
        moved
    }

    /// Takes one process from those that a thread of a stopped host keeps to itself; queues the others.
    pub(crate) fn take_local(&'static self, thread: &Worker) -> Option<Token> {
        let mut vacant = Vacant::default();
        let mut tokens = with_input(thread.local.revoke(), &mut vacant);
        let first = tokens.next();
        tokens.for_each(|token| self.push_global(token));
        vacant.give_back();
        first
    }
}

/// Tokens of vacant slots, to be parked when no lock is held: what has arrived there is passed to users' hooks.
#[derive(Default)]
struct Vacant {
    /// Of slots that the thread kept for its next processes.
    kept: Vec<Token>,
    /// Of warm processes that have ended meanwhile, on other threads, which have listed their slots as free.
    listed: Vec<Token>,
}

impl Vacant {
    fn give_back(self) {
        self.kept.into_iter().for_each(|token| TABLE.take_back(token.taken_up()));
        self.listed.into_iter().for_each(|token| drop(token.taken_up().empty_and_park(None)));
    }
}

/// Lays down the processes that were warm, and the one at hand. Returns the tokens of those that have something to do.
fn with_input(revoked: Option<Revoked>, vacant: &mut Vacant) -> impl Iterator<Item = Token> {
    let Revoked { run_next, warm, at_hand, shelved, vacant: kept } = revoked.unwrap_or_default();
    vacant.kept = kept;
    let warm = warm.into_iter().chain(shelved);
    let laid_down = warm.map(Token::lay_down).chain(at_hand.into_iter().map(Token::lay_down_at_hand));
    let left = laid_down.filter_map(|laid_down| match laid_down {
        LaidDown::Parked => None,
        LaidDown::HasInput(token) => Some(token),
        LaidDown::Vacant(token) => {
            vacant.listed.push(token);
            None
        }
    });
    run_next.into_iter().chain(left)
}
