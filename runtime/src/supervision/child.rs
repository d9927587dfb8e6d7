//! What is said of a child before it is started.

use super::child_slot::KEEPS;
use super::plan::{ChildRules, Restart};
use crate::api::child_spawn::{ChildSpawn, Spawned};
use crate::pid::Pid;
use crate::slots::ProcessKind;
use std::any::{Any, TypeId};
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// How long a child has to end when it is told to, unless it is said otherwise.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A child of a supervisor: its name, how it is started, and what becomes of it when it ends.
///
/// The closure is called for each life of the child, with the [`ChildSpawn`] that it spawns through. What it gives says
/// of which type the child is: an address, what an async entry gives (the child has ended when the entry's body has),
/// the PID of a hand-written process, or a [`Tree`](super::Tree).
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

/// A child, whatever its type.
pub(super) struct Spec {
    pub(super) name: Arc<str>,
    pub(super) rules: ChildRules,
    pub(super) keeps: Option<usize>,
    pub(super) kind: Option<&'static ProcessKind>,
    pub(super) is_tree: bool,
    pub(super) start: Box<StartChild>,
}

pub(super) type StartChild = dyn FnMut(ChildSpawn) -> Result<StartedChild, Box<dyn Error + Send + Sync>> + Send;

/// What a closure gave.
pub(super) struct StartedChild {
    pub(super) pid: Pid,
    pub(super) subtree: Option<Arc<dyn Any + Send + Sync>>,
}

/// Why a child is not started again that was made by [`Child::once`], and is not temporary any more.
#[derive(Debug, thiserror::Error)]
#[error("it was started by a closure that can be called once; make it with `Child::new`, or leave it temporary")]
struct OneLife;

/// What is known of what a closure gives.
struct KindOfSpawned<S>(PhantomData<S>);

impl<S: Spawned<Process: 'static>> KindOfSpawned<S> {
    const KIND: &'static ProcessKind = &ProcessKind {
        name: std::any::type_name::<S::Process>,
        type_id: TypeId::of::<S::Process>(),
        answers: |_| false,
    };
}

impl<S: Spawned<Process: 'static>> Child<S> {
    /// A permanent child that has five seconds to end when it is told to (a [`Tree`](super::Tree): as long as its own
    /// children take), and whose unhandled messages are dead letters when it ends.
    pub fn new<E>(name: impl Into<Arc<str>>, mut start: impl FnMut(ChildSpawn) -> Result<S, E> + Send + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start = move |spawn: ChildSpawn| {
            let started = start(spawn).map_err(Into::into)?;
            Ok(StartedChild { pid: started.pid(), subtree: started.inheritance() })
        };
        let is_tree = S::HAS_ESTATE;
        let is_known = TypeId::of::<S::Process>() != TypeId::of::<()>();
        let stop_within = if is_tree { Duration::MAX } else { STOP_WITHIN };
        let spec = Spec {
            name: name.into(),
            rules: ChildRules { restart: Restart::Permanent, stop_within },
            keeps: None,
            kind: S::kind().map(|kind| kind.0).or_else(|| is_known.then_some(KindOfSpawned::<S>::KIND)),
            is_tree,
            start: Box::new(start),
        };
        Self { spec, started: PhantomData }
    }
}

impl<S: Spawned<Process: 'static>> Child<S> {
    /// A child with one life, as a session with a client has: [`temporary`](Self::temporary), so the closure is called
    /// once, and may give away what it has.
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
            None => Err(OneLife.into()),
        };
        Self::new::<Box<dyn Error + Send + Sync>>(name, start).temporary()
    }
}

impl<S> Child<S> {
    /// Which of its ends are failures, after which it is started again.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.spec.rules.restart = restart;
        self
    }

    /// It is started again however it ends: the default.
    pub fn permanent(self) -> Self {
        self.restart(Restart::Permanent)
    }

    /// It is started again when it ends of a failure, or cannot start; not when it is done, stopped or shut down.
    pub fn transient(self) -> Self {
        self.restart(Restart::Transient)
    }

    /// It is never started again.
    pub fn temporary(self) -> Self {
        self.restart(Restart::Temporary)
    }

    /// Sets how long it has to end when its supervisor tells it to; then it is killed. Zero: it is killed without being
    /// told; [`Duration::MAX`]: it is never killed.
    pub fn stop_within(mut self, deadline: Duration) -> Self {
        self.spec.rules.stop_within = deadline;
        self
    }

    /// What the child has not handled when it fails is handed to its successor, and so is what is sent to its address
    /// while it is down, up to 1,024 messages; calls go on. The message that it was handling is not delivered again.
    ///
    /// Costs each message to its address two atomic operations on a line that its senders share.
    pub fn keep_messages(self) -> Self {
        self.keep_at_most(KEEPS)
    }

    /// The same, with another bound on what is sent while it is down: one message more is refused as
    /// [`Full`](crate::error::SendFailure::Full). What it had in its mailbox is handed on in any case.
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
