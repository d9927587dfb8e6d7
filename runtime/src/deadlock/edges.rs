//! The [wait graph](crate::deadlock::wait_graph) of this program: the edges of its processes, and how they are used.
//!
//! A process has at most one edge. A suspension overwrites the edge of a pending call. The step after the suspension
//! publishes the call again, if the process still waits for its answer.

use super::wait_graph::{Closed, Edge, Incarnation, Places, Wait, What, publish};
use crate::call::call_id::CallId;
use crate::call::caller::{self, Asker, number};
use crate::env::world::World;
use crate::errors::{CallError, Cycle};
use crate::pid::{GENERATION_BITS, LAST_GENERATION, Pid, Resident};
use crate::slots::chunks::{ChunkEntry, Chunks};
use crate::slots::directory::TABLE;
use crate::slots::slot::Slot;
use crate::sync::Mutex;
use crate::thread_cache;

static EDGES: World<Chunks<Edge>> = World::new(Chunks::new());

impl ChunkEntry for Edge {
    fn unused(_: u32) -> Self {
        Self::unused()
    }
}

/// Serializes the confirming pass that precedes the failure of a call or the refusal of a suspension.
static SECOND_LOOK: World<Mutex<()>> = World::new(Mutex::new(()));

struct LocalProcesses;

impl Places for LocalProcesses {
    type Caller = Asker;

    fn withdraw(&self, ticket: CallId) -> Option<Asker> {
        caller::withdraw(ticket)
    }

    #[inline]
    fn edge(&self, incarnation: Incarnation) -> Option<&Edge> {
        EDGES.get(index_of(incarnation))
    }

    #[inline(always)]
    fn runs_next_here(&self, incarnation: Incarnation) -> bool {
        // The generation need not be compared, because a process that has ended closes no cycle.
        thread_cache::current().is_some_and(|local| local.is_next(index_of(incarnation)))
    }

    fn is_stuck(&self, incarnation: Incarnation, blocks: bool) -> bool {
        TABLE.slot(index_of(incarnation)).is_some_and(|slot| slot.is_stuck(incarnation & LAST_GENERATION, blocks))
    }
}

#[inline]
pub(super) fn index_of(incarnation: Incarnation) -> u32 {
    (incarnation >> GENERATION_BITS) as u32
}

/// Returns the PID of the process, or `None` if its slot has been reused.
fn pid_of(incarnation: Incarnation) -> Option<Pid> {
    TABLE.slot(index_of(incarnation)).and_then(Slot::resident).filter(|pid| pid.incarnation() == incarnation)
}

/// Returns the edge of a process. Only the thread that runs the process may call this.
#[inline]
pub(crate) fn own_edge(incarnation: Incarnation) -> Option<&'static Edge> {
    if cfg!(debug_assertions) {
        // Tests in this file use processes whose slots are beyond the table.
        TABLE.slot(index_of(incarnation)).inspect(|slot| slot.debug_owner.check());
    }
    EDGES.make(index_of(incarnation))
}

