//! Delayed sends, and the fate of their timers.

use super::{SECOND, probe, still};
use postroom::Mailbox;
use postroom::manual::{Event, Events, InitContext, Process, StepOutput};
use postroom::prelude::*;
use postroom::test::Probe;
use postroom_tests::{HOUR, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NANOSECOND: Duration = Duration::from_nanos(1);

/// A message that counts its copies.
struct Copied(Arc<AtomicU64>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

#[test]
fn a_cancelled_timer_never_fires_even_if_it_was_due() {
    soon(|| {
        let (clock, runtime) = still(1);
        let mut seen = probe::<u32>(&runtime);
        let timer = seen.recipient().call(1).send_after(SECOND).unwrap();
        assert!(timer.is_pending());
        seen.expect_nothing_for(SECOND - NANOSECOND);
        assert!(timer.cancel());
        assert!(!timer.cancel() && !timer.is_pending() && !timer.reset(SECOND));
        seen.expect_nothing_for(3600 * SECOND);
        // A process sets two timers that are due a nanosecond apart. When the first fires, it cancels the second.
        #[process]
        struct Repentant {
            second: Option<postroom::Timer>,
        }
        #[process]
        impl Repentant {
            #[entry]
            fn serve(&mut self, ctx: &mut Context<Self>, told: Recipient<u32>) {
                ctx.address().first(told).send_after(SECOND).unwrap();
                self.second = Some(told.call(2).send_after(SECOND + NANOSECOND).unwrap());
            }
            #[message]
            fn first(&mut self, told: Recipient<u32>) {
                assert!(self.second.as_ref().unwrap().cancel());
                told.send(1).unwrap();
            }
        }
        runtime.spawn(Repentant { second: None }).serve(seen.recipient()).unwrap();
        clock.advance(SECOND).unwrap();
        assert_eq!(seen.try_next(), Some(1));
        seen.expect_nothing_for(SECOND);
        assert_eq!(runtime.statistics().timers, 0);
    });
}

#[test]
fn an_overdue_timer_on_the_systems_clock_can_still_be_cancelled() {
    soon(|| {
        // The runtime is paused, so no worker fires the timer.
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let echo = runtime.spawn(Sleeper).serve().unwrap();
        let timer = echo.hello().send_after(NANOSECOND).unwrap();
        std::thread::sleep(NANOSECOND);
        assert!(timer.is_pending() && timer.cancel());
        assert_eq!(runtime.statistics().timers, 0);
    });
}

#[process]
struct Sleeper;

#[process]
impl Sleeper {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn hello(&mut self) {}
    #[entry]
    async fn sleep(&mut self, ctx: &mut Context<Self>, duration: Duration, told: Recipient<u32>) {
        ctx.sleep(duration).await;
        let _gone = told.send(0);
    }
}

#[test]
fn a_timer_can_be_reset_to_sooner_and_later_until_it_fires() {
    soon(|| {
        let (_clock, runtime) = still(2);
        let mut probe = probe::<u32>(&runtime);
        let timer = probe.recipient().call(1).send_after(100 * SECOND).unwrap();
        probe.expect_nothing_for(10 * SECOND);
        assert!(timer.reset(SECOND));
        probe.expect_nothing_for(SECOND - NANOSECOND);
        assert!(timer.reset(Duration::MAX));
        probe.expect_nothing_for(3600 * SECOND);
        assert!(timer.reset(Duration::ZERO));
        assert_eq!(probe.expect(), 1);
        assert!(!timer.reset(SECOND) && !timer.cancel());
    });
}

#[test]
fn dropping_a_timer_does_not_cancel_it() {
    soon(|| {
        let (_clock, runtime) = still(1);
        let mut probe = probe::<u32>(&runtime);
        drop(probe.recipient().call(1).send_after(SECOND).unwrap());
        assert_eq!(probe.expect_within(SECOND), 1);
        drop(probe.recipient().call(2).send_every(SECOND).unwrap());
        assert_eq!((probe.expect_within(SECOND), probe.expect_within(SECOND)), (2, 2));
    });
}

#[test]
fn a_message_that_is_sent_again_and_again_stops_when_it_is_cancelled() {
    soon(|| {
        let (clock, runtime) = still(2);
        let mut seen = probe::<Copied>(&runtime);
        let copies = Arc::new(AtomicU64::new(0));
        let timer = seen.recipient().call(Copied(copies.clone())).send_every(10 * SECOND).unwrap();
        clock.advance(35 * SECOND).unwrap();
        assert_eq!(std::iter::from_fn(|| seen.try_next()).count(), 3);
        // The next message comes in a second, and later ones at the old rate.
        assert!(timer.reset(SECOND));
        clock.advance(SECOND).unwrap();
        assert!(seen.try_next().is_some() && seen.try_next().is_none());
        clock.advance(10 * SECOND - NANOSECOND).unwrap();
        assert!(seen.try_next().is_none());
        clock.advance(NANOSECOND).unwrap();
        assert!(seen.try_next().is_some());
        assert!(timer.is_pending() && timer.cancel());
        assert!(!timer.is_pending() && !timer.cancel() && !timer.reset(SECOND));
        let before = copies.load(Ordering::Relaxed);
        seen.expect_nothing_for(3600 * SECOND);
        assert_eq!((copies.load(Ordering::Relaxed), runtime.statistics().timers), (before, 0));
    });
}

#[test]
fn a_message_that_is_sent_again_and_again_stops_with_its_process() {
    #[process]
    struct Beaten;
    #[process]
    impl Beaten {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        #[derive(Clone)]
        fn beat(&mut self) {}
    }
    soon(|| {
        let (clock, runtime) = still(1);
        let beaten = runtime.spawn(Beaten).serve().unwrap();
        let timer = beaten.beat().send_every(SECOND).unwrap();
        clock.advance(5 * SECOND).unwrap();
        assert!(beaten.pid().kill());
        assert_eq!(runtime.statistics().timers, 1);
        clock.advance(SECOND).unwrap();
        assert_eq!((timer.is_pending(), timer.cancel(), runtime.statistics().timers), (false, false, 0));
        assert!(beaten.beat().send_every(SECOND).is_err());
        assert!(beaten.beat().send_after(SECOND).is_err());
    });
}

#[test]
fn a_timer_that_cancels_itself_in_the_drop_of_its_message_is_harmless() {
    struct Vain(Arc<std::sync::OnceLock<postroom::Timer>>);
    impl Clone for Vain {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }
    impl Drop for Vain {
        fn drop(&mut self) {
            if let Some(timer) = self.0.get() {
                timer.cancel();
            }
        }
    }
    soon(|| {
        let (clock, runtime) = still(1);
        let mut seen = probe::<Vain>(&runtime);
        let cell = Arc::new(std::sync::OnceLock::new());
        let timer = seen.recipient().call(Vain(cell.clone())).send_every(SECOND).unwrap();
        assert!(cell.set(timer.clone()).is_ok());
        clock.advance(SECOND).unwrap();
        assert!(timer.is_pending());
        // The drop cancels the timer, and so drops the next copy. The drop of that copy finds the timer cancelled.
        drop(seen.try_next());
        assert!(!timer.is_pending());
        seen.expect_nothing_for(10 * SECOND);
    });
}

#[test]
fn sleeps_of_nothing_and_of_ever_and_until_a_time_that_is_over() {
    #[process]
    struct Waits;
    #[process]
    impl Waits {
        #[entry]
        async fn go(&mut self, ctx: &mut Context<Self>, told: Recipient<&'static str>) {
            let began = ctx.now();
            ctx.sleep(Duration::ZERO).await;
            ctx.sleep_until(began).await;
            ctx.sleep_until(began.checked_sub(Duration::from_nanos(1)).unwrap()).await;
            assert_eq!(ctx.now(), began);
            told.send("at once").unwrap();
            ctx.sleep_until(began + SECOND).await;
            assert_eq!(ctx.now(), began + SECOND);
            told.send("then").unwrap();
            ctx.sleep(Duration::MAX).await;
            told.send("never").unwrap();
        }
    }
    soon(|| {
        let (clock, runtime) = still(1);
        let mut probe = probe(&runtime);
        let _waits = runtime.spawn(Waits).go(probe.recipient()).unwrap();
        assert_eq!(probe.expect(), "at once");
        assert_eq!(probe.expect_within(SECOND), "then");
        probe.expect_nothing_for(1_000_000 * 3600 * SECOND);
        clock.advance(Duration::MAX).unwrap();
        assert!(probe.try_next().is_none());
    });
}

/// Mutation: in `virtual_clock.rs`, let the time reach `Moment::NEVER`.
#[test]
fn at_the_end_of_all_time_processes_run_and_nothing_is_due_any_more() {
    #[process]
    struct Counts(u32);
    #[process]
    impl Counts {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn count(&mut self) -> u32 {
            self.0 += 1;
            self.0
        }
        #[message]
        async fn sleep(&mut self, ctx: &mut Context<Self>, told: Recipient<()>) {
            ctx.sleep(SECOND).await;
            told.send(()).unwrap();
        }
    }
    soon(|| {
        let (clock, runtime) = still(1);
        let mut probe = probe(&runtime);
        let counts = runtime.spawn(Counts(0)).serve().unwrap();
        clock.advance(Duration::MAX).unwrap();
        // These are enough messages for the worker to check its timers in between.
        for number in 1..=1_000 {
            assert_eq!(counts.count().wait(), Ok(number));
        }
        runtime.until_idle().unwrap();
        counts.sleep(probe.recipient()).send().unwrap();
        clock.advance(Duration::MAX).unwrap();
        assert!(probe.try_next().is_none());
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
    });
}

/// A hand-written process that sets timers.
struct ByHand {
    told: Recipient<u64>,
    upgrades: bool,
}

impl Process for ByHand {
    fn entries(&self) -> &'static [&'static str] {
        &["serve"]
    }
    fn init(&mut self, _ctx: &mut InitContext<'_>, _entry: &str, _input: Payloads) -> Result<(), InitError> {
        Ok(())
    }
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            match event {
                Event::Message(package) => {
                    let Ok(seconds) = package.take::<u64>() else { continue };
                    out.after(seconds as u32 * SECOND, seconds);
                    if self.upgrades {
                        out.upgrade(Self { told: self.told, upgrades: false });
                    }
                }
                Event::Completed { tag, .. } => drop(self.told.send(tag + 1_000 * u64::from(self.upgrades))),
                Event::Signal(_) => {}
            }
        }
        Ok(())
    }
}

