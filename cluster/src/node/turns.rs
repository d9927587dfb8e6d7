//! A node's threads as processes of a simulation.

use super::delivery::{Arrivals, Delivery};
use super::driver::Driver;
use super::inbox::Inbox;
use crate::clock::Moment;
use postroom::prelude::*;
use postroom::routing::Node;
use postroom::test::Sim;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// Runs the driver and the delivery as processes of `host`. Returns a flag that is set when one of them panics, or
/// `None` if the host starts no process.
pub(crate) fn begin(host: Host, sim: &Sim, driver: Driver, delivery: Delivery) -> Option<Arc<AtomicBool>> {
    let has_panicked = Arc::new(AtomicBool::new(false));
    let guard = TurnGuard { node: Node::of(host.node())?, has_panicked: Arc::clone(&has_panicked) };
    let (inbox, arrivals, sim) = (driver.inbox(), delivery.arrivals(), sim.clone());
    let driver = DriverTurns { driver, inbox, sim, guard: guard.clone() };
    let delivery = DeliveryTurns { delivery, arrivals, guard };
    let _running = host.spawn(delivery).run().ok()?;
    let _running = host.spawn(driver).run().ok()?;
    Some(has_panicked)
}

#[derive(Clone)]
struct TurnGuard {
    node: Node,
    has_panicked: Arc<AtomicBool>,
}

impl TurnGuard {
    /// Runs a turn in the same way as the thread that the process replaces. The turn runs outside any process, so it is
    /// never suspended at a full mailbox.
    fn turn<R>(&self, turn: impl FnOnce() -> R) -> R {
        let turn = || postroom::block_in_place(|| self.node.enter(turn));
        catch_unwind(AssertUnwindSafe(turn)).unwrap_or_else(|panic| {
            self.has_panicked.store(true, Ordering::Relaxed);
            resume_unwind(panic)
        })
    }
}

#[process]
struct DriverTurns {
    driver: Driver,
    inbox: Arc<Inbox>,
    sim: Sim,
    guard: TurnGuard,
}

#[process]
impl DriverTurns {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        while let Some(next) = self.guard.turn(|| self.driver.run()) {
            let wait = next.since(Moment::after_start(self.sim.elapsed()));
            let mut waits = false;
            let mut sleep = pin!(ctx.sleep(wait));
            poll_fn(|context| match self.inbox.poll_wait(next, &mut waits, context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => sleep.as_mut().poll(context),
            })
            .await;
            self.inbox.awake();
        }
    }
}

#[process]
struct DeliveryTurns {
    delivery: Delivery,
    arrivals: Arc<Arrivals>,
    guard: TurnGuard,
}

#[process]
impl DeliveryTurns {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        while self.guard.turn(|| self.delivery.run()) {
            let mut sleep = pin!(ctx.sleep(self.delivery.retries_in().unwrap_or(Duration::MAX)));
            poll_fn(|context| match self.arrivals.poll_wait(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => sleep.as_mut().poll(context),
            })
            .await;
        }
    }
}
