//! A snapshot of a tree's children, and the text that a tree prints as.

use super::status::{ChildState, ChildStatus, LastEnd};
use super::{child_slot::ChildSlot, errors::count_restarts, registry::ChildRegistry};
use crate::{Pid, routing::alias::AliasTarget};
use std::{fmt, sync::Arc};

/// A snapshot of a child: see [`Tree::children`](super::Tree::children).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChildInfo {
    /// Name of the child.
    pub name: Arc<str>,
    /// Name of the child's type: that of the current process, even after an [upgrade](Pid::upgrade), or, while the
    /// child is down, that of the most recent start. `None` for a hand-written process that has not been started.
    pub process: Option<&'static str>,
    /// Alias of the child, valid across restarts.
    pub address: Pid,
    /// PID of the current process, or `None` while the child is down.
    pub pid: Option<Pid>,
    /// Name of the node that the child runs on, or last ran on, if that is [another node](crate::ChildSpawn::on).
    pub node: Option<Arc<str>>,
    /// Current state of the child.
    pub state: ChildState,
    /// Number of times that the child has been restarted after a failure.
    pub restarts: u64,
    /// The most recent end of the child, if it has ended.
    pub last: Option<LastEnd>,
    /// Strategy, if this child is a supervisor: `one_for_one`, `one_for_all`, `rest_for_one` or `dynamic`.
    pub supervisor: Option<&'static str>,
    /// Children, if this child is a supervisor.
    pub children: Vec<ChildInfo>,
}

impl ChildInfo {
    pub(super) fn of(slot: &ChildSlot, address: Pid) -> Self {
        let ChildStatus { state, restarts, last, process, node, .. } = slot.status();
        let registry = ChildRegistry::of(slot);
        let supervisor = registry.as_ref().map(|registry| registry.strategy().name());
        let children = registry.map_or_else(Vec::new, |registry| children(&registry));
        let pid = slot.life();
        let process = pid.and_then(Pid::info).map(|info| info.process).or(process);
        let process = process.or_else(|| slot.next_kind().map(|kind| short((kind.name)())));
        Self { name: slot.name.clone(), process, address, pid, node, state, restarts, last, supervisor, children }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let kind = self.supervisor.or(self.process).unwrap_or("?");
        write!(f, "{:depth$}{}: {kind}", "", ShortText(&self.name), depth = 2 * depth)?;
        if let Some(pid) = self.pid {
            write!(f, " {pid}")?;
        }
        if let Some(node) = &self.node {
            write!(f, " on {}", ShortText(node))?;
        }
        write!(f, " {}", self.state)?;
        if self.restarts > 0 {
            write!(f, ", {}", count_restarts(self.restarts))?;
        }
        if let Some(last) = &self.last {
            write!(f, ", last: {}", ShortText(&last.to_string()))?;
        }
        write_below(&self.children, f, depth + 1)
    }
}

/// Prints the child as in its tree: one line, followed by the lines of its children.
impl fmt::Display for ChildInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

fn write_below(children: &[ChildInfo], f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    children.iter().try_for_each(|child| {
        writeln!(f)?;
        child.write(f, depth)
    })
}

/// Returns the name of a type without its modules.
pub(super) fn short(name: &'static str) -> &'static str {
    let end = name.find('<').unwrap_or(name.len());
    name[..end].rfind("::").map_or(name, |start| &name[start + 2..])
}

/// A user's text, put on one line and shortened.
struct ShortText<'a>(&'a str);

impl fmt::Display for ShortText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 240;
        let mut rest = self.0.chars();
        for character in rest.by_ref().take(LONGEST) {
            fmt::Write::write_char(f, if character.is_control() { ' ' } else { character })?;
        }
        if rest.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

pub(super) fn children(registry: &ChildRegistry) -> Vec<ChildInfo> {
    let slots = registry.slots();
    slots.into_iter().map(|(slot, address)| ChildInfo::of(&slot, address)).collect()
}

pub(super) fn write(registry: &ChildRegistry, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(registry.strategy().name())?;
    match registry.supervisor() {
        (_, Some(reason)) => write!(f, " ended: {}", ShortText(&reason.to_string()))?,
        (Some(pid), None) => write!(f, " {pid} running")?,
        (None, None) => f.write_str(" waiting")?,
    }
    write_below(&children(registry), f, 1)
}
