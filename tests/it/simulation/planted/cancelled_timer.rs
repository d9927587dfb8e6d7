use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(10);

/// A session that expires unless it is renewed in time.
#[process]
struct Session {
    version: Version,
    renewals: u32,
    timer: Option<Timer>,
    renewed: Option<Instant>,
    /// Whether the session expired before its time.
    is_early: bool,
}

#[process]
impl Session {
    #[entry]
    fn open(&mut self, ctx: &mut Context<Self>) {
        self.set_timer(ctx);
    }
    #[message]
    fn renew(&mut self, ctx: &mut Context<Self>) {
        self.renewals += 1;
        self.renewed = Some(ctx.now());
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        self.set_timer(ctx);
    }
    /// The timer may have fired before it was cancelled. Then this message is already in the mailbox.
    #[message]
    fn expire(&mut self, ctx: &mut Context<Self>, renewals: u32) {
        if self.version.is_wrong() || renewals == self.renewals {
            self.is_early |= self.renewed.is_some_and(|renewed| ctx.now() < renewed + LEASE);
        }
    }
    #[message]
    fn is_early(&mut self) -> bool {
        self.is_early
    }
}

impl Session {
    fn set_timer(&mut self, ctx: &mut Context<Self>) {
        let timer = ctx.address().expire(self.renewals).send_after(LEASE);
        self.timer = Some(timer.expect("there is room for a timer"));
    }
}

#[process]
struct User {
    session: Address<Session>,
}

#[process]
impl User {
    #[entry]
    async fn renew(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(LEASE / 2).await;
        self.session.renew().send().expect("it lives");
    }
}

pub fn run(sim: &Sim, version: Version) {
    sim.slow::<Session>(0.3, LEASE);
    let session = Session { version, renewals: 0, timer: None, renewed: None, is_early: false };
    let session = sim.spawn(session).open().expect("it starts");
    sim.spawn(User { session }).renew().expect("it starts").wait().expect("it ends");
    sim.advance(3 * LEASE);
    assert_eq!(
        session.is_early().timeout(Duration::MAX).wait(),
        Ok(false),
        "it expires though it has just been renewed"
    );
}
