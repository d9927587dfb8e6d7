//! Placement: the threads that may run a process, either any worker or a thread of its own.
//!
//! Any process can have a thread of its own; a struct with `#[process(pinned)]` must have one. In return, its state and
//! the futures of its methods need not be `Send`. The macro does not see the attributes of the struct when it expands
//! an `impl`, so it generates the same text for both kinds, and [`PlacementOf`] selects by the type that the struct
//! declares.
//!
//! The machine stores all futures as `Send`. Those of a pinned process become `Send` by being [`Anchored`]: they are
//! polled and dropped only on the thread that made them.
//!
//! [`PlacementOf`]: super::probe::PlacementOf

use crate::util::thread_bound::Anchored;
use std::{future::Future, pin::Pin};

/// Processes that any worker may run.
#[derive(Debug)]
pub enum OnWorkers {}

/// Processes with `#[process(pinned)]`.
#[derive(Debug)]
pub enum OnItsThread {}

/// A placement that [`spawn`](crate::Host::spawn) accepts.
#[diagnostic::on_unimplemented(
    message = "a process that is `#[process(pinned)]` cannot be run by the workers",
    label = "it needs a thread of its own",
    note = "write `spawn_pinned(|| …)`: the closure makes the state, on that thread"
)]
pub trait Anywhere {}

impl Anywhere for OnWorkers {}

/// State that may move between threads: anything that is `Send`.
///
/// This is a separate trait, so that the compiler's error is about processes.
/// [`Migratable`](crate::generic::Migratable) repeats its text, because the compiler shows the text of the bound at the
/// spawn.
#[diagnostic::on_unimplemented(
    message = "the workers cannot run `{Self}`: its state is not `Send`",
    label = "not `Send`, so it has to stay on one thread",
    note = "write `#[process(pinned)]` before `struct {Self}` and spawn it with `spawn_pinned(|| …)` (a supervisor's \
            child: `of_pinned(|| …)`): it gets a thread of its own",
    note = "or make all of its fields `Send`, for instance with `Arc` in place of `Rc`; `fn send<T: Send>() {{}} \
            send::<{Self}>()` has the compiler name the field that is not"
)]
pub trait Movable: Send {}

#[diagnostic::do_not_recommend]
impl<P: Send> Movable for P {}

/// The future of a method, as the machine stores it.
pub type MethodFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Wraps the futures of a pinned process. For generated code.
#[derive(Debug)]
pub struct Pinned;

/// Wraps the futures of any other process. For generated code.
#[derive(Debug)]
pub struct NotPinned;

/// The two methods are named as advice, because the compiler shows their name when it rejects a future.
impl Pinned {
    /// Wraps a future that is made, polled and dropped on one thread.
    pub fn hold_only_what_is_send_or_write_process_pinned<'a, F>(self, future: F) -> MethodFuture<'a, F::Output>
    where
        F: Future + 'a,
    {
        Box::pin(Anchored::new(Box::pin(future)))
    }
}

impl NotPinned {
    /// Wraps a future that may be polled on any thread.
    pub fn hold_only_what_is_send_or_write_process_pinned<'a, F>(self, future: F) -> MethodFuture<'a, F::Output>
    where
        F: Future + Send + 'a,
    {
        Box::pin(future)
    }
}
