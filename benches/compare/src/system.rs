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
}

named!(
    System,
    "system",
    [Postroom = "postroom", Tokio = "tokio", Actix = "actix", Kameo = "kameo", Ractor = "ractor", Xtra = "xtra",]
);

impl System {
    /// Runs `plan` in this process; `None` if the system has no natural way to do it.
    pub fn run(self, plan: &Plan) -> Option<Outcome> {
        match self {
            Self::Postroom => compare_postroom::run(plan),
            Self::Tokio => compare_tokio::run(plan),
            Self::Actix => compare_actix::run(plan),
            Self::Kameo => compare_kameo::run(plan),
            Self::Ractor => compare_ractor::run(plan),
            Self::Xtra => compare_xtra::run(plan),
        }
    }

    /// Whether it is another actor framework, rather than Postroom or bare channels.
    pub fn is_other_actor_framework(self) -> bool {
        !matches!(self, Self::Postroom | Self::Tokio)
    }

    /// Whether starting a process takes it many times as long as the others, so that it is given fewer to start.
    /// (Results are per process.)
    pub fn is_slow_to_spawn(self) -> bool {
        matches!(self, Self::Kameo | Self::Ractor)
    }

    /// Whether two of its processes that wait for each other on two threads now and then take it a hundred times as
    /// long as on one, so that it is given less of that.
    pub fn is_slow_across_threads(self) -> bool {
        self == Self::Xtra
    }
}
