//! Tells the measuring thread that a run has ended.

use postroom::{Mailbox, Recipient};
use std::marker::PhantomData;

/// A mailbox for the result of a run.
pub struct Finish<T> {
    mailbox: Mailbox,
    result: PhantomData<T>,
}

impl<T: Send + 'static> Finish<T> {
    pub fn new() -> Self {
        Self { mailbox: Mailbox::new().expect("a mailbox"), result: PhantomData }
    }

    /// Returns the receiver of the notification.
    pub fn recipient(&self) -> Recipient<T> {
        Recipient::of(self.mailbox.pid())
    }

    pub fn wait(&mut self) -> T {
        self.mailbox.receive().take().expect("what the recipient takes")
    }
}
