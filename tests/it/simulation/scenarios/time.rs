//! Timers that are set, cancelled and due at the same moment.

use super::*;
use postroom::test::sometimes;
use postroom_tests::face::Log;

/// A process that records the numbers that it gets.
#[process]
struct Bell(Log<u32>);

#[process]
impl Bell {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    fn ring(&mut self, number: u32) {
        self.0.add(number);
    }
}

/// Timers are cancelled and reset shortly before and after they are due. A cancelled timer never fires, and any other
/// timer fires once.
#[postroom::test(seeds = 200)]
fn a_timer_fires_or_is_taken_back(sim: Sim) {
    sim.late_timers(SOON);
    let log = Log::new();
    let bell = sim.spawn(Bell(log.clone())).serve().unwrap();
    let [cancelled, reset] = [1, 2].map(|number| bell.ring(number).send_after(SOON).unwrap());
    let [first, second] = [(); 2].map(|()| Duration::from_millis(4 + sim.random() % 3));
    let canceller = race(&sim, async move {
        sleep(first).await;
        cancelled.cancel()
    });
    let resetter = race(&sim, async move {
        sleep(second).await;
        reset.reset(SOON)
    });
    let (was_cancelled, was_reset) = (canceller.wait().unwrap(), resetter.wait().unwrap());
    sim.advance(4 * SOON);
    sometimes!(was_cancelled, "it is taken back in time");
    sometimes!(!was_cancelled, "it has fired");
    sometimes!(was_reset, "it is put off in time");
    let mut rung = log.all();
    rung.sort();
    let expected: &[u32] = if was_cancelled { &[2] } else { &[1, 2] };
    assert_eq!((rung.as_slice(), sim.statistics().timers), (expected, 0));
}

/// Each sleeper wakes when its time has come. If timers are not late, the sleepers wake in the order of their times.
#[postroom::test(seeds = 200)]
fn sleepers_wake_when_their_time_has_come(sim: Sim) {
    let log = Log::new();
    let sleepers: Vec<_> = [3, 1, 2, 1]
        .into_iter()
        .map(|time| {
            let log = log.clone();
            race(&sim, async move {
                sleep(time * SOON).await;
                log.add(time);
            })
        })
        .collect();
    all(sleepers);
    assert_eq!((log.all(), sim.elapsed()), (vec![1, 1, 2, 3], 3 * SOON));
}

/// A process that waits for a message with a time limit. The message is sent just when the limit is reached, so either
/// this wait or the next one gets it.
#[process]
struct Waits(Log<Option<char>>);

#[process]
impl Waits {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        self.0.add(ctx.receive_within::<char>(SOON).await);
        self.0.add(ctx.receive_within::<char>(SOON).await);
    }
}

#[postroom::test(seeds = 200)]
fn a_message_that_comes_as_the_time_is_up_is_not_lost(sim: Sim) {
    let log = Log::new();
    let waits = sim.spawn(Waits(log.clone())).run().unwrap();
    let (pid, host) = (waits.pid(), sim.host());
    let sender = race(&sim, async move {
        sleep(SOON).await;
        host.send(pid, 'x').unwrap();
    });
    sender.wait().unwrap();
    waits.wait().unwrap();
    let got = log.all();
    sometimes!(got == [Some('x'), None], "it comes in time");
    sometimes!(got == [None, Some('x')], "it comes when the time is up");
    assert!(got == [Some('x'), None] || got == [None, Some('x')], "{got:?}");
}
