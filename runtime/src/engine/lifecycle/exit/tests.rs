//! Messages and requests that arrive at a process with the short exit (`end_plainly`): while its state is being closed,
//! and between the check for anything that it has left and the next use of its slot.

mod requests;

use crate::actor::send::call::Call;
use crate::call::dead_letter::DeadLetter;
use crate::engine::context::thread::current_pid;
use crate::engine::host::hooks::{Hook, Started};
use crate::error::SendFailure;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node_pool;
use crate::manual::{Event, Events, Process, StepOutput};
use crate::process::fixtures::{Brief, OnMessage};
use crate::slots::{TABLE, Token};
use crate::sync::window::{Window, do_in};
use crate::thread_cache::vacant_slots::MOST;
use crate::{CallError, ExitReason, Host, Pid, ProcessError, Runtime, Signal};
use std::collections::HashSet;
use std::ptr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time after which an event counts as never happening.
const FOR_EVER: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq)]
enum Place {
    InItsClose,
    AfterTheLook,
}

/// A process that ends at its first message. At the chosen place of its exit, it notifies the test, and waits until it
/// may continue.
struct Ends {
    at: Place,
    is_there: Sender<()>,
    may_go_on: Option<Receiver<()>>,
}

impl Ends {
    /// Returns the process, and the channels with which a test waits until the process is at the place, and lets it
    /// continue.
    fn new(at: Place) -> (Self, Receiver<()>, Sender<()>) {
        let ((is_there, there), (go_on, may_go_on)) = (channel(), channel());
        (Self { at, is_there, may_go_on: Some(may_go_on) }, there, go_on)
    }

    fn stop(&mut self) -> impl FnOnce() + Send + 'static {
        let (is_there, may_go_on) = (self.is_there.clone(), self.may_go_on.take().expect("it ends once"));
        move || {
            is_there.send(()).expect("the test waits");
            may_go_on.recv_timeout(FOR_EVER).expect("the test has it go on");
        }
    }
}

impl Process for Ends {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        if events.next().is_none() {
            out.idle();
            return Ok(());
        }
        if self.at == Place::AfterTheLook {
            let stop = self.stop();
            do_in(Window::BeforeReuse, stop);
        }
        out.done();
        Ok(())
    }

    fn close(&mut self) {
        if self.at == Place::InItsClose {
            self.stop()();
        }
    }
}

/// A process that monitors and links to each process whose PID it gets. Passes the signals about their ends on to the
/// test.
struct Tied {
    is_tied: Sender<()>,
    signals: Sender<Signal>,
}

impl Process for Tied {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            match event {
                Event::Message(message) => {
                    let pid: Pid = message.take().expect("a PID");
                    pid.monitor().expect("this process lives");
                    pid.link().expect("this process lives");
                    self.is_tied.send(()).expect("the test waits");
                }
                Event::Signal(signal) => self.signals.send(signal).expect("the test waits"),
                Event::Completed { .. } => {}
            }
        }
        out.idle();
        Ok(())
    }

    fn traps_exits(&self) -> bool {
        true
    }
}

fn next<T>(received: &Receiver<T>) -> T {
    received.recv_timeout(FOR_EVER).expect("it comes")
}

/// Ends a process that others join, monitor and link to at the given place of its exit. Returns the reason that the
/// join gets, and the `count` signals that the others get.
fn told_at(place: Place, count: usize) -> (ExitReason, Vec<Signal>) {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let ((is_tied, tied), (signals, told)) = (channel(), channel());
    let other = runtime.spawn_process(Tied { is_tied, signals }).start().expect("it starts");
    let (ends, there, go_on) = Ends::new(place);
    let pid = runtime.spawn_process(ends).start().expect("it starts");
    runtime.send(pid, ()).expect("it lives");
    next(&there);
    assert!(!pid.is_alive() && !pid.kill() && !pid.stop() && !pid.cancel("late"));
    assert_eq!(runtime.send(pid, 1_u8).expect_err("it has ended").reason, SendFailure::Gone(pid));
    runtime.host().register_name("late", pid).expect_err("it has ended");
    runtime.send(other, pid).expect("it lives");
    next(&tied);
    let join = pid.join();
    go_on.send(()).expect("it waits");
    let reason = join.wait_timeout(FOR_EVER).expect("it has ended");
    let mut signals: Vec<_> = (0..count).map(|_| next(&told)).collect();
    let end = other.join();
    assert!(other.stop());
    end.wait_timeout(FOR_EVER).expect("it ends");
    signals.extend(told.try_iter());
    (reason, signals)
}

