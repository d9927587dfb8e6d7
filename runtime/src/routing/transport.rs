//! Transports. They carry packages, link messages and controls to another node.

use super::transport_queue::TransportQueue;
use crate::call::package::{Package, Undeliverable};
use crate::exit::ExitReason;
use crate::links::protocol::LinkMessage;
use crate::pid::Pid;

/// A destination for packages: a transport to another node, a host, or the mailbox of a process.
pub trait Receiver: Send + Sync {
    /// Accepts `package`, to be handled later. Called on the sending thread, inside a send or a call, so it should
    /// enqueue the package and return.
    ///
    /// # Errors
    /// Returns [`Undeliverable`] with the package if its destination is not here: the sender gets its message back.
    fn deliver(&self, package: Package) -> Result<(), Undeliverable>;
}

/// A control operation of one process on another, [`stop`](Pid::stop), [`cancel`](Pid::cancel) or [`kill`](Pid::kill),
/// on its way to another node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ControlMessage {
    /// Ends the process after all earlier messages.
    Stop,
    /// Ends the process ahead of queued messages, with this reason, unless the process handles the cancel itself.
    Cancel(ExitReason),
    /// Ends the process before its next message.
    Kill,
}

/// Carries what processes of this node send to one other node. Connected with
/// [`Router::connect`](super::Router::connect).
///
/// `deliver`, of the trait [`Receiver`], receives messages and calls. A transport takes a package apart with
/// [`Package::take_apart`](crate::Package::take_apart), encodes the message by its type, and answers the caller, if
/// there is one, when the answer comes back. On the other node, it passes everything that arrives to
/// [`Node`](super::Node): packages, made by [`Package::with_answer`](crate::Package::with_answer), to `deliver`, link
/// messages to [`post_link`](super::Node::post_link), and controls to [`control`](super::Node::control).
///
/// All methods are called on the sending thread, usually inside a step of the sending process, and should enqueue and
/// return. They may be called on several threads at once, and may send, call, connect and disconnect. A panic in
/// `deliver` propagates to the sender; a panic in another method is contained and logged, and counts as a refusal.
///
/// # Order
///
/// Messages, link messages and controls of one process are passed on in the order in which it sends them, one call
/// after the other. The notice of the process's end follows everything that it sent while it was alive. A transport
/// that keeps this order for each pair of processes, and delivers on the other node from one thread at a time,
/// preserves the order that the processes have within one node. There is no order between different senders.
///
/// # A lost connection
///
/// When a transport detects that the other node is gone, it calls [`Router::disconnect`](super::Router::disconnect):
/// every link, monitor and join of this node's processes with that node ends with [`ExitReason::NodeLost`], exactly
/// once. The transport itself must fail its calls: with `CallError::Died(ExitReason::NodeLost)` if the message may have
/// arrived, with `CallError::Gone(ExitReason::NodeLost)` if not. Anything from before the loss that arrives later must
/// not be delivered.
///
/// # Back-pressure
///
/// A transport that has no room returns the package with [`SendFailure::Full`](crate::error::SendFailure::Full). If it
/// does nothing else, `send`, `try_send` and calls fail with `Full`, even in a process: the sender is not suspended,
/// since nothing would signal that there is room again. `send_wait` and `send_async` retry a thousand times per second.
///
/// If a transport implements [`queue`](Self::queue) and [`deliver_beyond`](Self::deliver_beyond), its senders are
/// treated like those of a full local mailbox with a soft bound. Messages of a process are accepted beyond the bound,
/// and the process is suspended after its step until there is room. If the transport refuses a message even beyond the
/// bound, `send` waits inside the step, or fails with `Full` if the process cannot wait because it was told to end or
/// its own mailbox is over its bound. `try_send`, and any send by a thread outside of processes, fails with `Full`;
/// `send_wait` and `send_async` wait.
///
/// A transport may forward each package, inside `deliver`, as a message to a process of its own. It is then bounded by
/// that process's mailbox, since forwarding counts as a send by the sending process. Such a transport returns the
/// package if the send is refused; whichever PID its `Full` names, the sender sees the PID to which it has sent.
pub trait Transport: Receiver {
    /// Accepts `message` from the process `from` of this node to the process `to` of the other node. The default
    /// refuses.
    ///
    /// # Errors
    /// Returns the message if it cannot be sent. A link or monitor that it requests then fails as if the connection
    /// were lost. A transport that refuses the notice of an end has broken its contract with the other node, and must
    /// disconnect. After any refusal it must deliver no more link messages before it disconnects.
    fn send_link(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        let (_, _) = (from, to);
        Err(message)
    }

    /// Accepts a control for the process `to` of the other node. Returns whether it was accepted; `stop`, `cancel` and
    /// `kill` return the same value. Whether the process is alive is unknown here. The default refuses.
    fn control(&self, to: Pid, control: ControlMessage) -> bool {
        let (_, _) = (to, control);
        false
    }

    /// Returns the queue in which senders to `to` wait for room, after `deliver` has refused a package with `Full`. By
    /// default there is none, and no sender is suspended.
    fn queue(&self, to: Pid) -> Option<TransportQueue> {
        let _ = to;
        None
    }

    /// Accepts a package beyond the bound at which `deliver` refuses, from a process that is then suspended after its
    /// step, or that is exiting. There should be a second bound, so that memory stays bounded. The default calls
    /// `deliver`.
    ///
    /// # Errors
    /// Returns the package with [`Full`](crate::error::SendFailure::Full) if there is no room even beyond the bound;
    /// the sending step then waits.
    fn deliver_beyond(&self, package: Package) -> Result<(), Undeliverable> {
        self.deliver(package)
    }
}
