//! The wait graph (`wait_graph.rs`) and call IDs (`call_id.rs`). If several calls close a cycle at the same moment,
//! exactly one of them fails. No call fails because of a cycle that was open.
//!
//! Not covered: the side table (the stress tests cover it), a walk through the stale edges of many processes, foreign
//! wakers.

use crate::call::call_id::{self, CallId};
use crate::check::{check, keep, reach};
use crate::deadlock::wait_graph::{Closed, Edge, Incarnation, Places, Wait, What, publish};
use crate::fault::{self, Fault};
use crate::mailbox::node::{MailNode, NodeBox, NodeKind};
use crate::models::local_tokens::{Scene, within};
use crate::sync::{Mutex, Ordering, lock};
use crate::thread_cache;
use loom::thread;
use std::ptr::{self, NonNull};

/// The edges of processes 1 and up.
struct Graph {
    edges: Vec<Edge>,
    second_look: Mutex<()>,
    /// The lock of the second process in the test that plants `TWO_LOCKS`.
    other_look: Mutex<()>,
}

impl Places for Graph {
    type Caller = ();

    fn withdraw(&self, call: CallId) -> Option<()> {
        call.withdraw().then_some(())
    }

    fn edge(&self, incarnation: Incarnation) -> Option<&Edge> {
        self.edges.get(incarnation as usize)
    }

    fn is_stuck(&self, _life: Incarnation, _blocks: bool) -> bool {
        true
    }

    fn runs_next_here(&self, incarnation: Incarnation) -> bool {
        let is_next = thread_cache::current().is_some_and(|local| local.is_next(incarnation as u32));
        if is_next {
            reach("no walk");
        }
        is_next
    }
}

/// A planted fault: the second process takes a different lock from the first.
const TWO_LOCKS: Fault = Fault::Driver(0);
/// A planted fault: a process runs without having withdrawn its edge.
const RUNS_WITH_ITS_EDGE: Fault = Fault::Driver(1);
/// A planted fault: a thread that does not run the process publishes its edge, as if it drove one of the process's
/// machines by hand.
const TWO_WRITERS: Fault = Fault::Driver(2);
/// A planted fault: a process handles a message without checking whether it was withdrawn.
const TAKES_BLINDLY: Fault = Fault::Driver(3);
/// A planted fault: an exiting process fails a call without claiming it first.
const FAILS_BLINDLY: Fault = Fault::Driver(4);

impl Graph {
    fn new(count: usize) -> &'static Self {
        let edges = (0..=count).map(|_| Edge::unused()).collect();
        keep(Self { edges, second_look: Mutex::new(()), other_look: Mutex::new(()) })
    }

    fn issue(number: u64) -> CallId {
        CallId::issue(keep(MailNode::empty()), number)
    }

    fn publish(&self, from: Incarnation, on: Incarnation, what: What) -> Option<Closed<()>> {
        let lock = if from == 2 && fault::is(TWO_LOCKS) { &self.other_look } else { &self.second_look };
        let closed = publish(self, lock, from, &self.edges[from as usize], Wait { on, what, blocks: false });
        reach(if closed.is_some() { "closed" } else { "waits" });
        closed
    }

    /// Makes process `from` call `on` and wait. Returns whether its call failed.
    fn call(&self, from: Incarnation, on: Incarnation, call: CallId) -> bool {
        matches!(self.publish(from, on, What::Call(call, "Type::method")), Some(Closed::Calls(_)))
    }

    fn resume(&self, from: Incarnation) {
        self.edges[from as usize].withdraw();
    }
}

/// Makes a cycle of `count` processes, all of which try to close it at the same moment.
fn cycle(count: u64) {
    let graph = Graph::new(count as usize);
    let others: Vec<_> = (2..=count)
        .map(|from| {
            let call = Graph::issue(from);
            thread::spawn(move || graph.call(from, from % count + 1, call))
        })
        .collect();
    let mut failed = u32::from(graph.call(1, 2 % (count + 1), Graph::issue(1)));
    failed += others.into_iter().map(|other| u32::from(other.join().unwrap())).sum::<u32>();
    assert_eq!(failed, 1, "one call of the cycle fails");
}

