//! Background tasks of a process: calls and futures with a closure.

use super::*;

#[test]
fn calls_with_closures_do_not_block_messages_and_are_answered_in_any_order() {
    with_runtime(|runtime| {
        let ((asker, log), (one, _), (two, _)) = (worker(runtime), worker(runtime), worker(runtime));
        let (first, second) = (Gate::new(), Gate::new());
        asker.call_then(one, first.clone()).wait().unwrap();
        asker.call_then(two, second.clone()).wait().unwrap();
        assert_eq!(asker.add("between").wait(), Ok(1));
        second.open_elsewhere();
        until(|| log.len() == 2);
        first.open_elsewhere();
        until(|| log.len() == 3);
        assert_eq!(log.all(), ["between", "Ok(5) in serve", "Ok(5) in serve"]);
    });
}

#[test]
fn a_call_with_a_closure_gets_every_kind_of_failure() {
    with_runtime(|runtime| {
        let ((asker, log), (callee, _)) = (worker(runtime), worker(runtime));
        for (how, line) in [(0, "failed"), (1, "panicked"), (0, "gone")] {
            asker.call_failing(callee, how).wait().unwrap();
            until(|| log.all().last().map(String::as_str) == Some(line));
        }
        assert_eq!(log.len(), 3);
    });
}

#[test]
fn calls_and_futures_of_a_sync_entry_are_answered_and_keep_their_deadlines() {
    with_runtime(|runtime| {
        let ((callee, _), log, gate) = (worker(runtime), Log::new(), Gate::new());
        let asker = runtime.spawn(Worker { log: log.clone(), token: None }).begin(callee, gate.clone()).unwrap();
        until(|| log.len() == 1);
        assert_eq!(log.all(), ["call Err(Timeout)"]);
        gate.open_elsewhere();
        until(|| log.len() == 2);
        assert_eq!(asker.add("last").wait(), Ok(3));
        assert_eq!(log.all()[1..], ["run", "last"]);
    });
}

#[test]
fn background_futures_are_woken_from_anywhere() {
    with_runtime(|runtime| {
        for live in [false, true] {
            let log = Log::new();
            let spawn = runtime.spawn(Worker { log: log.clone(), token: None });
            let address = if live { spawn.live().unwrap().address() } else { spawn.serve().unwrap() };
            let (first, second) = (Gate::new(), Gate::new());
            address.run_then("first", first.clone()).wait().unwrap();
            address.run_then("second", second.clone()).wait().unwrap();
            first.wait_for_arrival();
            second.wait_for_arrival();
            assert_eq!(address.add("between").wait(), Ok(1));
            second.open_elsewhere();
            until(|| log.len() == 2);
            first.open_elsewhere();
            until(|| log.len() == 3);
            assert_eq!(log.all(), ["between", "ran second", "ran first"]);
        }
    });
}

#[test]
fn closures_may_run_more_and_answer_what_was_asked_before() {
    with_runtime(|runtime| {
        let (address, _) = worker(runtime);
        let gate = Gate::new();
        let mut answer = pin!(address.chain(gate.clone()).timeout(LONG).into_future());
        assert!(poll_once(answer.as_mut()).is_pending());
        gate.wait_for_arrival();
        assert_eq!(address.add("between").wait(), Ok(2));
        gate.open_elsewhere();
        assert_eq!(runtime.block_on(answer), Ok(2));
    });
}

#[test]
fn a_thousand_background_futures_all_complete() {
    with_runtime(|runtime| {
        let (address, log) = worker(runtime);
        let gate = Gate::new();
        (0..1000).for_each(|_| address.run_then("one", gate.clone()).send().unwrap());
        gate.wait_for_arrivals(1000);
        gate.open_elsewhere();
        until(|| log.len() == 1000);
    });
}

#[test]
fn background_tasks_are_dropped_with_their_process_and_never_continued() {
    with_runtime(|runtime| {
        let ends: [fn(Pid) -> bool; 3] = [Pid::kill, Pid::stop, |pid| pid.cancel("over")];
        for end in ends {
            let ((address, log), (callee, _)) = (worker(runtime), worker(runtime));
            let (dropped, gate) = (Log::new(), Gate::new());
            let token = |name| OnDrop(dropped.clone(), name);
            address.run_holding(token("future"), token("closure")).wait().unwrap();
            address.call_holding(callee, gate.clone(), token("call")).wait().unwrap();
            gate.wait_for_arrival();
            let ended = address.pid().join();
            end(address.pid());
            ended.wait();
            let mut lines = dropped.all();
            lines.sort_unstable();
            assert_eq!((lines, log.len()), (vec!["call", "closure", "future"], 0));
            gate.open();
            callee.add("after").wait().unwrap();
        }
        assert_eq!(runtime.statistics().timers, 0, "a sleep for ever is over when its process is");
    });
}

#[test]
fn a_panic_in_a_background_task_or_closure_ends_the_process() {
    with_runtime(|runtime| {
        for (inside, message) in [(true, "beside"), (false, "in the closure")] {
            let (address, _) = worker(runtime);
            let gate = Gate::new();
            address.run_panicking(gate.clone(), inside).wait().unwrap();
            let ended = address.pid().join();
            gate.open();
            assert!(matches!(ended.wait(), ExitReason::Panic(panic) if panic.message == message));
        }
    });
}

#[test]
fn a_background_future_that_awaits_the_cancellation_decides() {
    with_runtime(|runtime| {
        for live in [false, true] {
            let log = Log::new();
            let spawn = runtime.spawn(Worker { log: log.clone(), token: None });
            let address = if live { spawn.live().unwrap().address() } else { spawn.serve().unwrap() };
            address.run_until_cancelled().wait().unwrap();
            address.add("polled").wait().unwrap();
            let ended = address.pid().join();
            address.pid().cancel("enough");
            assert_eq!(ended.wait(), ExitReason::Normal);
            assert_eq!(log.all(), ["polled", "told: cancelled: enough"]);
        }
    });
}
