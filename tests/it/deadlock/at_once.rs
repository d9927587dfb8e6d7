//! Callers that close a cycle at the same moment: exactly one of them fails.

use super::*;
use postroom_tests::HOUR;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The number of rounds. After each meeting, every caller waits for a time that varies from round to round. So their
/// checks happen at varying distances from each other.
const ROUNDS: usize = 3_000;

/// A spinning barrier. Each waiting process occupies a worker, so there must be as many workers as parties.
#[derive(Clone)]
struct Meet {
    come: Arc<AtomicUsize>,
    parties: usize,
}

impl Meet {
    fn of(parties: usize) -> Self {
        Self { come: Arc::default(), parties }
    }

    fn arrive(&self) {
        self.come.fetch_add(1, SeqCst);
        while self.come.load(SeqCst) < self.parties {
            std::thread::yield_now();
        }
    }
}

/// A process that calls another one when all racers have arrived.
#[process]
#[derive(Default)]
struct Racer {
    touched: usize,
}

#[process]
impl Racer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn race(&mut self, other: Address<Racer>, meet: Meet, delay: usize) -> Result<(), CallError> {
        meet.arrive();
        (0..delay).for_each(|_| std::hint::spin_loop());
        other.touch().timeout(LONG).await
    }

    #[message]
    fn race_blocking(&mut self, other: Address<Racer>, meet: Meet, delay: usize) -> Result<(), CallError> {
        meet.arrive();
        (0..delay).for_each(|_| std::hint::spin_loop());
        other.touch().timeout(LONG).wait()
    }

    #[message]
    fn touch(&mut self) {
        self.touched += 1;
    }

    #[message]
    fn touched(&mut self) -> usize {
        self.touched
    }
}

/// Runs rounds in which all `count` processes of a cycle call at the same moment. Checks that one call fails in each
/// round.
fn race(count: usize, rounds: usize, blocking: bool) {
    watched(move || {
        let runtime = builder().workers(count).build().expect("a runtime with some workers can be built");
        let ring: Vec<Address<Racer>> =
            (0..count).map(|_| runtime.spawn(Racer::default()).serve().expect("it starts")).collect();
        for round in 0..rounds {
            let meet = Meet::of(count);
            let replies = Log::new();
            for (place, racer) in ring.iter().enumerate() {
                let (next, delay) = (ring[(place + 1) % count], (round * (place * 7 + 3)) % 97);
                let (replies, meet, racer) = (replies.clone(), meet.clone(), *racer);
                let _asking =
                    runtime.spawn(Asking).ask(racer, next, meet, delay, blocking, replies).expect("it starts");
            }
            eventually(|| replies.len() == count);
            let failed: Vec<Cycle> = replies.all().into_iter().filter_map(Result::err).collect();
            assert_eq!(failed.len(), 1, "round {round}: {failed:?}");
            let mut named: Vec<Pid> = failed[0].calls.iter().map(|(pid, _)| *pid).collect();
            let mut all: Vec<Pid> = ring.iter().map(|racer| racer.pid()).collect();
            named.sort();
            all.sort();
            assert_eq!(named, all, "round {round}");
        }
        // The call that failed was not delivered in any round.
        let touched = ring.iter().map(|racer| racer.touched().timeout(LONG).wait().expect("it serves"));
        assert_eq!(touched.sum::<usize>(), rounds * (count - 1));
        assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    });
}

/// A process that starts a racer and waits for it, so that the test's thread need not wait.
#[process]
struct Asking;

#[process]
impl Asking {
    #[entry]
    async fn ask(
        &mut self,
        racer: Address<Racer>,
        next: Address<Racer>,
        meet: Meet,
        delay: usize,
        blocking: bool,
        replies: Log<Result<(), Cycle>>,
    ) {
        let answer = match blocking {
            false => racer.race(next, meet, delay).timeout(LONG).await,
            true => racer.race_blocking(next, meet, delay).timeout(LONG).await,
        };
        replies.add(match answer {
            Ok(()) => Ok(()),
            Err(CallError::Failed(CallError::Cycle(cycle))) => Err(cycle),
            Err(other) => panic!("an answer or a cycle was expected, and came: {other}"),
        });
    }
}

#[test]
fn of_two_that_call_each_other_at_once_one_fails() {
    race(2, ROUNDS, false);
}

#[test]
fn of_three_that_call_around_at_once_one_fails() {
    race(3, ROUNDS, false);
}

#[test]
fn of_two_that_block_on_each_other_at_once_one_fails() {
    race(2, ROUNDS / 10, true);
}
