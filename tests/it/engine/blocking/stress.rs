//! All kinds of hand-offs at the same time: nothing is lost, nothing runs twice, and there are never more steps running
//! than there are workers.

use super::Running as Counted;
use postroom::block_in_place;
use postroom::prelude::*;
use postroom_tests::{HOUR, eventually, within};
use std::time::Duration;

const PEERS: usize = 24;
const ROUNDS: u64 = 60;

/// A process that handles each message as the message's number selects, and passes it on until its rounds are over.
#[process]
struct Peer {
    number: usize,
    counted: Counted,
    peers: Vec<Address<Peer>>,
    handled: u64,
    asked: u64,
}

#[process]
impl Peer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn know(&mut self, peers: Vec<Address<Peer>>) {
        self.peers = peers;
    }

    #[message]
    async fn pass(&mut self, ctx: &mut Context<Self>, left: u64) {
        self.counted.enter();
        self.counted.leave();
        self.handled += 1;
        let pause = Duration::from_micros(left % 7 * 10);
        // The process asks only peers with larger numbers, so that the waits form no cycle.
        let above = self.peers.get(self.number + 1 + left as usize % 3).copied();
        match left % 6 {
            0 => ctx.blocking(|| std::thread::sleep(pause)).await,
            1 => ctx.blocking(|| std::thread::sleep(pause)).wait(),
            2 => block_in_place(std::thread::yield_now),
            3 => drop(above.map(|above| above.ask().wait().unwrap())),
            4 => {
                if let Some(above) = above {
                    above.ask().await.unwrap();
                }
            }
            _ => {}
        }
        self.counted.enter();
        self.counted.leave();
        if left > 0 {
            let next = self.peers[(self.number * 7 + left as usize * 5 + 1) % PEERS];
            next.pass(left - 1).send().unwrap();
        }
    }

    #[message]
    fn ask(&mut self) -> u64 {
        self.counted.enter();
        if self.asked.is_multiple_of(5) {
            self.counted.leave();
            block_in_place(|| std::thread::sleep(Duration::from_micros(20)));
            self.counted.enter();
        }
        self.asked += 1;
        self.counted.leave();
        self.asked
    }

    #[message]
    fn handled(&mut self) -> u64 {
        self.handled
    }
}

/// Runs the messages through their rounds, and checks that none is lost and that the worker limit is kept.
fn storm(workers: usize, bound: usize, keep_alive: Duration) {
    within(Duration::from_secs(120), move || {
        let builder = Runtime::builder()
            .workers(workers)
            .blocking_threads(bound)
            .stall_limit(Duration::MAX)
            .blocking_keep_alive(keep_alive);
        // The timeout is long, since a busy machine is slow.
        let runtime = builder.call_timeout(Duration::from_secs(100)).build().unwrap();
        let counted = Counted::default();
        let peer = |number| {
            let peer = Peer { number, counted: counted.clone(), peers: Vec::new(), handled: 0, asked: 0 };
            runtime.spawn(peer).serve().unwrap()
        };
        let peers: Vec<_> = (0..PEERS).map(peer).collect();
        peers.iter().for_each(|peer| peer.know(peers.clone()).send().unwrap());
        peers.iter().for_each(|peer| peer.pass(ROUNDS).send().unwrap());
        let expected = PEERS as u64 * (ROUNDS + 1);
        let handled =
            || peers.iter().map(|peer| peer.handled().timeout(Duration::from_secs(100)).wait().unwrap()).sum::<u64>();
        eventually(|| handled() == expected);
        assert!(counted.most() <= workers, "{} steps at once with {workers} workers", counted.most());
        eventually(|| {
            let statistics = runtime.statistics();
            (statistics.blocking.blocked, statistics.blocking.detached) == (0, 0)
        });
        let statistics = runtime.statistics();
        assert!(statistics.blocking.spare <= bound, "{} stand by", statistics.blocking.spare);
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
    });
}

#[test]
fn with_one_worker_and_few_threads() {
    storm(1, 2, Duration::from_secs(10));
}

#[test]
fn with_two_workers_and_many_threads() {
    storm(2, 100, Duration::from_secs(10));
}

#[test]
fn with_three_workers_and_threads_that_end_at_once() {
    storm(3, 4, Duration::ZERO);
}
