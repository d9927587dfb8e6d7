//! A probe stands where a test wants to see what is sent.

use super::mailbox::Mailbox;
use super::runtime::Host;
use crate::actor::handle::address::Recipient;
use crate::actor::send::addressed::SendTo;
use crate::call::package::Package;
use crate::errors::SpawnError;
use crate::pid::Pid;
use crate::time::virtual_clock::ClockError;
use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// How long a probe waits, by the system's time, where the runtime goes by it. Far more than anything in a test takes;
/// a guess.
const LIMIT: Duration = Duration::from_secs(10);

/// How long it waits for threads outside when the runtime is idle. A guess: it is only waited for by a test that fails,
/// or one that has something sent by a thread that it does not wait for.
const GRACE: Duration = Duration::from_secs(1);

/// Receives messages of type `M` in a test, which says what it expects. Its PID can be given wherever a [`Recipient`],
/// or the PID of a process, is asked for.
///
/// Its methods are for the thread of a test: those that say what is expected panic where it does not come true, with
/// what came instead. `try_next`, `next_within` and `next_package` do not. Dropping it makes its PID unroutable.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::testing::{Clock, Probe};
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
/// probe.expect_nothing_for(Duration::from_secs(3600)); // at once: the clock is moved on
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Probe<M> {
    mailbox: Mailbox,
    host: Host,
    message: PhantomData<fn() -> M>,
}

/// Why what was expected has not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Nothing came in that time.
    #[error("expected a `{expected}`, and nothing came in {waited:?}")]
    Nothing {
        /// The type of what was expected.
        expected: &'static str,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Nothing came, and nothing can come before the clock is moved.
    #[error(
        "expected a `{expected}`, and nothing came; the runtime is idle, so nothing will before its clock is moved with \
         `advance` or `expect_within`"
    )]
    Idle {
        /// The type of what was expected.
        expected: &'static str,
    },
    /// A message of another type came. It is dropped.
    #[error("expected a `{expected}`, and a `{found}` came")]
    Other {
        /// The type of what was expected.
        expected: &'static str,
        /// The type of what came.
        found: &'static str,
    },
    /// The probe's clock cannot be moved, or its runtime cannot be waited for.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

impl<M: Send + 'static> Probe<M> {
    /// A probe for what processes of `host` send; its clock is theirs.
    ///
    /// # Errors
    /// [`SpawnError::Slots`] if all slots for processes are in use.
    pub fn new(host: Host) -> Result<Self, SpawnError> {
        Ok(Self { mailbox: Mailbox::with_time(Some(host.scheduler()))?, host, message: PhantomData })
    }

    /// Its PID.
    pub fn pid(&self) -> Pid {
        self.mailbox.pid()
    }

    /// Its address.
    pub fn recipient(&self) -> Recipient<M> {
        Recipient::of(self.pid())
    }

    /// The next message, if there is one now. After [`Host::until_idle`] whatever was on its way is there.
    ///
    /// # Panics
    /// If a message of another type is there.
    #[track_caller]
    pub fn try_next(&mut self) -> Option<M> {
        let package = self.mailbox.try_receive()?;
        Some(expected(Self::open(package)))
    }

    /// The next message. It waits, by the system's time: until the runtime is idle and a second longer for threads
    /// outside, if the runtime has a manual clock, which is not moved; or else for ten seconds.
    ///
    /// # Panics
    /// If there is none, or if a message of another type comes.
    #[track_caller]
    pub fn expect(&mut self) -> M {
        expected(self.next_package().and_then(Self::open))
    }

    /// The next message, which must come within `duration` of the runtime's clock: a manual one is moved on until it
    /// comes.
    ///
    /// # Panics
    /// If none comes, or one of another type.
    #[track_caller]
    pub fn expect_within(&mut self, duration: Duration) -> M {
        expected(self.next_within(duration))
    }

    /// Sees to it that nothing comes for `duration` of the runtime's clock: a manual one is moved on by it, any other
    /// one is waited for.
    ///
    /// # Panics
    /// If anything comes, or if the clock cannot be moved.
    #[track_caller]
    pub fn expect_nothing_for(&mut self, duration: Duration) {
        match self.package_within(duration) {
            Ok(None) => {}
            Ok(Some(package)) => panic!("expected nothing for {duration:?}, and a `{}` came", package.type_name()),
            Err(error) => panic!("{error}"),
        }
    }

    /// The next message, if one comes within `duration` of the runtime's clock: a manual one is moved on until it
    /// comes.
    ///
    /// # Errors
    /// [`ProbeError`] says what came instead.
    pub fn next_within(&mut self, duration: Duration) -> Result<M, ProbeError> {
        let package = self.package_within(duration)?;
        package.ok_or(ProbeError::Nothing { expected: type_name::<M>(), waited: duration }).and_then(Self::open)
    }

    /// The next message of whatever type, with the caller that waits for an answer to it (see [`Package::answer`]); it
    /// waits as [`Probe::expect`] does.
    ///
    /// # Errors
    /// [`ProbeError`] says why there is none.
    pub fn next_package(&mut self) -> Result<Package, ProbeError> {
        if !self.host.clock().is_manual() {
            let package = self.mailbox.receive_timeout(LIMIT);
            return package.ok_or(ProbeError::Nothing { expected: type_name::<M>(), waited: LIMIT });
        }
        // Whatever the processes have sent is there then; one that has sent it already may go on for ever.
        let idle = self.host.until_idle();
        if let Some(package) = self.mailbox.try_receive() {
            return Ok(package);
        }
        idle.map_err(ClockError::from)?;
        // A thread of the test, or one that handles commands, may be about to send.
        self.mailbox.receive_timeout(GRACE).ok_or(ProbeError::Idle { expected: type_name::<M>() })
    }

    /// The next package within that time of the runtime's clock.
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

/// What was expected, or a panic at the caller's place.
#[track_caller]
fn expected<M>(result: Result<M, ProbeError>) -> M {
    match result {
        Ok(message) => message,
        Err(error) => panic!("{error}"),
    }
}

impl<M> SendTo<M> for &Probe<M> {
    fn target(&self) -> Pid {
        self.mailbox.pid()
    }
}

impl<M: Send + 'static> From<&Probe<M>> for Recipient<M> {
    fn from(probe: &Probe<M>) -> Self {
        probe.recipient()
    }
}

impl<M> fmt::Debug for Probe<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe<{}>{}", type_name::<M>(), self.mailbox.pid())
    }
}
