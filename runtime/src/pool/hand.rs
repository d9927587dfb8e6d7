//! A message in the hands of a member: how the pool hears that it has been handled, before its caller does.

use crate::caller::{Caller, Outside};
use crate::errors::CommandError;
use crate::payload::Payload;
use crate::sync::{Arc, Mutex, lock};

/// Who hears that a member has handled a message.
pub(crate) trait Hears: Send + Sync {
    fn handled(&self, member: u64);
}

/// Stands where the message's caller would: the answer, or that there is none, passes through here. A message that was sent
/// and not called has one too, which only hears.
pub(crate) struct Handed {
    pool: Arc<dyn Hears>,
    member: u64,
    /// `None` when it has been heard; inside, whoever called.
    caller: Mutex<Option<Option<Caller>>>,
    was_sent: bool,
}

impl Handed {
    /// For a message that `member` is given, and the caller that it is given with.
    pub(crate) fn new(pool: Arc<dyn Hears>, member: u64, mut caller: Option<Caller>) -> (Arc<Self>, Caller) {
        let deadline = caller.as_mut().and_then(Caller::deadline);
        let was_sent = caller.as_mut().is_none_or(Caller::was_sent);
        let handed = Arc::new(Self { pool, member, caller: Mutex::new(Some(caller)), was_sent });
        let (stands_in, _ticket) = Caller::outside(handed.clone(), deadline);
        (handed, stands_in)
    }

    /// The message was not given: the pool is not told when its stand-in goes.
    pub(crate) fn take_back(&self) -> Option<Caller> {
        lock(&self.caller).take().flatten()
    }
}

impl Outside for Handed {
    fn answer(&self, result: Result<Payload, CommandError>) {
        let Some(caller) = lock(&self.caller).take() else { return };
        // First the pool: who calls again when it has its answer finds the member free.
        self.pool.handled(self.member);
        match (caller, result) {
            (Some(caller), Ok(value)) => caller.answer(value),
            (Some(caller), Err(error)) => caller.fail_command(error),
            (None, _) => {}
        }
    }

    fn is_abandoned(&self) -> bool {
        match &mut *lock(&self.caller) {
            Some(Some(caller)) => caller.is_abandoned(),
            Some(None) | None => true,
        }
    }

    fn was_sent(&self) -> bool {
        self.was_sent
    }
}
