//! The two kinds of mailboxes. Each workload is written once and compiled for each kind, without a branch at run time.

use std::future::{Future, ready};

use ::tokio::sync::mpsc;

/// A kind of mailbox.
pub trait Kind: Copy + Send + Sync + 'static {
    type Address<T: Send + 'static>: Address<T>;
    type Inbox<T: Send + 'static>: Inbox<T>;

    fn mailbox<T: Send + 'static>(self) -> (Self::Address<T>, Self::Inbox<T>);
}

/// The sending end of a mailbox.
pub trait Address<T>: Clone + Send + Sync + 'static {
    /// Sends a message. If the mailbox has a bound, waits for room.
    fn send(&self, message: T) -> impl Future<Output = ()> + Send;

    /// Sends a message from a thread outside of the runtime.
    fn send_from_outside(&self, message: T);
}

/// The receiving end of a mailbox.
pub trait Inbox<T>: Send + 'static {
    /// Returns the next message, or `None` once all addresses have been dropped.
    fn receive(&mut self) -> impl Future<Output = Option<T>> + Send;
}

#[derive(Clone, Copy)]
pub struct Unbounded;

/// A mailbox that holds the given number of messages.
#[derive(Clone, Copy)]
pub struct Bounded(pub usize);

impl Kind for Unbounded {
    type Address<T: Send + 'static> = mpsc::UnboundedSender<T>;
    type Inbox<T: Send + 'static> = mpsc::UnboundedReceiver<T>;

    fn mailbox<T: Send + 'static>(self) -> (Self::Address<T>, Self::Inbox<T>) {
        mpsc::unbounded_channel()
    }
}

impl Kind for Bounded {
    type Address<T: Send + 'static> = mpsc::Sender<T>;
    type Inbox<T: Send + 'static> = mpsc::Receiver<T>;

    fn mailbox<T: Send + 'static>(self) -> (Self::Address<T>, Self::Inbox<T>) {
        mpsc::channel(self.0)
    }
}

/// The error of a send to a process that has exited. No workload should make such a send, so the error would mean a
/// mistake in the workload.
const LOST: &str = "the receiver lives";

impl<T: Send + 'static> Address<T> for mpsc::UnboundedSender<T> {
    fn send(&self, message: T) -> impl Future<Output = ()> + Send {
        self.send(message).expect(LOST);
        ready(())
    }

    fn send_from_outside(&self, message: T) {
        self.send(message).expect(LOST);
    }
}

impl<T: Send + 'static> Address<T> for mpsc::Sender<T> {
    async fn send(&self, message: T) {
        self.send(message).await.expect(LOST);
    }

    fn send_from_outside(&self, message: T) {
        self.blocking_send(message).expect(LOST);
    }
}

impl<T: Send + 'static> Inbox<T> for mpsc::UnboundedReceiver<T> {
    fn receive(&mut self) -> impl Future<Output = Option<T>> + Send {
        self.recv()
    }
}

impl<T: Send + 'static> Inbox<T> for mpsc::Receiver<T> {
    fn receive(&mut self) -> impl Future<Output = Option<T>> + Send {
        self.recv()
    }
}
