//! Every way in which a call gets no answer.

use super::*;
use std::any::type_name;
use std::convert::Infallible;

fn gone_with_panic<T>(answer: Result<T, CallError>, message: &str) -> bool {
    matches!(answer, Err(CallError::Gone(ExitReason::Panic(panic))) if panic.message == message)
}

fn died_of_panic<T>(answer: Result<T, CallError>, message: &str) -> bool {
    matches!(answer, Err(CallError::Died(ExitReason::Panic(panic))) if panic.message == message)
}

#[test]
fn a_panic_of_the_called_method_reaches_its_caller_at_once() {
    with_runtime(|runtime| {
        assert!(died_of_panic(desk(runtime).panic("one".into()).timeout(LONG).wait(), "one"));
        let awaited = runtime.block_on(desk(runtime).panic("two".into()).timeout(LONG).into_future());
        assert!(died_of_panic(awaited, "two"));
    });
}

#[test]
fn a_panic_reaches_callers_with_kept_replies_and_queued_callers() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let desk = desk(&runtime);
        let mut kept = pin!(desk.keep().timeout(LONG).into_future());
        let mut panics = pin!(desk.panic("all".into()).timeout(LONG).into_future());
        let mut in_line = pin!(desk.echo(1).timeout(LONG).into_future());
        assert!(poll_once(kept.as_mut()).is_pending());
        assert!(poll_once(panics.as_mut()).is_pending());
        assert!(poll_once(in_line.as_mut()).is_pending());
        runtime.resume().unwrap();
        for answer in [runtime.block_on(kept), runtime.block_on(panics)] {
            assert!(died_of_panic(answer, "all"));
        }
        assert!(gone_with_panic(runtime.block_on(in_line), "all"));
    });
}

/// A hand-written process that keeps its packages.
#[derive(Default)]
struct Keeper(Vec<Package>);

impl Process for Keeper {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), postroom::ProcessError> {
        while let Some(event) = events.next() {
            match event {
                Event::Message(package) if package.is::<DeskForget>() => panic!("with packages in hand"),
                Event::Message(package) if package.is::<DeskAbandoned>() => drop(package),
                Event::Message(package) => self.0.push(package),
                Event::Completed { .. } | Event::Signal(_) => {}
            }
        }
        Ok(())
    }
}

#[test]
fn a_package_held_at_the_exit_gets_the_reason_and_a_dropped_one_is_unhandled() {
    with_runtime(|runtime| {
        for panics in [true, false] {
            let keeper = runtime.spawn_process(Keeper::default()).start().unwrap();
            let kept: Recipient<DeskEcho, u32> = Recipient::of(keeper);
            let dropped: Recipient<DeskAbandoned, u32> = Recipient::of(keeper);
            let mut answer = pin!(kept.call(DeskEcho { value: 1 }).timeout(LONG).into_future());
            assert!(poll_once(answer.as_mut()).is_pending());
            assert_eq!(dropped.call(DeskAbandoned).timeout(LONG).wait(), Err(CallError::Unhandled));
            if panics {
                runtime.send(keeper, DeskForget).unwrap();
                assert!(gone_with_panic(runtime.block_on(answer), "with packages in hand"));
            } else {
                assert!(keeper.kill());
                assert_eq!(runtime.block_on(answer), Err(CallError::Gone(ExitReason::Killed)));
            }
        }
    });
}

#[test]
fn a_call_of_a_pending_method_fails_with_the_exit_reason_of_the_callee() {
    with_runtime(|runtime| {
        let ends: [End<Pid>; 2] = [(Pid::kill, ExitReason::Killed), (|pid| pid.cancel("over"), "over".into())];
        for (end, reason) in ends {
            let (desk, gate) = (desk(runtime), Gate::new());
            let waiting = thread::spawn({
                let gate = gate.clone();
                move || desk.wait_at(gate).timeout(LONG).wait()
            });
            gate.wait_for_arrival();
            end(desk.pid());
            assert_eq!(waiting.join().unwrap(), Err(CallError::Died(reason)));
        }
    });
}

#[test]
fn a_kept_reply_fails_with_the_exit_reason_of_its_process() {
    with_runtime(|runtime| {
        let ends: [End<Address<Desk>, ()>; 4] = [
            (|desk| assert!(desk.pid().kill()), ExitReason::Killed),
            (|desk| assert!(desk.pid().cancel("over")), "over".into()),
            (|desk| assert!(desk.pid().stop()), ExitReason::Normal),
            (|desk| desk.leave().send().unwrap(), ExitReason::Normal),
        ];
        for (end, reason) in ends {
            let desk = desk(runtime);
            let mut kept = pin!(desk.keep().timeout(LONG).into_future());
            assert!(poll_once(kept.as_mut()).is_pending());
            assert_eq!(desk.echo(1).wait(), Ok(1));
            end(desk);
            assert_eq!(runtime.block_on(kept), Err(CallError::Died(reason)));
        }
    });
}

#[test]
fn a_dropped_reply_fails_its_call_at_once() {
    with_runtime(|runtime| {
        let (caller, callee) = (desk(runtime), desk(runtime));
        assert_eq!(callee.drop_it().timeout(LONG).wait(), Err(CallError::Dropped));
        assert_eq!(runtime.block_on(callee.drop_it().timeout(LONG).into_future()), Err(CallError::Dropped));
        caller.ask(callee, LONG).send().unwrap();
        let mut asked = pin!(caller.ask(callee, LONG).timeout(LONG).into_future());
        assert!(poll_once(asked.as_mut()).is_pending());
        for _ in 0..2 {
            until(|| callee.abandoned().wait().unwrap().len() == 1);
            callee.forget().send().unwrap();
        }
        assert_eq!(runtime.block_on(asked), Err(CallError::Failed(CallError::Dropped)));
    });
}

#[derive(Debug)]
struct Unknown;

#[test]
fn a_call_without_a_method_is_unhandled_and_a_dead_letter() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let desk = desk(&runtime);
        let stranger: Recipient<Unknown, u32> = Recipient::of(desk.pid());
        assert_eq!(stranger.call(Unknown).timeout(LONG).wait(), Err(CallError::Unhandled));
        assert_eq!(runtime.block_on(stranger.call(Unknown).timeout(LONG).into_future()), Err(CallError::Unhandled));
        assert_eq!(dead.all(), vec![("it::call::unanswered::Unknown", DeadLetterReason::Unhandled); 2]);
        assert_eq!(runtime.statistics().dead_letters.unhandled, 2);
        // The message is handled, but its answer has a type that the caller does not expect.
        let wrong: Recipient<DeskEcho, String> = Recipient::of(desk.pid());
        let error = wrong.call(DeskEcho { value: 1 }).wait().unwrap_err();
        let (expected, found) = (type_name::<Result<String, Infallible>>(), type_name::<Result<u32, Infallible>>());
        assert_eq!(error, CallError::Mismatch { expected, found });
        assert!(error.to_string().contains(expected) && error.to_string().contains(found), "{error}");
        assert_eq!(desk.echo(1).wait(), Ok(1));
    });
}
