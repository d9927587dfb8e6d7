//! Calls between nodes: the caller as a transport holds it, and its stand-in on the other node.

use crate::call::caller::{self, Caller, OutsideCaller};
use crate::call::package::Package;
use crate::env::clock::{Moment, TimeKeeper, has_virtual_clock};
use crate::errors::{CallError, CommandError};
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::slots::{Slot, TABLE};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::util::panics::{Site, contain};
use std::sync::Weak;
use std::time::Duration;

/// The right and the duty to answer the caller of a package, if it has one. Created by [`Package::take_apart`].
///
/// If it is dropped without an answer, the caller gets the same error as for a dropped package: that the message was
/// unhandled or, if the process that holds the answerer is ending, that the message was not delivered, with the reason
/// of that end. A transport calls [`note_sent`](Self::note_sent) when it has sent the message; from then on the error
/// is that the message may have been handled.
#[must_use = "dropping it unanswered fails the call"]
pub struct Answerer {
    caller: Option<Caller>,
    is_sent: bool,
}

impl Answerer {
    /// Answers the caller. `Ok` is the return value of the called method. It is a `Result<T, E>` of the caller's types
    /// (and may be the method's own `Err`), or a `Result<T, Infallible>` if the method cannot fail. Never blocks. A
    /// caller that has given up, or that expects no answer, is not notified.
    pub fn answer(mut self, result: Result<Payload, CallError>) {
        match (self.caller.take(), result) {
            (Some(caller), Ok(value)) => caller.answer(value),
            (Some(caller), Err(error)) => caller.fail(error),
            (None, _) => {}
        }
    }

    /// Returns whether a caller waits for an answer. None does if the message was sent rather than called. (If such a
    /// message came through a pool, the pool still takes the answer as a sign that the message was handled.)
    pub fn expects_answer(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| !caller.was_sent())
    }

    /// Returns the time until the caller's deadline, by the clock of the calling thread. This should be the thread that
    /// sent the package. Returns zero if the deadline has passed, and `None` if there is no deadline.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.caller.as_ref()?.deadline().filter(|deadline| *deadline != Moment::NEVER)?;
        Some(deadline.since(Moment::now()))
    }

    /// Returns whether the caller has stopped waiting. If it has, the answer will be dropped.
    pub fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::has_given_up)
    }

    /// Records that the message has been sent on and may be handled: see [`Answerer`].
    pub fn note_sent(&mut self) {
        self.is_sent = true;
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        let Some(caller) = self.caller.take() else { return };
        if self.is_sent {
            return drop(caller);
        }
        if caller::is_ending() || std::thread::panicking() {
            caller.drop_unopened();
        } else {
            caller.fail(CallError::Unhandled);
        }
    }
}

crate::util::debug::impl_debug!([] Answerer, self => "Answerer" { expects_answer: self.expects_answer(), .. });

/// The callback for the answer to a remote call.
type ThenAnswer = Box<dyn FnOnce(Result<Payload, CallError>) + Send>;

/// The stand-in for a remote caller.
struct AbsentCaller {
    /// `None` after the answer.
    then: Mutex<Option<ThenAnswer>>,
    deadline: Option<Moment>,
    has_given_up: AtomicBool,
}

/// A handle to report that the caller of a remote call has given up. Created by [`Package::with_caller`].
#[derive(Clone)]
pub struct Abandonment(Weak<AbsentCaller>);

impl Abandonment {
    /// Reports that the caller no longer waits. If the called process has not begun to handle the message, it never
    /// will. If the process still answers, the answer is passed on.
    pub fn abandon(&self) {
        if let Some(caller) = self.0.upgrade() {
            caller.has_given_up.store(true, Ordering::Relaxed);
        }
    }
}

crate::util::debug::impl_debug!([] Abandonment, self => "Abandonment");

impl AbsentCaller {
    fn tell(&self, result: Result<Payload, CallError>) {
        let Some(then) = lock(&self.then).take() else { return };
        if let Err(panic) = contain(Site::RemoteAnswer, || then(result)) {
            crate::util::log::error!(%panic, "what was to be done with the answer to a remote call panicked");
            caller::blame_nobody();
        }
    }
}

