//! The tokens that a thread keeps to itself (`thread_cache`), and the messages that it sends in place.
//!
//! The slot, its lanes, its token, the places and the send are production code. The driver repeats the steps of
//! `engine/context/keep.rs` (`keep_or_park`, `evict`, `flush`) and `engine/host/recall.rs`. A thread that takes tokens
//! from another one checks only once whether the other is inside a section. If so, it gives up.
//!
//! Not covered: the kernel's barrier and the light one, which are fences here. A missing fence in *check* of `cache`
//! goes unnoticed, since the section that follows contains one.

use crate::call::caller::Port;
use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, deep, keep, reach};
use crate::fault::{self, Fault};
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::{node_pool, payload::Payload};
use crate::pid::{NodeId, Pid};
use crate::slots::slot::words::ParkKind;
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{Mutex, Ordering, lock};
use crate::thread_cache::evict::Evicted;
use crate::thread_cache::lock::NOTIFIED;
use crate::thread_cache::send::send;
use crate::thread_cache::tokens::{Following, Kept, LocalTokens};
use crate::thread_cache::{set_current, take_kept};
use loom::thread;
use std::ptr::NonNull;

/// A planted fault: the thread sleeps without giving up any token.
const SLEEPS_WITH_ALL: u8 = 1;
/// A planted fault: the thread checks its tokens only once before it sleeps.
const LOOKS_ONCE: u8 = 2;
/// A planted fault: the thread ignores a notification for a cached process.
const IS_NOT_TOLD: u8 = 3;
/// A planted fault: the thread does not check its cached processes.
const DOES_NOT_LOOK: u8 = 4;

/// A number in a message that is too large for a node.
type InBlock = [u32; 64];

/// A run queue, together with the numbers that the processes have received.
struct Queue {
    local: &'static LocalTokens,
    tokens: Mutex<Vec<Token>>,
    received: Mutex<Vec<u32>>,
}

impl Sink for Queue {
    fn dead_letter(&'static self, _letter: DeadLetter) {}
}

impl Schedule for Queue {
    fn wake(&'static self, token: Token) {
        lock(&self.tokens).push(token);
    }

    /// Takes a kept token. If it gets none, performs *notify* of `cache`.
    fn take_kept(&'static self, slot: &'static Slot) -> Option<Token> {
        let token = take_kept(slot);
        if token.is_none() && slot.permit.is_in_table() {
            self.notify_keeper(slot);
        }
        token
    }
}

impl SlotHost for Queue {}

impl Queue {
    /// Performs *notify* of `cache`.
    fn notify_keeper(&self, slot: &Slot) {
        if self.local.has_in_table(slot) {
            reach("told");
            self.local.lock.notify();
        }
    }
}

pub(super) struct Scene {
    queue: &'static Queue,
    owner: &'static SlotOwner,
    pub(super) local: &'static LocalTokens,
}

impl Scene {
    pub(super) fn new() -> &'static Self {
        let local: &LocalTokens = keep(LocalTokens::none());
        let queue = keep(Queue { local, tokens: Mutex::new(Vec::new()), received: Mutex::new(Vec::new()) });
        let owner = keep(SlotOwner::new(queue, NodeId::new(7).expect("a node id"), 1));
        keep(Self { queue, owner, local })
    }

    /// Starts the process of the slot with the given index.
    pub(super) fn start(&self, index: u32) -> (&'static Slot, Token, Pid) {
        let slot: &'static Slot = keep(Slot::unused(index));
        let mut token = Token::claim_free(slot).expect("the slot is free");
        let pid = token.open(self.owner);
        (slot, token.release(), pid)
    }

    /// Runs a process: it takes its messages and changes its state.
    fn run(&self, token: Token) -> Token {
        let mut token = token.acquire();
        // SAFETY: the caller has the token. If two threads access the state at the same time, loom reports it.
        unsafe { token.slot().own_cold_state() }.labelled = true;
        while let Some(envelope) = token.lanes().pop_data() {
            let payload = envelope.payload.expect("a message");
            let number = payload.take::<u32>().or_else(|payload| payload.take::<InBlock>().map(|block| block[0]));
            lock(&self.queue.received).push(number.expect("a number"));
        }
        token.release()
    }

    /// Parks the token of an idle process, or queues it if something has arrived.
    fn rest(&self, token: Token) {
        if let Some(token) = token.acquire().park_idle() {
            token.release().wake();
        }
    }

