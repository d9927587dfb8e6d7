//! Asking a process for its state, and for its next messages.

use crate::Pid;
use crate::engine::{blocking::block_in_place::while_blocked, shutdown::send_control};
use crate::process::control::Control;
use crate::process::description::{DescribeError, Described, Description, DescriptionRequest, StateShown};
use crate::process::tap::{Tap, TapSink};
use crate::routing::hosts::is_elsewhere;
use crate::slots::TABLE;
use crate::sync::Arc;
use crate::util::oneshot::Oneshot;
use std::task::{Context, Poll};
use std::{future::Future, pin::Pin, time::Duration};

impl Pid {
    /// Asks this process to show its state, in the `Debug` form of its fields, if its type has `#[process(inspect)]`.
    /// Fields with `#[inspect(skip)]` are left out. The process answers between two messages. Await the result, or
    /// `wait` for it on a plain thread; set a time limit, since a process in a long step answers only after that
    /// step.
    ///
    /// Costs one control message to the process, and the time for formatting.
    ///
    /// ```
    /// use postroom::prelude::*;
    ///
    /// #[process(inspect)]
    /// struct Account { balance: i64, #[inspect(skip)] key: [u8; 4] }
    ///
    /// #[process]
    /// impl Account {
    ///     #[entry]
    ///     fn open(&mut self) {}
    ///     #[message]
    ///     fn sign(&self) -> u8 { self.key[0] }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let account = runtime.spawn(Account { balance: 7, key: *b"1234" }).open()?;
    /// let state = account.pid().describe().wait()?;
    /// assert_eq!(state.text, "Account {\n    balance: 7,\n    ..\n}");
    /// # assert_eq!(account.sign().wait()?, b'1');
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(self) -> Describing {
        let told = Arc::new(Oneshot::new());
        let pid = self.resolve().unwrap_or(self);
        let request = DescriptionRequest::new(told.clone(), pid);
        if let Some(slot) = TABLE.living(pid).filter(|_| !is_elsewhere(pid)) {
            if !slot.metadata.kind().is_some_and(|kind| kind.is_inspected) {
                // The process need not be woken for this.
                request.answer(|_| Ok(StateShown::Hidden));
                return Describing { told, pid };
            }
            send_control(slot, pid.generation(), Control::Describe(request));
        }
        Describing { told, pid }
    }
}

impl Pid {
    /// Observes the next messages that this process takes from its mailbox: at most `most` messages (never more than
    /// 100), for at most `within` (never longer than ten seconds). Meanwhile each message costs the process a little
    /// more. A new tap replaces an earlier one.
    ///
    /// A tap shows the types of messages. It also shows the contents of a message if its method has
    /// `#[message(inspect)]`, in the `Debug` form of the arguments; `#[inspect(skip)]` leaves an argument out.
    /// Hand-written processes have no methods, so a tap shows only the types of their messages.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::time::Duration;
    ///
    /// #[process]
    /// struct Account { balance: i64 }
    ///
    /// #[process]
    /// impl Account {
    ///     #[entry]
    ///     fn open(&mut self) {}
    ///     #[message(inspect)]
    ///     fn deposit(&mut self, amount: i64, #[inspect(skip)] pin: u16) {
    ///         self.balance += amount * i64::from(pin != 0);
    ///     }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let account = runtime.spawn(Account { balance: 0 }).open()?;
    /// let tap = account.pid().tap(10, Duration::from_secs(1));
    /// account.deposit(7, 1234).wait()?;
    /// let text = format!("{:?}", tap.messages()[0].value);
    /// assert!(text.contains("deposit { amount: 7, .. }") && !text.contains("1234"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tap(self, most: usize, within: Duration) -> Tap {
        let pid = self.resolve().unwrap_or(self);
        let slot = TABLE.living(pid).filter(|_| !is_elsewhere(pid));
        let kind = slot.and_then(|slot| slot.metadata.kind());
        let (sink, tap) = TapSink::new(most, within, kind.map_or(|_, _| None, |kind| kind.show_message));
        if let Some(slot) = slot {
            send_control(slot, pid.generation(), Control::Tap(Box::new(sink)));
        }
        tap
    }
}

/// A request for the state of a process: await it, or call [`wait`](Self::wait). Created by [`Pid::describe`].
#[must_use = "await it, or call `.wait()`"]
pub struct Describing {
    told: Arc<Oneshot<Described>>,
    pid: Pid,
}

impl Describing {
    /// Blocks the thread until the process has answered. Inside a process, another thread runs the other processes in
    /// the meantime.
    ///
    /// # Errors
    /// See [`DescribeError`].
    pub fn wait(self) -> Result<Description, DescribeError> {
        while_blocked(|| self.told.wait(None)).unwrap_or(Err(DescribeError::Gone(self.pid)))
    }
}

impl Future for Describing {
    type Output = Result<Description, DescribeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.told.poll(context.waker())
    }
}

crate::util::debug::impl_debug!([] Describing, self => "Describing" { pid: self.pid, .. });
