//! Messages that are too large for their nodes.

use std::sync::mpsc::Sender;

use postroom::prelude::*;

use crate::passing::finish;

/// A process that forwards its messages. The payload is moved from each message to the next one.
#[process]
struct Carrier<const N: usize> {
    next: Option<Address<Self>>,
    until: u64,
    done: Sender<u64>,
}

#[process]
impl<const N: usize> Carrier<N> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, next: Address<Carrier<N>>) {
        self.next = Some(next);
    }

    #[message]
    fn carry(&mut self, passed: u64, mut payload: [u8; N]) {
        assert_eq!(payload[passed as usize % N], passed as u8, "the payload is what was sent");
        if passed == self.until {
            return self.done.send(passed).expect("somebody waits");
        }
        payload[(passed + 1) as usize % N] = (passed + 1) as u8;
        self.next.expect("carriers have met").carry(passed + 1, payload).send().expect("the other lives");
    }
}

/// Passes a message back and forth between two processes. The message has `N` bytes and a number.
pub fn carry<const N: usize>(count: u64) {
    let start = |runtime: &Runtime, done: Sender<u64>| {
        let carrier = |done| runtime.spawn(Carrier::<N> { next: None, until: count, done }).serve().expect("a carrier");
        let (one, other) = (carrier(done.clone()), carrier(done));
        one.meet(other).send().expect("a carrier lives");
        other.meet(one).send().expect("a carrier lives");
        let mut payload = [0; N];
        payload[1 % N] = 1;
        one.carry(1, payload).send().expect("a carrier lives");
    };
    finish(start, count);
}
