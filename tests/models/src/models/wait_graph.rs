//! The wait graph (`wait_graph.rs`) and the tickets of calls (`call_id.rs`): of those that close a ring at the same
//! moment exactly one is told, and nobody is told of a ring that was open.
//!
//! Not covered: the side table (stress tests), a walk through stale edges of many, wakers that are lent.

use crate::call::call_id::CallId;
use crate::check::{check, keep, reach};
use crate::deadlock::wait_graph::{Closed, Edge, Incarnation, Places, Wait, What, publish};
use crate::fault::{self, Fault};
use crate::mailbox::node::MailNode;
use crate::sync::{Mutex, Ordering};
use loom::thread;
use std::ptr;

/// Processes 1 and up.
struct Graph {
    edges: Vec<Edge>,
    second_look: Mutex<()>,
    /// In the place of the lock, where one test plants that there is none.
    other_look: Mutex<()>,
}

impl Places for Graph {
    type Caller = ();

    fn withdraw(&self, ticket: CallId) -> Option<()> {
        ticket.withdraw().then_some(())
    }

    fn edge(&self, life: Incarnation) -> Option<&Edge> {
        self.edges.get(life as usize)
    }

    fn is_stuck(&self, _life: Incarnation, _blocks: bool) -> bool {
        true
    }
}

/// The driver's faults.
const TWO_LOCKS: Fault = Fault::Driver(0);
const RUNS_WITH_ITS_EDGE: Fault = Fault::Driver(1);
/// A thread that does not run the process publishes its edge: a machine of the process's that is driven by hand there.
const TWO_WRITERS: Fault = Fault::Driver(2);
const TAKES_BLINDLY: Fault = Fault::Driver(3);

impl Graph {
    fn new(count: usize) -> &'static Self {
        let edges = (0..=count).map(|_| Edge::unused()).collect();
        keep(Self { edges, second_look: Mutex::new(()), other_look: Mutex::new(()) })
    }

    fn ticket(number: u64) -> CallId {
        CallId::issue(keep(MailNode::empty()), number)
    }

    fn publish(&self, from: Incarnation, on: Incarnation, what: What) -> Option<Closed<()>> {
        let lock = if from == 2 && fault::is(TWO_LOCKS) { &self.other_look } else { &self.second_look };
        let closed = publish(self, lock, from, &self.edges[from as usize], Wait { on, what, blocks: false });
        reach(if closed.is_some() { "closed" } else { "waits" });
        closed
    }

    /// The process `from` calls `on` and waits. Gives whether its call has failed.
    fn call(&self, from: Incarnation, on: Incarnation, ticket: CallId) -> bool {
        matches!(self.publish(from, on, What::Call(ticket, "Type::method")), Some(Closed::Calls(_)))
    }

    fn resume(&self, from: Incarnation) {
        self.edges[from as usize].withdraw();
    }
}

/// A ring of so many, closed by all at once.
fn ring(count: u64) {
    let graph = Graph::new(count as usize);
    let others: Vec<_> = (2..=count)
        .map(|from| {
            let ticket = Graph::ticket(from);
            thread::spawn(move || graph.call(from, from % count + 1, ticket))
        })
        .collect();
    let mut failed = u32::from(graph.call(1, 2 % (count + 1), Graph::ticket(1)));
    failed += others.into_iter().map(|other| u32::from(other.join().unwrap())).sum::<u32>();
    assert_eq!(failed, 1, "one call of the ring fails");
}

/// Two that call each other.
#[test]
fn two_at_once() {
    check(5, &["closed", "waits"], || ring(2));
}

/// Three around.
#[test]
fn three_at_once() {
    check(2, &["closed", "waits"], || ring(3));
}

/// The second has answered the first before it calls it: neither waits for ever, so neither may fail.
#[test]
fn an_answer_on_its_way() {
    check(5, &["waits"], || {
        let graph = Graph::new(2);
        let ticket = Graph::ticket(1);
        let second = thread::spawn(move || {
            // As the push into the lane of the first does.
            ticket.word().store(ptr::null_mut(), Ordering::Relaxed);
            graph.call(2, 1, Graph::ticket(2))
        });
        assert!(!graph.call(1, 2, ticket), "an answered call fails");
        assert!(!second.join().unwrap(), "a call of one that goes on fails");
    });
}