/// Two processes call each other.
#[test]
fn two_at_once() {
    check(5, &["closed", "waits"], || cycle(2));
}

/// The first process calls the second, which runs next on the same thread, or on another thread that takes it away. On
/// that thread the second calls the first, before it has seen the first one's call.
#[test]
fn a_wait_for_the_process_that_runs_next() {
    check(5, &["closed", "waits", "no walk", "here", "taken away"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::issue(1), Graph::issue(2));
        let scene = Scene::new();
        assert!(scene.local.put_next(scene.start(2).1).is_ok_and(|displaced| displaced.is_none()));
        let other = thread::spawn(move || {
            let taken = scene.local.revoke().and_then(|revoked| revoked.run_next);
            taken.is_some_and(|_token| {
                reach("taken away");
                graph.call(2, 1, second)
            })
        });
        let mut failed = 0;
        within(scene.local, || {
            failed += u32::from(graph.call(1, 2, first));
            if scene.local.take_next().is_some() {
                reach("here");
                failed += u32::from(graph.call(2, 1, second));
            }
        });
        failed += u32::from(other.join().unwrap());
        // The process runs here if a thread was taking the token but left it, after this one had looked for it.
        if let Some(_left) = scene.local.take_next() {
            failed += u32::from(graph.call(2, 1, second));
        }
        assert_eq!(failed, 1, "one call of the cycle fails");
    });
}

/// Like `two_at_once`, while a third process runs next on the thread of the first process.
#[test]
fn a_wait_while_another_process_runs_next() {
    check(4, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::issue(1), Graph::issue(2));
        let scene = Scene::new();
        assert!(scene.local.put_next(scene.start(3).1).is_ok_and(|displaced| displaced.is_none()));
        let other = thread::spawn(move || graph.call(2, 1, second));
        let mut failed = 0;
        within(scene.local, || failed += u32::from(graph.call(1, 2, first)));
        failed += u32::from(other.join().unwrap());
        assert_eq!(failed, 1, "one call of the cycle fails");
    });
}

/// Three processes in a cycle.
#[test]
fn three_at_once() {
    check(2, &["closed", "waits"], || cycle(3));
}

/// The second process answers the first before it calls it. Neither process waits forever, so neither call may fail.
#[test]
fn an_answer_on_its_way() {
    check(5, &["waits"], || {
        let graph = Graph::new(2);
        let call = Graph::issue(1);
        let second = thread::spawn(move || {
            // The push of the reply to the first process does this in production.
            call.word().store(ptr::null_mut(), Ordering::Relaxed);
            graph.call(2, 1, Graph::issue(2))
        });
        assert!(!graph.call(1, 2, call), "an answered call fails");
        assert!(!second.join().unwrap(), "a call of a process that continues fails");
    });
}

/// The second process hands the first one's `Reply` to other code before it calls the first.
#[test]
fn a_reply_handed_on() {
    check(5, &["waits"], || {
        let graph = Graph::new(2);
        let call = Graph::issue(1);
        let second = thread::spawn(move || {
            assert!(crate::call::call_id::keep(call.word()));
            graph.call(2, 1, Graph::issue(2))
        });
        assert!(!graph.call(1, 2, call), "a call that other code may answer fails");
        assert!(!second.join().unwrap(), "a call of a process that may continue fails");
    });
}

/// The first process is woken spuriously and waits again, while the second closes the cycle.
#[test]
fn a_spurious_wake() {
    check(3, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let call = Graph::issue(2);
        let second = thread::spawn(move || graph.call(2, 1, call));
        let call = Graph::issue(1);
        let mut failed = u32::from(graph.call(1, 2, call));
        if failed == 0 {
            graph.resume(1);
            failed += u32::from(graph.call(1, 2, call));
        }
        failed += u32::from(second.join().unwrap());
        assert_eq!(failed, 1, "one call of the cycle fails");
    });
}

