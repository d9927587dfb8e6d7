//! Async message methods.

use super::*;

#[test]
fn later_messages_wait_while_an_async_method_is_pending() {
    with_runtime(|runtime| {
        let (desk, log) = desk(runtime);
        let (first, second) = (Gate::new(), Gate::new());
        desk.wait_at("first", first.clone()).send().unwrap();
        desk.wait_at("second", second.clone()).send().unwrap();
        let mut last = pin!(desk.note("last").into_future());
        assert!(poll_once(last.as_mut()).is_pending());
        first.wait_for_arrival();
        // The second gate opens first, but the second method still waits for the first.
        second.open_elsewhere();
        first.open_elsewhere();
        assert_eq!(runtime.block_on(last), Ok(5));
        assert_eq!(log.all(), ["first", "local", "second", "local", "last"]);
    });
}

#[test]
fn a_future_that_is_ready_at_once_or_after_a_thousand_polls_completes() {
    with_runtime(|runtime| {
        let (desk, _) = desk(runtime);
        assert_eq!((desk.ready(3).wait(), desk.yield_often(1000).wait()), (Ok(3), Ok(1000)));
    });
}

#[test]
fn a_future_woken_by_foreign_threads_is_never_forgotten() {
    with_runtime(|runtime| {
        let (desk, log) = desk(runtime);
        for _ in 0..1000 {
            // Another thread opens the gate at about the time when the method checks it.
            let gate = Gate::new();
            let opener = thread::spawn({
                let gate = gate.clone();
                move || gate.open()
            });
            desk.wait_at("through", gate).wait().unwrap();
            opener.join().unwrap();
        }
        assert_eq!(log.len(), 2000);
    });
}

#[test]
fn a_kill_or_a_cancel_while_a_method_is_pending_drops_its_locals_then_the_state() {
    with_runtime(|runtime| {
        let ends: [End<Pid>; 2] = [(Pid::kill, ExitReason::Killed), (|pid| pid.cancel("over"), "over".into())];
        for (end, reason) in ends {
            let ((desk, log), gate) = (desk(runtime), Gate::new());
            desk.wait_at("never", gate.clone()).send().unwrap();
            gate.wait_for_arrival();
            let ended = desk.pid().join();
            end(desk.pid());
            assert_eq!(ended.wait(), reason);
            assert_eq!(log.all(), ["local", "state"]);
            gate.open_elsewhere();
        }
    });
}

#[test]
fn a_stop_waits_for_the_pending_method_and_for_earlier_messages() {
    with_runtime(|runtime| {
        let ((desk, log), gate) = (desk(runtime), Gate::new());
        desk.wait_at("method", gate.clone()).send().unwrap();
        desk.note("before").send().unwrap();
        let ended = desk.pid().join();
        desk.pid().stop();
        gate.wait_for_arrival();
        gate.open_elsewhere();
        assert_eq!(ended.wait(), ExitReason::Normal);
        assert_eq!(log.all(), ["method", "local", "before", "state"]);
    });
}

#[test]
fn a_panic_in_a_pending_method_ends_the_process_and_reaches_its_caller() {
    with_runtime(|runtime| {
        let ((desk, log), gate) = (desk(runtime), Gate::new());
        let mut answer = pin!(desk.panic_at(gate.clone()).timeout(LONG).into_future());
        assert!(poll_once(answer.as_mut()).is_pending());
        gate.wait_for_arrival();
        let ended = desk.pid().join();
        gate.open_elsewhere();
        match (runtime.block_on(answer), ended.wait()) {
            (Err(CallError::Died(ExitReason::Panic(told))), ExitReason::Panic(panic)) => {
                assert_eq!((told.message.as_str(), &told), ("after the gate", &panic));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(log.all(), ["local", "state"]);
    });
}

#[test]
fn a_method_that_stops_its_process_ends_it_at_its_next_await() {
    with_runtime(|runtime| {
        let ((desk, log), gate) = (desk(runtime), Gate::new());
        assert_eq!(desk.stop_at(gate).timeout(LONG).wait(), Err(CallError::Died(ExitReason::Normal)));
        desk.pid().join().wait();
        assert_eq!(log.all(), ["state"]);
    });
}

#[test]
fn an_async_method_may_answer_with_a_reply_or_a_stream() {
    with_runtime(|runtime| {
        let ((desk, _), gate) = (desk(runtime), Gate::new());
        let mut answer = pin!(desk.answer_at(gate.clone()).into_future());
        assert!(poll_once(answer.as_mut()).is_pending());
        gate.wait_for_arrival();
        gate.open_elsewhere();
        assert_eq!(runtime.block_on(answer), Ok("answered"));
        let gates = vec![Gate::new(); 3];
        let stream = desk.count_at(gates.clone()).open().unwrap();
        gates.iter().for_each(Gate::open_elsewhere);
        assert_eq!(stream.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    });
}

#[test]
fn a_shield_holds_a_cancel_off_until_it_is_over_and_no_kill() {
    with_runtime(|runtime| {
        let ((desk, log), gate) = (desk(runtime), Gate::new());
        desk.shielded(gate.clone()).send().unwrap();
        gate.wait_for_arrival();
        // Waits for the end of the step, so that the next one begins with the signal.
        until(|| desk.pid().info().unwrap().state == ProcessState::Waiting { outstanding: 0 });
        let ended = desk.pid().join();
        desk.pid().cancel("over");
        gate.open_elsewhere();
        assert_eq!(ended.wait(), "over".into());
        assert_eq!(log.all(), ["state"]);

        let ((desk, _), gate) = (self::desk(runtime), Gate::new());
        desk.shielded(gate.clone()).send().unwrap();
        gate.wait_for_arrival();
        let ended = desk.pid().join();
        desk.pid().kill();
        assert_eq!(ended.wait(), ExitReason::Killed);
    });
}

#[test]
fn serving_until_a_future_is_ready_finishes_the_message_at_hand_first() {
    with_runtime(|runtime| {
        let (process, log) = looping();
        let (until_then, gate) = (Gate::new(), Gate::new());
        let running = runtime.spawn(process).serve_until(until_then.clone()).unwrap();
        running.address().note(1).wait().unwrap();
        running.address().linger(gate.clone()).send().unwrap();
        gate.wait_for_arrival();
        until_then.open_elsewhere();
        gate.open_elsewhere();
        assert_eq!(running.wait(), Ok(3));
        assert_eq!(lines(&log), ["1", "lingering", "lingered"]);
    });
}

#[test]
fn calls_and_sleeps_inside_such_combinators_are_woken_too() {
    #[process]
    struct Asker;

    #[process]
    impl Asker {
        #[entry]
        async fn ask(&mut self, ctx: &mut Context<Self>, of: Address<Desk>) -> (u32, usize) {
            let calls: FuturesUnordered<_> = (0..100).map(|number| of.ready(number).into_future()).collect();
            let sleeps: FuturesUnordered<_> =
                (0..100).map(|number| ctx.sleep(Duration::from_micros(number * 10))).collect();
            let (sum, count) = join(calls.fold(0, async |sum, answer| sum + answer.unwrap_or(0)), sleeps.count()).await;
            (sum, count)
        }
    }

    with_runtime(|runtime| {
        let (desk, _) = desk(runtime);
        assert_eq!(runtime.spawn(Asker).ask(desk).unwrap().wait(), Ok((4950, 100)));
    });
}
