//! Places where a supervisor can be spawned.

use crate::{ChildSpawn, Context, Host, Runtime, actor::definition::Actor};
use std::ops::Deref;

/// The argument of [`Supervisor::spawn`](super::Supervisor::spawn): a runtime, a host, the context of a process, or,
/// for a supervisor below another one, the argument of a child's closure.
pub trait SpawnPlace: Sealed {}

/// Seals the trait.
pub trait Sealed {
    /// Returns the `ChildSpawn` to spawn through.
    #[doc(hidden)]
    fn child_spawn(self) -> ChildSpawn;
}

impl<T: Sealed> SpawnPlace for T {}

impl Sealed for Host {
    fn child_spawn(self) -> ChildSpawn {
        ChildSpawn::new(self)
    }
}

impl Sealed for &Host {
    fn child_spawn(self) -> ChildSpawn {
        ChildSpawn::new(*self)
    }
}

impl Sealed for &Runtime {
    fn child_spawn(self) -> ChildSpawn {
        ChildSpawn::new(*self.deref())
    }
}

impl Sealed for ChildSpawn {
    fn child_spawn(self) -> ChildSpawn {
        self
    }
}

/// Panics in a machine that is driven by hand, as [`Context::spawn`] does.
impl<P: Actor> Sealed for &Context<P> {
    #[track_caller]
    fn child_spawn(self) -> ChildSpawn {
        ChildSpawn::new(self.host_or_panic())
    }
}

impl<P: Actor> Sealed for &mut Context<P> {
    #[track_caller]
    fn child_spawn(self) -> ChildSpawn {
        (&*self).child_spawn()
    }
}
