//! Upgrades by type name.

use crate::actor::definition::{Actor, Declared};
use crate::actor::machine::upgrade::{IntoUpgrade, UpgradeError, Upgrading};
use crate::sync::{Arc, PoisonError, RwLock};
use crate::util::panics::{Site, contain};
use crate::{Pid, routing::alias};
use std::{any::TypeId, collections::BTreeMap, error::Error};

/// The reason why a registered upgrade could not create the new state.
pub(crate) type UpgradeFailure = Box<dyn Error + Send + Sync>;

type Ask = dyn Fn(Pid) -> Upgrading<Pid, UpgradeFailure> + Send + Sync;

/// The registered upgrades, by the old type and the name of the new type.
#[derive(Default)]
pub(crate) struct Upgrades(RwLock<BTreeMap<(TypeId, &'static str), Arc<Ask>>>);

impl Upgrades {
    /// Adds an upgrade, replacing one between the same types.
    pub(crate) fn add<Old: Actor, S>(&self, make: impl Fn(Old) -> S + Send + Sync + 'static)
    where
        S: IntoUpgrade<Error: Into<UpgradeFailure>>,
    {
        let make = Arc::new(make);
        let ask = move |pid: Pid| {
            let make = make.clone();
            pid.upgrade(move |old: Old| make(old).into_result().map_err(Into::<UpgradeFailure>::into)).untyped()
        };
        let key = (TypeId::of::<Old>(), <S::Process as Declared>::NAME);
        let before = self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::new(ask));
        // Dropped outside the lock, because the drop of the upgrade may run user code.
        drop(before);
    }

    pub(crate) fn ask(&self, pid: Pid, to: &str) -> Upgrading<Pid, UpgradeFailure> {
        let process = pid.resolve();
        let Some(kind) = process.and_then(alias::kind) else {
            return Upgrading::refused(pid, UpgradeError::Gone(pid));
        };
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_kind = || known.iter().filter(|((old, _), _)| *old == kind.type_id);
        let Some(ask) = of_kind().find(|((_, new), _)| *new == to).map(|(_, ask)| ask.clone()) else {
            let has = of_kind().map(|((_, new), _)| *new).collect();
            let to = to.chars().take(80).collect();
            return Upgrading::refused(pid, UpgradeError::Missing { process: (kind.name)(), to, has });
        };
        drop(known);
        ask(pid)
    }

    /// Removes all upgrades. Their drops are user code, so panics in them are contained.
    pub(crate) fn clear(&self) {
        let upgrades = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        upgrades.into_values().for_each(|upgrade| _ = contain(Site::TypeDrop, || drop(upgrade)));
    }
}
