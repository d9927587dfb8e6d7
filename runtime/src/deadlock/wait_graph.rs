//! The wait graph: which process waits for which, and the response to a cycle.
//!
//! A process that can be resumed only by one other process publishes an [`Edge`]: it waits for the answer to one call
//! and nothing else, or it is suspended because it sent faster than the receiver handled messages. The publisher then
//! walks along the edges of other processes, starting at the target of its own. If the walk leads back to it, no
//! process of the cycle would ever be resumed. A call that closes the cycle therefore fails; but if the cycle contains
//! suspensions, they are lifted instead. A suspension that would close the cycle is refused. Waits that something else
//! could end have no edge and rely on their deadlines.
//!
//! # Steps
//! * Z1. The waiter writes its edge: it clears the number, then writes the rest, then the number. (This is a sequence
//!   lock whose sequence never repeats: see [`call_id`](crate::call::call_id).) If this thread holds the target's token
//!   and runs the target next, the remaining steps are skipped.
//! * Z2. A sequentially consistent fence.
//! * Z3. The waiter walks from the target of its edge ([`leads_back`]). Usually there is no other edge, and the walk
//!   ends.
//! * Z4. If the walk leads back, the waiter looks again under a program-wide lock ([`cycle`]). It notes all edges of
//!   the cycle. Then it checks for each of them that it is still the edge that was noted, that its call is still open,
//!   and that its process is alive and has no other work.
//! * Z5. Still under the lock, the waiter withdraws its message, if the called process has not taken it, and removes
//!   its own edge. Its call then fails. If the message is already being handled, the waiter withdraws the message of
//!   another process of the cycle instead, and the call of that process fails.
//!
//! # Why
//! *A cycle is found.* Of all processes that close the cycle concurrently, let P be the one whose fence is last. Each
//! of the others wrote its edge before its own fence, which precedes P's. So P's walk finds that edge, or a newer one;
//! the writer of a newer one then walks itself, after P. Without Z2, each might find the others' edges unwritten.
//!
//! A process that stopped after Z1 wrote its edge while its thread held the token of the next process of the cycle.
//! That next process ran later, on this thread or on one that got the token from it, and only then wrote the edge that
//! it has in the cycle (each process that runs and still waits writes its edge anew). So each such edge was written
//! before the edge of the next process, as the thread of that next process sees it. Hence not every process of the
//! cycle stopped after Z1. Following the cycle from a process that did leads to a process with a fence, and the edge of
//! the former was written before this fence, too.
//!
//! *A call that fails is never delivered.* One word decides whether a message is withdrawn or handled (see
//! [`call_id`](crate::call::call_id)). Every cycle has a message that can be withdrawn: if all of them were being
//! handled, each process would have called the next one from within the method for the preceding call, hence after
//! that call, and around the cycle each call would be later than itself. If a message has been taken since the second
//! look, its receiver runs, and the cycle is open.
//!
//! *One call fails.* P's second look fails only if the cycle is open. Either an edge is gone, because another process
//! removed it in its Z5 or because its call was answered. Or a process of the cycle has other work (a kill, a wake);
//! after that work, it writes its edge anew and walks after P. The second process under the lock finds the first one's
//! edge gone. Without the second look, two calls that close the cycle concurrently might both fail.
//!
//! *Nothing else fails.* Let T be the moment between the noting and the second reading in Z4. An edge with the same
//! number before and after existed at T. A called process that also waits has given no answer since it wrote its own
//! edge, because it has not run since. Answers that it gave or passed on earlier are seen, because the noting acquired
//! its edge, and the calls are checked after the noting. So at T each process of the cycle waited for the next one, and
//! only the next one could resume it.
//!
//! A process that runs unnecessarily (because of a left-over wake) removes its edge before it runs and writes it anew
//! afterwards. A walk in between may miss the edge, but the walk that this process makes afterwards finds the cycle.
//!
//! Rejected: clearing the edge where a call is answered (each answer would touch a cache line of the caller: calls
//! would cost half as much again); edges in words of the slot (both of its lines are full); a periodic search by a
//! thread (a cycle would be found late, and the call that closed it would be unknown).

use crate::call::call_id::{CallId, NUMBER_BITS};
use crate::mailbox::node::MailNode;
use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, fence, lock};
use std::ptr;

/// A process in one word: its slot above its generation.
pub(crate) type Incarnation = u64;

