//! The models, one file for each protocol.

mod depot;
mod driver_state;
mod driving;
mod gate;
mod handoff;
mod help;
mod limits;
mod links;
mod local_tokens;
mod mailbox;
mod names;
mod new_slots;
mod next_due;
mod recorder;
mod registrations;
mod running;
mod sleep;
mod slot_reuse;
mod stuck;
mod suspend;
mod takeover;
mod token;
mod transport_queue;
mod vacant_slots;
mod wait_graph;
mod wait_in_step;
mod wake;

use crate::check::{keep, reach};
use crate::mailbox::lanes::{Advance, Claim, Lanes, ParkResult};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::{AtomicBool, Ordering, OwnedCell};
use std::ptr;

/// The way in which a process of a model parks.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    /// The process parks until anything arrives.
    Idle,
    /// The process parks until something arrives in the control lane. From then on it parks as for `Idle`.
    Wait,
}

/// The lanes of one process, and the process itself. The thread that takes its token runs it at once.
///
/// In production the token goes through a run queue, which orders more.
struct Mailbox {
    lanes: Lanes,
    /// Accessed only by the thread that holds the token. If two threads held it, loom would report a race.
    process: OwnedCell<Process>,
    /// Set by each waker, with a relaxed store, before its wake. The lanes guarantee that the wake leads to a run that
    /// sees it.
    announced: [AtomicBool; 2],
}

#[derive(Default)]
struct Process {
    /// The envelopes of the data lane, in the order in which they were taken.
    data: Vec<u32>,
    /// The envelopes of the control lane, in the order in which they were taken.
    control: Vec<u32>,
    /// The announcements that have been seen.
    seen: [bool; 2],
    /// Whether the process waits for control.
    waits: bool,
}

impl Mailbox {
    /// Creates a mailbox. The caller then holds the token.
    fn new() -> &'static Self {
        let mailbox = keep(Self {
            lanes: Lanes::unused(),
            process: OwnedCell::new(Process::default()),
            announced: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        assert_eq!(mailbox.lanes.claim(), Claim::Vacant);
        mailbox
    }

    fn envelope(number: u32) -> Envelope {
        Envelope { kind: NodeKind::Message, generation: 1, word: ptr::null_mut(), payload: Some(Payload::new(number)) }
    }

    fn number(envelope: Envelope) -> u32 {
        envelope.payload.and_then(|payload| payload.take().ok()).expect("each envelope is a number")
    }

    fn send(&self, number: u32) {
        self.send_where(0, number);
    }

    /// Sends like `send`, by a sender that already knows `known` as the sequence number of the first envelope.
    fn send_where(&self, known: u64, number: u32) {
        let claim = self.lanes.push_data(node_pool::node(Self::envelope(number)), || known, |_| ());
        if claim == Claim::Process {
            reach("a first node in the place of a mark");
        }
        self.claimed(claim);
    }

    fn send_control(&self, number: u32) {
        let claim = self.lanes.push_control(node_pool::node(Self::envelope(number)));
        self.claimed(claim);
    }

    fn wake(&self, waker: usize) {
        self.announced[waker].store(true, Ordering::Relaxed);
        let claim = self.lanes.wake();
        self.claimed(claim);
    }

    fn claimed(&self, claim: Claim) {
        match claim {
            Claim::Nothing => {}
            Claim::Process => {
                reach("took the token");
                self.run(Rest::Idle);
            }
            Claim::Vacant => unreachable!("the process is alive"),
        }
    }

    /// Makes the process wait for control.
    fn wait(&self) {
        // SAFETY: the caller holds the token, and loom checks it.
        self.process.with_mut(|process| unsafe { (*process).waits = true });
        self.run(Rest::Wait);
    }

    /// Runs the process until it is parked. The caller holds the token. A process that waits takes no data until a
    /// control envelope or a wake has arrived.
    fn run(&self, rest: Rest) {
        let mut rest = rest;
        // When a token has just been taken, the lane has no first node, or one that has not been consumed.
        let mut has_first = false;
        loop {
            if rest == Rest::Idle || self.lanes.has_control() {
                rest = Rest::Idle;
                self.step(&mut has_first);
            }
            // SAFETY: the caller holds the token.
            let laid = unsafe {
                match rest {
                    Rest::Idle => self.lanes.park_idle(),
                    Rest::Wait => self.lanes.park_waiting(),
                }
            };
            match laid {
                ParkResult::Refused if rest == Rest::Wait => reach("refused"),
                ParkResult::Refused => {
                    reach(if has_first { "refused the first node" } else { "refused without a first node" })
                }
                ParkResult::Parked => return,
                ParkResult::Reclaimed(Claim::Process) => {
                    reach("taken back");
                    rest = Rest::Idle;
                    has_first = false;
                }
                ParkResult::Reclaimed(_) => unreachable!("the process is alive"),
            }
        }
    }

    /// Takes all envelopes. The caller holds the token.
    fn step(&self, has_first: &mut bool) {
        let control = self.take_control();
        let data = self.take_data(has_first);
        self.process.with_mut(|process| {
            // SAFETY: the caller holds the token, and loom checks it.
            let process = unsafe { &mut *process };
            process.waits &= control.is_none();
            process.control.extend(control.unwrap_or_default());
            process.data.extend(data);
            for (seen, announced) in process.seen.iter_mut().zip(&self.announced) {
                *seen |= announced.load(Ordering::Relaxed);
            }
        });
    }

    /// Takes the control lane. Returns `None` if it has neither an envelope nor a wake.
    fn take_control(&self) -> Option<Vec<u32>> {
        if !self.lanes.has_control() {
            return None;
        }
        let mut taken = Vec::new();
        // SAFETY: the caller holds the token.
        let mut controls = unsafe { self.lanes.take_control() };
        while let Some(mut node) = controls.pop() {
            taken.push(Self::number(node.take()));
            node_pool::recycle(node);
        }
        Some(taken)
    }

    /// Takes the data lane. `has_first` tells whether the lane's first node has been consumed.
    fn take_data(&self, has_first: &mut bool) -> Vec<u32> {
        let mut taken = Vec::new();
        loop {
            // SAFETY: the caller holds the token.
            match unsafe { self.lanes.pop_data() } {
                Advance::To(envelope, free) => {
                    assert_eq!(free.is_some(), *has_first, "the node before it is free, if there was one");
                    *has_first = true;
                    free.into_iter().for_each(node_pool::recycle);
                    taken.push(Self::number(envelope));
                }
                Advance::Empty => return taken,
                // In this case production requeues the process.
                Advance::Busy => {
                    reach(if *has_first { "busy" } else { "busy without a first node" });
                    loom::thread::yield_now();
                }
            }
        }
    }

    /// Checks, after all senders are done, that the token is parked as idle and that the lanes are empty. Returns the
    /// process.
    fn rest(&self) -> Process {
        assert_eq!(self.lanes.glance(), (true, false), "the token is parked, and not to wait");
        assert_eq!(self.lanes.claim(), Claim::Process, "the token is parked");
        assert!(self.take_control().is_none(), "a control was left");
        assert!(self.take_data(&mut false).is_empty(), "an envelope was left");
        assert_eq!(self.lanes.depth(), 0);
        // SAFETY: the claim above took the token, and loom checks it.
        self.process.with_mut(|process| unsafe { std::mem::take(&mut *process) })
    }
}
