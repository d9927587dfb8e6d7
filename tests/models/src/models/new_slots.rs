//! The first incarnation of a slot that was never used (`slots/directory.rs`). The thread that spawns it takes its
//! token with a plain store, while other threads use PIDs of the slot that they cannot know yet: one of no process
//! (generation zero), and that of the slot's first process.
//!
//! The slot, its lanes and its token are production code. The driver repeats the steps of `SlotTable::take_new`, of
//! `engine/lifecycle/spawn.rs` and of a step.
//!
//! The store relies on an order: it comes before everything that a thread does once it has passed the check of the
//! generation. Loom keeps the stores of a thread in order by itself, so a cell, `made`, stands for the store. The
//! thread that has taken the token writes the cell, and other threads read it once they have passed the check.
//!
//! Not covered: the chunk of the slot, which is created under a lock; slots that a thread leaves behind when it ends,
//! since they are claimed like those of ended processes (`slot_reuse`).

use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, keep, reach};
use crate::mailbox::lanes::Claim;
use crate::mailbox::node_pool;
use crate::pid::NodeId;
use crate::process::control::Control;
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{AtomicU32, Ordering, OwnedCell};
use loom::thread;
use std::ptr;
use std::sync::Mutex;

/// The number of indices that a thread takes at a time.
const BATCH: u32 = 2;
/// The slots of the first two batches.
const SLOTS: usize = 2 * BATCH as usize;

struct Host {
    /// The messages that processes have taken, by the index of their slot. Invisible to loom, so it orders nothing.
    taken: Mutex<Vec<(u32, u32)>>,
    /// One cell per slot, which only the holder of the token accesses. If two threads held the token, loom would report
    /// a race.
    inside: [OwnedCell<u32>; SLOTS],
    /// One cell per slot, written by the thread that takes the slot's first token.
    made: [OwnedCell<bool>; SLOTS],
}

// SAFETY: only the token's holder accesses a cell of `inside`. Only the thread that takes the first token writes a cell
// of `made`, before others read it. Loom checks both.
unsafe impl Sync for Host {}

impl Sink for Host {
    fn dead_letter(&'static self, _letter: DeadLetter) {
        unreachable!("no process ends")
    }
}

impl Schedule for Host {
    fn wake(&'static self, token: Token) {
        reach("woken");
        self.run(token.acquire());
    }
}

impl SlotHost for Host {}

impl Host {
    /// Runs a time slice: the process takes its input.
    fn run(&self, mut token: Token) {
        let slot = token.slot();
        loop {
            // SAFETY: the caller holds the token, and loom checks it.
            self.inside[slot.index() as usize].with_mut(|inside| unsafe { *inside += 1 });
            let mut controls = token.lanes().take_control();
            while let Some(mut node) = controls.pop() {
                drop(node.take());
                node_pool::recycle(node);
            }
            while let Some(envelope) = token.lanes().pop_data() {
                assert_eq!(Some(envelope.generation), slot.living(), "it was sent to this process");
                let number = envelope.payload.and_then(|payload| payload.take().ok()).expect("all send numbers");
                self.taken.lock().unwrap().push((slot.index(), number));
            }
            match token.park_idle() {
                Some(again) => token = again,
                None => return,
            }
            reach("parking was refused");
            thread::yield_now();
        }
    }
}

struct World {
    slots: [&'static Slot; SLOTS],
    owner: &'static SlotOwner,
    host: &'static Host,
    /// A stand-in for `SlotTable::used`.
    used: AtomicU32,
}

impl World {
    fn new() -> &'static Self {
        let host = keep(Host {
            taken: Mutex::default(),
            inside: std::array::from_fn(|_| OwnedCell::new(0)),
            made: std::array::from_fn(|_| OwnedCell::new(false)),
        });
        let owner = keep(SlotOwner::new(host, NodeId::new(7).expect("a node id"), 1));
        let slots = std::array::from_fn(|index| keep(Slot::unused(index as u32)));
        keep(Self { slots, owner, host, used: AtomicU32::new(0) })
    }

