//! Senders that are suspended at a full mailbox, and receivers that end.

use postroom::prelude::*;
use postroom::test::{Sim, Simulation, sometimes};
use postroom::{Bound, Overflow};
use std::time::Duration;

const SENDERS: u32 = 3;

/// The load on a mailbox with this bound: the number of messages from each sender, and the maximum size of a burst.
/// (The length of a mailbox with a soft bound is checked only once in 128 messages.)
#[derive(Clone, Copy)]
pub(super) struct Load {
    bound: Bound,
    each: u32,
    burst: u32,
}

pub(super) const SOFT: Load = Load { bound: Bound::Soft(16), each: 300, burst: 100 };
const HARD: Load = Load { bound: Bound::Hard(3, Overflow::Wait), each: 12, burst: 4 };

#[process]
#[derive(Default)]
pub(super) struct Receiver {
    last: [u32; SENDERS as usize],
    taken: u32,
}

#[process]
impl Receiver {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn take(&mut self, sender: u32, number: u32) {
        let last = &mut self.last[sender as usize];
        assert!(*last < number, "sender {sender}: {number} after {last}");
        *last = number;
        self.taken += 1;
    }
    #[message]
    fn taken(&mut self) -> u32 {
        self.taken
    }
}

#[process]
pub(super) struct Sender {
    receiver: Address<Receiver>,
    number: u32,
}

#[process]
impl Sender {
    /// Sends in bursts. The process starts each burst by a message to itself, so that it can be suspended between two
    /// bursts.
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn go_on(&mut self, ctx: &mut Context<Self>, sender: u32, burst: u32, each: u32) {
        for _ in 0..burst {
            self.number += 1;
            let _receiver_has_ended = self.receiver.take(sender, self.number).send();
        }
        if self.number < each {
            ctx.address().go_on(sender, burst, each).send().expect("it lives");
        }
    }
    #[message]
    fn number(&mut self) -> u32 {
        self.number
    }
}

/// Makes senders send to a receiver. If `ends`, the receiver ends while they send.
pub(super) fn press(sim: &Sim, load: Load, ends: bool) -> (Address<Receiver>, Vec<Address<Sender>>) {
    let receiver = sim.spawn(Receiver::default()).mailbox(load.bound).serve().expect("it starts");
    let senders: Vec<_> =
        (0..SENDERS).map(|_| sim.spawn(Sender { receiver, number: 0 }).serve().expect("it starts")).collect();
    for (number, sender) in senders.iter().enumerate() {
        let burst = 1 + sim.random() as u32 % load.burst;
        sender.go_on(number as u32, burst, load.each).send().expect("it lives");
    }
    if ends {
        for _ in 0..sim.random() % 8 {
            let _full = receiver.taken().timeout(Duration::from_millis(1)).wait();
        }
        receiver.pid().kill();
    }
    sim.until_idle().expect("the test is no process");
    (receiver, senders)
}

fn pressure(load: Load, ends: bool) -> impl Fn(Sim) + Send + Sync + 'static {
    move |sim| {
        let ((receiver, senders), each) = (press(&sim, load, ends), load.each);
        let pressure = sim.statistics().backpressure;
        assert!(sim.elapsed() <= Duration::from_millis(8), "it takes no time: {pressure:?}");
        assert_eq!((pressure.suspended, pressure.forced_releases), (0, 0), "{pressure:?}");
        for sender in senders {
            assert!(sender.number().wait().expect("it lives") >= each, "a sender goes on");
        }
        if !ends {
            let taken = receiver.taken().wait().expect("it lives");
            assert!(taken >= SENDERS * each, "{taken} messages");
        }
        sometimes!(pressure.suspensions > 0, "a sender is suspended");
    }
}

fn test(name: &str, load: Load, ends: bool) {
    Simulation::new(format!("simulation::protocols::pressure::{name}")).seeds(100).run(pressure(load, ends));
}

#[test]
fn senders_wait_for_room() {
    test("senders_wait_for_room", SOFT, false);
}

#[test]
fn senders_wait_for_room_in_a_queue() {
    test("senders_wait_for_room_in_a_queue", HARD, false);
}

#[test]
fn the_receiver_ends() {
    test("the_receiver_ends", SOFT, true);
}

#[test]
fn the_receiver_with_a_queue_ends() {
    test("the_receiver_with_a_queue_ends", HARD, true);
}