/// The first process is woken, withdraws its edge, gives up its call, and answers the second.
#[test]
fn a_wake_for_something_else() {
    check(4, &["waits"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::issue(1), Graph::issue(2));
        assert!(!graph.call(1, 2, first));
        // From here on the first process runs. It has not given up its call yet.
        if !fault::is(RUNS_WITH_ITS_EDGE) {
            graph.resume(1);
        }
        let caller = thread::spawn(move || graph.call(2, 1, second));
        second.word().store(ptr::null_mut(), Ordering::Relaxed);
        assert!(!caller.join().unwrap(), "a call of a process that runs fails");
    });
}

/// An edge is overwritten while another thread reads it. The reader sees the old edge, the new one, or none.
#[test]
fn an_edge_is_never_torn() {
    check(4, &["the first", "the second", "none"], || {
        let graph = Graph::new(3);
        let (first, second) = (Graph::issue(1), Graph::issue(4));
        assert!(!graph.call(1, 2, first));
        let writer = thread::spawn(move || graph.publish(1, 3, What::Call(second, "Other::longer_method")));
        match graph.edges[1].read() {
            None => reach("none"),
            Some(Wait { on, what: What::Call(call, method), .. }) => {
                let (is, length) =
                    if on == 2 { (first, "Type::method".len()) } else { (second, "Other::longer_method".len()) };
                reach(if on == 2 { "the first" } else { "the second" });
                let is_same = call.number() == is.number() && ptr::eq(call.word(), is.word());
                assert!(is_same && method.len() == length, "the edge is torn");
                assert!(method.starts_with(if on == 2 { 'T' } else { 'O' }), "the method belongs to the other edge");
            }
            Some(_) => unreachable!("no process is suspended"),
        }
        assert!(writer.join().unwrap().is_none());
    });
}

/// Two machines of one process wait for two calls at the same time, on two threads. Only one of these threads runs the
/// process, and only that thread publishes the edge.
#[test]
fn only_the_thread_that_runs_the_process_publishes() {
    check(4, &["the first", "none"], || {
        let graph = Graph::new(3);
        let (first, second) = (Graph::issue(1), Graph::issue(4));
        // In production `Waits::suspend` checks whether its thread runs the process.
        let publish = move |runs: bool, on: Incarnation, call: CallId, method: &'static str| {
            if runs || fault::is(TWO_WRITERS) {
                let _none = graph.publish(1, on, What::Call(call, method));
            }
        };
        let other = thread::spawn(move || publish(false, 3, second, "Other::longer_method"));
        let own = thread::spawn(move || publish(true, 2, first, "Type::method"));
        match graph.edges[1].read() {
            None => reach("none"),
            Some(Wait { on, what: What::Call(call, method), .. }) => {
                reach("the first");
                let is_intact = match on {
                    2 => call.number() == first.number() && method.len() == "Type::method".len(),
                    _ => call.number() == second.number() && method.len() == "Other::longer_method".len(),
                };
                assert!(is_intact, "the edge has parts of both");
            }
            Some(_) => unreachable!("no process is suspended"),
        }
        own.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
#[should_panic]
fn fault_two_writers() {
    fault::with(TWO_WRITERS, only_the_thread_that_runs_the_process_publishes);
}

/// While the first process closes the cycle, the second is woken, gives up its call, and takes the first one's message.
/// Either the message is handled or its call fails, but never both.
#[test]
fn a_message_is_handled_or_its_call_fails() {
    check(5, &["closed", "waits", "handled", "discarded"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::issue(1), Graph::issue(2));
        assert!(!graph.call(2, 1, second));
        let woken = thread::spawn(move || {
            graph.resume(2);
            second.abandon();
            let taken = crate::call::call_id::take(first.word());
            reach(if taken { "handled" } else { "discarded" });
            taken || fault::is(TAKES_BLINDLY)
        });
        let failed = graph.call(1, 2, first);
        let handled = woken.join().unwrap();
        assert!(failed != handled, "failed: {failed}, handled: {handled}");
    });
}

#[test]
#[should_panic]
fn fault_takes_blindly() {
    fault::with(TAKES_BLINDLY, a_message_is_handled_or_its_call_fails);
}

/// Stores a value in the call's node, as a pending call does until it is answered.
fn pending(call: CallId) -> NodeBox {
    // SAFETY: the node was made for this call, and is kept until the execution ends.
    let mut node = unsafe { NodeBox::from_raw(NonNull::from(call.node())) };
    node.put_value(NodeKind::Call, 0, ptr::null_mut(), 7_u32);
    node
}

/// The message of a call is in the mailbox of a process that ends. At the same time another process withdraws the call
/// and reads the caller from it, like `withdraw` and `into_asker` of `call/caller.rs`. The caller is notified once, and
/// nothing reads the content of the node while it is taken out.
#[test]
fn a_call_fails_with_its_process_or_is_withdrawn() {
    check(5, &["withdrawn", "failed", "thrown away"], || {
        let (call, withdrawing) = (Graph::issue(1), keep(Mutex::new(())));
        let mut node = pending(call);
        let other = thread::spawn(move || {
            let _withdrawing = lock(withdrawing);
            let is_withdrawn = call.withdraw();
            if is_withdrawn {
                reach("withdrawn");
                // SAFETY: this thread has withdrawn the call, so no thread had claimed it.
                let asker = unsafe { call.node().peek(|content| content.payload.as_ref()?.peek::<u32>().copied()) };
                assert_eq!(asker, Some(7));
            }
            is_withdrawn
        });
        let is_mine = match fault::is(FAILS_BLINDLY) {
            true => !call_id::is_withdrawn(call.word()),
            false => call_id::claim(call.word()),
        };
        if is_mine {
            reach("failed");
        } else {
            reach("thrown away");
            drop(lock(withdrawing));
        }
        drop(node.take());
        assert!(is_mine != other.join().unwrap(), "the caller is told once");
    });
}

/// The failing side only checks whether the call was withdrawn.
#[test]
#[should_panic]
fn fault_fails_blindly() {
    fault::with(FAILS_BLINDLY, a_call_fails_with_its_process_or_is_withdrawn);
}

/// The second process handles the first one's message, and from within that method calls the first, before the first
/// has published its wait. The second one's call fails, whichever of the two closes the cycle.
#[test]
fn a_call_from_within_the_method_of_another() {
    check(5, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let (first, second) = (Graph::issue(1), Graph::issue(2));
        assert!(crate::call::call_id::take(first.word()));
        let method = thread::spawn(move || graph.call(2, 1, second));
        let failed = graph.call(1, 2, first);
        let other = method.join().unwrap();
        assert!(!failed && first.is_open(), "a call that is being handled fails");
        assert!(other || crate::call::call_id::is_withdrawn(second.word()), "no process of the cycle continues");
        assert!(!crate::call::call_id::take(second.word()), "a call that has failed is handled");
    });
}

