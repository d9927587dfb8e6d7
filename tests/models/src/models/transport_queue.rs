//! The queue of a transport (`routing/transport_queue.rs`). A sender that was refused for lack of room is resumed when
//! there is room, however the refusal and the arrival of room interleave.
//!
//! The queue is production code. The driver repeats the steps of a transport and its senders as `routing/transport.rs`
//! prescribes them. The transport refuses and calls `set_full` under its own lock, and calls `set_room` without it. A
//! sender joins the list without the transport's lock, waits, and tries again. If a sender is forgotten, loom reports a
//! deadlock.
//!
//! Not covered: listeners that give up, and the order of the waiting senders (the module's unit tests cover both); the
//! maximum wait, after which a suspension ends even if there is no room.

use crate::check::{check, deep, keep, reach};
use crate::fault::{self, Fault};
use crate::routing::transport_queue::{RoomListener, TransportQueue};
use crate::sync::{Arc, Condvar, Mutex, lock, wait};
use loom::thread;

/// A planted fault: the transport calls `set_full` after releasing the lock under which it refused.
const MARKED_OUTSIDE: Fault = Fault::Driver(0);
/// A planted fault: the transport calls `set_room` before it has recorded the room.
const TOLD_THEN_NOTED: Fault = Fault::Driver(1);
/// A planted fault: the end of a connection does not call `set_room`.
const SILENT_END: Fault = Fault::Driver(2);
/// A planted fault: a sender that was resumed does not try again.
const ONE_TRY: Fault = Fault::Driver(3);

/// A transport. `room` is the number of messages that it has room for, or `None` after its connection has ended.
struct Way {
    room: Mutex<Option<usize>>,
    queue: TransportQueue,
}

/// The outcome of a send.
#[derive(Debug, PartialEq)]
enum Outcome {
    Sent,
    /// The connection has ended.
    Lost,
    /// The sender was resumed, found no room, and has given up.
    Refused,
}

/// A listener that wakes its sender.
struct Resumed(Arc<(Mutex<bool>, Condvar)>);

impl RoomListener for Resumed {
    fn resume(self: Box<Self>) -> bool {
        *lock(&self.0.0) = true;
        self.0.1.notify_one();
        true
    }

    fn is_wanted(&self) -> bool {
        true
    }

    fn suspension(&self) -> Option<u64> {
        None
    }
}

impl Way {
    fn new(room: usize) -> &'static Self {
        keep(Self { room: Mutex::new(Some(room)), queue: TransportQueue::new() })
    }

    /// Tries to send. Returns `None` if there is no room.
    fn attempt(&self) -> Option<Outcome> {
        let mut state = lock(&self.room);
        match &mut *state {
            None => Some(Outcome::Lost),
            Some(0) => {
                if fault::is(MARKED_OUTSIDE) {
                    drop(state);
                }
                self.queue.set_full();
                None
            }
            Some(room) => {
                *room -= 1;
                Some(Outcome::Sent)
            }
        }
    }

    /// Sends a message. Waits for room as many times as necessary.
    fn send(&self) -> Outcome {
        loop {
            if let Some(outcome) = self.attempt() {
                return outcome;
            }
            let resumed = Arc::new((Mutex::new(false), Condvar::new()));
            if !self.queue.wait(Resumed(Arc::clone(&resumed))) {
                reach("there was room between the refusal and the wait");
                continue;
            }
            let mut is_resumed = lock(&resumed.0);
            while !*is_resumed {
                is_resumed = wait(&resumed.1, is_resumed);
            }
            drop(is_resumed);
            reach("waited and was resumed");
            if fault::is(ONE_TRY) {
                return self.attempt().unwrap_or(Outcome::Refused);
            }
        }
    }

    /// Makes room, as when the other node has taken this many messages.
    fn acknowledged(&self, messages: usize) {
        if fault::is(TOLD_THEN_NOTED) {
            self.queue.set_room();
        }
        if let Some(room) = &mut *lock(&self.room) {
            *room += messages;
        }
        if !fault::is(TOLD_THEN_NOTED) {
            self.queue.set_room();
        }
    }

    fn ended(&self) {
        *lock(&self.room) = None;
        if !fault::is(SILENT_END) {
            self.queue.set_room();
        }
    }
}

/// Runs one sender, for which room becomes available later.
fn one() {
    let way = Way::new(0);
    let sender = thread::spawn(move || way.send());
    way.acknowledged(1);
    assert_eq!(sender.join().unwrap(), Outcome::Sent);
    assert_eq!(way.queue.waiting(), 0);
}

#[test]
fn a_sender_is_resumed_when_there_is_room() {
    check(4, &["there was room between the refusal and the wait", "waited and was resumed"], one);
}

/// Runs two senders. There is room for one, and later for another. The sender that comes first may leave no room for
/// the other one, which was resumed too and waits again.
fn two() {
    let way = Way::new(0);
    let senders = [(); 2].map(|()| thread::spawn(move || way.send()));
    way.acknowledged(1);
    way.acknowledged(1);
    assert!(senders.into_iter().all(|sender| sender.join().unwrap() == Outcome::Sent));
    assert_eq!((way.queue.waiting(), *lock(&way.room)), (0, Some(0)));
}

#[test]
fn each_of_two_senders_gets_the_room_of_one() {
    check(deep(2, 3), &["waited and was resumed"], two);
}

/// If there is room for both senders at once, both are resumed.
#[test]
fn room_for_two_senders_resumes_both() {
    check(deep(2, 3), &["waited and was resumed"], || {
        let way = Way::new(0);
        let senders = [(); 2].map(|()| thread::spawn(move || way.send()));
        way.acknowledged(2);
        assert!(senders.into_iter().all(|sender| sender.join().unwrap() == Outcome::Sent));
        assert_eq!((way.queue.waiting(), *lock(&way.room)), (0, Some(0)));
    });
}

/// Runs a sender that is refused while the connection ends.
fn end() {
    let way = Way::new(0);
    let sender = thread::spawn(move || way.send());
    way.ended();
    assert_eq!(sender.join().unwrap(), Outcome::Lost);
}

#[test]
fn a_sender_hears_of_the_end_of_the_connection() {
    check(4, &["waited and was resumed"], end);
}

#[test]
#[should_panic]
fn fault_marked_outside() {
    fault::with(MARKED_OUTSIDE, one);
}

#[test]
#[should_panic]
fn fault_told_then_noted() {
    fault::with(TOLD_THEN_NOTED, one);
}

#[test]
#[should_panic]
fn fault_silent_end() {
    fault::with(SILENT_END, end);
}

#[test]
#[should_panic]
fn fault_one_try() {
    fault::with(ONE_TRY, two);
}
