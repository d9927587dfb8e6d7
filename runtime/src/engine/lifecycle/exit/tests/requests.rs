//! Requests whose senders are preempted between their check of the process and their push. In the meantime the process
//! ends, and the next process on its thread is in a step that does not return before the answer has arrived.

use super::{FOR_EVER, next};
use crate::actor::send::call::Call;
use crate::engine::context::thread::current_pid;
use crate::env::program::HOSTLESS;
use crate::exit::ExitReason;
use crate::links::message::{Bindings, LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{LinkEffect, LinkMessage};
use crate::mailbox::node::Envelope;
use crate::manual::{Event, Events, Process, StepOutput};
use crate::pid::Resident;
use crate::process::fixtures::EndsWhenTold;
use crate::routing::{Node, Receiver as _};
use crate::slots::TABLE;
use crate::supervision::{Backoff, Child, Supervisor, Tree};
use crate::sync::window::{Window, do_in};
use crate::{CallError, Host, Package, Payload, Pid, ProcessError, Runtime};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

/// A process that sends its PID to the test in its first step. The step returns when the test says so.
struct Stays(Sender<Pid>, Receiver<()>);

impl Process for Stays {
    fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let own = current_pid().expect("a process");
        self.0.send(own).expect("the test waits");
        self.1.recv_timeout(FOR_EVER).expect("the test continues");
        out.done();
        Ok(())
    }
}

/// A process that gets PIDs. It makes the process of each end on its own thread, and then spawns the process that
/// stays.
struct Spawns(Option<Stays>);

impl Process for Spawns {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let host = Host::current().expect("a host");
        let own = current_pid().expect("a process");
        while let Some(event) = events.next() {
            let Event::Message(message) = event else { continue };
            let pid: Pid = message.take().expect("a PID");
            if pid.is_alive() {
                let _told = host.send(pid, ());
                host.send(own, pid).expect("this process lives");
            } else if let Some(stays) = self.0.take() {
                host.spawn_process(stays).start()?;
            }
        }
        out.idle();
        Ok(())
    }
}

/// Calls `ask`, if given, to make a request to a process. `ask` finds that process alive. By the time that `ask` pushes
/// the request, the process has ended, and the next process on its thread has begun a step. That step returns only
/// after `ask` has returned. Returns whether the next process is in the same slot.
fn asked_too_late(ask: Option<&dyn Fn(Pid)>) -> bool {
    pushed_too_late(Window::BeforeRequest, ask, false, &start_alone)
}

/// Starts the process that will end. Returns its PID, and what must live as long as it does.
type Start = dyn Fn(&Runtime) -> (Pid, Option<Tree>);

fn start_alone(runtime: &Runtime) -> (Pid, Option<Tree>) {
    (runtime.spawn_process(EndsWhenTold).start().expect("it starts"), None)
}

/// Starts the process as a child that is not restarted.
fn start_supervised(runtime: &Runtime) -> (Pid, Option<Tree>) {
    let child = Child::new("ends", |spawn| spawn.process(EndsWhenTold).start()).temporary();
    start_child(runtime, child)
}

/// Starts the process as a child whose supervisor keeps its messages.
fn start_keeping(runtime: &Runtime) -> (Pid, Option<Tree>) {
    let child = Child::new("ends", |spawn| spawn.process(EndsWhenTold).start()).temporary();
    start_child(runtime, child.keep_messages())
}

fn start_child<S>(runtime: &Runtime, child: Child<S>) -> (Pid, Option<Tree>) {
    let tree = Supervisor::one_for_one().add(child).spawn(runtime).expect("it starts");
    (tree.children()[0].pid.expect("it lives"), Some(tree))
}

/// Like [`asked_too_late`], for an `ask` that passes the window `before_the_push`.
fn pushed_too_late(before_the_push: Window, ask: Option<&dyn Fn(Pid)>, is_recorded: bool, start: &Start) -> bool {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let _recording = is_recorded.then(|| runtime.record(FOR_EVER).start().expect("nothing else is recorded"));
    let ((begins, begun), (go_on, goes_on), (tell, told)) = (channel(), channel(), channel());
    let spawns = runtime.spawn_process(Spawns(Some(Stays(begins, goes_on)))).start().expect("it starts");
    let (pid, _tree) = start(&runtime);
    let host = runtime.host();
    let end = move || {
        host.send(spawns, pid).expect("it lives");
        tell.send(next(&begun)).expect("the test waits");
    };
    match ask {
        Some(ask) => {
            do_in(before_the_push, end);
            ask(pid);
        }
        None => end(),
    }
    let following = told.try_recv().expect("the process ended before the request was pushed");
    go_on.send(()).expect("it waits");
    following.slot() == pid.slot()
}