    /// Mirrors `ThreadContext::keep_or_park` for an idle process: keeps the token if its lanes are empty.
    fn keep_idle(&self, token: Token) {
        let mut token = token.acquire();
        if token.lanes().empty_first().is_none() {
            return self.rest(token.release());
        }
        if let Some(token) = self.local.keep(token.release(), ParkKind::Idle, true) {
            self.evict(token);
        }
    }

    /// Mirrors `ThreadContext::next_when_called` and `ThreadContext::check_cache`.
    fn look_at_cache(&self) {
        if !fault::is(Fault::Driver(IS_NOT_TOLD)) {
            self.see_what_was_told();
        }
        if fault::is(Fault::Driver(DOES_NOT_LOOK)) {
            return;
        }
        while let Some(token) = self.local.take_filled() {
            reach("seen");
            self.evict(token);
        }
    }

    /// Performs *flush* of `cache`.
    fn see_what_was_told(&self) {
        if self.local.lock.attention() & NOTIFIED != 0 && self.local.lock.acknowledge(NOTIFIED, Ordering::SeqCst) != 0 {
            self.local.take_cached().for_each(|token| self.evict(token));
        }
    }

    fn evict(&self, token: Token) {
        match token.evict() {
            Evicted::Parked => {}
            Evicted::HasInput(token) => token.wake(),
            Evicted::HasEnded(_) => unreachable!("the process lives"),
        }
    }

    /// Mirrors `Scheduler::move_local`.
    fn recall(&self) -> bool {
        let Some(revoked) = self.local.revoke() else { return false };
        let any = revoked.run_next.is_some() || !revoked.cached.is_empty();
        revoked.run_next.into_iter().for_each(Token::wake);
        revoked.cached.into_iter().for_each(|token| self.evict(token));
        any
    }

    /// Mirrors `ThreadContext::flush`, after which a thread goes to sleep.
    fn sleep(&self) {
        match () {
            () if fault::is(Fault::Driver(SLEEPS_WITH_ALL)) => {}
            () if fault::is(Fault::Driver(LOOKS_ONCE)) => {
                self.local.take_cached().for_each(|token| self.evict(token));
                self.local.take_next().into_iter().for_each(Token::wake);
            }
            () => {
                let _keeps_nothing = self.local.flush(|kept| match kept {
                    Kept::Cached(token) => self.evict(token),
                    Kept::Next(token) => token.wake(),
                    Kept::Vacant(_) => unreachable!("no process has ended"),
                });
            }
        }
    }

    /// Mirrors `ThreadContext::keep_or_park` for a process that waits for control only.
    fn keep_waiting(&self, token: Token) {
        if token.slot().lanes.has_control() {
            return self.wait(token);
        }
        if let Some(token) = self.local.keep(token, ParkKind::Waiting, true) {
            self.evict(token);
        }
    }

    /// Parks the token of a process that waits for control only, or queues it if a control has arrived.
    fn wait(&self, token: Token) {
        if let Some(token) = token.acquire().park_waiting() {
            token.release().wake();
        }
    }

    /// Runs a process that waits for control only. `brought` is the answer that came with its token. Records the tags
    /// of all answers.
    fn run_waiting(&self, token: Token, brought: Option<NodeBox>) -> Token {
        let mut token = token.acquire();
        // SAFETY: as in `run`.
        unsafe { token.slot().own_cold_state() }.labelled = true;
        let mut controls = token.lanes().take_control();
        brought.into_iter().for_each(|brought| controls.push_first(brought));
        lock(&self.queue.received).extend(controls.answers().map(|tag| tag as u32));
        while let Some(mut node) = controls.pop() {
            drop(node.take());
            node_pool::recycle(node);
        }
        token.release()
    }

    /// Like `finish`, for processes that wait for control only.
    fn finish_waiting(&self) -> Vec<u32> {
        while let Some(token) = { lock(&self.queue.tokens).pop() } {
            let token = self.run_waiting(token, None);
            self.wait(token);
        }
        lock(&self.queue.received).clone()
    }

    /// Like `finish`, except that the process in slot `caller` waits for control only.
    fn finish_call(&self, caller: u32) -> Vec<u32> {
        while let Some(token) = { lock(&self.queue.tokens).pop() } {
            if token.slot().index() == caller {
                self.wait(self.run_waiting(token, None));
            } else {
                self.rest(self.run(token));
            }
        }
        lock(&self.queue.received).clone()
    }

