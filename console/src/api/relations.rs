//! Relations between processes: parents and children, and which process waits for which.

use super::processes::{ProcessRow, Wait, waits_for};
use super::query::MAX_ROWS;
use super::sight::Sight;
use super::state::ShownState;
use crate::taps::Tapped;
use postroom::inspect::ProcessInfo;
use postroom::{Host, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of children that are listed for a process, and of processes that wait for it.
const RELATED: usize = 100;
/// Maximum length of a chain of waits that is followed.
const LONGEST_CHAIN: usize = 64;

#[derive(Serialize)]
pub(super) struct ProcessView {
    row: ProcessRow,
    /// Why the process waits: first the process that it waits for, then the one that that process waits for, and so on
    /// to the end.
    chain: Vec<Link>,
    /// Whether the chain leads back to itself, in which case none of its processes can continue.
    is_cycle: bool,
    children: usize,
    child_rows: Vec<Short>,
    /// Number of processes that wait for this one.
    awaited_by: usize,
    waiter_rows: Vec<Short>,
    may_act: bool,
    /// None if the process's type does not allow its state to be shown.
    state: Option<ShownState>,
    /// None if the process has not been tapped.
    tap: Option<Tapped>,
}

#[derive(Serialize)]
struct Link {
    waits_for: Wait,
    /// The awaited process; none if it is in another program or has ended.
    process: Option<Short>,
}

/// A process, in brief.
#[derive(Serialize)]
struct Short {
    pid: Pid,
    #[serde(rename = "type")]
    process: &'static str,
    label: Option<String>,
    state: String,
    mailbox: u64,
}

impl From<&ProcessInfo> for Short {
    fn from(info: &ProcessInfo) -> Self {
        Self {
            pid: info.pid,
            process: info.process,
            label: info.label.as_deref().map(str::to_owned),
            state: info.state.to_string(),
            mailbox: info.mailbox,
        }
    }
}

pub(super) fn process(sight: &Sight, pid: Pid, state: Option<ShownState>) -> Option<ProcessView> {
    let (info, host, may_act) = (pid.info()?, sight.host, sight.may_act);
    let tap = sight.taps.of(info.pid, info.process);
    let row = ProcessRow::of(&info, sight.samples.look().process(info.pid));
    let processes = host.processes();
    let related = |is_so: &dyn Fn(&ProcessInfo) -> bool| {
        let mut rows: Vec<_> = processes.iter().filter(|info| is_so(info)).map(Short::from).collect();
        let count = rows.len();
        rows.truncate(RELATED);
        (count, rows)
    };
    let (children, child_rows) = related(&|child| child.parent == Some(info.pid));
    let (awaited_by, waiter_rows) = related(&|waiter| waits_for(waiter).is_some_and(|wait| wait.pid == info.pid));
    let (chain, is_cycle) = chain(&info);
    Some(ProcessView { row, chain, is_cycle, children, child_rows, awaited_by, waiter_rows, may_act, state, tap })
}

/// Follows the chain of waits from a process. Each process is read separately, so the waits can change in the meantime.
fn chain(from: &ProcessInfo) -> (Vec<Link>, bool) {
    let (mut chain, mut seen) = (Vec::new(), BTreeSet::from([from.pid]));
    let mut next = waits_for(from);
    while let Some(wait) = next.take().filter(|_| chain.len() < LONGEST_CHAIN) {
        let (pid, info) = (wait.pid, wait.pid.info());
        chain.push(Link { waits_for: wait, process: info.as_ref().map(Short::from) });
        if !seen.insert(pid) {
            return (chain, true);
        }
        next = info.as_ref().and_then(waits_for);
    }
    (chain, false)
}

#[derive(Serialize)]
pub(super) struct Tree {
    total: usize,
    /// Whether rows are missing because there are too many.
    is_cut: bool,
    /// The processes in depth-first order, each after its parent.
    rows: Vec<Branch>,
}

#[derive(Serialize)]
struct Branch {
    depth: usize,
    /// Number of children that are alive.
    children: usize,
    #[serde(flatten)]
    process: Short,
}

pub(super) fn tree(host: Host) -> Tree {
    let processes = host.processes();
    let alive: BTreeSet<_> = processes.iter().map(|info| info.pid).collect();
    let mut children: BTreeMap<Option<Pid>, Vec<&ProcessInfo>> = BTreeMap::new();
    for info in &processes {
        // A process whose parent has ended is a root.
        children.entry(info.parent.filter(|parent| alive.contains(parent))).or_default().push(info);
    }
    // Processes that have children are sorted first, since those without may be many.
    let is_leaf = |info: &&ProcessInfo| !children.contains_key(&Some(info.pid));
    let ordered = |parent: Option<Pid>| {
        let mut of_it = children.get(&parent).cloned().unwrap_or_default();
        of_it.sort_by_key(|info| (is_leaf(info), info.pid));
        of_it
    };
    let (mut rows, mut ahead) = (Vec::new(), Vec::new());
    ahead.extend(ordered(None).into_iter().rev().map(|info| (0, info)));
    while let Some((depth, info)) = ahead.pop().filter(|_| rows.len() < MAX_ROWS) {
        let of_it = ordered(Some(info.pid));
        rows.push(Branch { depth, children: of_it.len(), process: Short::from(info) });
        ahead.extend(of_it.into_iter().rev().map(|info| (depth + 1, info)));
    }
    Tree { total: processes.len(), is_cut: rows.len() < processes.len(), rows }
}

#[derive(Serialize)]
pub(super) struct Waits {
    /// Number of processes that wait for exactly one other process.
    total: usize,
    /// The awaited processes. Those with the most processes behind them come first.
    rows: Vec<Awaited>,
}

#[derive(Serialize)]
struct Awaited {
    pid: Pid,
    process: Option<Short>,
    /// Number of processes that wait for this one, directly or through others.
    behind: usize,
    waiters: Vec<Waiter>,
}

#[derive(Serialize)]
struct Waiter {
    method: Option<&'static str>,
    process: Short,
}

pub(super) fn waits(host: Host) -> Waits {
    let processes = host.processes();
    let mut by_target: BTreeMap<Pid, Vec<(Wait, &ProcessInfo)>> = BTreeMap::new();
    for info in &processes {
        if let Some(wait) = waits_for(info) {
            by_target.entry(wait.pid).or_default().push((wait, info));
        }
    }
    let behind = |target: Pid| {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![target]);
        while let Some(next) = ahead.pop() {
            let waiters = by_target.get(&next).into_iter().flatten().map(|(_, info)| info.pid);
            ahead.extend(waiters.filter(|pid| seen.insert(*pid)));
        }
        seen.len()
    };
    let mut targets: Vec<_> = by_target.keys().map(|pid| (*pid, behind(*pid))).collect();
    targets.sort_by_key(|(_, behind)| Reverse(*behind));
    let row = |(pid, behind): (Pid, usize)| {
        let waiters = by_target.get(&pid).into_iter().flatten().take(RELATED);
        let waiters = waiters.map(|(wait, info)| Waiter { method: wait.method, process: Short::from(*info) }).collect();
        Awaited { pid, process: pid.info().as_ref().map(Short::from), behind, waiters }
    };
    let total = by_target.values().map(Vec::len).sum();
    Waits { total, rows: targets.into_iter().take(RELATED).map(row).collect() }
}
