//! Probes.

use super::{SECOND, probe, still};
use postroom::MissedTicks;
use postroom::prelude::*;
use postroom::test::ProbeError;
use postroom_tests::soon;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[process]
struct Echo;

#[process]
impl Echo {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    async fn later(&mut self, ctx: &mut Context<Self>, number: u32, after: Duration, to: Pid) {
        ctx.sleep(after).await;
        let _gone = ctx.send(to, number);
    }
    #[message]
    fn text(&mut self, to: Pid) {
        let _gone = Recipient::<String>::of(to).send("a text".into());
    }
    #[message]
    async fn ask(&mut self, ctx: &mut Context<Self>, of: Recipient<u32, String>) {
        let answer = of.call(6).await.unwrap();
        let _gone = ctx.send(of.pid(), answer);
    }
}

fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("a panic");
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| panic!("a panic with a text"))
}

#[test]
fn a_probe_receives_messages_when_they_are_due_and_no_others() {
    soon(|| {
        let (clock, runtime) = still(2);
        let mut probe = probe::<u32>(&runtime);
        let echo = runtime.spawn(Echo).serve().unwrap();
        echo.later(1, 5 * SECOND, probe.pid()).send().unwrap();
        let began = clock.now();
        probe.expect_nothing_for(4 * SECOND);
        assert_eq!(probe.expect_within(3600 * SECOND), 1);
        // The clock was advanced no further than necessary.
        assert_eq!(clock.now(), began + 5 * SECOND);
        runtime.send(&probe, 2).unwrap();
        assert_eq!(probe.try_next(), Some(2));
        assert_eq!(probe.try_next(), None);
        assert_eq!(Recipient::from(&probe), probe.recipient());
    });
}

#[test]
fn a_probe_reports_what_it_has_waited_for_in_vain() {
    soon(|| {
        let (_clock, runtime) = still(1);
        let mut probe = probe::<u32>(&runtime);
        let echo = runtime.spawn(Echo).serve().unwrap();
        assert_eq!(probe.next_within(SECOND), Err(ProbeError::Nothing { expected: "u32", waited: SECOND }));
        echo.text(probe.pid()).send().unwrap();
        let text = panic_of(|| _ = probe.expect());
        assert_eq!(text, "expected a `u32`, but a `alloc::string::String` arrived");
        echo.later(1, SECOND, probe.pid()).send().unwrap();
        let text = panic_of(|| probe.expect_nothing_for(2 * SECOND));
        assert_eq!(text, "expected nothing for 2s, but a `u32` arrived");
        echo.later(1, SECOND, probe.pid()).send().unwrap();
        let text = panic_of(|| _ = probe.expect());
        assert!(text.starts_with("expected a `u32`, but nothing arrived; the runtime is idle"), "{text}");
    });
}

#[test]
fn a_probe_can_replace_any_callee() {
    soon(|| {
        let (_clock, runtime) = still(1);
        let mut probe = probe::<u32>(&runtime);
        let echo = runtime.spawn(Echo).serve().unwrap();
        echo.ask(Recipient::of(probe.pid())).send().unwrap();
        let package = probe.next_package().unwrap();
        assert!(package.has_caller());
        package.answer(|number: u32| number.to_string()).unwrap();
        let package = probe.next_package().unwrap();
        assert_eq!(package.take::<String>().unwrap(), "6");
    });
}

#[test]
fn a_delayed_message_to_a_probe_uses_the_senders_clock() {
    #[process]
    struct Sender;
    #[process]
    impl Sender {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn go(&mut self, to: Recipient<u32>) {
            to.call(7).send_after(SECOND).unwrap();
        }
    }
    soon(|| {
        let (_clock, runtime) = still(1);
        let mut probe = probe::<u32>(&runtime);
        runtime.spawn(Sender).serve().unwrap().go(probe.recipient()).send().unwrap();
        probe.expect_nothing_for(SECOND - Duration::from_nanos(1));
        assert_eq!(probe.expect_within(Duration::from_nanos(1)), 7);
    });
}

#[test]
fn a_probe_on_the_systems_clock_waits_for_messages() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let mut probe = probe::<u32>(&runtime);
        let echo = runtime.spawn(Echo).serve().unwrap();
        echo.later(3, Duration::from_millis(2), probe.pid()).send().unwrap();
        assert_eq!(probe.expect(), 3);
        probe.expect_nothing_for(Duration::ZERO);
    });
}

#[test]
fn missed_ticks_are_skipped_made_up_for_or_delayed_as_configured() {
    #[process]
    struct Late;
    #[process]
    impl Late {
        #[entry]
        async fn tick(&mut self, ctx: &mut Context<Self>, missed: MissedTicks, to: Recipient<u128>) {
            let began = ctx.now();
            let mut interval = ctx.interval(10 * SECOND).missed(missed);
            // Three and a half ticks pass.
            ctx.sleep(35 * SECOND).await;
            for _ in 0..5 {
                interval.tick().await;
                let _gone = to.send((ctx.now() - began).as_millis());
            }
        }
    }
    soon(|| {
        let expected = [
            (MissedTicks::Skip, [35, 40, 50, 60, 70]),
            (MissedTicks::Burst, [35, 35, 35, 40, 50]),
            (MissedTicks::Delay, [35, 45, 55, 65, 75]),
        ];
        for (missed, seconds) in expected {
            let (clock, runtime) = still(1);
            let mut probe = probe::<u128>(&runtime);
            let _late = runtime.spawn(Late).tick(missed, probe.recipient()).unwrap();
            clock.advance(100 * SECOND).unwrap();
            let seen: Vec<u128> = std::iter::from_fn(|| probe.try_next()).collect();
            assert_eq!(seen, seconds.map(|seconds| seconds * 1_000), "{missed:?}");
        }
    });
}

/// A process that repeats a call until it succeeds.
#[process]
struct Stubborn {
    to: Recipient<u8, u32, String>,
}

#[process]
impl Stubborn {
    #[entry]
    async fn run(&mut self, number: u8) -> Vec<Result<u32, CallError<String>>> {
        let mut answers = Vec::new();
        loop {
            answers.push(self.to.call(number).await);
            if answers.last().is_some_and(Result::is_ok) {
                return answers;
            }
        }
    }
}

/// Catches: an error of the probe that reaches the caller as an answer of another type.
#[test]
fn a_probe_answers_calls_with_errors_too() {
    soon(|| {
        let runtime = Runtime::builder().clock(Clock::manual()).build().unwrap();
        let mut probe = Probe::<u8, u32, String>::new(runtime.host()).unwrap();
        let running = runtime.spawn(Stubborn { to: probe.recipient() }).run(7).unwrap();
        probe.next_package().unwrap().answer_result(|_: u8| Err::<u32, _>("busy".to_owned())).unwrap();
        probe.next_package().unwrap().answer_result(|number: u8| Ok::<_, String>(u32::from(number))).unwrap();
        assert_eq!(running.wait().unwrap(), [Err(CallError::Failed("busy".to_owned())), Ok(7)]);
    });
}
