//! A message in the hands of a member: how the pool hears that it has been handled, before its caller does.

use crate::call::caller::{Caller, OutsideCaller};
use crate::errors::CommandError;
use crate::mailbox::payload::Payload;
use crate::sync::{Arc, Mutex, lock};

/// Who hears that a member has handled a message.
pub(crate) trait Hears: Send + Sync {
    fn handled(&self, member: u64);
}

/// Stands where the message's caller would: the answer, or that there is none, passes through here. A message that was
/// sent and not called has one too, which only hears.
pub(crate) struct MemberCaller {
    pool: Arc<dyn Hears>,
    member: u64,
    /// `None` when it has been heard; inside, the caller.
    caller: Mutex<Option<Option<Caller>>>,
    was_sent: bool,
}

impl MemberCaller {
    /// For a message that `member` is given, and the caller that it is given with.
    pub(crate) fn new(pool: Arc<dyn Hears>, member: u64, caller: Option<Caller>) -> (Arc<Self>, Caller) {
        let deadline = caller.as_ref().and_then(Caller::deadline);
        let was_sent = caller.as_ref().is_none_or(Caller::was_sent);
        let handed = Arc::new(Self { pool, member, caller: Mutex::new(Some(caller)), was_sent });
        let (stands_in, _ticket) = Caller::outside(handed.clone(), deadline);
        (handed, stands_in)
    }

    /// The message was not given: the pool is not told when its stand-in goes.
    pub(crate) fn take_back(&self) -> Option<Caller> {
        lock(&self.caller).take().flatten()
    }
}

impl OutsideCaller for MemberCaller {
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
        match &*lock(&self.caller) {
            Some(Some(caller)) => caller.is_abandoned(),
            Some(None) | None => true,
        }
    }

    fn was_sent(&self) -> bool {
        self.was_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::CallError;

    /// What was heard, in order, by the pool and by the caller.
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Hears for Heard {
        fn handled(&self, member: u64) {
            lock(&self.0).push(format!("{member} is done"));
        }
    }

    impl OutsideCaller for Heard {
        fn answer(&self, result: Result<Payload, CommandError>) {
            let text = match result {
                Ok(value) => format!("answer {}", value.take::<u32>().unwrap_or_default()),
                Err(error) => error.to_string(),
            };
            lock(&self.0).push(text);
        }

        fn is_abandoned(&self) -> bool {
            false
        }
    }

    fn handed(heard: &Arc<Heard>, called: bool) -> (Arc<MemberCaller>, Caller) {
        let caller = called.then(|| Caller::outside(heard.clone(), None).0);
        MemberCaller::new(heard.clone(), 7, caller)
    }

    #[test]
    fn the_pool_hears_before_the_caller_does_and_both_once() {
        let heard = Arc::new(Heard::default());
        handed(&heard, true).1.answer(Payload::new(5_u32));
        assert_eq!(*lock(&heard.0), ["7 is done", "answer 5"]);
        lock(&heard.0).clear();
        handed(&heard, true).1.fail(CallError::Timeout);
        assert_eq!(lock(&heard.0)[0], "7 is done");
        assert_eq!(lock(&heard.0).len(), 2);
    }

    #[test]
    fn of_a_message_that_was_sent_only_the_pool_hears_and_it_counts_as_sent() {
        let heard = Arc::new(Heard::default());
        let (_, caller) = handed(&heard, false);
        assert!(caller.was_sent() && caller.is_abandoned());
        drop(caller);
        assert_eq!(*lock(&heard.0), ["7 is done"]);
        // Also through a pool in a pool.
        let (_, outer) = handed(&heard, false);
        let (_, inner) = MemberCaller::new(heard.clone(), 8, Some(outer));
        assert!(inner.was_sent());
        let (_, called) = handed(&heard, true);
        assert!(!called.was_sent() && !called.is_abandoned());
    }

    #[test]
    fn a_message_that_was_not_given_gives_its_caller_back_and_nobody_hears() {
        let heard = Arc::new(Heard::default());
        let (handed, caller) = handed(&heard, true);
        let back = handed.take_back();
        drop(caller);
        assert!(lock(&heard.0).is_empty());
        drop(back);
        assert_eq!(lock(&heard.0).len(), 1);
    }
}
