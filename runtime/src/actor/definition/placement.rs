//! Which threads may run a process: any worker, or one that it has to itself.
//!
//! Any process can have a thread of its own; a struct with `#[process(pinned)]` must. In return its state and the
//! futures of its methods need not be `Send`. What the macro generates for a method is the same text for both, since it
//! does not see the struct's attributes: [`Place`] finds out which of the two it is, by what the struct's half has
//! declared.
//!
//! All futures are `Send` for the machine that keeps them. Those of a pinned process are made so by being [`Anchored`]:
//! they are polled and dropped on the thread that made them, or not at all.

use crate::util::thread_bound::Anchored;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

/// The placement of processes that any worker may run.
#[derive(Debug)]
pub enum OnWorkers {}

/// The placement of processes that are `#[process(pinned)]`.
#[derive(Debug)]
pub enum OnItsThread {}

/// A placement for which there is [`spawn`](crate::Host::spawn).
#[diagnostic::on_unimplemented(
    message = "a process that is `#[process(pinned)]` cannot be run by the workers",
    label = "it needs a thread of its own",
    note = "write `spawn_pinned(|| …)`: the closure makes the state, on that thread"
)]
pub trait Anywhere {}

impl Anywhere for OnWorkers {}

/// State that may go from thread to thread, as that of a process does which the workers run: whatever is `Send`.
///
/// A bound of its own rather than `Send`, so that the compiler's error speaks of processes.
/// [`Migratable`](crate::generic::Migratable) has the same text: the compiler takes that of the bound which was written
/// where the process is spawned.
#[diagnostic::on_unimplemented(
    message = "the workers cannot run `{Self}`: its state is not `Send`",
    label = "not `Send`, so it has to stay on one thread",
    note = "write `#[process(pinned)]` before `struct {Self}` and spawn it with `spawn_pinned(|| …)` (a supervisor's child: \
            `of_pinned(|| …)`): it gets a thread of its own",
    note = "or make all of its fields `Send`, for instance with `Arc` in place of `Rc`; `fn send<T: Send>() {{}} \
            send::<{Self}>()` has the compiler name the field that is not"
)]
pub trait Movable: Send {}

#[diagnostic::do_not_recommend]
impl<P: Send> Movable for P {}

/// A future of a process's method, as its machine keeps it.
pub type Kept<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Stands for a process of type `P` with the placement `L`, to find out where its futures may go. For generated code.
#[derive(Debug)]
pub struct Place<P, L>(PhantomData<(P, L)>);

impl<P, L> Place<P, L> {
    #[expect(clippy::new_without_default, reason = "only the macro makes one")]
    /// The only one.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Of a pinned process: found first. For generated code.
pub trait OfPinned {
    /// What keeps its futures.
    fn keeper(&self) -> Pinned;
}

impl<P> OfPinned for Place<P, OnItsThread> {
    fn keeper(&self) -> Pinned {
        Pinned
    }
}

/// Of another whose state may change threads: found by one more reference, so later. For generated code.
pub trait OfMobile {
    /// What keeps its futures.
    fn keeper(&self) -> NotPinned;
}

impl<P: Send, L> OfMobile for &Place<P, L> {
    fn keeper(&self) -> NotPinned {
        NotPinned
    }
}

/// Of any that is not pinned. For generated code.
pub trait OfAll {
    /// What keeps its futures.
    fn keeper(&self) -> NotPinned;
}

impl<P, L> OfAll for &Place<P, L> {
    fn keeper(&self) -> NotPinned {
        NotPinned
    }
}

/// Of any other: found last. That its state should be `Send` is told once, where the whole of it is kept, and not again
/// for each method. For generated code.
pub trait OfFaulty {
    /// What keeps its futures.
    fn keeper(&self) -> Pinned;
}

impl<P, L> OfFaulty for &&Place<P, L> {
    fn keeper(&self) -> Pinned {
        Pinned
    }
}

/// Keeps the futures of a pinned process. For generated code.
#[derive(Debug)]
pub struct Pinned;

/// Keeps the futures of any other. For generated code.
#[derive(Debug)]
pub struct NotPinned;

/// The methods of the two have one name, which says what is to be done where a future is refused: the compiler shows
/// it.
impl Pinned {
    /// Keeps a future that is made, polled and dropped on one thread.
    pub fn hold_only_what_is_send_or_write_process_pinned<'a, F>(self, future: F) -> Kept<'a, F::Output>
    where
        F: Future + 'a,
    {
        Box::pin(Anchored::new(Box::pin(future)))
    }
}

impl NotPinned {
    /// Keeps a future that may be polled on any thread.
    pub fn hold_only_what_is_send_or_write_process_pinned<'a, F>(self, future: F) -> Kept<'a, F::Output>
    where
        F: Future + Send + 'a,
    {
        Box::pin(future)
    }
}
