//! The operations on names with their answers, and the writes of the holders.

use crate::spec::{Act, Answer, Name, Outcome, PerhapsFree};
use postroom::{NodeId, Pid};
use postroom_cluster::Cluster;
use postroom_cluster::names::{RegisterError, Token};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

/// Whether the store checks the tokens of writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Token,
    /// Nothing is checked: for a test that shows the need for tokens.
    Nothing,
}

/// The histories of all names.
pub(crate) struct Book {
    names: Vec<Mutex<History>>,
    guard: Guard,
    /// Nodes that have met a fault, or leave: their names may become free at any time.
    faulty: Mutex<BTreeSet<NodeId>>,
    prefix: String,
}

#[derive(Default)]
struct History {
    tester: LinearizabilityTester<u32, Name>,
    /// Shared with all [`Act::Register`] of this history.
    at_end: Arc<OnceLock<PerhapsFree>>,
    last_caller: u32,
    /// All tokens, with their holders.
    granted: BTreeMap<Token, Granted>,
    /// Registrations whose answer was lost, and whether the name may be free again.
    doubtful: BTreeMap<Pid, bool>,
    /// The token that each node has looked up most recently.
    seen: BTreeMap<NodeId, Token>,
    looked_up: Vec<(Pid, Token)>,
    store: Store,
}

struct Granted {
    pid: Pid,
    may_be_free: bool,
}

/// The store that the holder of a name writes to: a number, which each holder reads when it gets the name, and then
/// increments.
#[derive(Default)]
struct Store {
    greatest: Option<Token>,
    value: u64,
    /// Number of confirmed writes.
    confirmed: u64,
    refused: u64,
}

/// The state of a holder: its token, and the number that it has written or read last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    token: Token,
    value: u64,
}

/// The totals of the histories.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) acts: usize,
    pub(crate) tokens: usize,
    pub(crate) confirmed: u64,
    pub(crate) refused: u64,
}

impl History {
    fn invoke(&mut self, act: Act) -> u32 {
        self.last_caller += 1;
        self.tester.on_invoke(self.last_caller, act).unwrap();
        self.last_caller
    }

    fn returns(&mut self, caller: u32, outcome: Outcome) {
        let perhaps_free = self.perhaps_free();
        self.tester.on_return(caller, Answer { outcome, perhaps_free }).unwrap();
    }

    fn perhaps_free(&self) -> PerhapsFree {
        let granted = self.granted.iter().filter(|(_, granted)| granted.may_be_free);
        let granted = granted.map(|(token, granted)| (granted.pid, Some(*token)));
        let doubtful = self.doubtful.iter().filter(|(_, may_be_free)| **may_be_free).map(|(pid, _)| (*pid, None));
        granted.chain(doubtful).collect()
    }

    fn may_be_free(&mut self, is_concerned: impl Fn(Pid) -> bool) {
        let granted = self.granted.values_mut().filter(|granted| is_concerned(granted.pid));
        granted.for_each(|granted| granted.may_be_free = true);
        let doubtful = self.doubtful.iter_mut().filter(|(pid, _)| is_concerned(**pid));
        doubtful.for_each(|(_, may_be_free)| *may_be_free = true);
    }
}

impl Store {
    fn admits(&mut self, token: Token, guard: Guard) -> bool {
        let is_stale = self.greatest.is_some_and(|greatest| token < greatest);
        if is_stale && guard == Guard::Token {
            self.refused += 1;
            return false;
        }
        self.greatest = self.greatest.max(Some(token));
        true
    }
}

