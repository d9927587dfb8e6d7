//! Awaited calls whose caller continues on a different thread.

use postroom::prelude::*;
use postroom_tests::soon;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// A process that answers, and occupies its worker until the caller has continued.
#[process]
struct Busy {
    gone_on: Receiver<()>,
}

#[process]
impl Busy {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn double(&mut self, number: u32, reply: Reply<u32>) {
        reply.send(2 * number);
        let _over = self.gone_on.recv();
    }
}

#[process]
struct Asker {
    busy: Address<Busy>,
    goes_on: Sender<()>,
    sum: u32,
}

#[process]
impl Asker {
    #[entry]
    fn serve(&mut self) {}

    /// Calls `busy` until this process has moved to another thread `moves` times. Returns the number of calls.
    #[message]
    async fn ask(&mut self, moves: u32) -> u32 {
        let (mut calls, mut moved) = (0, 0);
        while moved < moves {
            calls += 1;
            let before = thread::current().id();
            self.sum += self.busy.double(calls).timeout(Duration::from_secs(100)).await.expect("it is answered");
            moved += u32::from(thread::current().id() != before);
            self.goes_on.send(()).expect("it waits");
        }
        calls
    }

    #[message]
    fn sum(&self) -> u32 {
        self.sum
    }
}

/// The callee usually runs on the caller's worker, so the caller continues on the other one.
#[test]
fn each_call_is_answered_once_wherever_its_caller_continues() {
    soon(|| {
        // There is no stall detection, so that no worker is taken over.
        let runtime = Runtime::builder().workers(2).stall_limit(Duration::MAX).build().unwrap();
        let (goes_on, gone_on) = channel();
        let busy = runtime.spawn(Busy { gone_on }).serve().unwrap();
        let asker = runtime.spawn(Asker { busy, goes_on, sum: 0 }).serve().unwrap();
        let calls = asker.ask(20).timeout(Duration::from_secs(200)).wait().unwrap();
        assert_eq!(asker.sum().wait(), Ok(calls * (calls + 1)));
    });
}