    /// Runs all queued processes. Returns all numbers received so far.
    fn finish(&self) -> Vec<u32> {
        while let Some(token) = { lock(&self.queue.tokens).pop() } {
            assert!(!token.slot().lanes.glance().0, "a second token");
            let token = self.run(token);
            self.rest(token);
        }
        lock(&self.queue.received).clone()
    }
}

/// Sets `local` as the tokens of the calling thread while `body` runs.
pub(super) fn within(local: &'static LocalTokens, body: impl FnOnce()) {
    set_current(Some(local));
    body();
    set_current(None);
}

/// A thread moves its tokens while another one takes them.
fn moved_and_taken() {
    check(deep(3, 4), &["taken from the thread", "kept by the thread", "kept out"], || {
        let scene = Scene::new();
        let (first, second) = (scene.start(0).1, scene.start(1).1);
        assert!(scene.local.put_next(first).is_ok_and(|displaced| displaced.is_none()));
        assert!(scene.local.keep(second, ParkKind::Idle, true).is_none());
        let other = thread::spawn(move || {
            if scene.recall() {
                reach("taken from the thread");
            }
        });
        if let Some(token) = scene.local.take_next() {
            reach("kept by the thread");
            match scene.local.put_next(scene.run(token)) {
                Ok(displaced) => assert!(displaced.is_none(), "it is the thread's own place"),
                Err(token) => {
                    reach("kept out");
                    token.wake();
                }
            }
        }
        other.join().unwrap();
        assert!(scene.recall() || !lock(&scene.queue.tokens).is_empty());
        scene.finish();
        assert!(!scene.local.has_next() && !scene.local.has_cached(), "both were found");
    });
}

#[test]
fn a_thread_moves_its_tokens_while_they_are_taken() {
    moved_and_taken();
}

/// A thread sends to a process that it keeps, while another thread sends to the same process. The first thread sends
/// twice; or it sends once, and the other thread then takes the process away.
fn sent_in_place(taken_away: bool, in_block: bool) {
    let places: &[_] = if taken_away {
        &["in place", "taken away", "the other came first"]
    } else {
        &["in place", "the other came first", "the other came last"]
    };
    let own: &[u32] = if taken_away { &[1] } else { &[1, 2] };
    check(deep(2, 3), places, move || {
        let scene = Scene::new();
        let (slot, token, pid) = scene.start(0);
        // This gives the lane its first node.
        send(slot, pid, 0_u32).expect("it lives");
        scene.keep_idle(scene.run(token));
        let other = thread::spawn(move || {
            send(slot, pid, 10_u32).expect("it lives");
            if taken_away && scene.recall() {
                reach("taken away");
            }
        });
        within(scene.local, || {
            for &number in own {
                if in_block {
                    send(slot, pid, [number; 64] as InBlock).expect("it lives");
                } else {
                    send(slot, pid, number).expect("it lives");
                }
                if let Some(token) = scene.local.take_next() {
                    reach("in place");
                    scene.keep_idle(scene.run(token));
                }
            }
        });
        other.join().unwrap();
        scene.recall();
        let received = scene.finish();
        let of_thread: Vec<_> = received.iter().copied().filter(|&number| number < 10).collect();
        assert_eq!(of_thread[1..], *own, "once, and in order: {received:?}");
        assert_eq!(received.len(), own.len() + 2, "{received:?}");
        if received[1] == 10 {
            reach("the other came first");
        }
        if received.last() == Some(&10) {
            reach("the other came last");
        }
        assert_eq!(slot.lanes.depth(), 0, "it counts as empty");
    });
}

#[test]
fn messages_in_place_and_from_another_thread() {
    sent_in_place(false, false);
}

#[test]
fn messages_in_place_to_a_process_that_is_taken_away() {
    sent_in_place(true, false);
}

#[test]
fn messages_in_blocks_to_a_process_that_is_taken_away() {
    sent_in_place(true, true);
}

