//! Spawning a hand-written process: options, then an entry.

use super::{builder::Running, or_spawn, wanted};
use crate::actor::{definition::Source, tasks::ExitWaiter};
use crate::engine::lifecycle::spawn::{First, Noted, Options, PendingSpawn};
use crate::engine::{host::Scheduler, host::reuse::HostRef, pinned::note_entry};
use crate::process::{Process, control::EndWaiter, guardian::Guardian, kind::KindOfProcess};
use crate::{Bound, Payloads, Pid, SpawnError, sync::Arc, util::oneshot::Oneshot};
use std::{any::TypeId, panic::Location};

/// A hand-written [`Process`] that is about to be spawned: set its options, then call [`start`](Self::start), or
/// [`run`](Self::run) if the process has a result. Created by [`Host::spawn_process`](crate::Host::spawn_process).
#[must_use = "nothing is spawned until `.start(…)`"]
pub struct SpawnProcess<P: Process> {
    host: HostRef,
    place: &'static Location<'static>,
    source: Source<P, BeginByHand<P>>,
    options: Option<Box<Options>>,
}

type BeginByHand<P> = fn(&'static Scheduler, &mut PendingSpawn, P, &str, Payloads) -> Result<Pid, SpawnError>;

impl<P: Process> SpawnProcess<P> {
    pub(crate) fn new(host: HostRef, place: &'static Location<'static>, process: P) -> Self
    where
        P: Send,
    {
        let begin: BeginByHand<P> = |host, pending, process, entry, input| {
            host.spawn(pending, process, |process, ctx| process.init(ctx, entry, input).map(|()| First::Step))
        };
        Self { host, place, source: Source::Here(process, begin), options: None }
    }

    pub(crate) fn pinned(
        host: HostRef,
        place: &'static Location<'static>,
        make: impl FnOnce() -> P + Send + 'static,
    ) -> Self {
        Self { host, place, source: Source::Pinned(Box::new(make)), options: None }
    }

    fn option(mut self, set: impl FnOnce(&mut Options)) -> Self {
        set(self.options.get_or_insert_default());
        self
    }

    /// Delivers a request to stop as a cancel with reason `Normal`.
    pub(crate) fn told_to_stop(self) -> Self {
        self.option(|options| options.told_to_stop = true)
    }

    /// Starts the process at its first entry, without inputs.
    ///
    /// # Errors
    /// A [`SpawnError`]: [`Init`](SpawnError::Init) if `init` fails, [`Entry`](SpawnError::Entry) if it refuses the
    /// entry or its inputs. The other errors are due to an option, a limit or a shutdown.
    pub fn start(self) -> Result<Pid, SpawnError> {
        self.spawn(None, Payloads::new())
    }

    /// Starts the process at `entry`.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_at(self, entry: &str, input: Payloads) -> Result<Pid, SpawnError> {
        self.spawn(Some(entry), input)
    }

    fn spawn(self, entry: Option<&str>, input: Payloads) -> Result<Pid, SpawnError> {
        let (wanted, kind) = (wanted(self.options.as_deref()), KindOfProcess::<P>::KIND);
        or_spawn(wanted, kind, self.host, || self.begin(entry, input, None))
    }

    /// Starts the process at its first entry. The process must end with
    /// [`done_with`](crate::manual::StepOutput::done_with) and a `T`.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn run<T: Send + 'static>(self) -> Result<Running<P, T>, SpawnError> {
        self.begin_running(None, Payloads::new())
    }

    /// Starts the process at `entry`. The process must end with [`done_with`](crate::manual::StepOutput::done_with) and
    /// a `T`.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn run_at<T: Send + 'static>(self, entry: &str, input: Payloads) -> Result<Running<P, T>, SpawnError> {
        self.begin_running(Some(entry), input)
    }

    fn begin_running<T: Send + 'static>(
        self,
        entry: Option<&str>,
        input: Payloads,
    ) -> Result<Running<P, T>, SpawnError> {
        let ending = Arc::new(ExitWaiter(Oneshot::new()));
        let pid = self.begin(entry, input, Some(ending.clone()))?;
        Ok(Running::of(pid, ending))
    }

    /// Starts the process at `entry`, or at its first entry if that is `None`.
    fn begin(
        self,
        entry: Option<&str>,
        input: Payloads,
        result: Option<Arc<dyn EndWaiter>>,
    ) -> Result<Pid, SpawnError> {
        let Self { host: HostRef { scheduler: host, generation }, place, source, options } = self;
        let pending =
            |entry| PendingSpawn { generation, kind: KindOfProcess::<P>::KIND, entry, place, options, result };
        match source {
            Source::Here(process, begin) => {
                let (name, known) = entry_of(&process, entry);
                begin(host, &mut pending(known), process, name, input)
            }
            Source::Pinned(make) => {
                let entry = entry.map(str::to_owned);
                host.spawn_pinned(&mut pending(UNKNOWN), make, move |process, ctx| {
                    let (name, known) = entry_of(process, entry.as_deref());
                    if let Some(pid) = ctx.pid() {
                        note_entry(pid, known);
                    }
                    process.init(ctx, name, input).map(|()| First::Step)
                })
            }
        }
    }
}

options!([P: Process] SpawnProcess<P>);

/// The entry that is shown for a process that does not list the requested name.
const UNKNOWN: &&str = &"?";

/// Returns the name of the entry to start at, and that entry as the process lists it.
fn entry_of<'a, P: Process>(process: &P, asked: Option<&'a str>) -> (&'a str, &'static &'static str) {
    let has = process.entries();
    let name = asked.unwrap_or_else(|| has.first().copied().unwrap_or("main"));
    (name, has.iter().find(|known| **known == name).unwrap_or(UNKNOWN))
}

crate::util::debug::impl_debug!([P: Process] SpawnProcess<P>, self => "SpawnProcess<{}>", std::any::type_name::<P>());