/// The maximum length of a walk, in edges. Longer cycles are left to the deadlines of their calls.
const DEPTH: usize = 64;

/// The maximum length of a method's name in an edge.
const MOST_LENGTH: u64 = EdgeWord::BLOCKS - 1;

/// The wait of an edge in one word: the number of the call or suspension, whether the process blocks its thread, and
/// the length of the method's name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EdgeWord(u64);

impl EdgeWord {
    const NONE: Self = Self(0);
    const LOW_BITS: u32 = 64 - NUMBER_BITS;
    const BLOCKS: u64 = 1 << (Self::LOW_BITS - 1);

    #[inline]
    fn new(number: u64, blocks: bool, length: usize) -> Self {
        let blocks = if blocks { Self::BLOCKS } else { 0 };
        Self(number << Self::LOW_BITS | blocks | length as u64)
    }

    #[inline]
    fn number(self) -> u64 {
        self.0 >> Self::LOW_BITS
    }

    fn blocks(self) -> bool {
        self.0 & Self::BLOCKS != 0
    }

    fn length(self) -> usize {
        (self.0 & MOST_LENGTH) as usize
    }
}

/// The edge of a process. Any thread may read it. Only the thread that runs the process publishes: if two threads
/// published concurrently, a reader could combine parts of both, such as the text of one name with the length of
/// another.
#[derive(Debug)]
pub(crate) struct Edge {
    /// The wait, as an [`EdgeWord`].
    word: AtomicU64,
    on: AtomicU64,
    /// The node of the call; null for a suspension.
    node: AtomicPtr<MailNode>,
    /// The text of the method's name.
    method: AtomicPtr<u8>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Edge>() == 32);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// The process that this one waits for.
    pub(crate) on: Incarnation,
    pub(crate) what: What,
    /// Whether the process blocks a thread, and does nothing else until the wait ends.
    pub(crate) blocks: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The answer to a call to the named method.
    Call(CallId, &'static str),
    /// Room in a mailbox. The number is unique.
    Suspension(u64),
}

impl What {
    fn number(&self) -> u64 {
        match self {
            Self::Call(ticket, _) => ticket.number(),
            Self::Suspension(number) => *number & (u64::MAX >> EdgeWord::LOW_BITS),
        }
    }
}

pub(crate) trait Places {
    /// The value needed to fail a process's call.
    type Caller;

    /// Returns the edge of a process, or `None` if it has never had one.
    fn edge(&self, incarnation: Incarnation) -> Option<&Edge>;

    /// Returns true if the process is alive and has no other work. (For a process that blocks, it is enough that it is
    /// alive.) A process with other work runs soon, and then ends, waits for something else, or walks the graph itself.
    fn is_stuck(&self, incarnation: Incarnation, blocks: bool) -> bool;

    /// Returns whether the calling thread holds the token of the process and will run it next. If so, the process sees
    /// everything that this thread has done.
    #[inline(always)]
    fn runs_next_here(&self, _incarnation: Incarnation) -> bool {
        false
    }

    /// Withdraws the message of another process's call, unless it is being handled. Returns the caller to notify.
    fn withdraw(&self, ticket: CallId) -> Option<Self::Caller>;
}

