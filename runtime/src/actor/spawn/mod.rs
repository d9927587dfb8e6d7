//! Spawning processes.
//!
//! * [`builder`]: a struct with `#[process]`; [`by_hand`]: a hand-written process;
//! * this file: the options of both, and returning the holder of a name instead of spawning a second process.

use crate::engine::{host::reuse::HostRef, lifecycle::spawn::Options};
use crate::{Pid, SpawnError, slots::ProcessKind, sync::Arc};

/// Implements the options of a spawn, through its method `option`.
macro_rules! options {
    ([$($generics:tt)*] $spawn:ty) => {
        impl<$($generics)*> $spawn {
            /// Registers the process under a name on its host. The name is free again before the process's end is
            /// reported. If another live process holds the name, the spawn fails with [`SpawnError::Name`]: see
            /// [`or_existing`](Self::or_existing).
            pub fn named(self, name: impl Into<Arc<str>>) -> Self {
                self.option(|options| options.name = Some(name.into()))
            }

            /// Links the process with its spawner before it runs: see [`Pid::link`]. Outside of a process, the spawn
            /// fails with [`SpawnError::NoProcess`], as with `monitored` and `owned`.
            pub fn linked(self) -> Self {
                self.option(|options| options.bound.linked = true)
            }

            /// Sends the spawner a [`Down`](crate::Down) when the process ends, however soon: see [`Pid::monitor`].
            pub fn monitored(self) -> Self {
                self.option(|options| options.bound.monitored = true)
            }

            /// Tells the process to end, with reason [`Shutdown`](crate::ExitReason::Shutdown), when its spawner has
            /// ended for any reason. The spawner is not notified of the process's end.
            pub fn owned(self) -> Self {
                self.option(|options| options.bound.owned = true)
            }

            /// Returns the process that already has the name, if there is one, and drops this one: of several
            /// concurrent spawns, only one takes effect. The other options, such as `linked`, apply only to a process
            /// that is spawned. An existing process may still be starting.
            ///
            /// This is only for processes without a result: those with a sync entry, and hand-written ones that are
            /// started with `start`. A result belongs to its spawner. So for a process with a result, a taken name is
            /// an error: [`SpawnError::Name`], with the holder.
            ///
            /// ```
            /// # use postroom::prelude::*;
            /// # #[process]
            /// # #[derive(Default)]
            /// # struct Cache;
            /// # #[process]
            /// # impl Cache { #[entry] fn serve(&mut self) {} }
            /// # let runtime = Runtime::new()?;
            /// let first = runtime.spawn(Cache::default()).named("cache").or_existing().serve()?;
            /// let second = runtime.spawn(Cache::default()).named("cache").or_existing().serve()?;
            /// assert_eq!(first, second);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// The entry returns [`SpawnError::NameType`] if the holder of the name has another type.
            pub fn or_existing(self) -> Self {
                self.option(|options| options.or_existing = true)
            }

            /// Labels the process with a text that [`info`](Pid::info) and the statistics show.
            pub fn label(self, label: impl Into<Arc<str>>) -> Self {
                self.option(|options| options.label = Some(label.into()))
            }

            /// Bounds the mailbox: see [`Bound`]. Zero, and a soft bound above [`Bound::MOST_SOFT`], are refused.
            pub fn mailbox(self, bound: Bound) -> Self {
                self.option(|options| options.mailbox = Some(bound))
            }

            /// Sets a value that this process, and all processes that it spawns, can read with
            /// [`Context::value`](crate::Context::value).
            pub fn value<T: Send + Sync + 'static>(self, value: T) -> Self {
                self.option(|options| {
                    options.values.insert(TypeId::of::<T>(), Arc::new(value));
                })
            }

            /// Sets the supervisor of the process, and whether its spawner monitors and owns it.
            pub(crate) fn for_parent(self, guardian: Option<Arc<dyn Guardian>>, is_owned: bool) -> Self {
                if guardian.is_none() && !is_owned {
                    return self;
                }
                self.option(|options| {
                    options.guardian = guardian;
                    options.bound.monitored |= is_owned;
                    options.bound.owned |= is_owned;
                })
            }

            /// Records the PID of the process for its parent, if `noted` is given.
            pub(crate) fn noted(self, noted: Option<Noted>) -> Self {
                match noted {
                    Some(noted) => self.option(|options| options.noted = Some(noted)),
                    None => self,
                }
            }
        }
    };
}

pub(crate) mod builder;
pub(crate) mod by_hand;

pub(crate) use by_hand::SpawnProcess;

/// If an existing process with the wanted name is acceptable, returns that name. Returns `None` if the spawn must
/// create a new process.
#[inline]
fn wanted(options: Option<&Options>) -> Option<Arc<str>> {
    options.filter(|options| options.or_existing)?.name.clone()
}

/// Returns the holder of the wanted name, if there is one, and otherwise the result of `spawn`. If `spawn` loses a race
/// for the name, returns the winner.
#[inline]
fn or_spawn(
    wanted: Option<Arc<str>>,
    kind: &'static ProcessKind,
    host: HostRef,
    spawn: impl FnOnce() -> Result<Pid, SpawnError>,
) -> Result<Pid, SpawnError> {
    // A host that has ended refuses the spawn; the names in its record belong to the next host.
    let Some(name) = wanted.filter(|_| !host.has_ended()) else { return spawn() };
    let check = |pid| match crate::routing::alias::kind(pid) {
        Some(found) if found.type_id != kind.type_id => {
            let (expected, found) = ((kind.name)(), (found.name)());
            Err(SpawnError::NameType { name: name.to_string(), pid, expected, found })
        }
        // The holder has ended since it was found, so its type is unknown.
        _ => Ok(pid),
    };
    if let Some(pid) = host.scheduler.names.whereis(&name) {
        return check(pid);
    }
    match spawn() {
        Err(SpawnError::Name { holder, .. }) => check(holder),
        spawned => spawned,
    }
}