/// Catches: a check that is made before the close, and so misses these requests; a PID that is closed after the state.
#[test]
fn those_who_ask_while_its_state_is_closed_are_told_its_reason() {
    let (reason, signals) = told_at(Place::InItsClose, 1);
    assert_eq!(reason, ExitReason::Normal);
    assert!(
        matches!(&signals[..], [Signal::Down(down)] if down.reason == ExitReason::Normal),
        "one `Down`, and no `Exit` of a normal end: {signals:?}"
    );
}

/// Catches: a request that is lost with the slot, or answered twice; a PID that is still open after the check.
#[test]
fn those_who_ask_after_the_look_are_told_that_it_is_gone() {
    let (reason, signals) = told_at(Place::AfterTheLook, 2);
    assert_eq!(reason, ExitReason::NoProcess);
    let is_down = |signal: &&Signal| matches!(signal, Signal::Down(down) if down.reason == ExitReason::NoProcess);
    let is_exit = |signal: &&Signal| matches!(signal, Signal::Exit(exit) if exit.reason == ExitReason::NoProcess);
    let counts = (signals.len(), signals.iter().filter(is_down).count(), signals.iter().filter(is_exit).count());
    assert_eq!(counts, (2, 1, 1), "one `Down` and one `Exit`: {signals:?}");
}

/// Calls `send`, which finds a process alive and sends it something, but pushes only when the process is at the given
/// place of its exit. Returns the result of `send` once the process has ended.
fn pushed_at<R: Send>(runtime: &Runtime, place: Place, send: impl FnOnce(Pid) -> R + Send) -> R {
    let (ends, there, go_on) = Ends::new(place);
    let pid = runtime.spawn_process(ends).start().expect("it starts");
    let host = runtime.host();
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            do_in(Window::BeforeMessage, move || {
                host.send(pid, ()).expect("it lives");
                next(&there);
            });
            send(pid)
        });
        let lanes = &TABLE.slot(pid.slot()).expect("its slot").lanes;
        let until = Instant::now() + FOR_EVER;
        while pid.is_alive() || lanes.depth() == 0 {
            assert!(Instant::now() < until, "the message is pushed");
            std::thread::yield_now();
        }
        go_on.send(()).expect("it waits");
        let sent = sender.join().expect("it does not panic");
        host.scheduler().wait_until_idle().expect("the process has ended");
        sent
    })
}

/// Checks that a message is dropped once, with a dead letter, and that a call fails once, with this reason.
fn is_lost_once(place: Place, reason: &ExitReason) {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let message = Arc::new(());
    pushed_at(&runtime, place, |pid| runtime.send(pid, message.clone())).expect("the process was alive");
    assert_eq!(Arc::strong_count(&message), 1, "the message is dropped");
    let answer = pushed_at(&runtime, place, |pid| Call::<Arc<()>, ()>::new(pid, "call", message.clone()).wait());
    assert_eq!(answer, Err(CallError::Gone(reason.clone())));
    assert_eq!(Arc::strong_count(&message), 1, "the message of the call is dropped");
    let dead = runtime.host().statistics().dead_letters;
    assert_eq!(dead.ended, 2, "a dead letter for each: {dead:?}");
}

/// Catches: a check for remaining messages before the close.
#[test]
fn a_message_that_comes_while_its_state_is_closed_is_lost_for_its_reason() {
    is_lost_once(Place::InItsClose, &ExitReason::Normal);
}

/// Catches: a message that stays in a slot that is free again.
#[test]
fn a_message_that_comes_after_the_look_is_lost_too() {
    is_lost_once(Place::AfterTheLook, &ExitReason::NoProcess);
}

/// A message is pushed after its process has ended and the slot has a process of another runtime.
///
/// Catches: a message that is lost without being counted. It is a dead letter of the other runtime, as
/// [`DeadLetter::to`] says.
#[test]
fn a_message_that_comes_while_another_runtime_uses_the_slot_is_its_dead_letter() {
    let [old, new] = [(); 2].map(|()| Runtime::builder().workers(1).build().expect("one worker"));
    let mut token = TABLE.take().expect("a slot");
    let (slot, pid) = (token.slot(), token.open(old.host().scheduler().slot_owner()));
    assert!(token.park_idle().is_none(), "nothing has arrived");
    let (other, message) = (new.host(), Arc::new(()));
    do_in(Window::BeforeMessage, move || {
        let mut token = Token::claim_own(slot).expect("it is parked");
        token.close();
        TABLE.take_back(token);
        let process = other.spawn_process(OnMessage(drop)).start().expect("it starts");
        assert_eq!(process.slot(), slot.index(), "this thread has just given it back");
    });
    old.send(pid, message.clone()).expect("it lived");
    new.host().scheduler().wait_until_idle().expect("nothing runs");
    assert_eq!(Arc::strong_count(&message), 1, "the message is dropped");
    let [old, new] = [old, new].map(|runtime| runtime.host().statistics().dead_letters.ended);
    assert_eq!((old, new), (0, 1));
}