/// The outcome of a wait that closed a cycle.
#[derive(Debug)]
pub(crate) enum Closed<C> {
    /// A call closed the cycle. These are the calls of the cycle, with their methods; the first one closed it, and its
    /// message was withdrawn and its edge removed.
    Calls(Vec<(Incarnation, &'static str)>),
    /// A call that is already being handled closed the cycle: the message of the first call in this list was withdrawn
    /// instead, and its caller must be notified.
    Another(C, Vec<(Incarnation, &'static str)>),
    /// A call closed the cycle. The suspensions of these processes were part of it and have been lifted: the processes
    /// must be resumed.
    Suspended(Vec<Incarnation>),
    /// A suspension closed the cycle and was removed.
    Suspension,
}

impl Edge {
    pub(crate) fn unused() -> Self {
        Self {
            word: AtomicU64::new(EdgeWord::NONE.0),
            on: AtomicU64::new(0),
            node: AtomicPtr::new(ptr::null_mut()),
            method: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Writes the edge: step Z1.
    #[inline(always)]
    fn publish(&self, wait: Wait) {
        let (node, method) = match wait.what {
            What::Call(ticket, method) => (ptr::from_ref(ticket.node()).cast_mut(), method),
            What::Suspension(_) => (ptr::null_mut(), ""),
        };
        let length = method.floor_char_boundary(MOST_LENGTH as usize);
        self.word.store(EdgeWord::NONE.0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.on.store(wait.on, Ordering::Relaxed);
        self.node.store(node, Ordering::Relaxed);
        self.method.store(method.as_ptr().cast_mut(), Ordering::Relaxed);
        self.word.store(EdgeWord::new(wait.what.number(), wait.blocks, length).0, Ordering::Release);
    }

    /// Removes the edge, because the process no longer waits, or waits for something else too.
    #[inline]
    pub(crate) fn withdraw(&self) {
        self.word.store(EdgeWord::NONE.0, Ordering::Release);
    }

    /// Removes the edge if it still belongs to this call, rather than to a later wait or a later process.
    #[inline]
    pub(crate) fn withdraw_call(&self, call: u64) {
        if EdgeWord(self.word.load(Ordering::Relaxed)).number() == call {
            self.withdraw();
        }
    }

    /// Removes another process's suspension. Returns whether it still existed.
    fn lift(&self, hold: u64) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        EdgeWord(word).number() == hold
            && self.word.compare_exchange(word, EdgeWord::NONE.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns the content of the edge, or `None` if there is none or it is being written.
    pub(crate) fn read(&self) -> Option<Wait> {
        let word = EdgeWord(self.word.load(Ordering::Acquire));
        if word == EdgeWord::NONE {
            return None;
        }
        let on = self.on.load(Ordering::Relaxed);
        let node = self.node.load(Ordering::Relaxed);
        let method = self.method.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if self.word.load(Ordering::Relaxed) != word.0 {
            return None;
        }
        let number = word.number();
        // SAFETY: null, or made from a `&'static MailNode`.
        let what = match unsafe { node.as_ref() } {
            Some(node) => What::Call(CallId::of(node, number), text(method, word.length())),
            None => What::Suspension(number),
        };
        Some(Wait { on, what, blocks: word.blocks() })
    }

    /// Returns the content of the edge if it is still valid. (An answered or abandoned call leaves its edge behind.)
    #[inline]
    pub(crate) fn stands(&self) -> Option<Wait> {
        self.read().filter(|wait| match wait.what {
            What::Call(ticket, _) => ticket.is_open(),
            What::Suspension(_) => true,
        })
    }
}

/// Returns the name in an edge. The parts of the edge must have been read consistently.
fn text(method: *mut u8, length: usize) -> &'static str {
    // SAFETY: pointer and length were written together from a `&'static str`, with the length cut to a character
    // boundary if necessary. Since the number of the edge was the same before and after, they were also read together.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(method, length)) }
}

/// Publishes that the process `from` waits, and that nothing else can resume it: steps Z1 to Z5. `edge` belongs to
/// `from`.
#[inline(always)]
pub(crate) fn publish<P: Places>(
    places: &P,
    second_look: &Mutex<()>,
    from: Incarnation,
    edge: &Edge,
    wait: Wait,
) -> Option<Closed<P::Caller>> {
    edge.publish(wait);
    if places.runs_next_here(wait.on) {
        return None;
    }
    look(places, second_look, from, edge, wait)
}

/// Performs steps Z2 to Z5. Not inlined, so that a wait that needs only Z1 does not construct the `Wait` that is passed
/// here.
#[inline(never)]
fn look<P: Places>(
    places: &P,
    second_look: &Mutex<()>,
    from: Incarnation,
    edge: &Edge,
    wait: Wait,
) -> Option<Closed<P::Caller>> {
    fence(Ordering::SeqCst);
    if !leads_back(places, from, wait.on) {
        return None;
    }
    close(places, second_look, from, edge, wait)
}

/// Returns whether the edges lead from `on` back to `from`: step Z3. The edges may be out of date.
#[inline(always)]
pub(crate) fn leads_back(places: &impl Places, from: Incarnation, on: Incarnation) -> bool {
    let mut next = on;
    for _ in 0..DEPTH {
        if next == from {
            return true;
        }
        match places.edge(next).and_then(Edge::stands) {
            Some(wait) => next = wait.on,
            None => return false,
        }
    }
    false
}

/// Performs steps Z4 and Z5.
#[cold]
fn close<P: Places>(
    places: &P,
    second_look: &Mutex<()>,
    from: Incarnation,
    edge: &Edge,
    wait: Wait,
) -> Option<Closed<P::Caller>> {
    let _alone = lock(second_look);
    let cycle = cycle(places, from, wait)?;
    if let What::Suspension(_) = wait.what {
        edge.withdraw();
        return Some(Closed::Suspension);
    }
    let holds = cycle.iter().filter_map(|(incarnation, wait)| match wait.what {
        What::Suspension(hold) => Some((*incarnation, hold)),
        What::Call(..) => None,
    });
    let held: Vec<(Incarnation, u64)> = holds.collect();
    if !held.is_empty() {
        // If a suspension is missing, another process has removed it, and the cycle is open.
        let lifted = held
            .into_iter()
            .filter(|(incarnation, hold)| places.edge(*incarnation).is_some_and(|edge| edge.lift(*hold)));
        return Some(Closed::Suspended(lifted.map(|(incarnation, _)| incarnation).collect()));
    }
    let calls = cycle.into_iter().filter_map(|(incarnation, wait)| match wait.what {
        What::Call(ticket, method) => Some((ticket, (incarnation, method))),
        What::Suspension(_) => None,
    });
    let (tickets, mut calls): (Vec<CallId>, Vec<(Incarnation, &'static str)>) = calls.unzip();
    let (own, others) = tickets.split_first()?;
    if own.withdraw() {
        edge.withdraw();
        return Some(Closed::Calls(calls));
    }
    let another = |(place, ticket): (usize, &CallId)| Some((place + 1, places.withdraw(*ticket)?));
    let (place, caller) = others.iter().enumerate().find_map(another)?;
    calls.rotate_left(place);
    Some(Closed::Another(caller, calls))
}

/// Returns the cycle that the edge of `from` closes, if any: step Z4. The caller holds the lock.
fn cycle(places: &impl Places, from: Incarnation, wait: Wait) -> Option<Vec<(Incarnation, Wait)>> {
    let mut cycle = vec![(from, wait)];
    let mut next = wait.on;
    while next != from {
        if cycle.len() > DEPTH {
            return None;
        }
        let wait = places.edge(next)?.read()?;
        cycle.push((next, wait));
        next = wait.on;
    }
    // All edges are noted. From here on, everything that each process did before it wrote its edge is visible.
    fence(Ordering::Acquire);
    let stands = |&(incarnation, noted): &(Incarnation, Wait)| {
        let now = places.edge(incarnation).and_then(Edge::stands);
        now.is_some_and(|now| now.what.number() == noted.what.number()) && places.is_stuck(incarnation, noted.blocks)
    };
    cycle.iter().all(stands).then_some(cycle)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::call::call_id::{keep, take};

    /// Processes 1 to 99, with one edge each.
    struct Crowd {
        edges: Vec<Edge>,
        dead: Vec<Incarnation>,
        second_look: Mutex<()>,
    }

    impl Places for Crowd {
        type Caller = CallId;

        fn withdraw(&self, ticket: CallId) -> Option<CallId> {
            ticket.withdraw().then_some(ticket)
        }

        fn edge(&self, incarnation: Incarnation) -> Option<&Edge> {
            self.edges.get(incarnation as usize)
        }

        fn is_stuck(&self, incarnation: Incarnation, _blocks: bool) -> bool {
            !self.dead.contains(&incarnation)
        }
    }

    impl Crowd {
        fn new() -> Self {
            let edges = (0..100).map(|_| Edge::unused()).collect();
            Self { edges, dead: Vec::new(), second_look: Mutex::new(()) }
        }

        fn wait(&self, from: Incarnation, wait: Wait) -> Option<Closed<CallId>> {
            publish(self, &self.second_look, from, &self.edges[from as usize], wait)
        }

        /// Lets process `from` call `on` and wait.
        fn call(&self, from: Incarnation, on: Incarnation) -> (CallId, Option<Closed<CallId>>) {
            let ticket = CallId::issue(Box::leak(Box::new(MailNode::empty())), from + 1_000);
            (ticket, self.wait(from, Wait { on, what: What::Call(ticket, "Type::method"), blocks: false }))
        }

        fn hold(&self, from: Incarnation, on: Incarnation) -> Option<Closed<CallId>> {
            self.wait(from, Wait { on, what: What::Suspension(from + 2_000), blocks: false })
        }
    }

    #[track_caller]
    fn names(closed: Option<Closed<CallId>>) -> Vec<Incarnation> {
        match closed {
            Some(Closed::Calls(calls)) => calls.into_iter().map(|(incarnation, _)| incarnation).collect(),
            other => panic!("a cycle of calls was closed, and came {other:?}"),
        }
    }

    #[test]
    fn the_call_that_closes_a_ring_is_told_all_of_it_and_leaves_it_open() {
        let crowd = Crowd::new();
        assert!(crowd.call(1, 2).1.is_none() && crowd.call(2, 3).1.is_none());
        assert_eq!(names(crowd.call(3, 1).1), [3, 1, 2]);
        assert!(crowd.edges[3].read().is_none());
        // The other processes still wait.
        assert_eq!(names(crowd.call(3, 2).1), [3, 2]);
        assert_eq!(names(crowd.call(4, 4).1), [4]);
    }

    #[test]
    fn a_call_that_fails_is_withdrawn_and_if_it_is_being_handled_another_one_is() {
        let crowd = Crowd::new();
        let (first, second) = (crowd.call(1, 2).0, crowd.call(2, 3).0);
        let (own, closed) = crowd.call(3, 1);
        assert_eq!(names(closed), [3, 1, 2]);
        assert!(!take(own.word()) && take(first.word()) && take(second.word()), "the failed one is never handled");
        // The call that closes the cycle is already being handled by process 2, which has called 1 from that method.
        let crowd = Crowd::new();
        let (second, _) = crowd.call(2, 1);
        let own = CallId::issue(Box::leak(Box::new(MailNode::empty())), 77);
        assert!(take(own.word()));
        let closed = crowd.wait(1, Wait { on: 2, what: What::Call(own, "Type::method"), blocks: false });
        match closed {
            Some(Closed::Another(caller, calls)) => {
                assert_eq!(caller.number(), second.number());
                assert_eq!(calls.into_iter().map(|(incarnation, _)| incarnation).collect::<Vec<_>>(), [2, 1]);
            }
            other => panic!("another call was to fail, and came {other:?}"),
        }
        assert!(!take(second.word()) && own.is_open() && crowd.edges[1].stands().is_some(), "the own one waits on");
    }

    #[test]
    fn an_answered_kept_or_abandoned_call_is_no_edge() {
        let ends: [fn(&CallId); 3] = [
            |ticket| ticket.word().store(ptr::null_mut(), Ordering::Relaxed),
            |ticket| assert!(keep(ticket.word())),
            |ticket| ticket.abandon(),
        ];
        for end in ends {
            let crowd = Crowd::new();
            let (ticket, _) = crowd.call(1, 2);
            end(&ticket);
            assert!(crowd.call(2, 1).1.is_none());
        }
    }

    #[test]
    fn a_withdrawn_edge_and_a_dead_process_close_nothing() {
        let mut crowd = Crowd::new();
        assert!(crowd.call(1, 2).1.is_none());
        crowd.edges[1].withdraw();
        assert!(crowd.call(2, 1).1.is_none());
        assert!(crowd.call(4, 5).1.is_none());
        crowd.dead.push(4);
        assert!(crowd.call(5, 4).1.is_none());
    }

    #[test]
    fn a_ring_beyond_the_depth_and_one_that_leads_past_us_end_the_walk() {
        let crowd = Crowd::new();
        // Processes 10 and 11 wait for each other, since neither has looked for a cycle yet.
        for (from, on) in [(10, 11), (11, 10)] {
            let word = Box::leak(Box::new(MailNode::empty()));
            let what = What::Call(CallId::issue(word, from as u64), "m");
            crowd.edges[from].publish(Wait { on, what, blocks: false });
        }
        assert!(crowd.call(12, 10).1.is_none());
        for from in 20..20 + DEPTH as u64 {
            assert!(crowd.call(from, from + 1).1.is_none());
        }
        assert_eq!(names(crowd.call(20 + DEPTH as u64 - 1, 21).1).len(), DEPTH - 1);
    }

    #[test]
    fn a_hold_that_would_close_a_ring_is_not_made() {
        let crowd = Crowd::new();
        assert!(crowd.hold(1, 2).is_none());
        assert!(matches!(crowd.hold(2, 1), Some(Closed::Suspension)));
        assert!(crowd.edges[2].read().is_none() && crowd.edges[1].read().is_some());
        let (_, closed) = crowd.call(3, 4);
        assert!(closed.is_none() && matches!(crowd.hold(4, 3), Some(Closed::Suspension)));
    }

    #[test]
    fn a_call_that_closes_a_ring_with_holds_lifts_them_and_waits() {
        let crowd = Crowd::new();
        assert!(crowd.hold(1, 2).is_none() && crowd.hold(2, 3).is_none());
        match crowd.call(3, 1).1 {
            Some(Closed::Suspended(held)) => assert_eq!(held, [1, 2]),
            other => panic!("the holds were to be lifted, and came {other:?}"),
        }
        assert!(crowd.edges[1].read().is_none() && crowd.edges[2].read().is_none());
        assert!(crowd.edges[3].stands().is_some());
    }

    /// A graph in which process 1 resumes on its own and publishes the wait `then`, just before its edge is read for
    /// the `at`-th time.
    struct Changes {
        crowd: Crowd,
        looks: std::cell::Cell<u32>,
        at: u32,
        then: Wait,
    }

    impl Places for Changes {
        type Caller = CallId;

        fn withdraw(&self, ticket: CallId) -> Option<CallId> {
            self.crowd.withdraw(ticket)
        }

        fn edge(&self, incarnation: Incarnation) -> Option<&Edge> {
            let edge = self.crowd.edge(incarnation)?;
            if incarnation == 1 {
                self.looks.set(self.looks.get() + 1);
                if self.looks.get() == self.at {
                    edge.publish(self.then);
                }
            }
            Some(edge)
        }

        fn is_stuck(&self, _life: Incarnation, _blocks: bool) -> bool {
            true
        }
    }

    /// Lets process 2 call process 1. Process 1 first waits for 2 with `first`, and switches to `then` just before its
    /// edge is read for the `at`-th time. Returns the outcome of the call, and the final wait of process 1.
    fn meets_a_change(first: What, then: What, at: u32) -> (Option<Closed<CallId>>, (Incarnation, u64)) {
        let wait = |on, what| Wait { on, what, blocks: false };
        let places = Changes { crowd: Crowd::new(), looks: std::cell::Cell::new(0), at, then: wait(3, then) };
        assert!(places.crowd.wait(1, wait(2, first)).is_none());
        let Crowd { edges, second_look, .. } = &places.crowd;
        let own = CallId::issue(Box::leak(Box::new(MailNode::empty())), 90);
        let closed = publish(&places, second_look, 2, &edges[2], wait(1, What::Call(own, "Type::method")));
        assert!(places.looks.get() >= at, "it was looked at {} times", places.looks.get());
        let now = edges[1].read().expect("it waits");
        (closed, (now.on, now.what.number()))
    }

    /// Each edge is read three times: by the walk, for the notes, and by the second look. If the second look accepted
    /// another wait than the one that was noted, a call would fail although its cycle is open.
    #[test]
    fn a_process_that_waits_for_another_by_the_second_look_closes_no_ring() {
        let call = |number| What::Call(CallId::issue(Box::leak(Box::new(MailNode::empty())), number), "Type::method");
        for (first, then) in [
            (call(91), call(92)),
            (call(91), What::Suspension(92)),
            (What::Suspension(91), call(92)),
            (What::Suspension(91), What::Suspension(92)),
        ] {
            for at in [2, 3] {
                let (closed, now) = meets_a_change(first, then, at);
                assert!(closed.is_none(), "{first:?}, {then:?} at look {at}: {closed:?}");
                assert_eq!(now, (3, 92));
            }
        }
    }

    /// The fourth read is part of lifting the suspension. Without a check it would remove a later suspension, or the
    /// edge of a call through which another cycle could be found.
    #[test]
    fn a_hold_that_was_made_after_the_second_look_is_not_lifted() {
        let ticket = CallId::issue(Box::leak(Box::new(MailNode::empty())), 92);
        for then in [What::Suspension(92), What::Call(ticket, "Type::method")] {
            let (closed, now) = meets_a_change(What::Suspension(91), then, 4);
            assert!(matches!(&closed, Some(Closed::Suspended(held)) if held.is_empty()), "{then:?}: {closed:?}");
            assert_eq!(now, (3, 92));
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let edge = Edge::unused();
        let name: &'static str = Box::leak(format!("x{}", "ü".repeat(1_000)).into_boxed_str());
        let ticket = CallId::issue(Box::leak(Box::new(MailNode::empty())), 5);
        edge.publish(Wait { on: 1, what: What::Call(ticket, name), blocks: true });
        match edge.read().map(|wait| wait.what) {
            Some(What::Call(_, method)) => assert!(name.starts_with(method) && method.len() > 500),
            other => panic!("a call was published, and came {other:?}"),
        }
    }
}
