//! Processes that a worker keeps warm, as one of a pair or in its cache. They get messages from other processes in
//! order, once each, and in time.

use postroom::prelude::*;
use postroom_tests::{HOUR, Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const SENDERS: usize = 3;

/// The maximum number of balls in play.
const BALLS: usize = 3;

/// A process that passes balls to the next one in a ring, and takes numbered messages from threads.
#[process]
struct Player {
    partner: Option<Address<Player>>,
    /// The number of players.
    players: u64,
    passes: u64,
    /// For each sender, the number that its next message must have.
    next: [u64; SENDERS],
    /// The number of times that this player has had each ball.
    balls: [u64; BALLS],
    /// Every `slow_every`-th time that the player has a ball, its step waits for some ticks of the watchdog, so that it
    /// seems stuck. If this is zero, no step does.
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
    fn ball(&mut self, ctx: &mut Context<Self>, ball: usize, number: u64) {
        assert_eq!(number / self.players, self.balls[ball], "each ball once, and in order");
        self.balls[ball] += 1;
        if number < self.passes {
            self.partner.unwrap().ball(ball, number + 1).send().unwrap();
        }
        if self.slow_every > 0 && self.balls[ball].is_multiple_of(self.slow_every) {
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

#[derive(Clone, Copy)]
struct Game {
    players: usize,
    balls: usize,
    /// The number of times that each ball is passed on.
    passes: u64,
    slow_every: u64,
    /// The number of messages from each thread to each player.
    messages: u64,
}

fn play(workers: usize, game: Game) {
    let Game { players, balls, passes, slow_every, messages } = game;
    let builder = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(4));
    let runtime = builder.mailbox(Bound::Unbounded).build().unwrap();
    let handled = Arc::new(AtomicU64::new(0));
    let player = || Player {
        partner: None,
        players: players as u64,
        passes,
        next: [0; SENDERS],
        balls: [0; BALLS],
        slow_every,
        handled: handled.clone(),
    };
    let ring: Vec<_> = (0..players).map(|_| runtime.spawn(player()).serve().unwrap()).collect();
    for (place, player) in ring.iter().enumerate() {
        player.meet(ring[(place + 1) % players]).send().unwrap();
    }
    for ball in 0..balls {
        ring[0].ball(ball, 0).send().unwrap();
    }
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let ring = &ring;
            scope.spawn(move || {
                for number in 0..messages {
                    for player in ring {
                        player.numbered(sender, number).send().unwrap();
                    }
                }
            });
        }
    });
    let sent = (players * SENDERS) as u64 * messages;
    eventually(|| handled.load(SeqCst) == balls as u64 * (passes + 1) + sent);
    runtime.until_idle().unwrap();
    let report = runtime.shutdown_within(HOUR).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Catches: a message that is delivered in place and overtakes one from outside, and a token that is taken twice, or
/// lost.
#[test]
fn messages_from_outside_reach_a_pair_in_order() {
    soon(|| {
        let game = Game { players: 2, balls: 1, passes: 20_000, slow_every: 0, messages: 2_000 };
        play(1, game);
        play(2, game);
    });
}

/// Like the test above, while the watchdog takes the tokens that a thread keeps to itself.
#[test]
fn messages_from_outside_reach_a_pair_whose_steps_seem_stuck() {
    soon(|| {
        let game = Game { players: 2, balls: 1, passes: 1_000, slow_every: 100, messages: 1_000 };
        play(1, game);
        play(2, game);
    });
}

/// Catches: the same bugs for processes in a cache. With one ball, a process is cached when another one becomes warm.
/// With three balls, it is cached when its worker takes the next process from its deque.
#[test]
fn messages_from_outside_reach_a_ring_in_order() {
    soon(|| {
        for balls in [1, BALLS] {
            let game = Game { players: 50, balls, passes: 20_000, slow_every: 0, messages: 100 };
            play(1, game);
            play(2, game);
        }
    });
}

/// Like the test above, while the watchdog takes the tokens that a thread keeps to itself.
#[test]
fn messages_from_outside_reach_a_ring_whose_steps_seem_stuck() {
    soon(|| {
        let game = Game { players: 50, balls: BALLS, passes: 1_000, slow_every: 10, messages: 50 };
        play(1, game);
        play(2, game);
    });
}

/// A process that sends one message to a [`Hog`], whose step does not end. Then it stays idle.
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

/// Catches: a process that is kept warm forever by a thread that is stuck in the step of another process.
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

/// A process that passes a countdown along a ring, and calls `last` at zero.
#[process]
struct Link {
    next: Option<Address<Link>>,
    last: Arc<dyn Fn() + Send + Sync>,
    reached: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

#[process]
impl Link {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, next: Address<Link>) {
        self.next = Some(next);
    }

    #[message]
    fn pass(&mut self, left: u64) {
        match left {
            0 => (self.last)(),
            _ => self.next.unwrap().pass(left - 1).send().unwrap(),
        }
    }

    #[message]
    fn reach(&mut self) {
        if self.reached.fetch_add(1, SeqCst) + 1 == LINKS as u64 {
            self.over.store(true, SeqCst);
        }
    }
}

const LINKS: usize = 40;

/// Spawns a ring of links. When all of them have been reached, they set `over`.
fn ring(
    runtime: &Runtime,
    reached: &Arc<AtomicU64>,
    over: &Arc<AtomicBool>,
    last: impl Fn() + Send + Sync + 'static,
) -> Vec<Address<Link>> {
    let last: Arc<dyn Fn() + Send + Sync> = Arc::new(last);
    let link = || Link { next: None, last: last.clone(), reached: reached.clone(), over: over.clone() };
    let ring: Vec<_> = (0..LINKS).map(|_| runtime.spawn(link()).serve().unwrap()).collect();
    for (place, link) in ring.iter().enumerate() {
        link.meet(ring[(place + 1) % LINKS]).send().unwrap();
    }
    runtime.until_idle().unwrap();
    ring
}

/// A process that holds a reply until it is told to release it.
#[process]
struct Holder {
    held: Option<Reply<()>>,
}

#[process]
impl Holder {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hold(&mut self, reply: Reply<()>) {
        self.held = Some(reply);
    }

    #[message]
    fn release(&mut self) {
        self.held.take().unwrap().send(());
    }
}

/// A process that waits in its step until all links have been sent a message, and then blocks in that step for an
/// answer.
#[process]
struct Rests {
    inside: Latch,
    sent: Latch,
    holder: Address<Holder>,
}

#[process]
impl Rests {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self) {
        self.inside.open();
        self.sent.wait();
        self.holder.hold().timeout(Duration::from_secs(600)).wait().unwrap();
    }
}

