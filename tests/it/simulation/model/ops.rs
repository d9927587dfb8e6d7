//! The operations, and the state that can be observed.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Number of names.
pub(super) const NAMES: usize = 2;
/// Number of groups.
pub(super) const GROUPS: usize = 1;
/// Number of children of the tree.
pub(super) const CHILDREN: usize = 3;

/// Number of senders of notes. Each pair of a sender and a kind is a message type.
pub(super) const SENDERS: usize = 2;

/// Number of child failures that the supervisor allows.
pub(super) const INTENSITY: u64 = 2;

/// An operation. Numbers stand for processes, modulo the number of processes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    Spawn,
    /// Makes the process handle nothing else until it is released.
    Hold(usize),
    Release(usize),
    Send {
        to: usize,
        sender: usize,
        kind: usize,
    },
    /// Sends a message that makes the process panic.
    Fail(usize),
    /// Sends a message that makes the process exit normally.
    Finish(usize),
    Kill(usize),
    Cancel(usize),
    Stop(usize),
    Trap(usize, bool),
    Link(usize, usize),
    /// Removes one of the process's links, chosen modulo their number.
    Unlink(usize, usize),
    Monitor(usize, usize),
    /// Removes one of the process's monitors, chosen modulo their number.
    Demonitor(usize, usize),
    Name(usize, usize),
    Unname(usize),
    Join(usize, usize),
    Leave(usize, usize),
    /// Like [`Fail`](Self::Fail), for a child of the tree. The next three are also for children.
    FailChild(usize),
    KillChild(usize),
    FinishChild(usize),
    StopChild(usize),
    /// Restarts a child of the tree.
    RestartChild(usize),
    /// Two operations at the same time.
    Both(Box<Op>, Box<Op>),
}

/// Whether an operation was carried out, was unnecessary, or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Yes,
    No,
    Refused,
}

/// The reason why a process ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Normal,
    Killed,
    Cancelled,
    Failed,
    /// The process had already ended.
    Gone,
    /// The process was linked to a process that ended: which one, and the reason of its end.
    Fell(usize, Box<End>),
}

/// Everything that can be observed when the system is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) actors: Vec<ActorView>,
    pub(super) names: BTreeMap<usize, usize>,
    pub(super) groups: Vec<Vec<usize>>,
    /// Number of names and number of memberships in the runtime, including those of the children.
    pub(super) registrations: (usize, usize),
    /// Whether each child runs, and how many times it was restarted.
    pub(super) children: Vec<(bool, u64)>,
    pub(super) gave_up: bool,
    /// Number of messages that no process handled.
    pub(super) dead_letters: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActorView {
    pub(super) end: Option<End>,
    /// The kinds of the notes in its mailbox, by sender.
    pub(super) queued: Vec<Vec<usize>>,
    /// The kinds of the notes that it has handled, by sender.
    pub(super) handled: Vec<Vec<usize>>,
    /// The ends of other processes that it was notified of, by a link (`true`) or a monitor; none if it has ended.
    pub(super) heard: Vec<(bool, usize, End)>,
    /// The processes that it is linked to; none if it has ended or is held.
    pub(super) links: Vec<usize>,
    /// The processes that it monitors; none if it has ended or is held.
    pub(super) monitors: Vec<usize>,
    /// The processes that monitor it; none if it has ended or is held.
    pub(super) monitored_by: Vec<usize>,
}

/// A program, and the seed to run it with.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) strategy: usize,
    pub(super) ops: Vec<Op>,
    pub(super) seed: u64,
}

pub(super) fn cases() -> impl Strategy<Value = Case> {
    (0_usize..3, vec(ops(), 1..32), 0_u64..1_000).prop_map(|(strategy, ops, seed)| Case { strategy, ops, seed })
}

fn ops() -> impl Strategy<Value = Op> {
    let calm = || prop_oneof![4 => sends(), 3 => registrations(), 2 => monitors()];
    prop_oneof![
        1 => Just(Op::Spawn),
        2 => (0_usize..5).prop_map(Op::Hold),
        1 => (0_usize..5).prop_map(Op::Release),
        3 => sends(),
        4 => ends(),
        9 => registrations(),
        3 => monitors(),
        5 => (0_usize..5, 0_usize..5).prop_map(|(from, to)| Op::Link(from, to)),
        3 => (0_usize..5, 0_usize..3).prop_map(|(of, which)| Op::Unlink(of, which)),
        1 => (0_usize..5, 0_usize..3).prop_map(|(of, which)| Op::Demonitor(of, which)),
        1 => (0_usize..5, any::<bool>()).prop_map(|(of, traps)| Op::Trap(of, traps)),
        5 => children(),
        // At most one of the two operations ends a process, and none makes a link. Otherwise their order would show in
        // several places.
        5 => (ends(), calm()).prop_map(|(one, other)| Op::Both(Box::new(one), Box::new(other))),
        3 => (calm(), calm()).prop_map(|(one, other)| Op::Both(Box::new(one), Box::new(other))),
        2 => (children(), ends()).prop_map(|(one, other)| Op::Both(Box::new(one), Box::new(other))),
    ]
}

fn sends() -> impl Strategy<Value = Op> {
    (0_usize..5, 0..SENDERS, 0_usize..2).prop_map(|(to, sender, kind)| Op::Send { to, sender, kind })
}

fn ends() -> impl Strategy<Value = Op> {
    let which = [Op::Fail, Op::Finish, Op::Kill, Op::Cancel, Op::Stop];
    (0_usize..5, 0_usize..5).prop_map(move |(way, of)| which[way](of))
}

fn registrations() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..NAMES, 0_usize..5).prop_map(|(name, of)| Op::Name(name, of)),
        1 => (0..NAMES).prop_map(Op::Unname),
        3 => (0..GROUPS, 0_usize..5).prop_map(|(group, of)| Op::Join(group, of)),
        2 => (0..GROUPS, 0_usize..5).prop_map(|(group, of)| Op::Leave(group, of)),
    ]
}

fn monitors() -> impl Strategy<Value = Op> {
    (0_usize..5, 0_usize..5).prop_map(|(from, to)| Op::Monitor(from, to))
}

fn children() -> impl Strategy<Value = Op> {
    let which = [Op::FailChild, Op::KillChild, Op::FinishChild, Op::StopChild, Op::RestartChild];
    (0_usize..5, 0..CHILDREN).prop_map(move |(way, of)| which[way](of))
}