#[test]
fn the_timers_of_a_process_that_ends_are_gone_with_it() {
    soon(|| {
        let (clock, runtime) = still(2);
        let mut probe: Probe<u64> = probe(&runtime);
        let by_hand = runtime.spawn_process(ByHand { told: probe.recipient(), upgrades: false }).start().unwrap();
        for seconds in 0..100_u64 {
            runtime.send(by_hand, seconds).unwrap();
        }
        let unread = super::probe(&runtime);
        let sleepers: Vec<Pid> = (0..100)
            .map(|_| runtime.spawn(Sleeper).sleep(3600 * SECOND, unread.recipient()).unwrap().address().pid())
            .collect();
        clock.advance(50 * SECOND).unwrap();
        assert_eq!(std::iter::from_fn(|| probe.try_next()).collect::<Vec<_>>(), (0..=50).collect::<Vec<_>>());
        assert_eq!(runtime.statistics().timers, 149);
        by_hand.kill();
        sleepers.iter().for_each(|sleeper| assert!(sleeper.kill()));
        runtime.until_idle().unwrap();
        assert_eq!(runtime.statistics().timers, 0);
    });
}

#[test]
fn timers_that_are_pending_survive_an_upgrade() {
    soon(|| {
        let (clock, runtime) = still(1);
        let mut probe: Probe<u64> = probe(&runtime);
        let pid = runtime.spawn_process(ByHand { told: probe.recipient(), upgrades: true }).start().unwrap();
        runtime.send(pid, 5_u64).unwrap();
        clock.advance(5 * SECOND).unwrap();
        // The new definition receives the answer, under the tag that the old definition has set.
        assert_eq!(probe.try_next(), Some(5));
    });
}

#[test]
fn a_delayed_message_from_a_thread_to_a_mailbox_uses_system_time() {
    soon(|| {
        let mut mailbox = Mailbox::new().unwrap();
        let recipient = Recipient::<u32>::of(mailbox.pid());
        let never = recipient.call(1).send_after(3600 * SECOND).unwrap();
        recipient.call(2).send_after(Duration::from_millis(1)).unwrap();
        assert_eq!(mailbox.receive().take::<u32>().unwrap(), 2);
        assert!(never.cancel());
    });
}
