//! A model for tests: several nodes, one store, and a broker that delays messages, loses answers and cuts connections.

use super::{Finding, Identity, Inquiry, Loss, Membership, MembershipEvent, Record};
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::ProbeOutcome;
use crate::random::Random;
use crate::store::{Change, Entry, Revision, StoreError};
use bytes::Bytes;
use postroom::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// One run of one node.
pub(super) struct Machine {
    pub(super) node: NodeId,
    pub(super) members: Membership,
    /// Its epoch, while it is a member.
    pub(super) entered: Option<Revision>,
    /// The revision of its record once the record was written, whether or not the node knows it.
    pub(super) revision: Option<Revision>,
    has_left: bool,
    pub(super) is_alive: bool,
    pub(super) is_cut: bool,
    /// The changes that the broker will report to this node, and when each of them arrives.
    watch: VecDeque<(u64, Change)>,
    /// The last report about each node: its revision, and whether it is a member.
    view: BTreeMap<NodeId, (Revision, bool)>,
    pub(super) ends: Vec<MembershipEvent>,
    pub(super) losses: Vec<(NodeId, Revision, Loss)>,
}

enum Step {
    Arrives { machine: usize, number: u64, node: Identity, inquiry: Inquiry },
    Answered { machine: usize, number: u64, finding: Finding },
    Hint { machine: usize, node: NodeId },
    Goodbye { machine: usize, node: NodeId, revision: Revision },
    Expired { machine: usize, node: NodeId, revision: Revision },
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) random: Random,
    /// The maximum delay of a request, an answer, a report or a goodbye, in milliseconds.
    pub(super) slowest: u64,
    /// Percentage of answers that are lost.
    pub(super) lost: u64,
    pub(super) machines: Vec<Machine>,
    records: BTreeMap<String, (Bytes, Revision)>,
    last_revision: u64,
    steps: BTreeMap<(u64, u64), Step>,
    serial: u64,
    runs: u64,
    /// Memberships that may be reported lost, because something has happened to them.
    excused: BTreeSet<(NodeId, Revision)>,
}