/// Two processes of a thread send to each other and run in turn (`ThreadContext::follow`). In the meantime another
/// thread takes the tokens away.
#[test]
fn processes_that_follow_each_other() {
    check(deep(2, 3), &["followed", "followed back", "kept out"], || {
        let scene = Scene::new();
        let (first, second) = (scene.start(0), scene.start(1));
        // These give the lanes their first nodes.
        send(first.0, first.2, 0_u32).expect("it lives");
        send(second.0, second.2, 0_u32).expect("it lives");
        scene.keep_idle(scene.run(first.1));
        let idle = scene.run(second.1);
        let other = thread::spawn(move || scene.recall());
        within(scene.local, || {
            send(first.0, first.2, 1_u32).expect("it lives");
            let idle = match scene.local.keep_for_next(idle, ParkKind::Idle) {
                Ok(Following { token: next, has_answer }) => {
                    assert!(!has_answer, "there is no call");
                    scene.run(next)
                }
                Err(token) => {
                    reach("kept out");
                    return scene.rest(token);
                }
            };
            reach("followed");
            send(second.0, second.2, 2_u32).expect("it lives");
            match scene.local.keep_for_next(idle, ParkKind::Idle) {
                Ok(Following { token: next, has_answer }) => {
                    assert!(!has_answer, "there is no call");
                    reach("followed back");
                    scene.rest(scene.run(next));
                }
                Err(token) => scene.rest(token),
            }
        });
        other.join().unwrap();
        scene.recall();
        let received = scene.finish();
        assert!(received == [0, 0, 1] || received == [0, 0, 1, 2], "{received:?}");
        // Both processes are idle, and neither token is lost.
        send(first.0, first.2, 10_u32).expect("it lives");
        send(second.0, second.2, 20_u32).expect("it lives");
        assert_eq!(scene.finish().len(), received.len() + 2);
    });
}

/// A process calls another one on its thread, which answers. Each follows the other (`ThreadContext::follow`), while
/// another thread takes the tokens away.
#[test]
fn a_caller_and_the_called_process_that_follow_each_other() {
    check(deep(2, 3), &["followed", "answered", "kept out", "answered elsewhere"], || {
        let scene = Scene::new();
        let (caller, called) = (scene.start(0), scene.start(1));
        // This gives the lane its first node.
        send(called.0, called.2, 0_u32).expect("it lives");
        scene.keep_idle(scene.run(called.1));
        let waiting = scene.run_waiting(caller.1, None);
        let other = thread::spawn(move || scene.recall());
        within(scene.local, || {
            send(called.0, called.2, 1_u32).expect("it lives");
            let idle = match scene.local.keep_for_next(waiting, ParkKind::Waiting) {
                Ok(Following { token: next, has_answer }) => {
                    assert!(!has_answer, "the called process gets a message");
                    scene.run(next)
                }
                Err(token) => {
                    reach("kept out");
                    return scene.wait(token);
                }
            };
            reach("followed");
            answer(caller.0, caller.2, 10);
            match scene.local.keep_for_next(idle, ParkKind::Idle) {
                Ok(Following { token: next, has_answer }) => {
                    assert!(has_answer, "the caller gets no message");
                    reach("answered");
                    let brought = scene.local.take_answer(&next);
                    assert!(brought.is_some(), "it is for this one");
                    scene.wait(scene.run_waiting(next, brought));
                }
                Err(token) => {
                    reach("answered elsewhere");
                    scene.rest(token);
                }
            }
        });
        other.join().unwrap();
        scene.recall();
        let mut received = scene.finish_call(0);
        if !received.contains(&10) {
            // The called process was taken away with its message. It answers on another thread.
            answer(caller.0, caller.2, 10);
            received = scene.finish_call(0);
        }
        assert_eq!(received, [0, 1, 10]);
        // Both processes wait, and neither token is lost.
        send(called.0, called.2, 20_u32).expect("it lives");
        answer(caller.0, caller.2, 30);
        assert_eq!(scene.finish_call(0).len(), 5);
    });
}