impl Book {
    /// Returns a book whose names begin with `prefix`. No other book may have this prefix.
    pub(crate) fn new(prefix: &str, names: usize, guard: Guard) -> Self {
        let names = (0..names).map(|_| Mutex::default()).collect();
        Self { names, guard, faulty: Mutex::default(), prefix: prefix.into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    /// Registers a name for a process. Returns the holder's state with the value that it has read from the store.
    pub(crate) fn register(&self, cluster: &Cluster, number: usize, pid: Pid) -> Option<Held> {
        let name = self.name(number);
        let caller = {
            let mut history = self.names[number].lock().unwrap();
            let at_end = Arc::clone(&history.at_end);
            history.invoke(Act::Register(pid, at_end))
        };
        let registered = cluster.register(name, pid).wait();
        let mut history = self.names[number].lock().unwrap();
        let is_faulty = || self.faulty.lock().unwrap().contains(&pid.node());
        let mut held = None;
        match registered {
            Ok(token) => {
                history.returns(caller, Outcome::Token(token));
                history.granted.entry(token).or_insert(Granted { pid, may_be_free: is_faulty() });
                let store = &mut history.store;
                held = store.admits(token, self.guard).then_some(Held { token, value: store.value });
            }
            Err(RegisterError::Taken { holder, .. } | RegisterError::HolderLost { holder, .. }) => {
                history.returns(caller, Outcome::Taken(holder))
            }
            Err(RegisterError::Unavailable { .. }) => history.returns(caller, Outcome::Nothing),
            // In the history, the operation never returns. There may be an entry, or there may have been one for a
            // moment, and others may have seen it.
            Err(RegisterError::Unknown { .. } | RegisterError::Ended { .. } | RegisterError::NotAMember) => {
                let may_be_free = !pid.is_alive() || is_faulty();
                *history.doubtful.entry(pid).or_default() |= may_be_free;
            }
            Err(error) => panic!("{error}"),
        }
        held
    }

    pub(crate) fn release(&self, cluster: &Cluster, number: usize, pid: Pid) {
        let mut history = self.names[number].lock().unwrap();
        let caller = history.invoke(Act::Release(pid));
        // The entry is deleted some time later.
        history.may_be_free(|other| other == pid);
        drop(history);
        let had = cluster.release(self.name(number), pid).wait();
        // A node that was fenced has given up the name although the entry still exists.
        let is_certain = had || !self.faulty.lock().unwrap().contains(&pid.node());
        let outcome = if is_certain { Outcome::Released(had) } else { Outcome::Nothing };
        self.names[number].lock().unwrap().returns(caller, outcome);
    }

    /// Looks a name up. The result may be out of date, but not older than what this node has seen before.
    pub(crate) fn look_up(&self, cluster: &Cluster, number: usize) {
        let mut history = self.names[number].lock().unwrap();
        if let Some((pid, token)) = cluster.holder(&self.name(number)) {
            let before = history.seen.insert(cluster.id(), token);
            assert!(before.is_none_or(|before| before <= token), "{token} after {before:?}");
            history.looked_up.push((pid, token));
        }
    }

    /// Writes the next number. Returns false if the store refuses it because another holder has written.
    pub(crate) fn write(&self, number: usize, held: &mut Held) -> bool {
        let store = &mut self.names[number].lock().unwrap().store;
        let is_admitted = store.admits(held.token, self.guard);
        if is_admitted {
            held.value += 1;
            store.value = held.value;
            store.confirmed += 1;
        }
        is_admitted
    }

    /// Records that the process ends: its names become free some time later.
    pub(crate) fn ends(&self, pid: Pid) {
        self.names.iter().for_each(|history| history.lock().unwrap().may_be_free(|other| other == pid));
    }

    /// Records that the node meets a fault, or leaves.
    pub(crate) fn fails(&self, node: NodeId) {
        self.faulty.lock().unwrap().insert(node);
        self.names.iter().for_each(|history| history.lock().unwrap().may_be_free(|pid| pid.node() == node));
    }

    /// Returns what is wrong with the histories, and their totals.
    pub(crate) fn check(&self) -> (Vec<String>, Totals) {
        let (mut wrong, mut totals) = (Vec::new(), Totals::default());
        for (number, history) in self.names.iter().enumerate() {
            let history = history.lock().unwrap();
            let name = self.name(number);
            history.at_end.set(history.perhaps_free()).expect("checked once");
            if !history.tester.is_consistent() {
                wrong.push(format!("{name} is not linearizable: {:?}", history.tester));
            }
            for (pid, token) in &history.looked_up {
                let is_genuine = history.granted.get(token).is_some_and(|granted| granted.pid == *pid);
                if !is_genuine && !history.doubtful.contains_key(pid) {
                    wrong.push(format!("{name} was never held by {pid} with token {token}"));
                }
            }
            let Store { value, confirmed, refused, .. } = history.store;
            if value != confirmed {
                wrong.push(format!("{name}: {confirmed} writes were confirmed, {value} are left"));
            }
            totals.acts += history.tester.len();
            totals.tokens += history.granted.len();
            totals.confirmed += confirmed;
            totals.refused += refused;
        }
        (wrong, totals)
    }
}
