//! The specification of a child.

use super::child_slot::KEEPS;
use super::plan::{ChildRules, Restart};
use crate::api::child_spawn::{AnyRegistry, KnownType, Spawned};
use crate::{ChildSpawn, Pid, slots::ProcessKind};
use std::{error::Error, fmt, marker::PhantomData, sync::Arc, time::Duration};

/// The default time that a child may take to end when it is told to.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A child of a supervisor: its name, how it is started, and when it is restarted.
///
/// The closure is called for each start, with the [`ChildSpawn`] to spawn through. Its return value determines the
/// child's type: an address, the result of an async entry (the child ends when the entry's body does), the PID of a
/// hand-written process, or a [`Tree`](super::Tree).
///
/// ```
/// use postroom::prelude::*;
/// use postroom::supervision::{Child, Supervisor};
/// use std::time::Duration;
///
/// #[process]
/// #[derive(Default)]
/// struct Parser { lines: u64 }
///
/// #[process]
/// impl Parser {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn parse(&mut self, line: String) -> usize { self.lines += 1; line.len() }
/// }
///
/// let runtime = Runtime::new()?;
/// let parser = Child::new("parser", |spawn| spawn.of(Parser::default()).serve());
/// let tree = Supervisor::one_for_one()
///     .add(parser.transient().stop_within(Duration::from_secs(1)).keep_messages())
///     .spawn(&runtime)?;
/// let parser: Address<Parser> = tree.child("parser")?;
/// assert_eq!(parser.parse("a line".to_string()).wait()?, 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Child<S> {
    pub(super) spec: Spec,
    started: PhantomData<fn() -> S>,
}

/// A child with its type erased.
pub(super) struct Spec {
    pub(super) name: Arc<str>,
    pub(super) rules: ChildRules,
    pub(super) keeps: Option<usize>,
    pub(super) kind: Option<&'static ProcessKind>,
    pub(super) is_tree: bool,
    pub(super) start: Box<StartChild>,
}

pub(super) type StartChild = dyn FnMut(ChildSpawn) -> Result<StartedChild, Box<dyn Error + Send + Sync>> + Send;

/// The value that the closure returned, with its type erased.
pub(super) struct StartedChild {
    pub(super) pid: Pid,
    pub(super) subtree: Option<AnyRegistry>,
}

/// The error when a child made by [`Child::once`] is to be restarted, because it is no longer temporary.
#[derive(Debug, thiserror::Error)]
#[error("it was started by a closure that can be called only once; make it with `Child::new`, or leave it temporary")]
struct StartedOnce;

impl<S: Spawned> Child<S> {
    /// Describes a permanent child that may take five seconds to end when it is told to; a [`Tree`](super::Tree) may
    /// take as long as its own children do. The child's unhandled messages become dead letters when it ends.
    ///
    /// An error or a panic of `start` counts as a failure of the child, and is retried.
    pub fn new<E>(name: impl Into<Arc<str>>, mut start: impl FnMut(ChildSpawn) -> Result<S, E> + Send + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start = move |spawn: ChildSpawn| {
            let started = start(spawn).map_err(Into::into)?;
            Ok(StartedChild { pid: started.pid(), subtree: started.subtree() })
        };
        let is_tree = S::IS_TREE;
        let stop_within = if is_tree { Duration::MAX } else { STOP_WITHIN };
        let spec = Spec {
            name: name.into(),
            rules: ChildRules { restart: Restart::Permanent, stop_within },
            keeps: None,
            kind: S::Process::KIND.map(|kind| kind.0),
            is_tree,
            start: Box::new(start),
        };
        Self { spec, started: PhantomData }
    }

    /// Describes a child that is started once, such as a session with a client: it is [`temporary`](Self::temporary),
    /// so the closure may move out what it captured.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::supervision::{Child, Supervisor};
    /// use std::net::{TcpListener, TcpStream};
    ///
    /// #[process]
    /// struct Session { stream: TcpStream }
    ///
    /// #[process]
    /// impl Session {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message]
    ///     fn client(&mut self) -> bool { self.stream.peer_addr().is_ok() }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let sessions = Supervisor::dynamic().spawn(&runtime)?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let _client = TcpStream::connect(listener.local_addr()?)?;
    /// let (stream, client) = listener.accept()?;
    /// let session = Child::once(client.to_string(), |spawn| spawn.of(Session { stream }).serve());
    /// assert!(sessions.start(session)?.client().wait()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn once<E>(name: impl Into<Arc<str>>, start: impl FnOnce(ChildSpawn) -> Result<S, E> + Send + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut start = Some(start);
        let start = move |spawn| match start.take() {
            Some(start) => start(spawn).map_err(Into::into),
            None => Err(StartedOnce.into()),
        };
        Self::new::<Box<dyn Error + Send + Sync>>(name, start).temporary()
    }
}

impl<S> Child<S> {
    /// Sets which outcomes lead to a restart of the child.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.spec.rules.restart = restart;
        self
    }

    /// Restarts the child no matter how it ends. This is the default.
    pub fn permanent(self) -> Self {
        self.restart(Restart::Permanent)
    }

    /// Restarts the child when it fails or cannot start, but not when it ends normally or is stopped or shut down.
    pub fn transient(self) -> Self {
        self.restart(Restart::Transient)
    }

    /// Never restarts the child.
    pub fn temporary(self) -> Self {
        self.restart(Restart::Temporary)
    }

    /// Sets how long the child may take to end when its supervisor tells it to, before it is killed. Zero kills it
    /// without telling it first; [`Duration::MAX`] never kills it.
    pub fn stop_within(mut self, deadline: Duration) -> Self {
        self.spec.rules.stop_within = deadline;
        self
    }

    /// Passes unhandled messages of a failed child to its successor, and also up to 1,024 messages that are sent to its
    /// address while it is down; calls stay pending. The message that the child was handling is not delivered again.
    ///
    /// Each message to its address then costs two additional atomic operations on a shared cache line.
    pub fn keep_messages(self) -> Self {
        self.keep_at_most(KEEPS)
    }

    /// Like [`keep_messages`](Self::keep_messages), with another limit for messages sent while the child is down:
    /// further messages are refused as [`Full`](crate::error::SendFailure::Full). The limit does not apply to the
    /// child's mailbox, which is passed on whole.
    pub fn keep_at_most(mut self, messages: usize) -> Self {
        self.spec.keeps = Some(messages);
        self
    }
}

impl<S> fmt::Debug for Child<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { name, rules, keeps, .. } = &self.spec;
        f.debug_struct("Child").field("name", name).field("rules", rules).field("keeps", keeps).finish_non_exhaustive()
    }
}
