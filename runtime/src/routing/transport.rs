//! What carries packages, link messages and controls to another node.

use super::router::Receiver;
use super::transport_queue::TransportQueue;
use crate::call::package::{Package, Undeliverable};
use crate::exit::ExitReason;
use crate::links::protocol::LinkMessage;
use crate::pid::Pid;

/// What one process can impose on another: the operations [`stop`](Pid::stop), [`cancel`](Pid::cancel) and
/// [`kill`](Pid::kill), on their way to another node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ControlMessage {
    /// End after all earlier messages.
    Stop,
    /// End ahead of queued messages, with this reason, unless it decides otherwise.
    Cancel(ExitReason),
    /// End before the next message.
    Kill,
}

/// Carries what processes of this node send to one other node: connected with
/// [`Router::connect`](super::Router::connect).
///
/// `deliver`, of the trait [`Receiver`], gets messages and calls. A transport takes a package apart with
/// [`Package::take_apart`](crate::Package::take_apart), encodes the message by its type, and answers the caller, if
/// there is one, when the answer has come back. On the other node it delivers what has arrived with
/// [`Node`](super::Node): `deliver` a package made by
/// [`Package::with_answer`](crate::Package::with_answer), [`post_link`](super::Node::post_link),
/// [`control`](super::Node::control).
///
/// All methods are called on the thread that sends, usually inside a step of the sending process, and should queue and
/// return. They may be called on several threads at once, and may send, call, connect and disconnect. A panic in
/// `deliver` is the sender's; in the others it is contained and logged, and counts as a refusal.
///
/// # Order
///
/// What one process sends is passed on in its order: messages, link messages and controls alike, one call after the
/// other. The notice of its end is sent after everything that it has sent while it lived. A transport that keeps this
/// order for each pair of processes, and delivers it on the other node from one thread at a time, gives them the order
/// that they have within one node. Between different senders there is no order.
///
/// # A lost connection
///
/// When a transport finds that the other node is gone, it calls [`Router::disconnect`](super::Router::disconnect):
/// every link, monitor and join of this node's processes with that node ends with [`ExitReason::NodeLost`], each once.
/// Calls are the transport's own to fail: with `CallError::Died(ExitReason::NodeLost)` if the message may have
/// arrived, with `CallError::Gone(ExitReason::NodeLost)` if not. Whatever arrives later from before the loss must not
/// be delivered.
///
/// # Back-pressure
///
/// A transport that has no room returns the package with [`SendFailure::Full`](crate::error::SendFailure::Full). If
/// that is all, `send`, `try_send` and calls fail with `Full`, in a process too: the sender is not suspended, since
/// nothing would tell when there is room again. `send_wait` and `send_async` try again, a thousand times a second.
///
/// A transport that implements [`queue`](Self::queue) and [`deliver_beyond`](Self::deliver_beyond) has its senders
/// treated as those of a full local mailbox with a soft bound. What a process sends is accepted beyond the bound, and
/// the process is suspended after its step until there is room; if even that is too much, `send` waits inside the step,
/// or fails with `Full` if the process cannot wait: it was told to end, or its own mailbox is over its bound.
/// `try_send`, and a thread outside of processes, get `Full`; `send_wait` and `send_async` wait.
///
/// A transport that hands each package to a process of its own, as a message, inside `deliver`, has the bound of that
/// process's mailbox: that is a send by the sending process. Such a transport returns the package if the send is
/// refused; whichever PID its `Full` names, the sender sees the one that it has sent to.
pub trait Transport: Receiver {
    /// Accepts `message` from the process `from` of this node to the process `to` of the other. The default refuses.
    ///
    /// # Errors
    /// The message, if it cannot be sent: a link or monitor that it asks for fails as if the connection were lost. A
    /// transport that refuses the notice of an end has broken its contract with the other node, and must disconnect.
    /// After any refusal here it delivers no more link messages before it disconnects.
    fn send_link(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        let (_, _) = (from, to);
        Err(message)
    }

    /// Accepts a control for the process `to` of the other node. Returns whether it was accepted, which is what `stop`,
    /// `cancel` and `kill` return; whether the process is alive is not known here. The default refuses.
    fn control(&self, to: Pid, control: ControlMessage) -> bool {
        let (_, _) = (to, control);
        false
    }

    /// Returns the queue in which a package for `to` waits, after `deliver` has refused it as too much. Waits for room
    /// happen there. The default has none: no sender is suspended.
    fn queue(&self, to: Pid) -> Option<TransportQueue> {
        let _ = to;
        None
    }

    /// Accepts a package of a process that is suspended for it after its step, or that exits: beyond the bound at
    /// which `deliver` refuses, up to a second one, so that the memory stays bounded. The default is `deliver`.
    ///
    /// # Errors
    /// The package, with [`Full`](crate::error::SendFailure::Full) if that is too much too: the sending step waits.
    fn deliver_beyond(&self, package: Package) -> Result<(), Undeliverable> {
        self.deliver(package)
    }
}
