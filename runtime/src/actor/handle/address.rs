//! Typed addresses.

use crate::actor::definition::{Handles, Protocol, Serves};
use crate::actor::send::{Addressed, SendTo};
use crate::{Call, Pid, SendError, actor::send::call::send, util::debug::impl_debug};
use std::hash::{Hash, Hasher};
use std::{convert::Infallible, fmt, marker::PhantomData, ops::Deref};

/// The address of a `P`, or of a process that implements the protocol `P`: a PID with a method for each message.
///
/// An address is sixteen bytes large, `Copy`, and valid forever: a message to a process that has ended is returned to
/// the sender. The type is checked again at delivery, so an address with the wrong type cannot do harm.
///
/// Its own methods are `pid` and `narrow`. All other methods stand for messages and return a [`Call`]. Operations on
/// the process itself, such as [`stop`](Pid::stop) and [`join`](Pid::join), are methods of its [`Pid`].
///
/// ```
/// use postroom::prelude::*;
///
/// #[process]
/// struct Disk { blocks: Vec<u8> }
///
/// #[process]
/// impl Disk {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn read(&mut self, block: usize) -> Option<u8> { self.blocks.get(block).copied() }
/// }
///
/// let runtime = Runtime::new()?;
/// let disk: Address<Disk> = runtime.spawn(Disk { blocks: vec![7, 8] }).serve()?;
/// assert_eq!(disk.read(1).wait()?, Some(8));
///
/// let same: Address<Disk> = runtime.address(disk.pid())?; // from a PID: the type is checked here
/// assert_eq!(same, disk);
/// let reader: Recipient<DiskRead, Option<u8>> = disk.narrow(); // any process with this message
/// assert_eq!(reader.call(DiskRead { block: 2 }).wait()?, None);
///
/// disk.pid().kill();
/// disk.pid().join().wait();
/// assert!(matches!(disk.read(0).wait(), Err(CallError::Gone(_)))); // forever: PIDs are not reused
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Address<P: Addressed + ?Sized> {
    handle: P::Handle,
}

impl<P: Addressed + ?Sized> Address<P> {
    /// Returns the address of a process that is assumed to be a `P`. This is for transports and names, which know the
    /// type but cannot inspect the process. If the process has another type, messages are unhandled. `Host::address`
    /// checks the type of a process in this program.
    pub fn assume(pid: Pid) -> Self {
        Self::new(pid)
    }

    pub(crate) fn new(pid: Pid) -> Self {
        Self { handle: P::handle_of(pid) }
    }

    /// Returns the PID of the process.
    pub fn pid(self) -> Pid {
        P::pid_of(&self.handle)
    }

    /// Narrows the address: to one protocol, as `Address<dyn Storage>`, or to one type of message, as
    /// `Recipient<Tick>`. The target is inferred, or written as `narrow::<Address<dyn Storage>>()`.
    pub fn narrow<N: NarrowOf<P>>(self) -> N {
        N::narrow_of(self)
    }
}

impl<P: Addressed + ?Sized> Deref for Address<P> {
    type Target = P::Handle;

    fn deref(&self) -> &P::Handle {
        &self.handle
    }
}

/// Implements copying, comparison and hashing by PID. A derive would require the same traits of the type parameters.
macro_rules! like_a_pid {
    ([$($generics:tt)*] $handle:ty, $($pid:tt)+) => {
        impl<$($generics)*> Clone for $handle {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($generics)*> Copy for $handle {}

        impl<$($generics)*> PartialEq for $handle {
            fn eq(&self, other: &Self) -> bool {
                self.$($pid)+ == other.$($pid)+
            }
        }

        impl<$($generics)*> Eq for $handle {}

        impl<$($generics)*> Hash for $handle {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.$($pid)+.hash(state);
            }
        }
    };
}

like_a_pid!([P: Addressed + ?Sized] Address<P>, pid());
like_a_pid!([M, T, E] Recipient<M, T, E>, pid);

impl<P: Addressed + ?Sized> From<Address<P>> for Pid {
    fn from(address: Address<P>) -> Self {
        address.pid()
    }
}

#[cfg(feature = "serde")]
mod serde_forms {
    use super::{Address, Addressed, Recipient};
    use crate::Pid;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::marker::PhantomData;