/// The second has handed the reply to the first out of its hands before it calls it.
#[test]
fn a_reply_out_of_hand() {
    check(5, &["waits"], || {
        let graph = Graph::new(2);
        let ticket = Graph::ticket(1);
        let second = thread::spawn(move || {
            assert!(crate::call::call_id::keep(ticket.word()));
            graph.call(2, 1, Graph::ticket(2))
        });
        assert!(!graph.call(1, 2, ticket), "a call in the hands of others fails");
        assert!(!second.join().unwrap(), "a call of one that may go on fails");
    });
}

/// The first is woken for nothing, and waits again, while the second closes the ring.
#[test]
fn a_wake_for_nothing() {
    check(3, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let ticket = Graph::ticket(2);
        let second = thread::spawn(move || graph.call(2, 1, ticket));
        let ticket = Graph::ticket(1);
        let mut failed = u32::from(graph.call(1, 2, ticket));
        if failed == 0 {
            graph.resume(1);
            failed += u32::from(graph.call(1, 2, ticket));
        }
        failed += u32::from(second.join().unwrap());
        assert_eq!(failed, 1, "one call of the ring fails");
    });
}

/// The first is woken, gives its call up, and answers the second from its own hands: it takes its edge away before it
/// does.
#[test]
fn a_wake_for_something_else() {
    check(4, &["waits"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::ticket(1), Graph::ticket(2));
        assert!(!graph.call(1, 2, first));
        // It runs from here on, and its call is not given up yet.
        if !fault::is(RUNS_WITH_ITS_EDGE) {
            graph.resume(1);
        }
        let caller = thread::spawn(move || graph.call(2, 1, second));
        second.word().store(ptr::null_mut(), Ordering::Relaxed);
        assert!(!caller.join().unwrap(), "a call of one that runs fails");
    });
}

/// An edge is written anew while somebody reads it, over one that was left behind: it is read as one of the two, or not
/// at all.
#[test]
fn an_edge_is_read_whole() {
    check(4, &["the first", "the second", "none"], || {
        let graph = Graph::new(3);
        let (first, second) = (Graph::ticket(1), Graph::ticket(4));
        assert!(!graph.call(1, 2, first));
        let writer = thread::spawn(move || graph.publish(1, 3, What::Call(second, "Other::longer_method")));
        match graph.edges[1].read() {
            None => reach("none"),
            Some(Wait { on, what: What::Call(ticket, method), .. }) => {
                let (is, length) =
                    if on == 2 { (first, "Type::method".len()) } else { (second, "Other::longer_method".len()) };
                reach(if on == 2 { "the first" } else { "the second" });
                let is_same = ticket.number() == is.number() && ptr::eq(ticket.word(), is.word());
                assert!(is_same && method.len() == length, "it is read half");
                assert!(method.starts_with(if on == 2 { 'T' } else { 'O' }), "its method is another one's");
            }
            Some(_) => unreachable!("nobody is held"),
        }
        assert!(writer.join().unwrap().is_none());
    });
}