impl OutsideCaller for AbsentCaller {
    fn answer(&self, result: Result<Payload, CommandError>) {
        self.tell(result.map_err(|error| match error {
            CommandError::Call(error) => error,
            _ => CallError::Dropped,
        }));
    }

    /// Returns whether the transport has reported that the caller gave up, or the deadline has passed.
    fn is_abandoned(&self) -> bool {
        self.has_given_up.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| deadline <= Moment::now())
    }
}

impl Drop for AbsentCaller {
    fn drop(&mut self) {
        self.tell(Err(CallError::Dropped));
    }
}

impl Package {
    /// Creates a package for `to` with a message whose type is erased.
    pub fn with_payload(to: Pid, payload: Payload) -> Self {
        Self::from_parts(to, payload, None)
    }

    /// Creates a package with a call whose caller is outside this program. Meant for transports.
    ///
    /// `then` is called once, on the thread that answers, with the result for the caller: the value is the `Result` of
    /// the called method. If the package is refused, take it apart or drop it: `then` is called in that case, too. A
    /// panic in `then` is contained. `time_left` is the time that the caller had left when the package was sent; once
    /// it has passed, the call counts as abandoned. `None` means no limit.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::Package;
    /// use postroom::routing::{Node, Receiver};
    /// use std::sync::mpsc::channel;
    ///
    /// # #[process] struct Account { balance: i64 }
    /// # #[process]
    /// # impl Account {
    /// #     #[entry] fn serve(&mut self) {}
    /// #     #[message] fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
    /// # }
    /// let runtime = Runtime::new()?;
    /// let account = runtime.spawn(Account { balance: 100 }).serve()?;
    /// let (answers, answered) = channel();
    /// let message = Payload::new(AccountDeposit { amount: 5 });
    /// let package = Package::with_answer(account.pid(), message, None, move |answer| answers.send(answer).unwrap());
    /// Node::this().deliver(package)?;
    /// let answer = answered.recv()?.unwrap().take::<Result<i64, std::convert::Infallible>>().unwrap();
    /// assert_eq!(answer, Ok(105));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_answer(
        to: Pid,
        payload: Payload,
        time_left: Option<Duration>,
        then: impl FnOnce(Result<Payload, CallError>) + Send + 'static,
    ) -> Self {
        Self::with_caller(to, payload, time_left, then).0
    }

    /// Like [`with_answer`](Self::with_answer), but for a transport that is notified when the caller gives up before
    /// its deadline.
    pub fn with_caller(
        to: Pid,
        payload: Payload,
        time_left: Option<Duration>,
        then: impl FnOnce(Result<Payload, CallError>) + Send + 'static,
    ) -> (Self, Abandonment) {
        let deadline = time_left.map(|left| now_at(to).after(left));
        let has_given_up = AtomicBool::new(false);
        let caller = Arc::new(AbsentCaller { then: Mutex::new(Some(Box::new(then))), deadline, has_given_up });
        let abandonment = Abandonment(Arc::downgrade(&caller));
        let (caller, _ticket) = Caller::outside(caller, deadline);
        (Self::from_parts(to, payload, Some(caller)), abandonment)
    }

    /// Reassembles a package that was taken apart, for a transport that cannot send it after all.
    pub fn put_together(to: Pid, payload: Payload, mut answerer: Answerer) -> Self {
        Self::from_parts(to, payload, answerer.caller.take())
    }

    /// Takes the package apart. Returns its destination, the message, and the right to answer its caller. It is meant
    /// for transports, because they encode the message by its type.
    ///
    /// Code that knows the type uses [`Package::answer`] instead.
    pub fn take_apart(self) -> (Pid, Payload, Answerer) {
        // If the call was withdrawn, it counts as abandoned from here on.
        let _is_wanted = self.keep();
        let (to, payload, caller) = self.into_parts();
        (to, payload, Answerer { caller, is_sent: false })
    }
}

/// Returns the current time of a process's clock.
fn now_at(pid: Pid) -> Moment {
    if has_virtual_clock() {
        return Moment::now();
    }
    let owner = pid.serving().and_then(|pid| TABLE.living(pid)).and_then(Slot::owner);
    Moment::now_by(owner.and_then(|owner| owner.host.time_keeper()).and_then(TimeKeeper::clock_override))
}