/// A suspension and a call would close a cycle. Either the suspension is not made, or the call lifts it.
#[test]
fn a_suspension_and_a_call() {
    check(5, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let call = Graph::issue(2);
        let caller = thread::spawn(move || graph.publish(2, 1, What::Call(call, "Type::method")));
        let suspension = graph.publish(1, 2, What::Suspension(7));
        let call = caller.join().unwrap();
        let ended = matches!(&call, Some(Closed::Suspended(held)) if held == &[1]);
        assert!(call.is_none() || ended, "the call waits");
        assert_eq!(suspension.is_none(), ended, "one of them opens the cycle");
        assert!(graph.edges[1].read().is_none() && graph.edges[2].stands().is_some());
    });
}

/// Two suspensions would close a cycle. Only one of them is made.
#[test]
fn two_suspensions() {
    check(5, &["closed", "waits"], || {
        let graph = Graph::new(2);
        let other = thread::spawn(move || graph.publish(2, 1, What::Suspension(8)).is_none());
        let made = [graph.publish(1, 2, What::Suspension(7)).is_none(), other.join().unwrap()];
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
    });
}

/// Without graph:Z2, each call may miss the other.
#[test]
#[should_panic]
fn fault_no_fence() {
    fault::with(Fault::NoFence, two_at_once);
}

/// Two calls that check again at the same time would both fail.
#[test]
#[should_panic]
fn fault_two_locks() {
    fault::with(TWO_LOCKS, two_at_once);
}

/// A process that runs with its edge in place may answer, and would still count as waiting.
#[test]
#[should_panic]
fn fault_runs_with_its_edge() {
    fault::with(RUNS_WITH_ITS_EDGE, a_wake_for_something_else);
}