/// Like [`Brief`], but its close panics.
struct Bursts;

impl Process for Bursts {
    fn step(&mut self, _: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        out.done();
        Ok(())
    }

    fn close(&mut self) {
        panic!("burst")
    }
}

/// Catches: a panic that is lost because the process has left nothing else.
#[test]
fn the_panic_of_its_close_is_reported() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let incidents = runtime.incidents(1);
    runtime.spawn_process(Bursts).start().expect("it starts");
    runtime.host().scheduler().wait_until_idle().expect("it has ended");
    let ends = incidents.ends();
    assert!(ends.total == 1 && ends.kept[0].reason.contains("burst"), "{ends:?}");
}

/// Catches: a name, or a place below the limit, that stays with an ended process; a process that is not counted out;
/// two processes with the same PID.
#[test]
fn its_name_its_place_and_its_slot_are_free_afterwards() {
    let runtime = Runtime::builder().workers(1).process_limit(1).build().expect("one worker");
    let host = runtime.host().scheduler();
    let mut pids = HashSet::new();
    for name in [Some("brief"), None, Some("brief"), None] {
        let spawn = runtime.spawn_process(Brief);
        let spawn = name.into_iter().fold(spawn, |spawn, name| spawn.named(name));
        assert!(pids.insert(spawn.start().expect("its name and its place are free")), "a PID is used twice");
        host.wait_until_idle().expect("it has ended");
        assert_eq!((host.names.count().0, host.gate.inside()), (0, 0));
    }
}

struct Completes(Sender<(Pid, ExitReason)>);

impl Hook for Completes {
    fn complete(&self, process: &Started, reason: &ExitReason) {
        self.0.send((process.pid, reason.clone())).expect("the test waits");
    }
}

/// Catches: a hook that is not called.
#[test]
fn its_end_is_told_to_hooks() {
    let (completes, completed) = channel();
    let runtime = Runtime::builder().workers(1).hook(Completes(completes)).build().expect("one worker");
    let pid = runtime.spawn_process(Brief).start().expect("it starts");
    assert_eq!(next(&completed), (pid, ExitReason::Normal));
}

/// A process that makes so many others end on its thread that the thread cannot keep another slot. Then it ends itself,
/// with a late message.
struct EndsWithoutRoom(Vec<Pid>);

impl Process for EndsWithoutRoom {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while events.next().is_some() {}
        let (host, own) = (Host::current().expect("a host"), current_pid().expect("a process"));
        if self.0.is_empty() {
            let spawned = (0..2 * MOST).map(|_| host.spawn_process(Brief).start());
            self.0 = spawned.collect::<Result<_, _>>()?;
        }
        if self.0.iter().any(|pid| pid.is_alive()) {
            host.send(own, ()).expect("this process lives");
            return Ok(());
        }
        let slot = TABLE.slot(own.slot()).expect("its slot");
        do_in(Window::BeforeReuse, move || {
            let late = node_pool::message(own.generation(), "late", ptr::null_mut());
            let claim = slot.lanes.push_data(late, || 0, |_| ());
            assert_eq!(claim, Claim::Nothing, "this thread has the token");
        });
        out.done();
        Ok(())
    }
}

/// The hook for dead letters waits for another process.
///
/// Catches: user code that runs between two steps without being watched.
#[test]
fn a_hook_that_waits_at_a_slot_that_is_not_kept_does_not_stop_the_worker() {
    let ((tell, told), (another, others)) = (channel::<()>(), channel::<()>());
    let others = Mutex::new(others);
    let hook = move |letter: DeadLetter| {
        if letter.message.is::<&str>() {
            tell.send(()).expect("the test waits");
            next(&others.lock().expect("one letter is such"));
        }
    };
    let runtime = Runtime::builder().workers(1).on_dead_letter(hook).build().expect("one worker");
    runtime.spawn_process(EndsWithoutRoom(Vec::new())).start().expect("it starts");
    next(&told);
    let (ends, there, go_on) = Ends::new(Place::InItsClose);
    let pid = runtime.spawn_process(ends).start().expect("it starts");
    runtime.send(pid, ()).expect("it lives");
    next(&there);
    another.send(()).expect("the hook waits");
    go_on.send(()).expect("it waits");
}
