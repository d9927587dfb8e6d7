//! The invariants of the runtime itself, which are checked after each run of any test.
//!
//! These checks reveal faults in the runtime that have no consequence in a short test, such as a lost token, because of
//! which a process never runs again, or a name that stays with an ended process, which is a leak.
//!
//! * Between turns each token is in one place: parked in its mailbox, or ready. A process that is parked as idle has
//!   nothing to do; a suspended process waits for a mailbox that will have room; a process that awaits an answer waits
//!   for a live process; and links, monitors and names belong to live processes, and both sides of each agree about it.
//! * When all processes have been killed, nothing remains of them.
//!
//! Each check has been seen to fail with an injected fault that no assertion of a test detects: `unasserted` in
//! `tests/faults/list`.

use super::run::SimRun;
use crate::api::runtime::Host;
use crate::deadlock::edges::{has_edge, waits_for};
use crate::engine::backpressure::suspend::suspended_at;
use crate::pid::{Pid, Resident};
use crate::slots::{Slot, TABLE};
use crate::sync::lock;
use std::collections::BTreeMap;

impl SimRun {
    /// Describes a violated invariant, if there is one. Called by the test's thread, between turns.
    pub(crate) fn broken_between_turns(&self, host: Host) -> Option<String> {
        for host in [host].into_iter().chain(self.nodes()) {
            if let Some((name, holder)) = host.scheduler().names.held_by_the_dead() {
                return Some(format!("{holder} has ended, and still has the name {name:?}"));
            }
            if let Some(pid) = host.groups().has_a_dead_member().or_else(|| host.topics().has_a_dead_member()) {
                return Some(format!("{pid} has ended, and is still in a group or a topic"));
            }
        }
        let ready_slots = self.ready_slots()?;
        let mut counts = BTreeMap::new();
        ready_slots.iter().for_each(|index| *counts.entry(*index).or_insert(0) += 1);
        let slots = || self.used_slots().into_iter().filter_map(|index| TABLE.slot(index));
        let living = || slots().filter(|slot| slot.living().is_some());
        let broken_token = living().find_map(|slot| {
            let what = broken_token(slot, counts.get(&slot.index()).copied().unwrap_or(0))?;
            Some(format!("{}, with {} messages, {what}", name(slot), slot.lanes.depth()))
        });
        let is_at_rest = |slot: &Slot| slot.lanes.glance().0 && !counts.contains_key(&slot.index());
        let mut at_rest = living().filter(|slot| is_at_rest(slot));
        let broken_bindings = |slot| {
            let what = broken_bindings(slot, &is_at_rest)?;
            Some(format!("{} {what}", name(slot)))
        };
        broken_token.or_else(|| at_rest.find_map(broken_bindings))
    }

    /// Describes what is left after the end of all processes, if anything.
    pub(crate) fn broken_at_the_end(&self) -> Option<String> {
        let slots: Vec<_> = self.used_slots().into_iter().filter_map(|index| TABLE.slot(index)).collect();
        let schedulers = self.schedulers();
        let left = [
            ("slots that are not vacant", slots.iter().filter(|slot| !slot.lanes.is_vacant()).count()),
            ("waits of the dead", slots.iter().filter(|slot| has_edge(slot.index())).count()),
            ("suspended processes", schedulers.iter().map(|scheduler| scheduler.suspended()).sum()),
            ("labels", schedulers.iter().map(|scheduler| lock(&scheduler.labels).len()).sum()),
        ];
        let (what, count) = left.into_iter().find(|(_, count)| *count > 0)?;
        Some(format!("all processes have ended, and there are {count} {what}"))
    }
}

/// Describes what is wrong with the token of a live process that occurs `ready` times in the list of ready processes;
/// `None` if nothing is.
fn broken_token(slot: &'static Slot, ready: usize) -> Option<String> {
    let (is_idle, waits) = slot.lanes.glance();
    let what = match (ready, is_idle || waits) {
        (0, false) => "is neither ready nor parked: its token is lost",
        (0, true) | (1, false) if is_idle && slot.lanes.has_control() => {
            "is idle, and there is a signal or an answer for it"
        }
        (0, true) | (1, false) => return broken_wait(slot, ready > 0),
        _ => "is ready twice, or parked and ready at once: there are two tokens",
    };
    Some(what.to_string())
}

/// Describes what is wrong with the wait of a process; `None` if nothing is.
fn broken_wait(slot: &'static Slot, is_ready: bool) -> Option<String> {
    if is_ready {
        // A ready process is about to check its wait itself.
        return None;
    }
    // If the process is suspended at another node, only that node knows whether there is room.
    if let Some(at) = suspended_at(slot).and_then(|at| at.mailbox()?.resident()) {
        let Some(receiver) = TABLE.living(at) else {
            return Some(format!("is suspended at the mailbox of {at}, which has ended"));
        };
        let rests = receiver.lanes.glance().0;
        return rests.then(|| format!("is suspended at the mailbox of {}, which is empty", name(receiver)));
    }
    let (on, method) = waits_for(slot.resident()?)?;
    let method = method.filter(|_| TABLE.living(on).is_none())?;
    Some(format!("waits for the answer of {method} from {on}, which has ended"))
}

/// Describes what is wrong with the links and monitors of a process at rest; `None` if nothing is. Such a process has
/// received everything that was sent to it.
fn broken_bindings(slot: &'static Slot, is_at_rest: &impl Fn(&Slot) -> bool) -> Option<String> {
    let pid = slot.resident()?;
    // SAFETY: this runs between turns, for a process without a step that waits on its stack, so nothing uses its token.
    let (bindings, is_unlinking) = unsafe { slot.bindings_at_rest() };
    if is_unlinking {
        return Some("has unlinked from another one, and the answer has not counted".to_string());
    }
    for (other, is_linked) in
        bindings.links.iter().map(|other| (*other, true)).chain(bindings.monitors.iter().map(|other| (*other, false)))
    {
        let tie = if is_linked { "linked with" } else { "a monitor of" };
        let Some(other_slot) = TABLE.living(other) else {
            // A process of another host, or behind an alias, is not checked.
            let is_ours = TABLE.slot(other.slot()).is_some_and(|slot| slot.has_carried(other));
            if is_ours {
                return Some(format!("is {tie} {other}, which has ended, and has not been told"));
            }
            continue;
        };
        // SAFETY: as above.
        let theirs = || unsafe { other_slot.bindings_at_rest() }.0;
        let knows = |theirs: &[Pid]| theirs.contains(&pid);
        let is_mutual =
            !is_at_rest(other_slot) || if is_linked { knows(&theirs().links) } else { knows(&theirs().monitored_by) };
        if !is_mutual {
            return Some(format!("is {tie} {}, which does not know", name(other_slot)));
        }
    }
    None
}

fn name(slot: &'static Slot) -> String {
    let process = slot.metadata.names().map_or("a process", |(process, _)| process);
    slot.resident().map_or_else(|| process.to_string(), |pid| format!("{process} {pid}"))
}
