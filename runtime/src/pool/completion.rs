//! Completion of messages by members. The pool is notified before the caller.

use crate::call::caller::{Caller, OutsideCaller};
use crate::sync::{Arc, Mutex, lock};
use crate::{CommandError, Payload, Pid};

/// Listener that is notified when a member has finished a message.
pub(crate) trait CompletionListener: Send + Sync {
    fn handled(&self, member: u64);
}

/// Stand-in for the caller of a message. It passes the answer, or the failure to answer, on to that caller. A message
/// that was sent rather than called has a stand-in too, with no caller behind it.
pub(crate) struct MemberCaller {
    pool: Arc<dyn CompletionListener>,
    member: u64,
    /// The outer `Option` is `None` after the completion; the inner one is `None` if there is no caller.
    caller: Mutex<Option<Option<Caller>>>,
    was_sent: bool,
    pid: Option<Pid>,
}

impl MemberCaller {
    pub(crate) fn new(pool: Arc<dyn CompletionListener>, member: u64, caller: Option<Caller>) -> (Arc<Self>, Caller) {
        let deadline = caller.as_ref().and_then(Caller::deadline);
        let was_sent = caller.as_ref().is_none_or(Caller::was_sent);
        let pid = caller.as_ref().and_then(Caller::pid);
        let member_caller = Arc::new(Self { pool, member, caller: Mutex::new(Some(caller)), was_sent, pid });
        let (stands_in, _ticket) = Caller::outside(member_caller.clone(), deadline);
        (member_caller, stands_in)
    }

    /// Takes the caller back if the message was not given to the member. The pool is not notified.
    pub(crate) fn take_back(&self) -> Option<Caller> {
        lock(&self.caller).take().flatten()
    }
}

impl OutsideCaller for MemberCaller {
    fn answer(&self, result: Result<Payload, CommandError>) {
        let Some(caller) = lock(&self.caller).take() else { return };
        // The pool is notified first, so that a caller that calls again at once finds the member free.
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

    fn pid(&self) -> Option<Pid> {
        self.pid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::CallError;

    /// Notifications of the pool and of the caller, in order.
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl CompletionListener for Heard {
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
        // The same holds for a pool whose member is a pool.
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