    /// Serializes as the PID.
    impl<P: Addressed + ?Sized> Serialize for Address<P> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.pid().serialize(serializer)
        }
    }

    /// Deserializes from a PID. The type is checked when a message is delivered.
    impl<'de, P: Addressed + ?Sized> Deserialize<'de> for Address<P> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Pid::deserialize(deserializer).map(Self::new)
        }
    }

    /// Serializes as the PID.
    impl<M, T, E> Serialize for Recipient<M, T, E> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.pid.serialize(serializer)
        }
    }

    /// Deserializes from a PID. The type is checked when a message is delivered.
    impl<'de, M, T, E> Deserialize<'de> for Recipient<M, T, E> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Pid::deserialize(deserializer).map(|pid| Self { pid, types: PhantomData })
        }
    }
}

impl_debug!([P: Addressed + ?Sized] Address<P>, self => "{}{}", P::LABEL, self.pid());

/// Prints the PID.
impl<P: Addressed + ?Sized> fmt::Display for Address<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pid().fmt(f)
    }
}

/// The types that an address of a `P` can be [narrowed](Address::narrow) to.
#[diagnostic::on_unimplemented(
    message = "the address of a `{P}` cannot be narrowed to `{Self}`",
    label = "neither a `Recipient` of a message that it handles nor the address of a protocol that it implements",
    note = "write `Recipient<Message, …>`, with the types of the answer, or `Address<dyn Protocol>`; or have it \
            inferred"
)]
pub trait NarrowOf<P: Addressed + ?Sized> {
    /// Returns the narrower address.
    fn narrow_of(address: Address<P>) -> Self;
}

impl<P: Serves<Q>, Q: Protocol + ?Sized> NarrowOf<P> for Address<Q> {
    fn narrow_of(address: Address<P>) -> Self {
        Self::new(address.pid())
    }
}

impl<P: Handles<M> + ?Sized, M: Send + 'static> NarrowOf<P> for Recipient<M, P::Answer, P::Error> {
    fn narrow_of(address: Address<P>) -> Self {
        Self::of(address.pid())
    }
}

/// The address of a process that handles messages of type `M`, and answers each with a `T` or fails with an `E`. It is
/// created by [`Address::narrow`] or `From`, is sixteen bytes large, and is `Copy`.
///
/// ```
/// use postroom::prelude::*;
///
/// struct Tick;
///
/// #[process]
/// struct Counter { ticks: u32 }
///
/// #[process]
/// impl Counter {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message(Tick)]
///     fn tick(&mut self, _tick: Tick) -> u32 { self.ticks += 1; self.ticks }
/// }
///
/// let runtime = Runtime::new()?;
/// let ticker: Recipient<Tick, u32> = runtime.spawn(Counter { ticks: 0 }).serve()?.into();
/// ticker.send(Tick)?;
/// assert_eq!(ticker.call(Tick).wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recipient<M, T = (), E = Infallible> {
    pid: Pid,
    types: PhantomData<fn(M) -> (T, E)>,
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Recipient<M, T, E> {
    /// Creates a recipient for a PID. The type is checked at delivery: if the process has no method for `M`, messages
    /// become dead letters and calls fail with [`CallError::Unhandled`](crate::CallError::Unhandled).
    pub fn of(pid: Pid) -> Self {
        Self { pid, types: PhantomData }
    }

    /// Returns the PID of the process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends `message` and expects no answer: see [`Call::send`].
    ///
    /// # Errors
    /// Those of [`Call::send`].
    pub fn send(&self, message: M) -> Result<(), SendError<M>> {
        send(self.pid, message)
    }

    /// Returns a call with `message`, without sending it. The type name of `M` serves as its method name.
    pub fn call(&self, message: M) -> Call<M, T, E> {
        Call::new(self.pid, std::any::type_name::<M>(), message)
    }
}

impl_debug!([M, T, E] Recipient<M, T, E>, self => "Recipient<{}>{}", std::any::type_name::<M>(), self.pid);

impl<P: Handles<M> + ?Sized, M: Send + 'static> From<Address<P>> for Recipient<M, P::Answer, P::Error> {
    fn from(address: Address<P>) -> Self {
        address.narrow()
    }
}

impl<M, P: Handles<M> + ?Sized> SendTo<M> for Address<P> {
    fn target(&self) -> Pid {
        self.pid()
    }
}

impl<M, T, E> SendTo<M> for Recipient<M, T, E> {
    fn target(&self) -> Pid {
        self.pid
    }
}