/// A published wait for the answer to a call; the wait is withdrawn on drop.
#[derive(Debug)]
pub(crate) struct CallWait(&'static Edge, u64);

impl Drop for CallWait {
    #[inline]
    fn drop(&mut self) {
        self.0.withdraw_call(self.1);
    }
}

/// Publishes that the process `from` waits for the answer to one call, and that nothing else can resume it. `blocks`
/// tells whether the wait blocks the process's thread. Only the thread that runs the process may call this.
///
/// # Errors
/// Returns the cycle, if the call closes one: the call's message is withdrawn and will never be handled. If the
/// message is already being handled, another call of the cycle fails instead.
#[inline(always)]
pub(crate) fn wait(
    from: Incarnation,
    on: Incarnation,
    method: &'static str,
    ticket: CallId,
    blocks: bool,
) -> Result<Option<CallWait>, Cycle> {
    let Some(edge) = own_edge(from) else { return Ok(None) };
    wait_at(edge, from, on, method, ticket, blocks).map(Some)
}

/// Like [`wait`], but for a process whose edge is known.
#[inline(always)]
pub(crate) fn wait_at(
    edge: &'static Edge,
    from: Incarnation,
    on: Incarnation,
    method: &'static str,
    ticket: CallId,
    blocks: bool,
) -> Result<CallWait, Cycle> {
    #[cfg(all(test, not(loom)))]
    crate::sync::window::pass(crate::sync::window::Window::BeforeWait);
    let waiting = CallWait(edge, ticket.number());
    match publish(&LocalProcesses, &SECOND_LOOK, from, edge, Wait { on, what: What::Call(ticket, method), blocks }) {
        None => Ok(waiting),
        Some(closed) => closed_by_a_call(closed).map(|()| waiting),
    }
}

#[cold]
fn closed_by_a_call(closed: Closed<Asker>) -> Result<(), Cycle> {
    let named = |cycle: Vec<(Incarnation, &'static str)>| Cycle {
        calls: cycle.into_iter().filter_map(|(incarnation, method)| Some((pid_of(incarnation)?, method))).collect(),
    };
    match closed {
        Closed::Calls(cycle) => Err(named(cycle)),
        Closed::Another(asker, cycle) => {
            asker.fail(CallError::Cycle(named(cycle)));
            Ok(())
        }
        Closed::Suspended(held) => {
            for incarnation in held {
                if let Some(slot) =
                    TABLE.slot(index_of(incarnation)).filter(|slot| slot.is_living(incarnation & LAST_GENERATION))
                    && let Some(owner) = slot.owner()
                {
                    owner.host.release_suspended(slot);
                }
            }
            Ok(())
        }
        Closed::Suspension => unreachable!("a call was published"),
    }
}

/// Publishes the suspension of `from` at the mailbox of `to`, unless it would close a cycle. Returns true if `from` is
/// now suspended. It stays suspended until [`withdraw`], or until a call closes a cycle and lifts the suspension.
/// `blocks` tells whether the suspension blocks the process's thread.
pub(crate) fn publish_suspension(from: Pid, to: Pid, blocks: bool) -> bool {
    let (from, on) = (from.incarnation(), to.incarnation());
    let Some(edge) = own_edge(from) else { return false };
    publish(&LocalProcesses, &SECOND_LOOK, from, edge, Wait { on, what: What::Suspension(number()), blocks }).is_none()
}

/// Removes the edge of a process. For a suspended process, this must also be done before it ends.
pub(crate) fn withdraw(from: Pid) {
    if let Some(edge) = EDGES.get(from.slot()) {
        edge.withdraw();
    }
}

/// Returns the process that `pid` waits for, and the called method. The method is `None` for a suspension. The result
/// may already be out of date.
pub(crate) fn waits_for(pid: Pid) -> Option<(Pid, Option<&'static str>)> {
    let wait = EDGES.get(pid.slot()).and_then(Edge::read)?;
    let method = match wait.what {
        What::Call(ticket, method) if ticket.is_unanswered() => Some(method),
        What::Call(..) => return None,
        What::Suspension(_) => None,
    };
    Some((pid_of(wait.on)?, method))
}

pub(crate) fn has_edge(slot: u32) -> bool {
    EDGES.get(slot).and_then(Edge::stands).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::send::call::Call;
    use crate::deadlock::wait_graph::leads_back;
    use crate::engine::context::thread::current_pid;
    use crate::manual::{Events, Process, StepOutput};
    use crate::process::fixtures::OnMessage;
    use crate::routing::router::this_node;
    use crate::sync::window::{Window, do_in};
    use crate::{Package, ProcessError};
    use std::convert::Infallible;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Returns true if the process is suspended. Returns false if a call that closed a cycle has lifted the suspension.
    fn is_suspended(from: Pid) -> bool {
        let wait = EDGES.get(from.slot()).and_then(Edge::read);
        wait.is_some_and(|wait| matches!(wait.what, What::Suspension(_)))
    }

    /// Returns whether `to` waits for `from`, directly or through others. The result may already be out of date.
    fn would_close(from: Pid, to: Pid) -> bool {
        leads_back(&LocalProcesses, from.incarnation(), to.incarnation())
    }

    /// Returns a PID in a slot that no other test uses.
    fn pid(number: u32) -> Pid {
        Pid::new(this_node(), 0, (1 << 27) + number, 1)
    }

    #[test]
    fn holds_stand_until_they_are_withdrawn() {
        let (a, b, c) = (pid(1), pid(2), pid(3));
        assert!(publish_suspension(a, b, false) && is_suspended(a) && !is_suspended(b));
        assert!(publish_suspension(b, c, true) && would_close(c, a) && !would_close(a, c));
        withdraw(b);
        assert!(!would_close(c, a) && !is_suspended(b));
        withdraw(a);
    }

    /// Catches: the wait of a called process is mistaken for that of an earlier process in its slot.
    #[test]
    fn the_wait_of_one_that_has_the_slot_of_another_closes_no_ring_with_it() {
        let runtime = crate::Runtime::builder().workers(1).build().expect("one worker");
        let [from, to] = [(); 2].map(|()| runtime.spawn_process(Idle).start().expect("it starts"));
        let holds = |from: Pid, to: Incarnation| {
            let edge = EDGES.make(from.slot()).expect("there is room");
            let wait = Wait { on: to, what: What::Suspension(number()), blocks: true };
            publish(&LocalProcesses, &SECOND_LOOK, from.incarnation(), edge, wait).is_none()
        };
        assert!(holds(to, from.incarnation()));
        assert!(!holds(from, to.incarnation()), "a cycle");
        assert!(
            holds(from, crate::pid::incarnation(to.slot(), to.generation() + 1)),
            "no cycle: that one does not live"
        );
        withdraw(from);
        withdraw(to);
    }

    /// A call whose message has been taken closes a cycle: the process that it has reached calls back before the first
    /// caller has published its wait.
    ///
    /// Catches: the other call fails in its place, but its caller is not told, and waits for its time limit.
    #[test]
    fn the_caller_of_a_call_that_fails_in_place_of_another_is_told() {
        let runtime = crate::Runtime::builder().workers(2).build().expect("two workers");
        let ((tell, told), (begin, begun), (release, released)) = (channel(), channel(), channel());
        // Calls the process whose PID it gets. Its other message is that process's call, which is withdrawn.
        let first = OnMessage(move |package: Package| {
            let Ok(second) = package.take::<Pid>() else { return };
            let (own, release) = (current_pid().expect("a process"), release.clone());
            do_in(Window::BeforeWait, move || {
                release.send(()).expect("the other process waits");
                while waits_for(second).map(|(on, _)| on) != Some(own) {
                    std::thread::yield_now();
                }
            });
            tell.send(call(second)).expect("the test waits");
        });
        let first = runtime.spawn_process(first).start().expect("it starts");
        let second = Second { first, begin, released };
        let second = runtime.spawn_process(second).start().expect("it starts");
        runtime.send(second, 0_u8).expect("it lives");
        begun.recv().expect("it begins");
        runtime.send(first, second).expect("it lives");
        assert_eq!(told.recv(), Ok(Ok(1)), "the call back has failed with the cycle");
    }

    fn call(to: Pid) -> Result<u8, CallError> {
        Call::<u8, u8>::new(to, "call", 0).timeout(Duration::from_secs(60)).wait()
    }

    /// Takes a message and waits, which occupies a worker. Then takes a call as generated code does (its message can no
    /// longer be withdrawn), calls another process, and answers 1 if that closes a cycle.
    struct Second {
        first: Pid,
        begin: Sender<()>,
        released: Receiver<()>,
    }

    impl Process for Second {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            let input = events.input_mut().expect("it runs");
            while let Some((_, caller)) = input.mail().and_then(|mut mail| mail.open::<u8>()) {
                let Some(caller) = caller else {
                    self.begin.send(()).expect("the test waits");
                    self.released.recv().expect("the other process is in the window");
                    continue;
                };
                assert!(caller.take());
                let is_cycle = matches!(call(self.first), Err(CallError::Cycle(_)));
                caller.answer_with(Ok::<_, Infallible>(u8::from(is_cycle)));
            }
            out.idle();
            Ok(())
        }
    }

    struct Idle;

    impl Process for Idle {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            out.idle();
            Ok(())
        }
    }
}