    /// Mirrors `SlotTable::take_unused`.
    fn take_batch(&self) -> std::ops::Range<u32> {
        let more = |used: u32| Some(used + BATCH);
        let first = self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).expect("there are some");
        first..first + BATCH
    }

    /// Mirrors `SlotTable::take_new` and `Scheduler::start_process`. Returns the token of a live process.
    fn spawn(&self, index: u32) -> Token {
        let slot = self.slots[index as usize];
        let mut token = Token::claim_unused(slot);
        // SAFETY: only the calling thread has been given the index, and loom checks it.
        self.host.made[index as usize].with_mut(|made| unsafe { *made = true });
        token.open(self.owner);
        token
    }

    /// Sends a message to the first process of a slot, with a made-up PID. Returns whether the slot accepted the
    /// message.
    fn send(&self, index: u32, number: u32) -> bool {
        let sent = self.slots[index as usize].send(self.owner.pid(index, 1), number).is_ok();
        reach(if sent { "sent" } else { "there was no process yet" });
        if sent {
            // SAFETY: the cell is written before the process becomes alive, and loom checks it.
            let made = self.host.made[index as usize].with(|made| unsafe { *made });
            assert!(made, "the first token was taken before");
        }
        sent
    }

    /// Sends a signal to a generation of a slot. Generation zero is no process, and generation one is the first
    /// process.
    fn signal(&self, index: u32, generation: u64) {
        let slot = self.slots[index as usize];
        slot.request(generation, Control::Kill);
    }

    /// Checks at the end of an execution that each spawned process is idle, and that the messages in `sent` were taken.
    fn close(&self, spawned: &[u32], sent: &[(u32, u32)]) {
        for &index in spawned {
            let slot = self.slots[index as usize];
            assert_eq!(slot.lanes.claim(), Claim::Process, "the token is parked");
            // SAFETY: the claim above took the token.
            assert!(unsafe { slot.lanes.is_data_empty() } && !slot.lanes.has_control(), "something was left");
        }
        let mut taken = std::mem::take(&mut *self.host.taken.lock().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, sent, "each message that was accepted is taken once");
    }
}

#[test]
fn a_message_that_comes_with_the_first_process() {
    check(5, &["sent", "there was no process yet", "woken", "parking was refused"], || {
        let world = World::new();
        let sender = thread::spawn(|| world.send(0, 10));
        world.host.run(world.spawn(0));
        let sent = sender.join().unwrap();
        world.close(&[0], if sent { &[(0, 10)] } else { &[] });
    });
}

#[test]
fn a_signal_to_a_generation_that_no_process_has() {
    check(5, &["woken"], || {
        let world = World::new();
        let signals = thread::spawn(|| {
            world.signal(0, 0);
            world.signal(0, 1);
        });
        world.host.run(world.spawn(0));
        signals.join().unwrap();
        world.close(&[0], &[]);
    });
}

/// Each thread spawns a process in a slot of its own batch, and sends to the process that the other thread spawns.
#[test]
fn two_threads_take_a_batch_each() {
    check(3, &["sent", "there was no process yet", "woken"], || {
        let world = World::new();
        let spawns_and_sends = |number: u32| {
            let own = world.take_batch().start;
            world.host.run(world.spawn(own));
            let other = BATCH - own;
            (own, world.send(other, number).then_some((other, number)))
        };
        let other = thread::spawn(move || spawns_and_sends(10));
        let (own, sent) = spawns_and_sends(11);
        let (others, also_sent) = other.join().unwrap();
        assert_eq!(own + others, BATCH, "each has a batch");
        let mut all: Vec<_> = sent.into_iter().chain(also_sent).collect();
        all.sort_unstable();
        world.close(&[own, others], &all);
    });
}
