//! Probes: receivers for tests, with expectations.

use super::mailbox::Mailbox;
use super::runtime::Host;
use crate::actor::send::SendTo;
use crate::time::virtual_clock::ClockError;
use crate::{Package, Pid, Recipient, SpawnError};
use std::{any::type_name, convert::Infallible, marker::PhantomData, time::Duration};

/// The time limit of an expectation if the runtime uses the system's time. A guess: far longer than a test takes.
const LIMIT: Duration = Duration::from_secs(10);

/// The time to wait for outside threads once the runtime is idle. A guess: only a test that fails, or that receives
/// messages from a thread that it does not join, waits that long.
const GRACE: Duration = Duration::from_secs(1);

/// Receives messages of type `M` in a test, and checks expectations. It can be used like a [`Recipient`] or a PID.
///
/// Its methods are for the thread of a test. The `expect` methods panic if the expectation fails, and show the type of
/// the message that arrived instead. `try_next` panics only if a message of another type has arrived; `next_within` and
/// `next_package` return errors instead. Dropping the probe makes its PID unroutable.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::test::{Clock, Probe};
/// use std::time::Duration;
///
/// #[process]
/// struct Doubler;
///
/// #[process]
/// impl Doubler {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn double(&mut self, number: i64, to: Recipient<i64>) { let _gone = to.send(2 * number); }
/// }
///
/// let clock = Clock::manual();
/// let runtime = Runtime::builder().clock(clock.clone()).build()?;
/// let mut probe = Probe::<i64>::new(runtime.host())?;
/// let doubler = runtime.spawn(Doubler).serve()?;
/// doubler.double(21, probe.recipient()).send()?;
/// assert_eq!(probe.expect(), 42);
/// probe.expect_nothing_for(Duration::from_secs(3600)); // returns at once: the clock is advanced
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `T` and `E` are the answer types of its [`recipient`](Self::recipient), for a probe that stands in for a process
/// that is called: [`next_package`](Self::next_package) returns the call, and [`Package::answer`] or
/// [`Package::answer_result`] answers it.
pub struct Probe<M, T = (), E = Infallible> {
    mailbox: Mailbox,
    host: Host,
    types: PhantomData<fn(M) -> (T, E)>,
}