fn is_ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// An endpoint that collects answers to link messages.
struct Answered(Pid, Mutex<Vec<LinkMessage<ExitReason>>>);

impl Resident for Answered {
    fn resident(&self) -> Option<Pid> {
        Some(self.0)
    }
}

impl LinkEndpoint for Answered {
    fn post(&'static self, _to: Pid, sent: SentLinkMessage) {
        let (_, _, message) = sent.open();
        self.1.lock().expect("no test panics here").extend(message);
    }

    unsafe fn receive(&self, _sent: SentLinkMessage) -> LinkEffect<ExitReason> {
        unreachable!("it is no slot")
    }

    fn redeem(&'static self, _generation: u64) -> Option<Envelope> {
        unreachable!("it is no slot")
    }

    unsafe fn inspect(&self) -> Bindings {
        unreachable!("it is no slot")
    }
}

/// Pushes this link message after its receiver has ended, and returns the answers to it.
fn answers_to(message: &LinkMessage<ExitReason>) -> Vec<LinkMessage<ExitReason>> {
    let answers = Mutex::default();
    let ask = |pid: Pid| {
        let slot = TABLE.slot(pid.slot()).expect("its slot");
        let from = Pid::new(pid.node(), HOSTLESS, 0, 0);
        let answered: &Answered = Box::leak(Box::new(Answered(from, Mutex::default())));
        slot.post(pid, SentLinkMessage::new(from, pid, Some(answered), message.clone()));
        *answers.lock().expect("no test panics here") = answered.1.lock().expect("nor here").clone();
    };
    asked_too_late(Some(&ask));
    answers.into_inner().expect("no test panics here")
}

/// Checks the premise: without a request, the thread reuses the slot at once.
///
/// Catches: tests in this file that prove nothing.
#[test]
fn without_a_request_the_next_process_has_the_slot() {
    assert!(asked_too_late(None));
}

/// Catches: a join that ends up in the mailbox of the next process, where it waits for that process's step.
#[test]
fn a_join_that_comes_too_late_is_answered_at_once() {
    let is_reused = asked_too_late(Some(&|pid| {
        assert_eq!(is_ready(pid.join()), Some(ExitReason::NoProcess));
    }));
    assert!(!is_reused, "a requester was about to push there");
}

/// Catches: a request for links that ends up in the mailbox of the next process, where it waits for that process's
/// step.
#[test]
fn a_request_for_links_that_comes_too_late_is_answered_at_once() {
    asked_too_late(Some(&|pid| assert_eq!(is_ready(pid.bindings()), Some(None))));
}

/// Catches: a monitor or a link that ends up in the mailbox of the next process, where it waits for that process's
/// step.
#[test]
fn monitors_and_links_that_come_too_late_are_answered_at_once() {
    assert_eq!(answers_to(&LinkMessage::Watch(3)), [LinkMessage::Down(3, ExitReason::NoProcess)]);
    assert_eq!(answers_to(&LinkMessage::Link), [LinkMessage::Exit(ExitReason::NoProcess)]);
    assert_eq!(answers_to(&LinkMessage::Unlink(5)), [LinkMessage::Unlinked(5)]);
}

/// Tests of slots that a thread keeps.
#[cfg(not(postroom_no_local))]
mod kept {
    use super::*;
    use crate::mailbox::lanes::Claim;
    use crate::mailbox::node_pool;
    use std::ptr;

    /// A process that pushes a message into the kept slot of an ended process, as a preempted sender does. Then it
    /// spawns another process, and sends the test the number of messages in that slot.
    struct SpawnsBehindAMessage(Option<Pid>, Sender<u64>);

