//! Calls that are interrupted in many ways, all at the same time: callers that are killed between the answer and the
//! time slice that takes it, callees that panic or drop the reply, deadlines that pass as the answer arrives, and calls
//! that lose a race against another call. Each call ends in exactly one way, and its content is dropped once.
//!
//! Blind spots: the order of events is left to the scheduler. The outcome that a killed caller would have received is
//! not observed.

use futures_util::future::{Either, join, select};
use postroom::prelude::*;
use postroom_tests::{Random, within};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// Number of callees at a time.
const CALLEES: usize = 4;
/// Number of callers at a time.
const CALLERS: usize = 16;
/// Approximate number of calls in total.
const CALLS: u64 = 20_000;

#[derive(Default)]
struct Books {
    begun: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Number of calls whose future was dropped: their caller was killed, or another call was faster.
    dropped: AtomicU64,
    handled: AtomicU64,
}

/// The content of a call and of its answer. Each copy must be dropped once.
#[derive(Clone)]
struct Carried {
    _content: Arc<()>,
}

struct Town {
    callees: Mutex<Vec<Address<Callee>>>,
    books: Books,
    carried: Carried,
}

/// A guard that counts its call as dropped, unless the call has been counted as something else.
struct Open<'a>(Option<&'a Books>);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(books) = self.0 {
            books.dropped.fetch_add(1, SeqCst);
        }
    }
}

async fn yield_once() {
    let mut is_second = false;
    poll_fn(|context| match std::mem::replace(&mut is_second, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

#[process]
struct Callee {
    town: Arc<Town>,
    held: Option<Reply<Carried>>,
}

#[process]
impl Callee {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn answer(&mut self, carried: Carried) -> Carried {
        self.town.books.handled.fetch_add(1, SeqCst);
        carried
    }

    /// Keeps the reply until the next call of this kind, and then answers it. The last such call is never answered.
    #[message]
    fn answer_later(&mut self, carried: Carried, reply: Reply<Carried>) {
        self.town.books.handled.fetch_add(1, SeqCst);
        if let Some(held) = self.held.replace(reply) {
            held.send(carried);
        }
    }

    #[message]
    fn drop_it(&mut self, _carried: Carried, reply: Reply<Carried>) {
        self.town.books.handled.fetch_add(1, SeqCst);
        drop(reply);
    }

    #[message]
    fn panic(&mut self, _carried: Carried) -> Carried {
        self.town.books.handled.fetch_add(1, SeqCst);
        panic!("on purpose")
    }

    /// Answers in a later step.
    #[message]
    async fn answer_async(&mut self, carried: Carried) -> Carried {
        self.town.books.handled.fetch_add(1, SeqCst);
        yield_once().await;
        carried
    }
}

impl Town {
    fn callee(&self, random: &mut Random) -> Address<Callee> {
        self.callees.lock().unwrap()[random.below(CALLEES as u64) as usize]
    }

    /// Makes a call of a random kind, and counts its outcome.
    async fn call(&self, random: &mut Random) {
        let (callee, carried) = (self.callee(random), self.carried.clone());
        if !callee.pid().is_alive() {
            // The main thread is about to replace the callee.
            return yield_once().await;
        }
        self.books.begun.fetch_add(1, SeqCst);
        let mut open = Open(Some(&self.books));
        let limit = match random.below(4) {
            0 => Duration::from_micros(random.below(60)),
            1 => Duration::ZERO,
            _ => Duration::from_secs(3_600),
        };
        let end = match random.below(128) {
            0 => callee.panic(carried).timeout(limit).await,
            1..=8 => callee.drop_it(carried).timeout(limit).await,
            // Only the next call of this kind sends the answer, so the timeout is short.
            9..=24 => callee.answer_later(carried).timeout(limit.min(Duration::from_millis(2))).await,
            25..=56 => callee.answer_async(carried).timeout(limit).await,
            _ => callee.answer(carried).timeout(limit).await,
        };
        open.0 = None;
        match end {
            Ok(_) => &self.books.answered,
            Err(CallError::Gone(_) | CallError::Died(_) | CallError::Timeout | CallError::Dropped) => {
                &self.books.failed
            }
            Err(error) => panic!("another end: {error:?}"),
        }
        .fetch_add(1, SeqCst);
    }
}

#[process]
struct Caller {
    town: Arc<Town>,
    random: Random,
}

#[process]
impl Caller {
    #[entry]
    async fn call(&mut self) {
        let town = self.town.clone();
        while town.books.begun.load(SeqCst) < CALLS {
            let other = &mut Random(self.random.below(u64::MAX));
            match self.random.below(4) {
                0 => {
                    let (first, second) = (Box::pin(town.call(&mut self.random)), Box::pin(town.call(other)));
                    match select(first, second).await {
                        Either::Left((_, loser)) => drop(loser),
                        Either::Right((_, loser)) => drop(loser),
                    }
                }
                1 => _ = join(town.call(&mut self.random), town.call(other)).await,
                _ => town.call(&mut self.random).await,
            }
        }
    }
}

fn torn(workers: usize, seed: u64) {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    let held = Arc::new(());
    let town = Arc::new(Town {
        callees: Mutex::default(),
        books: Books::default(),
        carried: Carried { _content: held.clone() },
    });
    let host = runtime.host();
    let callee = |town: &Arc<Town>| host.spawn(Callee { town: town.clone(), held: None }).serve().unwrap();
    *town.callees.lock().unwrap() = (0..CALLEES).map(|_| callee(&town)).collect();
    let mut random = Random(seed);
    let caller = |random: &mut Random| {
        let random = Random(random.below(u64::MAX));
        host.spawn(Caller { town: town.clone(), random }).call().unwrap().pid()
    };
    let mut callers: Vec<_> = (0..CALLERS).map(|_| caller(&mut random)).collect();
    while town.books.begun.load(SeqCst) < CALLS {
        let place = random.below(CALLERS as u64) as usize;
        if random.below(4) == 0 {
            callers[place].kill();
        }
        if !callers[place].is_alive() {
            callers[place] = caller(&mut random);
        }
        let place = random.below(CALLEES as u64) as usize;
        if !town.callees.lock().unwrap()[place].pid().is_alive() {
            let new = callee(&town);
            town.callees.lock().unwrap()[place] = new;
        }
        std::thread::yield_now();
    }
    callers.into_iter().for_each(|caller| drop(caller.join().wait()));
    runtime.shutdown().unwrap();
    town.callees.lock().unwrap().clear();
    let books = &town.books;
    let [begun, answered, failed, dropped] =
        [&books.begun, &books.answered, &books.failed, &books.dropped].map(|count| count.load(SeqCst));
    println!("{workers} workers: {begun} begun, {answered} answered, {failed} failed, {dropped} dropped");
    assert_eq!(begun, answered + failed + dropped, "each call has one end");
    assert!(answered > 0 && failed > 0 && dropped > 0, "each of the three happens");
    assert!(answered <= books.handled.load(SeqCst), "each that was answered was handled");
    drop(town);
    assert_eq!(Arc::strong_count(&held), 1, "what calls carried has been dropped");
}

/// Catches: an answer, or its content, that is lost or dropped twice when its caller is killed or has given up.
#[test]
fn each_of_many_torn_calls_has_one_end() {
    for (workers, seed) in [(1, 1), (2, 2)] {
        within(Duration::from_secs(120), move || torn(workers, seed));
    }
}
