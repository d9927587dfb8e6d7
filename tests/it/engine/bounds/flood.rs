//! Many senders at once to one slow receiver: memory stays flat, and nothing is lost or reordered.

use postroom::prelude::*;
use postroom::test::Clock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SOURCES: usize = 16;
/// The index of the process that sends a million messages in one step.
const MILLION: usize = SOURCES;
/// The index of the sending thread.
const THREAD: usize = SOURCES + 1;
/// The index of the sending task.
const TASK: usize = SOURCES + 2;
const ALL: usize = SOURCES + 3;

/// A receiver that takes 0.1 to 1 µs for each message, and checks their order.
#[process]
struct Slow {
    next: Vec<u64>,
    taken: Arc<Mutex<Vec<u64>>>,
    count: Arc<AtomicU64>,
}

#[process]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, from: usize, number: u64) {
        assert_eq!(self.next[from], number, "in order, from {from}");
        self.next[from] += 1;
        self.count.fetch_add(1, SeqCst);
        std::hint::black_box((0..200).fold(number, |sum, next: u64| std::hint::black_box(sum ^ next)));
    }

    #[message]
    fn publish(&mut self) {
        *self.taken.lock().unwrap() = self.next.clone();
    }
}

/// A process that sends until the flood is over.
#[process]
struct Source {
    index: usize,
    to: Address<Slow>,
    next: u64,
    a_step: u64,
    over: Arc<AtomicBool>,
    sent: Arc<[AtomicU64; ALL]>,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn go(&mut self, ctx: &mut Context<Self>) {
        for _ in 0..self.a_step {
            self.to.take(self.index, self.next).send().unwrap();
            self.next += 1;
            self.sent[self.index].store(self.next, SeqCst);
            if self.over.load(SeqCst) {
                break;
            }
        }
        if !self.over.load(SeqCst) {
            ctx.address().go().send().unwrap();
        }
    }
}

/// Returns the duration of the flood: `POSTROOM_FLOOD_SECONDS`, or two seconds.
fn duration() -> Duration {
    let seconds = postroom_tests::variable("POSTROOM_FLOOD_SECONDS");
    Duration::from_secs(seconds.unwrap_or(2))
}

#[test]
fn a_flood_from_all_kinds_of_senders_keeps_memory_flat_and_loses_nothing() {
    // With this clock no suspension times out.
    let builder = Runtime::builder().workers(2).clock(Clock::manual());
    let runtime = builder.shutdown_deadline(Duration::from_secs(30)).build().unwrap();
    let taken: Arc<Mutex<Vec<u64>>> = Arc::default();
    let count = Arc::new(AtomicU64::new(0));
    let slow = Slow { next: vec![0; ALL], taken: taken.clone(), count: count.clone() };
    let slow = runtime.spawn(slow).serve().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let sent: Arc<[AtomicU64; ALL]> = Arc::new([const { AtomicU64::new(0) }; ALL]);
    for index in 0..=MILLION {
        let a_step = if index == MILLION { 1_000_000 } else { 1_000 };
        let source = Source { index, to: slow, next: 0, a_step, over: over.clone(), sent: sent.clone() };
        runtime.spawn(source).serve().unwrap().go().send().unwrap();
    }
    let (until, counts) = (over.clone(), sent.clone());
    let thread = std::thread::spawn(move || {
        while !until.load(SeqCst) {
            let next = counts[THREAD].load(SeqCst);
            slow.take(THREAD, next).send_wait().unwrap();
            counts[THREAD].store(next + 1, SeqCst);
        }
    });
    let (until, counts) = (over.clone(), sent.clone());
    let task = std::thread::spawn(move || {
        let other = Runtime::builder().workers(1).build().unwrap();
        other.block_on(async {
            while !until.load(SeqCst) {
                let next = counts[TASK].load(SeqCst);
                slow.take(TASK, next).send_async().await.unwrap();
                counts[TASK].store(next + 1, SeqCst);
            }
        });
    });
    let began = Instant::now();
    let (mut longest, mut looks) = (0, 0_u64);
    // The flood lasts at least `duration()`, and on a slow machine longer, until each sender has sent.
    while began.elapsed() < duration() || sent.iter().any(|count| count.load(SeqCst) == 0) {
        // Counts the messages sent and not yet taken, instead of reading the mailbox's length. `sent` is read first;
        // otherwise a message that came and went between the two reads would be counted.
        let sent: u64 = sent.iter().map(|count| count.load(SeqCst)).sum();
        longest = longest.max(sent.saturating_sub(count.load(SeqCst)));
        looks += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    over.store(true, SeqCst);
    thread.join().unwrap();
    task.join().unwrap();
    postroom_tests::eventually(|| {
        slow.publish().send_wait().unwrap();
        let taken = taken.lock().unwrap().clone();
        !taken.is_empty() && (0..ALL).all(|index| taken[index] == sent[index].load(SeqCst))
    });
    let statistics = runtime.statistics();
    let total: u64 = sent.iter().map(|count| count.load(SeqCst)).sum();
    println!(
        "{total} messages, longest mailbox {longest} in {looks} looks, {} holds",
        statistics.backpressure.suspensions
    );
    // The sum of the bound, one step of each of the sixteen sources, two bounds of the process that sends a million
    // messages in a step, and the messages in flight. Ten times this sum is allowed: while a sender is preempted
    // between its exchange and its number, the length is hidden, so each of the others may send for one more step, and
    // several senders may be preempted in this way. (Maximum seen with 25 busy threads on two cores: 21,524. Without
    // bounds there are millions on a less busy machine.)
    const MOST: u64 = 1_024 + 16 * 1_000 + 2 * 1_024 + 512;
    assert!(longest <= 10 * MOST, "{longest}");
    assert_eq!((statistics.dead_letters.total(), statistics.backpressure.forced_releases), (0, 0));
}
