//! Processes that a worker keeps warm: they get messages from others in their order, once each, and in time.

use postroom::prelude::*;
use postroom_tests::{Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const SENDERS: usize = 3;

/// Passes a ball to its partner, and takes numbered messages from threads.
#[process]
struct Player {
    partner: Option<Address<Player>>,
    rounds: u64,
    /// What the next message of each sender is numbered.
    next: [u64; SENDERS],
    balls: u64,
    /// Every so many balls the step waits until the watchdog has ticked twice, so that it is taken for stuck.
    slow_every: u64,
    handled: Arc<AtomicU64>,
}

#[process]
impl Player {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, partner: Address<Player>) {
        self.partner = Some(partner);
    }

    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, number: u64) {
        assert_eq!(number / 2, self.balls, "each ball once, and in order");
        self.balls += 1;
        if number < self.rounds {
            self.partner.unwrap().ball(number + 1).send().unwrap();
        }
        if self.slow_every > 0 && self.balls.is_multiple_of(self.slow_every) {
            let before = ctx.host().unwrap().statistics().watchdog.ticks;
            eventually(|| ctx.host().unwrap().statistics().watchdog.ticks > before + 3);
        }
        self.handled.fetch_add(1, SeqCst);
    }

    #[message]
    fn numbered(&mut self, sender: usize, number: u64) {
        assert_eq!(number, self.next[sender], "each message once, and in order");
        self.next[sender] += 1;
        self.handled.fetch_add(1, SeqCst);
    }
}

fn play(workers: usize, slow_every: u64, rounds: u64, messages: u64) {
    let builder = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(4));
    let runtime = builder.mailbox(Bound::Unbounded).build().unwrap();
    let handled = Arc::new(AtomicU64::new(0));
    let player =
        || Player { partner: None, rounds, next: [0; SENDERS], balls: 0, slow_every, handled: handled.clone() };
    let players = [runtime.spawn(player()).serve().unwrap(), runtime.spawn(player()).serve().unwrap()];
    players[0].meet(players[1]).send().unwrap();
    players[1].meet(players[0]).send().unwrap();
    players[0].ball(0).send().unwrap();
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            scope.spawn(move || {
                for number in 0..messages {
                    for player in players {
                        player.numbered(sender, number).send().unwrap();
                    }
                }
            });
        }
    });
    eventually(|| handled.load(SeqCst) == rounds + 1 + 2 * SENDERS as u64 * messages);
    runtime.until_idle().unwrap();
    let report = runtime.shutdown().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Catches: a message in place that overtakes one from outside, a token that is taken twice, or lost.
#[test]
fn messages_from_outside_reach_a_pair_in_order() {
    soon(|| {
        play(1, 0, 20_000, 2_000);
        play(2, 0, 20_000, 2_000);
    });
}

/// As above, while the watchdog takes what a thread keeps to itself.
#[test]
fn messages_from_outside_reach_a_pair_whose_steps_seem_stuck() {
    soon(|| {
        play(1, 100, 1_000, 1_000);
        play(2, 100, 1_000, 1_000);
    });
}

/// Sends one message to a process that never ends its step, and stays idle.
#[process]
struct Front {
    hog: Address<Hog>,
    reached: Arc<AtomicBool>,
}

#[process]
impl Front {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self) {
        self.hog.work().send().unwrap();
    }

    #[message]
    fn reach(&mut self) {
        self.reached.store(true, SeqCst);
    }
}

/// A process whose step does not end before `over` is set.
#[process]
pub(super) struct Hog {
    pub(super) inside: Latch,
    pub(super) over: Arc<AtomicBool>,
}

#[process]
impl Hog {
    #[entry]
    pub(super) fn serve(&mut self) {}

    #[message]
    pub(super) fn work(&mut self) {
        self.inside.open();
        eventually(|| self.over.load(SeqCst));
    }
}

/// Catches: a process that is kept warm by a thread which is stuck in the step of another one, for ever.
#[test]
fn a_warm_process_behind_a_step_that_does_not_end_is_found() {
    soon(|| {
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(4)).build().unwrap();
            let (inside, reached) = (Latch::new(), Arc::new(AtomicBool::new(false)));
            let hog = runtime.spawn(Hog { inside: inside.clone(), over: reached.clone() }).serve().unwrap();
            let front = runtime.spawn(Front { hog, reached }).serve().unwrap();
            front.begin().send().unwrap();
            inside.wait();
            front.reach().send().unwrap();
            runtime.until_idle().unwrap();
        }
    });
}

/// Waits in its step until the watchdog has seen it there often enough to report it, if others waited.
#[process]
struct Lone {
    done: Latch,
}

#[process]
impl Lone {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self, ctx: &mut Context<Self>) {
        let host = ctx.host().unwrap();
        let before = host.statistics().watchdog.ticks;
        eventually(|| host.statistics().watchdog.ticks > before + 10);
        self.done.open();
    }
}

/// Sends on, and stays idle.
#[process]
struct Starter {
    lone: Address<Lone>,
}

#[process]
impl Starter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self) {
        self.lone.work().send().unwrap();
    }
}

/// Catches: a warm process without messages that counts as one that waits.
#[test]
fn a_long_step_is_not_reported_because_an_idle_process_is_warm() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).stall_limit(Duration::from_millis(4)).build().unwrap();
        let done = Latch::new();
        let lone = runtime.spawn(Lone { done: done.clone() }).serve().unwrap();
        runtime.spawn(Starter { lone }).serve().unwrap().begin().send().unwrap();
        done.wait();
        let watchdog = runtime.statistics().watchdog;
        assert_eq!((watchdog.stalls, watchdog.moved), (0, 0));
    });
}