    impl Process for SpawnsBehindAMessage {
        fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
            while events.next().is_some() {}
            let (host, own) = (Host::current().expect("a host"), current_pid().expect("a process"));
            let (ended, next) = match self.0 {
                None => (None, host.spawn_process(EndsWhenTold).start()?),
                Some(pid) if pid.is_alive() => (None, pid),
                Some(pid) => (Some(pid), pid),
            };
            self.0 = Some(next);
            let Some(pid) = ended else {
                let _told = host.send(next, ());
                host.send(own, ()).expect("this process lives");
                return Ok(());
            };
            let lanes = &TABLE.slot(pid.slot()).expect("its slot").lanes;
            let late = node_pool::message(pid.generation(), "late", ptr::null_mut());
            assert_eq!(lanes.push_data(late, || 0, |_| ()), Claim::Nothing, "the slot is kept");
            let next = host.spawn_process(EndsWhenTold).start()?;
            self.1.send(lanes.depth()).expect("the test waits");
            assert!(next.kill());
            out.done();
            Ok(())
        }
    }

    /// Catches: a message, perhaps with a caller, that waits for the first step of the next process in the slot.
    #[test]
    fn a_message_in_a_kept_slot_does_not_wait_for_the_next_process() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (tell, told) = channel();
        runtime.spawn_process(SpawnsBehindAMessage(None, tell)).start().expect("it starts");
        assert_eq!(next(&told), 0, "it has become a dead letter");
    }
}

const STARTS: [&Start; 3] = [&start_alone, &start_supervised, &start_keeping];

/// Catches: a call whose message waits for the step of the next process in the slot.
#[test]
fn a_call_that_comes_too_late_fails_at_once() {
    let call = |pid| {
        let answer = is_ready(Call::<u8, u8>::new(pid, "late", 1).into_future());
        assert_eq!(answer, Some(Err(CallError::Gone(ExitReason::NoProcess))));
    };
    for (start, is_recorded) in STARTS.into_iter().flat_map(|start| [(start, false), (start, true)]) {
        let is_reused = pushed_too_late(Window::BeforeMessage, Some(&call), is_recorded, start);
        assert!(is_reused, "the message is in its mailbox");
    }
}

/// Catches: a call that is passed on, as by a pool or from another node, and whose message waits for the step of the
/// next process in the slot.
#[test]
fn a_call_that_is_passed_on_too_late_fails_at_once() {
    let pass_on = |pid| {
        let (answer, answered) = channel();
        let package = Package::with_answer(pid, Payload::new(1_u8), None, move |result| {
            answer.send(result.map(drop)).expect("the test waits");
        });
        Node::this().deliver(package).expect("its process is found alive");
        assert_eq!(answered.try_recv(), Ok(Err(CallError::Gone(ExitReason::NoProcess))));
    };
    for start in STARTS {
        assert!(pushed_too_late(Window::BeforeMessage, Some(&pass_on), false, start), "the message is in its mailbox");
    }
}

/// A process whose first step returns when the test says so. It sends the test each message.
struct Hears(Option<Receiver<()>>, Sender<u8>);

impl Process for Hears {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        if let Some(go_on) = self.0.take() {
            go_on.recv_timeout(FOR_EVER).expect("the test continues");
        }
        while let Some(event) = events.next() {
            if let Event::Message(message) = event {
                self.1.send(message.take().expect("a number")).expect("the test listens");
            }
        }
        out.idle();
        Ok(())
    }
}

/// Catches: a message that the next incarnation handles although its call has failed as not delivered.
#[test]
fn the_message_of_a_call_that_found_its_process_over_is_not_handled_by_the_next_incarnation() {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let ((go_on, goes_on), (tell, told)) = (channel(), channel());
    let mut wait = Some(goes_on);
    let child = Child::new("hears", move |spawn| spawn.process(Hears(wait.take(), tell.clone())).start());
    let supervisor = Supervisor::one_for_one().backoff(Backoff::constant(FOR_EVER * 60));
    let tree = supervisor.add(child.keep_messages()).spawn(&runtime).expect("it starts");
    let pid = tree.children()[0].pid.expect("it lives");
    let host = runtime.host();
    do_in(Window::BeforeLook, move || {
        assert!(pid.kill(), "it is in its first step");
        go_on.send(()).expect("it waits");
        host.scheduler().wait_until_idle().expect("it has ended");
    });
    let answer = is_ready(Call::<u8, u8>::new(pid, "kept", 1).into_future());
    assert_eq!(answer, Some(Err(CallError::Gone(ExitReason::NoProcess))));
    tree.restart_child("hears").expect("it is a child");
    runtime.send(tree.child_pid("hears").expect("it is a child"), 2_u8).expect("it serves");
    assert_eq!(next(&told), 2);
    assert_eq!(runtime.host().statistics().dead_letters.withdrawn, 1);
}

/// Catches: a kill that ends the next process in the slot.
#[test]
fn a_kill_that_comes_too_late_ends_no_other_process() {
    asked_too_late(Some(&|pid| assert!(pid.kill(), "it was alive")));
}
