//! Calls, spawns and timers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use postroom::prelude::*;

use crate::passing::finish;

#[process]
struct Callee;

#[process]
impl Callee {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn next(&mut self, number: u64) -> u64 {
        number + 1
    }
}

#[process]
struct Caller {
    callee: Address<Callee>,
    done: Sender<u64>,
}

#[process]
impl Caller {
    #[entry]
    async fn call(&mut self, count: u64) {
        let mut number = 0;
        for _ in 0..count {
            number = self.callee.next(number).await.expect("the callee answers");
        }
        self.done.send(number).expect("somebody waits");
    }
}

pub fn call(count: u64) {
    let start = |runtime: &Runtime, done| {
        let callee = runtime.spawn(Callee).serve().expect("a callee");
        drop(runtime.spawn(Caller { callee, done }).call(count).expect("a caller"));
    };
    finish(start, count);
}

/// The state that all children share.
struct Family {
    parent: OnceLock<Address<Parent>>,
    ended: AtomicU64,
    size: u64,
    done: Sender<u64>,
}

#[process]
struct Child {
    family: Arc<Family>,
}

#[process]
impl Child {
    #[entry]
    fn live(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let ended = self.family.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if ended == self.family.size {
            self.family.done.send(ended).expect("somebody waits");
        } else if ended.is_multiple_of(LITTER) {
            let parent = self.family.parent.get().expect("set before the first child");
            parent.raise(self.family.size - ended).send().expect("the parent lives");
        }
    }
}

/// Number of children that are spawned before they run. When the last of them has ended, the next children are spawned.
/// So the number of live children does not depend on when the parent gets its next turn, which depends on the clock.
const LITTER: u64 = 100;

#[process]
struct Parent {
    family: Arc<Family>,
}

#[process]
impl Parent {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn raise(&mut self, ctx: &mut Context<Self>, left: u64) {
        self.family.parent.get_or_init(|| ctx.address());
        for _ in 0..left.min(LITTER) {
            ctx.spawn(Child { family: self.family.clone() }).live().expect("a child");
        }
    }
}

pub fn spawn(count: u64) {
    let start = |runtime: &Runtime, done| {
        let family = Arc::new(Family { parent: OnceLock::new(), ended: AtomicU64::new(0), size: count, done });
        let parent = runtime.spawn(Parent { family }).serve().expect("a parent");
        parent.raise(count).send().expect("the parent lives");
    };
    finish(start, count);
}

/// A time that is longer than any measurement.
const LONG: Duration = Duration::from_secs(3_600);

#[process]
struct Sleeper {
    done: Sender<u64>,
}

#[process]
impl Sleeper {
    #[entry]
    async fn doze(&mut self, ctx: &mut Context<Self>, count: u64) {
        // This timer remains the earliest one throughout. A program with many timers would have such a timer, too.
        let mut first = pin!(ctx.sleep(LONG));
        assert!(is_pending(first.as_mut()).await, "an hour is not over");
        for _ in 0..count {
            assert!(is_pending(pin!(ctx.sleep(LONG))).await, "an hour is not over");
        }
        self.done.send(count).expect("somebody waits");
    }
}

/// Polls the future once. Returns whether it is pending.
async fn is_pending(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

pub fn timer(count: u64) {
    let start = |runtime: &Runtime, done| {
        drop(runtime.spawn(Sleeper { done }).doze(count).expect("a sleeper"));
    };
    finish(start, count);
}