/// Catches: a thread that seems to have work while its step blocks, because it was once notified of a message to a
/// process in its cache. It has given its cache away since then.
#[test]
fn a_thread_that_was_told_of_a_message_to_its_cache_can_be_at_rest() {
    soon(|| {
        for round in 0..10 {
            let workers = 1 + round % 2;
            let runtime = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(100)).build().unwrap();
            let (inside, sent) = (Latch::new(), Latch::new());
            let holder = runtime.spawn(Holder { held: None }).serve().unwrap();
            let rests = Rests { inside: inside.clone(), sent: sent.clone(), holder };
            let rests = runtime.spawn(rests).serve().unwrap();
            let reached = Arc::new(AtomicU64::new(0));
            let ring = ring(&runtime, &reached, &Arc::default(), move || rests.work().send().unwrap());
            ring[0].pass(4 * LINKS as u64).send().unwrap();
            inside.wait();
            for link in &ring {
                link.reach().send().unwrap();
            }
            sent.open();
            runtime.until_idle().unwrap();
            assert_eq!(reached.load(SeqCst), LINKS as u64);
            holder.release().send().unwrap();
            runtime.until_idle().unwrap();
        }
    });
}

/// Catches: processes that stay forever in the cache of a thread that is stuck in the step of another process. The step
/// ends only when all cached processes have been reached.
#[test]
fn cached_processes_behind_a_step_that_does_not_end_are_found() {
    soon(|| {
        for round in 0..10 {
            let workers = 1 + round % 2;
            let runtime = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(4)).build().unwrap();
            let (inside, over, reached) = (Latch::new(), Arc::default(), Arc::new(AtomicU64::new(0)));
            let hog = runtime.spawn(Hog { inside: inside.clone(), over: Arc::clone(&over) }).serve().unwrap();
            let ring = ring(&runtime, &reached, &over, move || hog.work().send().unwrap());
            ring[0].pass(4 * LINKS as u64).send().unwrap();
            inside.wait();
            for link in &ring {
                link.reach().send().unwrap();
            }
            runtime.until_idle().unwrap();
            assert_eq!(reached.load(SeqCst), LINKS as u64);
        }
    });
}

/// A process with a long step: the watchdog sees the step often enough to report a stall if other processes waited.
#[process]
struct Lone {
    /// The channel for the numbers of stalls and of moved processes that were counted during the step.
    counted: Sender<(u64, u64)>,
}

#[process]
impl Lone {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self, ctx: &mut Context<Self>) {
        let host = ctx.host().unwrap();
        // The previous step, which sent the message, may also have been long, because its thread was preempted.
        let before = host.statistics().watchdog;
        eventually(|| host.statistics().watchdog.ticks > before.ticks + 10);
        let after = host.statistics().watchdog;
        self.counted.send((after.stalls - before.stalls, after.moved - before.moved)).unwrap();
    }
}

/// A process that sends one message, and then stays idle.
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

/// Catches: a warm process without messages that counts as waiting.
#[test]
fn a_long_step_is_not_reported_because_an_idle_process_is_warm() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).stall_limit(Duration::from_millis(4)).build().unwrap();
        let (counted, counts) = channel();
        let lone = runtime.spawn(Lone { counted }).serve().unwrap();
        runtime.spawn(Starter { lone }).serve().unwrap().begin().send().unwrap();
        assert_eq!(counts.recv().unwrap(), (0, 0));
    });
}
