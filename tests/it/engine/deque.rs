//! The scheduler's assumptions about its deque, from `crossbeam-deque`: stealing half takes the oldest items, and each
//! item is taken once, whatever the owner and the thieves do concurrently.
//!
//! The last test takes a second, or `POSTROOM_STRESS_SECONDS`.

use crossbeam_deque::{Steal, Worker};
use postroom_tests::{soon, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

#[test]
fn half_of_eight_are_the_oldest_four() {
    soon(|| {
        let (victim, thief) = (Worker::new_lifo(), Worker::new_lifo());
        (1..=8).for_each(|item| victim.push(item));
        let first = victim.stealer().steal_batch_with_limit_and_pop(&thief, 256);
        let mut taken = vec![first.success().unwrap()];
        taken.extend(std::iter::from_fn(|| thief.pop()));
        // The thief gets the newest of the four; the others are in its deque.
        assert_eq!(taken, [4, 3, 2, 1]);
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3, 4]);
        // The owner pops the newest items first.
        assert_eq!(std::iter::from_fn(|| victim.pop()).collect::<Vec<_>>(), [8, 7, 6, 5]);
    });
}

#[test]
fn a_theft_takes_no_more_than_its_limit() {
    soon(|| {
        let (victim, thief) = (Worker::new_lifo(), Worker::new_lifo());
        (0..1_000).for_each(|item| victim.push(item));
        assert!(victim.stealer().steal_batch_with_limit_and_pop(&thief, 256).is_success());
        assert_eq!((victim.len(), thief.len()), (744, 255));
    });
}

/// The owner pushes and pops at its end in bursts, while three thieves take halves, each into a deque of its own.
#[test]
fn push_pop_and_theft_of_half_at_once_have_every_item_exactly_once() {
    let seconds = postroom_tests::variable("POSTROOM_STRESS_SECONDS").unwrap_or(1);
    within(Duration::from_secs(seconds * 4 + 60), move || {
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut rounds = 0_u64;
        while Instant::now() < until || rounds == 0 {
            const ITEMS: u64 = 200_000;
            rounds += 1;
            let (owner, over) = (Worker::new_lifo(), Arc::new(AtomicBool::new(false)));
            let thieves: Vec<_> = (0..3)
                .map(|_| {
                    let (stealer, over) = (owner.stealer(), over.clone());
                    std::thread::spawn(move || {
                        let (mut had, own) = (vec![], Worker::new_lifo());
                        loop {
                            let last = over.load(SeqCst);
                            match stealer.steal_batch_with_limit_and_pop(&own, 256) {
                                Steal::Success(item) => {
                                    had.push(item);
                                    had.extend(std::iter::from_fn(|| own.pop()));
                                }
                                Steal::Retry => {}
                                Steal::Empty if last => return had,
                                Steal::Empty => std::thread::yield_now(),
                            }
                        }
                    })
                })
                .collect();
            let (mut next, mut had, mut burst) = (0, vec![], 1);
            while next < ITEMS {
                (0..burst).for_each(|_| {
                    owner.push(next);
                    next += 1;
                });
                (0..burst.min(9)).for_each(|_| had.extend(owner.pop()));
                burst = burst * 5 % 61 + 1;
            }
            had.extend(std::iter::from_fn(|| owner.pop()));
            over.store(true, SeqCst);
            thieves.into_iter().for_each(|thief| had.extend(thief.join().unwrap()));
            had.sort_unstable();
            assert!(had.iter().copied().eq(0..next), "{} had of {next} pushed", had.len());
        }
        println!("{rounds} rounds");
    });
}
