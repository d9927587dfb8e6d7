//! The systems that are compared.

use crate::names::named;
use crate::plan::{Outcome, Plan};

/// A system that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum System {
    Postroom,
    /// Tasks with channels, without any actor layer.
    Tokio,
    Actix,
    Kameo,
    Ractor,
    Xtra,
    /// An anchor: see [`Self::ANCHORS`].
    Stakker,
    Nexosim,
    Kanal,
    LocalSync,
}

named!(
    System,
    "system",
    [
        Postroom = "postroom",
        Tokio = "tokio",
        Actix = "actix",
        Kameo = "kameo",
        Ractor = "ractor",
        Xtra = "xtra",
        Stakker = "stakker",
        Nexosim = "nexosim",
        Kanal = "kanal",
        LocalSync = "local-sync",
    ]
);

impl System {
    /// The systems that are compared by default.
    pub const COMPARED: &'static [Self] =
        &[Self::Postroom, Self::Tokio, Self::Actix, Self::Kameo, Self::Ractor, Self::Xtra];

    /// Systems that show how fast a message can be if more features are given up, as `compare_anchors` explains. They
    /// are built and measured only on request, and they do not count in any summary.
    pub const ANCHORS: &'static [Self] = &[Self::Stakker, Self::Nexosim, Self::Kanal, Self::LocalSync];

    /// Whether this program was built with the anchors.
    pub const HAS_ANCHORS: bool = cfg!(feature = "anchors");

    pub fn is_anchor(self) -> bool {
        Self::ANCHORS.contains(&self)
    }

    /// Returns true if the system runs everything on one thread.
    pub fn has_one_thread(self) -> bool {
        matches!(self, Self::Stakker | Self::LocalSync)
    }

    /// Runs `plan` in this process. Returns `None` if the system has no natural way to do it.
    pub fn run(self, plan: &Plan) -> Option<Outcome> {
        match self {
            Self::Postroom => compare_postroom::run(plan),
            Self::Tokio => compare_tokio::run(plan),
            Self::Actix => compare_actix::run(plan),
            Self::Kameo => compare_kameo::run(plan),
            Self::Ractor => compare_ractor::run(plan),
            Self::Xtra => compare_xtra::run(plan),
            #[cfg(feature = "anchors")]
            Self::Stakker => compare_anchors::stakker(plan),
            #[cfg(feature = "anchors")]
            Self::Nexosim => compare_anchors::nexosim(plan),
            #[cfg(feature = "anchors")]
            Self::Kanal => compare_anchors::kanal(plan),
            #[cfg(feature = "anchors")]
            Self::LocalSync => compare_anchors::local_sync(plan),
            #[cfg(not(feature = "anchors"))]
            Self::Stakker | Self::Nexosim | Self::Kanal | Self::LocalSync => None,
        }
    }

    /// Returns true if the system is another actor framework, and neither Postroom nor bare channels.
    pub fn is_other_actor_framework(self) -> bool {
        !matches!(self, Self::Postroom | Self::Tokio) && !self.is_anchor()
    }

    /// Returns true if the system takes many times as long as the others to start a process. If so, it has fewer
    /// processes to start. (Results are per process.)
    pub fn is_slow_to_spawn(self) -> bool {
        matches!(self, Self::Kameo | Self::Ractor)
    }

    /// Returns true if two processes of the system that wait for each other sometimes take a hundred times as long on
    /// two threads as on one. If so, it has fewer such operations to do.
    pub fn is_slow_across_threads(self) -> bool {
        self == Self::Xtra
    }
}