/// The reason why an expectation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Nothing arrived in time.
    #[error("expected a `{expected}`, but nothing arrived within {waited:?}")]
    Nothing {
        /// The expected type.
        expected: &'static str,
        /// The time waited.
        waited: Duration,
    },
    /// Nothing arrived, and nothing can arrive before the clock is advanced.
    #[error(
        "expected a `{expected}`, but nothing arrived; the runtime is idle, so nothing will before its clock is \
         advanced with `advance` or `expect_within`"
    )]
    Idle {
        /// The expected type.
        expected: &'static str,
    },
    /// A message of another type arrived, and was dropped.
    #[error("expected a `{expected}`, but a `{found}` arrived")]
    Other {
        /// The expected type.
        expected: &'static str,
        /// The type that arrived.
        found: &'static str,
    },
    /// The clock cannot be advanced, or the runtime cannot be waited for.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Probe<M, T, E> {
    /// Creates a probe for messages from processes of `host`. It uses their clock.
    ///
    /// # Errors
    /// [`SpawnError::Slots`] if all slots for processes are in use.
    pub fn new(host: Host) -> Result<Self, SpawnError> {
        Ok(Self { mailbox: Mailbox::of_node(host.node(), Some(host.scheduler()))?, host, types: PhantomData })
    }

    /// Returns the PID of the probe.
    pub fn pid(&self) -> Pid {
        self.mailbox.pid()
    }

    /// Returns the address of the probe.
    pub fn recipient(&self) -> Recipient<M, T, E> {
        Recipient::of(self.pid())
    }

    /// Returns the next message, if there is one now. After [`Host::until_idle`], all messages from processes have
    /// arrived.
    ///
    /// # Panics
    /// If there is a message of another type.
    #[track_caller]
    pub fn try_next(&mut self) -> Option<M> {
        let package = self.mailbox.try_receive()?;
        Some(expected(Self::open(package)))
    }

    /// Returns the next message. With a manual clock, it waits until the runtime is idle, and at most one second more
    /// for outside threads; the clock is not advanced. With another clock, it waits at most ten seconds. Both limits
    /// are in system time.
    ///
    /// # Panics
    /// If no message arrives, or one of another type.
    #[track_caller]
    pub fn expect(&mut self) -> M {
        expected(self.next_package().and_then(Self::open))
    }

    /// Returns the next message, which must arrive within `duration` of the runtime's clock; a manual clock is
    /// advanced until it arrives.
    ///
    /// # Panics
    /// If no message arrives, or one of another type.
    #[track_caller]
    pub fn expect_within(&mut self, duration: Duration) -> M {
        expected(self.next_within(duration))
    }

    /// Checks that nothing arrives for `duration` of the runtime's clock. A manual clock is advanced by that time; with
    /// any other clock, the method waits.
    ///
    /// # Panics
    /// If anything arrives, or if the clock cannot be advanced.
    #[track_caller]
    pub fn expect_nothing_for(&mut self, duration: Duration) {
        match self.package_within(duration) {
            Ok(None) => {}
            Ok(Some(package)) => panic!("expected nothing for {duration:?}, but a `{}` arrived", package.type_name()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the next message, like [`expect_within`](Self::expect_within), or the reason why there is none.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn next_within(&mut self, duration: Duration) -> Result<M, ProbeError> {
        let package = self.package_within(duration)?;
        package.ok_or(ProbeError::Nothing { expected: type_name::<M>(), waited: duration }).and_then(Self::open)
    }

    /// Returns the next message of any type, with its caller (see [`Package::answer`]). Waits like [`Probe::expect`].
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn next_package(&mut self) -> Result<Package, ProbeError> {
        if !self.host.clock().is_manual() {
            let package = self.mailbox.receive_timeout(LIMIT);
            return package.ok_or(ProbeError::Nothing { expected: type_name::<M>(), waited: LIMIT });
        }
        // After this, all messages from processes have arrived. The mailbox is checked even if the wait fails, because
        // a process may have sent a message and then run forever.
        let idle = self.host.until_idle();
        if let Some(package) = self.mailbox.try_receive() {
            return Ok(package);
        }
        idle.map_err(ClockError::from)?;
        // A thread of the test, or a handler of commands, may be about to send.
        self.mailbox.receive_timeout(GRACE).ok_or(ProbeError::Idle { expected: type_name::<M>() })
    }

    fn package_within(&mut self, duration: Duration) -> Result<Option<Package>, ProbeError> {
        let clock = self.host.clock();
        if !clock.is_manual() {
            return Ok(self.mailbox.receive_timeout(duration));
        }
        let mut package = None;
        clock.advance_until(duration, || {
            package = self.mailbox.try_receive();
            package.is_some()
        })?;
        Ok(package)
    }

    fn open(package: Package) -> Result<M, ProbeError> {
        let found = package.type_name();
        package.take().map_err(|_| ProbeError::Other { expected: type_name::<M>(), found })
    }
}

#[track_caller]
fn expected<M>(result: Result<M, ProbeError>) -> M {
    match result {
        Ok(message) => message,
        Err(error) => panic!("{error}"),
    }
}

impl<M, T, E> SendTo<M> for &Probe<M, T, E> {
    fn target(&self) -> Pid {
        self.mailbox.pid()
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> From<&Probe<M, T, E>> for Recipient<M, T, E> {
    fn from(probe: &Probe<M, T, E>) -> Self {
        probe.recipient()
    }
}

crate::util::debug::impl_debug!([M, T, E] Probe<M, T, E>, self => "Probe<{}>{}", type_name::<M>(), self.mailbox.pid());