/// Two machines of one process, on two threads, wait for two calls at once; one of the threads runs the process. The
/// edge is read as that one's.
#[test]
fn only_who_runs_the_process_publishes() {
    check(4, &["the first", "none"], || {
        let graph = Graph::new(3);
        let (first, second) = (Graph::ticket(1), Graph::ticket(4));
        // `Waits::suspend` looks whether its thread runs the process.
        let publish = move |runs: bool, on: Incarnation, ticket: CallId, method: &'static str| {
            if runs || fault::is(TWO_WRITERS) {
                let _none = graph.publish(1, on, What::Call(ticket, method));
            }
        };
        let other = thread::spawn(move || publish(false, 3, second, "Other::longer_method"));
        let own = thread::spawn(move || publish(true, 2, first, "Type::method"));
        match graph.edges[1].read() {
            None => reach("none"),
            Some(Wait { on, what: What::Call(ticket, method), .. }) => {
                reach("the first");
                let whole = match on {
                    2 => ticket.number() == first.number() && method.len() == "Type::method".len(),
                    _ => ticket.number() == second.number() && method.len() == "Other::longer_method".len(),
                };
                assert!(whole, "it is read with parts of both");
            }
            Some(_) => unreachable!("nobody is held"),
        }
        own.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
#[should_panic]
fn fault_two_writers() {
    fault::with(TWO_WRITERS, only_who_runs_the_process_publishes);
}

/// The second is woken as the first closes the ring, gives its call up, and comes to the first one's message: that is
/// handled, or its call fails, and not both.
#[test]
fn a_message_is_handled_or_its_call_fails() {
    check(5, &["closed", "waits", "handled", "thrown away"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::ticket(1), Graph::ticket(2));
        assert!(!graph.call(2, 1, second));
        let woken = thread::spawn(move || {
            graph.resume(2);
            second.abandon();
            let may = crate::call::call_id::take(first.word());
            reach(if may { "handled" } else { "thrown away" });
            may || fault::is(TAKES_BLINDLY)
        });
        let failed = graph.call(1, 2, first);
        let handled = woken.join().unwrap();
        assert!(failed != handled, "failed: {failed}, handled: {handled}");
    });
}

/// A process handles a message without a look whether it was withdrawn.
#[test]
#[should_panic]
fn fault_takes_blindly() {
    fault::with(TAKES_BLINDLY, a_message_is_handled_or_its_call_fails);
}

/// The second handles the first one's message, and calls the first from there, before the first has come to say that it
/// waits: it is the second's call that fails, whichever of them closes the ring.
#[test]
fn a_call_from_within_the_method_of_another() {
    check(5, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::ticket(1), Graph::ticket(2));
        assert!(crate::call::call_id::take(first.word()));
        let method = thread::spawn(move || graph.call(2, 1, second));
        let failed = graph.call(1, 2, first);
        let other = method.join().unwrap();
        assert!(!failed && first.is_open(), "a call that is being handled fails");
        assert!(other || crate::call::call_id::is_withdrawn(second.word()), "nobody of the ring goes on");
        assert!(!crate::call::call_id::take(second.word()), "a call that has failed is handled");
    });
}

/// A hold and a call that would close a ring with each other: either the hold is not made, or the call lifts it.
#[test]
fn a_hold_and_a_call() {
    check(5, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let ticket = Graph::ticket(2);
        let caller = thread::spawn(move || graph.publish(2, 1, What::Call(ticket, "Type::method")));
        let hold = graph.publish(1, 2, What::Suspension(7));
        let call = caller.join().unwrap();
        let lifted = matches!(&call, Some(Closed::Suspended(held)) if held == &[1]);
        assert!(call.is_none() || lifted, "the call waits");
        assert_eq!(hold.is_none(), lifted, "one of them opens the ring");
        assert!(graph.edges[1].read().is_none() && graph.edges[2].stands().is_some());
    });
}

/// Two holds: one of them is made.
#[test]
fn two_holds() {
    check(5, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let other = thread::spawn(move || graph.publish(2, 1, What::Suspension(8)).is_none());
        let made = [graph.publish(1, 2, What::Suspension(7)).is_none(), other.join().unwrap()];
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
    });
}

/// Without graph:Z2 each may miss the other.
#[test]
#[should_panic]
fn fault_no_fence() {
    fault::with(Fault::NoFence, two_at_once);
}

/// Two that look again at the same time both fail.
#[test]
#[should_panic]
fn fault_two_locks() {
    fault::with(TWO_LOCKS, two_at_once);
}

/// A process that runs with its edge in place may answer, and be taken for one that waits.
#[test]
#[should_panic]
fn fault_runs_with_its_edge() {
    fault::with(RUNS_WITH_ITS_EDGE, a_wake_for_something_else);
}