/// Two processes of a thread. The first has run, and will be cached when the second rests. The lanes of both have their
/// first nodes.
struct Caching {
    scene: &'static Scene,
    first: (&'static Slot, Pid),
    second: Token,
}

impl Caching {
    fn begun() -> Self {
        let scene = Scene::new();
        scene.local.enable_table(true);
        let (first, second) = (scene.start(0), scene.start(1));
        send(first.0, first.2, 0_u32).expect("it lives");
        send(second.0, second.2, 0_u32).expect("it lives");
        scene.keep_idle(scene.run(first.1));
        Self { scene, first: (first.0, first.2), second: scene.run(second.1) }
    }
}

/// A process is cached while another thread sends to it. Its thread is notified, or sees the message when it next
/// checks the cache.
fn sent_while_it_is_cached() {
    check(deep(2, 3), &["told", "seen", "found without being told"], || {
        let Caching { scene, first: (slot, pid), second } = Caching::begun();
        let other = thread::spawn(move || send(slot, pid, 10_u32).expect("it lives"));
        within(scene.local, || {
            scene.keep_idle(second);
            scene.look_at_cache();
        });
        other.join().unwrap();
        if scene.local.lock.attention() & NOTIFIED == 0 {
            reach("found without being told");
        }
        if !fault::is(Fault::Driver(IS_NOT_TOLD)) {
            scene.see_what_was_told();
        }
        let waits = scene.local.has_in_table(slot) && slot.lanes.depth() > 0;
        assert!(!waits, "it lies in the cache with its message");
        assert_eq!(scene.finish(), [0, 0, 10]);
    });
}

#[test]
fn a_message_to_a_process_that_is_being_cached() {
    sent_while_it_is_cached();
}

/// Like [`sent_while_it_is_cached`], with a sender that has already seen the mark and only checks the place. In loom,
/// single sequentially consistent loads have no total order, so each of the two checks of *ask* has its own fence in
/// the models. But a fence orders everything that follows it: the fence for the check of the mark would hide that the
/// check of the place needs one, too.
#[test]
fn a_message_of_a_sender_that_looks_for_the_place_alone() {
    check(deep(2, 3), &["told", "seen"], || {
        let Caching { scene, first: (slot, pid), second } = Caching::begun();
        let other = thread::spawn(move || {
            let message = node_pool::message(pid.generation(), 10_u32, std::ptr::null_mut());
            match slot.lanes.push_data(message, || 0, |_| ()) {
                Claim::Nothing => scene.queue.notify_keeper(slot),
                // SAFETY: the push has taken the token.
                _process => unsafe { Token::from_raw(NonNull::from(slot)) }.wake(),
            }
        });
        within(scene.local, || {
            scene.keep_idle(second);
            scene.look_at_cache();
        });
        other.join().unwrap();
        scene.see_what_was_told();
        let waits = scene.local.has_in_table(slot) && slot.lanes.depth() > 0;
        assert!(!waits, "it lies in the cache with its message");
        scene.recall();
        assert_eq!(scene.finish(), [0, 0, 10]);
    });
}

/// Like [`sent_while_it_is_cached`], with a process that waits for control and is answered by the other thread.
#[test]
fn an_answer_to_a_process_that_is_being_cached() {
    check(deep(2, 3), &["told", "seen"], || {
        let scene = Scene::new();
        scene.local.enable_table(true);
        let ((slot, waiting, pid), (_, second, to)) = (scene.start(0), scene.start(1));
        // This gives the lane its first node.
        send(second.slot(), to, 0_u32).expect("it lives");
        scene.keep_waiting(waiting);
        let second = scene.run(second);
        let other = thread::spawn(move || answer(slot, pid, 10));
        within(scene.local, || {
            scene.keep_idle(second);
            scene.look_at_cache();
        });
        other.join().unwrap();
        scene.see_what_was_told();
        let waits = scene.local.has_in_table(slot) && slot.lanes.has_control();
        assert!(!waits, "it lies in the cache with its answer");
        assert_eq!(scene.finish_call(0), [0, 10]);
    });
}

#[test]
#[should_panic(expected = "it lies in the cache with its message")]
fn fault_the_thread_is_not_told_of_a_message_to_its_cache() {
    fault::with(Fault::Driver(IS_NOT_TOLD), sent_while_it_is_cached);
}

#[test]
#[should_panic(expected = "it lies in the cache with its message")]
fn fault_the_thread_does_not_look_at_what_it_has_cached() {
    fault::with(Fault::Driver(DOES_NOT_LOOK), sent_while_it_is_cached);
}

/// A thread sends to a process in its cache, while another thread also sends to it, or empties the cache.
fn sent_from_the_cache(taken_away: bool) {
    let places: &[_] = if taken_away { &["in place", "taken away"] } else { &["in place", "told", "both at once"] };
    check(deep(2, 3), places, move || {
        let Caching { scene, first: (slot, pid), second } = Caching::begun();
        scene.keep_idle(second);
        assert!(scene.local.has_in_table(slot));
        let other = thread::spawn(move || {
            if !taken_away {
                send(slot, pid, 10_u32).expect("it lives");
            } else if scene.recall() {
                reach("taken away");
            }
        });
        within(scene.local, || {
            send(slot, pid, 1_u32).expect("it lives");
            if let Some(token) = scene.local.take_next() {
                reach("in place");
                scene.keep_idle(scene.run(token));
            }
            scene.look_at_cache();
        });
        if !taken_away {
            scene.sleep();
        }
        other.join().unwrap();
        if taken_away {
            scene.recall();
        }
        let received = scene.finish();
        assert_eq!(received.iter().filter(|&&number| number == 1).count(), 1, "{received:?}");
        assert_eq!(received.len(), if taken_away { 3 } else { 4 }, "{received:?}");
        if received.ends_with(&[1, 10]) || received.ends_with(&[10, 1]) {
            reach("both at once");
        }
        // The process is idle, and its token is not lost.
        send(slot, pid, 20_u32).expect("it lives");
        assert_eq!(scene.finish().last(), Some(&20));
    });
}

#[test]
fn messages_to_a_cached_process_from_its_thread_and_another() {
    sent_from_the_cache(false);
}

#[test]
fn messages_to_a_cached_process_that_is_taken_away() {
    sent_from_the_cache(true);
}

/// A sender sends from another thread. It then moves to the thread that keeps the process, and sends in place.
#[test]
fn a_sender_that_moves_to_the_thread_of_its_receiver() {
    check(3, &["moved", "had not moved"], || {
        let scene = Scene::new();
        let (slot, token, pid) = scene.start(0);
        send(slot, pid, 0_u32).expect("it lives");
        scene.keep_idle(scene.run(token));
        let sender = keep(Mutex::new(None));
        let other = thread::spawn(move || {
            send(slot, pid, 1_u32).expect("it lives");
            *lock(sender) = Some(2_u32);
        });
        within(scene.local, || {
            let moved = lock(sender).take();
            reach(if moved.is_some() { "moved" } else { "had not moved" });
            if let Some(number) = moved {
                send(slot, pid, number).expect("it lives");
            }
            if let Some(token) = scene.local.take_next() {
                scene.keep_idle(scene.run(token));
            }
        });
        other.join().unwrap();
        scene.recall();
        let received = scene.finish();
        assert!(received == [0, 1, 2] || received == [0, 1], "in order: {received:?}");
    });
}

/// A thread has a run-next process and keeps another process. It goes to sleep while another thread takes both, or
/// gives up. In the meantime a message to the kept process arrives. Once all threads sleep, none checks this thread's
/// tokens any more, so the message must not be left with them.
fn sleeps_while_they_are_taken() {
    check(deep(2, 3), &["taken", "given up", "kept out", "evicted with a message"], || {
        let scene = Scene::new();
        let (first, second) = (scene.start(0), scene.start(1));
        send(first.0, first.2, 0_u32).expect("it lives");
        scene.keep_idle(scene.run(first.1));
        assert!(scene.local.put_next(second.1).is_ok_and(|displaced| displaced.is_none()));
        let taker = thread::spawn(move || match scene.recall() {
            true => reach("taken"),
            false if scene.local.has_cached() => reach("given up"),
            false => {}
        });
        let sender = thread::spawn(move || send(first.0, first.2, 10_u32).expect("it lives"));
        if let Some(token) = scene.local.take_next()
            && let Err(token) = scene.local.put_next(scene.run(token)).map(|displaced| assert!(displaced.is_none()))
        {
            reach("kept out");
            token.wake();
        }
        scene.sleep();
        taker.join().unwrap();
        sender.join().unwrap();
        if !lock(&scene.queue.tokens).is_empty() {
            reach("evicted with a message");
        }
        assert_eq!(scene.finish(), [0, 10]);
        // Both processes are idle, and neither token is lost.
        send(first.0, first.2, 20_u32).expect("it lives");
        send(second.0, second.2, 30_u32).expect("it lives");
        assert_eq!(scene.finish().len(), 4);
    });
}

/// Answers a call that the process made.
fn answer(slot: &'static Slot, pid: Pid, tag: u32) {
    let word = std::ptr::without_provenance_mut(tag as usize);
    let (kind, payload) = (NodeKind::Completed, Some(Payload::new(tag)));
    let node = node_pool::node(Envelope { kind, generation: pid.generation(), word, payload });
    slot.answer(node, pid.generation());
}

/// A thread twice answers a process whose token it keeps. In the meantime another thread answers the process too, takes
/// it away, or does both.
fn answered(answers: bool, takes: bool) {
    let mut places = vec!["beside the slot", "in the lane"];
    places.extend(takes.then_some("taken away"));
    let places = Box::leak(places.into_boxed_slice());
    check(deep(2, 3), places, move || {
        let scene = Scene::new();
        let (slot, token, pid) = scene.start(0);
        scene.keep_waiting(token);
        let other = thread::spawn(move || {
            if answers {
                answer(slot, pid, 10);
            }
            if takes && scene.recall() {
                reach("taken away");
            }
        });
        within(scene.local, || {
            for tag in [1, 2] {
                answer(slot, pid, tag);
                if let Some(token) = scene.local.take_next_to_run() {
                    let brought = scene.local.take_answer(&token);
                    reach(if brought.is_some() { "beside the slot" } else { "in the lane" });
                    scene.keep_waiting(scene.run_waiting(token, brought));
                } else {
                    reach("in the lane");
                }
            }
            scene.look_at_cache();
        });
        other.join().unwrap();
        scene.recall();
        let received = scene.finish_waiting();
        let mut own: Vec<_> = received.iter().copied().filter(|&tag| tag < 10).collect();
        if takes {
            // The first answer may still be on its way into the lane when the second one is put there.
            own.sort_unstable();
        }
        assert_eq!(own, [1, 2], "once, and in order: {received:?}");
        assert_eq!(received.len(), 2 + usize::from(answers), "{received:?}");
    });
}

#[test]
fn a_thread_sleeps_while_its_tokens_are_taken_in_vain() {
    sleeps_while_they_are_taken();
}

#[test]
#[should_panic]
fn fault_sleeps_with_its_tokens() {
    fault::with(Fault::Driver(SLEEPS_WITH_ALL), sleeps_while_they_are_taken);
}

#[test]
#[should_panic]
fn fault_sleeps_after_one_look() {
    fault::with(Fault::Driver(LOOKS_ONCE), sleeps_while_they_are_taken);
}

#[test]
fn answers_to_a_waiting_process_and_from_another_thread() {
    answered(true, false);
}

#[test]
fn answers_to_a_waiting_process_that_is_taken_away() {
    answered(false, true);
}

#[test]
fn answers_to_a_waiting_process_that_is_answered_and_taken_away() {
    answered(true, true);
}

/// A process that waits for control is answered by another thread, and then by its own.
#[test]
fn an_answer_that_follows_one_from_another_thread() {
    check(3, &["followed", "had not come"], || {
        let scene = Scene::new();
        let (slot, token, pid) = scene.start(0);
        scene.keep_waiting(token);
        let answered = keep(Mutex::new(false));
        let other = thread::spawn(move || {
            answer(slot, pid, 1);
            *lock(answered) = true;
        });
        within(scene.local, || {
            let follows = *lock(answered);
            reach(if follows { "followed" } else { "had not come" });
            if follows {
                answer(slot, pid, 2);
            }
            if let Some(token) = scene.local.take_next_to_run() {
                let brought = scene.local.take_answer(&token);
                scene.keep_waiting(scene.run_waiting(token, brought));
            }
        });
        other.join().unwrap();
        scene.recall();
        let received = scene.finish_waiting();
        assert!(received == [1, 2] || received == [1], "in order: {received:?}");
    });
}

/// A process that waits for control is answered, and then another process displaces it as the next to run. The answer
/// stays with the first process.
#[test]
fn an_answered_process_that_is_displaced() {
    check(2, &["displaced", "taken away"], || {
        let scene = Scene::new();
        let (slot, token, pid) = scene.start(0);
        let (_, second, _) = scene.start(1);
        scene.keep_waiting(token);
        let other = thread::spawn(move || {
            if scene.recall() {
                reach("taken away");
            }
        });
        within(scene.local, || {
            answer(slot, pid, 1);
            assert!(scene.local.take_answer(&second).is_none(), "it is for the other one");
            match scene.local.put_next(second) {
                Ok(displaced) => displaced.into_iter().for_each(|token| {
                    reach("displaced");
                    token.wake();
                }),
                Err(token) => token.wake(),
            }
        });
        other.join().unwrap();
        scene.recall();
        assert_eq!(scene.finish_waiting(), [1]);
    });
}

#[test]
#[should_panic]
fn fault_no_light_barrier() {
    fault::with(Fault::NoLightBarrier, moved_and_taken);
}

#[test]
#[should_panic]
fn fault_no_heavy_barrier() {
    fault::with(Fault::NoHeavyBarrier, moved_and_taken);
}