pub(super) fn id(number: u64) -> NodeId {
    NodeId::new(number).unwrap()
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: 0,
            random: Random::new(seed),
            slowest: 20,
            lost: 0,
            machines: Vec::new(),
            records: BTreeMap::new(),
            last_revision: 0,
            steps: BTreeMap::new(),
            serial: 0,
            runs: 0,
            excused: BTreeSet::new(),
        }
    }

    pub(super) fn start(&mut self, node: NodeId) -> usize {
        self.runs += 1;
        let record = Record::new(format!("node-{node}"), self.runs).unwrap();
        self.machines.push(Machine {
            node,
            members: Membership::new(node, record),
            entered: None,
            revision: None,
            has_left: false,
            is_alive: true,
            is_cut: false,
            watch: VecDeque::new(),
            view: BTreeMap::new(),
            ends: Vec::new(),
            losses: Vec::new(),
        });
        let at = self.machines.len() - 1;
        self.resync(at);
        at
    }

    /// Has the broker report a snapshot to a machine.
    fn resync(&mut self, at: usize) {
        let entries: Vec<_> = self
            .records
            .iter()
            .map(|(key, (value, revision))| Entry { key: key.clone(), value: value.clone(), revision: *revision })
            .collect();
        self.machines[at].watch.clear();
        let synced = Change::Synced { revision: Revision(self.last_revision) };
        let changes = [Change::Resync].into_iter().chain(entries.into_iter().map(Change::Put)).chain([synced]);
        changes.for_each(|change| self.watch(at, change));
    }

    fn watch(&mut self, at: usize, change: Change) {
        let arrives = self.now + self.random.below(self.slowest + 1);
        let watch = &mut self.machines[at].watch;
        let arrives = watch.back().map_or(arrives, |(last, _)| arrives.max(*last));
        watch.push_back((arrives, change));
    }

    fn report(&mut self, change: Change) {
        for at in 0..self.machines.len() {
            if self.machines[at].is_alive && !self.machines[at].is_cut {
                self.watch(at, change.clone());
            }
        }
    }

    pub(super) fn cut(&mut self, at: usize) {
        self.machines[at].is_cut = true;
        self.machines[at].watch.clear();
        self.excuse(at);
    }

    pub(super) fn heal(&mut self, at: usize) {
        if std::mem::take(&mut self.machines[at].is_cut) {
            self.resync(at);
        }
    }

    pub(super) fn crash(&mut self, at: usize) {
        self.excuse(at);
        self.machines[at].is_alive = false;
        let (node, revision) = (self.machines[at].node, self.machines[at].revision);
        let Some(revision) = revision else { return };
        // The broker deletes the lease of the node, and up to three nodes notice.
        for _ in 0..3 {
            let machine = self.random.below(self.machines.len() as u64) as usize;
            let delay = 15_000 + self.random.below(1_000);
            self.later(delay, Step::Expired { machine, node, revision });
        }
    }

    /// Has a node leave. Some nodes do not receive its goodbye.
    pub(super) fn leave(&mut self, at: usize) {
        self.excuse(at);
        self.machines[at].has_left = true;
        let node = self.machines[at].node;
        if let Some(revision) = self.machines[at].entered.take() {
            for machine in 0..self.machines.len() {
                if self.random.chance(80) {
                    let delay = self.random.below(self.slowest + 1);
                    self.later(delay, Step::Goodbye { machine, node, revision });
                }
            }
        }
        self.machines[at].members.leave();
        self.settle(at);
    }

    fn excuse(&mut self, at: usize) {
        let node = self.machines[at].node;
        self.excused.extend(self.machines[at].revision.map(|revision| (node, revision)));
    }

    pub(super) fn hint(&mut self, machine: usize, node: NodeId) {
        self.later(0, Step::Hint { machine, node });
    }

    pub(super) fn lease_expires(&mut self, machine: usize, node: NodeId, revision: Revision) {
        self.excused.insert((node, revision));
        self.later(0, Step::Expired { machine, node, revision });
    }

    fn later(&mut self, delay: u64, step: Step) {
        self.serial += 1;
        self.steps.insert((self.now + delay, self.serial), step);
    }

    pub(super) fn run(&mut self, millis: u64) {
        let until = self.now + millis;
        (0..self.machines.len()).for_each(|at| self.settle(at));
        while let Some(next) = self.next_time().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            while let Some(step) = self.steps.first_entry().filter(|step| step.key().0 <= self.now) {
                let step = step.remove();
                self.step(step);
            }
            (0..self.machines.len()).for_each(|at| self.settle(at));
        }
        self.now = until;
    }

    fn next_time(&self) -> Option<u64> {
        let machines = self.machines.iter().filter(|machine| machine.is_alive).filter_map(|machine| {
            let timer = machine.members.next_timeout().map(|at| at.since(Moment::START).as_millis() as u64);
            timer.into_iter().chain(machine.watch.front().map(|(at, _)| *at)).min()
        });
        machines.chain(self.steps.keys().next().map(|key| key.0)).min()
    }

    fn moment(&self) -> Moment {
        Moment::after_start(Duration::from_millis(self.now))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrives { machine, number, node, inquiry } => {
                let finding = self.answer(machine, node, inquiry);
                let delay = self.random.below(self.slowest + 1);
                self.later(delay, Step::Answered { machine, number, finding });
            }
            Step::Answered { machine, number, finding } => {
                let now = self.moment();
                self.machines[machine].members.handle(now, number, finding);
            }
            Step::Hint { machine, node } => self.machines[machine].members.suspect(node),
            Step::Goodbye { machine, node, revision } => self.machines[machine].members.goodbye(node, revision),
            Step::Expired { machine, node, revision } => self.machines[machine].members.lease_expired(node, revision),
        }
    }

    fn answer(&mut self, machine: usize, node: Identity, inquiry: Inquiry) -> Finding {
        let is_lost = self.random.chance(self.lost);
        let is_cut = self.machines[machine].is_cut;
        match inquiry {
            Inquiry::Probe if is_cut || is_lost => Finding::Probe(ProbeOutcome::Unknown),
            Inquiry::Probe => {
                let runs = |machine: &Machine| machine.node == node.id && machine.is_alive && !machine.is_cut;
                let found = self.machines.iter().any(runs);
                Finding::Probe(if found { ProbeOutcome::Responders } else { ProbeOutcome::NoResponders })
            }
            Inquiry::Record(access) => {
                let is_read = access == Access::Get;
                let creates = matches!(access, Access::Create(_));
                let answer = if is_cut { None } else { Some(self.access(&node.to_string(), access)) };
                if let (true, Some(Answer::Written(Ok(revision)))) = (creates, &answer) {
                    let machine = &mut self.machines[machine];
                    machine.revision = Some(*revision);
                    // The record was created only after the node had left or crashed, so the loss of this membership is
                    // expected.
                    if machine.has_left || !machine.is_alive {
                        self.excused.insert((node.id, *revision));
                    }
                }
                Finding::Record(match answer {
                    Some(answer) if !is_lost => answer,
                    answer => {
                        let error = if answer.is_some() { StoreError::Unknown } else { StoreError::Unavailable };
                        if is_read { Answer::Read(Err(error)) } else { Answer::Written(Err(error)) }
                    }
                })
            }
        }
    }

    fn access(&mut self, key: &str, access: Access) -> Answer {
        let there = self.records.get(key).map(|(_, revision)| *revision);
        let (expected, value) = match access {
            Access::Get => {
                let entry = self.records.get(key).map(|(value, revision)| Entry {
                    key: key.into(),
                    value: value.clone(),
                    revision: *revision,
                });
                return Answer::Read(Ok(entry));
            }
            Access::Create(value) => (None, Some(value)),
            Access::Update(..) => panic!("records are not updated"),
            Access::Delete(expected) => (Some(expected), None),
        };
        if there != expected {
            return Answer::Written(Err(StoreError::Conflict { key: key.into() }));
        }
        self.last_revision += 1;
        let revision = Revision(self.last_revision);
        match value {
            Some(value) => {
                self.records.insert(key.into(), (value.clone(), revision));
                self.report(Change::Put(Entry { key: key.into(), value, revision }));
            }
            None => {
                self.records.remove(key);
                self.report(Change::Deleted { key: key.into(), revision });
            }
        }
        Answer::Written(Ok(revision))
    }

    /// Has a machine do everything that it can do now.
    fn settle(&mut self, at: usize) {
        let now = self.moment();
        let machine = &mut self.machines[at];
        while let Some((_, change)) = machine.watch.pop_front_if(|(arrives, _)| *arrives <= self.now) {
            if machine.is_alive {
                machine.members.on_change(change);
            }
        }
        if machine.members.next_timeout().is_some_and(|next| next <= now) {
            machine.members.handle_timeout(now);
        }
        while let Some(event) = self.machines[at].members.poll_event() {
            self.check(at, event);
        }
        while let Some(request) = self.machines[at].members.poll_request() {
            // Requests from before a crash may still arrive, but a node that has crashed makes no more.
            if self.machines[at].is_alive {
                let delay = self.random.below(self.slowest + 1);
                let (number, node, inquiry) = (request.number, request.node, request.inquiry);
                self.later(delay, Step::Arrives { machine: at, number, node, inquiry });
            }
        }
    }

    /// Checks the invariants that a single event can break.
    fn check(&mut self, at: usize, event: MembershipEvent) {
        let machine = &mut self.machines[at];
        match event {
            MembershipEvent::Entered(revision) => {
                assert!(machine.ends.is_empty() && machine.entered.replace(revision).is_none(), "entered twice");
                machine.revision = Some(revision);
            }
            MembershipEvent::Joined { node, revision, record } => {
                assert_ne!(node, machine.node);
                assert_eq!(record.name(), format!("node-{node}"));
                let before = machine.view.insert(node, (revision, true));
                assert!(before.is_none_or(|(last, is_member)| last < revision && !is_member), "{node} joined twice");
            }
            MembershipEvent::Lost { node, revision, cause } => {
                let before = machine.view.insert(node, (revision, false));
                assert_eq!(before, Some((revision, true)), "{node} was lost twice");
                machine.losses.push((node, revision, cause));
                let excused = cause == Loss::Fenced || self.excused.contains(&(node, revision));
                assert!(excused, "{node} was reported lost, {cause:?}, and nothing had happened to it");
            }
            end @ (MembershipEvent::Evicted | MembershipEvent::Refused(_)) => {
                let excused = machine.entered.take().is_none_or(|own| self.excused.contains(&(machine.node, own)));
                assert!(excused && machine.ends.is_empty(), "{end:?}");
                machine.ends.push(end);
            }
            MembershipEvent::Unreadable { key, error } => panic!("{key}: {error}"),
        }
    }

    /// Checks invariant 4: every machine that is a member sees exactly the records of the others.
    pub(super) fn check_agreement(&self) {
        let records: BTreeSet<_> = self.records.iter().map(|(key, (_, revision))| (key.clone(), *revision)).collect();
        let alive: BTreeSet<_> = self
            .machines
            .iter()
            .filter(|machine| machine.is_alive)
            .filter_map(|machine| Some((machine.members.key(), machine.entered?)))
            .collect();
        assert_eq!(records, alive, "the records are those of the nodes that run");
        for machine in self.machines.iter().filter(|machine| machine.is_alive && machine.entered.is_some()) {
            let own = (machine.members.key(), machine.entered.unwrap());
            let seen: BTreeSet<_> = machine
                .members
                .members()
                .map(|(node, revision)| (format!("node-{node}.{node}"), revision))
                .chain([own])
                .collect();
            assert_eq!(seen, records, "as {} sees it", machine.node);
        }
    }
}
