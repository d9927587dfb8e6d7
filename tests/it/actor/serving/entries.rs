//! Async entries, and how they take messages.

use super::*;

#[test]
fn an_entry_that_serves_does_so_until_its_process_is_ended() {
    with_runtime(|runtime| {
        let ends: [End<Address<Loop>, ()>; 4] = [
            (|address| assert!(address.pid().stop()), ExitReason::Normal),
            (|address| assert!(address.pid().kill()), ExitReason::Killed),
            (|address| assert!(address.pid().cancel("over")), "over".into()),
            (|address| address.leave().send().unwrap(), ExitReason::Normal),
        ];
        for (end, reason) in ends {
            let (process, log) = looping();
            let running = runtime.spawn(process).serve_all().unwrap();
            let address = running.address();
            assert_eq!(address.note(1).wait(), Ok(2));
            let gate = Gate::new();
            gate.open();
            address.linger(gate).wait().unwrap();
            assert_eq!(lines(&log), ["begun", "1", "lingering", "lingered"]);
            end(address);
            assert_eq!(running.wait(), Err(RunError::Ended(reason)));
        }
    });
}

#[test]
fn serving_what_has_arrived_takes_all_of_it_and_waits_for_nothing() {
    watched(|| {
        for count in [0_u32, 1, 5, 127, 128, 129, 1000] {
            let runtime = builder().paused().build().unwrap();
            let (process, log) = looping();
            let running = runtime.spawn(process).serve_ready(2).unwrap();
            (0..count).for_each(|number| running.address().note(number).send().unwrap());
            runtime.resume().unwrap();
            assert_eq!(running.wait(), Ok(vec![count as usize, 0]), "{count} messages");
            assert_eq!(log.len(), count as usize);
        }
    });
}

#[test]
fn serving_the_next_takes_one_message_each() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let (process, _) = looping();
        let running = runtime.spawn(process).serve_some(3).unwrap();
        (0..5).for_each(|number| running.address().note(number).send().unwrap());
        runtime.resume().unwrap();
        assert_eq!(running.wait().unwrap(), ["0", "1", "2"]);
    });
}

#[test]
fn a_selective_receive_stashes_other_messages_in_order() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let (process, log) = looping();
        let running = runtime.spawn(process).receive(3).unwrap();
        let address = running.address();
        for number in 0..300 {
            address.note(number).send().unwrap();
            if number % 100 == 50 {
                runtime.send(address, Wanted(number)).unwrap();
            }
        }
        runtime.send(address, Wanted(300)).unwrap();
        runtime.resume().unwrap();
        // `receive` took the first three `Wanted` messages; the rest were served afterwards, in order.
        assert_eq!(running.wait(), Ok(301));
        let mut expected: Vec<String> = [50, 150, 250].map(|number| format!("wanted {number}")).into();
        expected.extend((0..300).map(|number: u32| number.to_string()));
        expected.push("served 300".to_string());
        assert_eq!(lines(&log), expected);
    });
}

#[test]
fn stashed_messages_of_an_exiting_process_are_dead_letters_with_the_reason_for_callers() {
    watched(|| {
        for end in [Pid::kill, Pid::stop] {
            let (builder, dead) = with_dead_letters();
            let runtime = builder.build().unwrap();
            let (process, log) = looping();
            let ready = Gate::new();
            let running = runtime.spawn(process).receive_for_ever(ready.clone()).unwrap();
            let address = running.address();
            (0..3).for_each(|number| address.note(number).send().unwrap());
            let mut call = pin!(address.note(3).timeout(LONG).into_future());
            assert!(poll_once(call.as_mut()).is_pending());
            runtime.send(address, Wanted(4)).unwrap();
            ready.pass();
            end(address.pid());
            let Err(RunError::Ended(reason)) = running.wait() else { panic!("it has no result") };
            assert_eq!(runtime.block_on(call), Err(CallError::Gone(reason)));
            assert_eq!(dead.all(), vec![("it::actor::serving::LoopNote", DeadLetterReason::Ended); 4]);
            assert!(log.len() <= 1);
        }
    });
}

#[test]
fn an_abandoned_receive_loses_nothing_and_stops_taking_messages() {
    watched(|| {
        let runtime = builder().workers(1).build().unwrap();
        let (process, log) = looping();
        let (given_up, gate) = (Gate::new(), Gate::new());
        let running = runtime.spawn(process).give_up(given_up.clone(), gate.clone()).unwrap();
        let other = runtime.spawn(looping().0).serve_all().unwrap().address();
        given_up.pass();
        gate.wait_for_arrival();
        let address = running.address();
        other.note(0).wait().unwrap();
        let steps = address.pid().info().unwrap().steps;
        for number in 0..100 {
            address.note(number).send().unwrap();
            // There is only one worker, so every process that was woken earlier has run when this call is answered.
            other.note(0).wait().unwrap();
        }
        // Messages do not wake a process that waits for something else.
        assert_eq!(address.pid().info().map(|info| (info.steps, info.mailbox)), Some((steps, 100)));
        gate.open_elsewhere();
        assert_eq!(running.wait(), Ok(100));
        assert_eq!(lines(&log)[0], "given up");
        assert_eq!(lines(&log)[1..], (0..100).map(|number: u32| number.to_string()).collect::<Vec<_>>());
    });
}

#[test]
fn combinators_that_poll_only_woken_futures_get_messages() {
    with_runtime(|runtime| {
        for serve in [false, true] {
            let (process, _) = looping();
            let gate = Gate::new();
            let running = runtime.spawn(process).gather(gate.clone(), serve).unwrap();
            gate.wait_for_arrival();
            runtime.send(running.pid(), Wanted(7)).unwrap();
            assert_eq!(running.wait(), Ok(vec![7, 100]));
        }
    });
}

#[test]
fn a_wake_is_not_lost_on_a_process_that_also_waits_for_messages() {
    with_runtime(|runtime| {
        // No message arrives: only the future wakes the process.
        assert_eq!(runtime.spawn(looping().0).serve_while_yielding(1000).unwrap().wait(), Ok(0));
        let gates: Vec<Gate> = (0..1000).map(|_| Gate::new()).collect();
        assert_eq!(runtime.spawn(looping().0).serve_while_woken(gates).unwrap().wait(), Ok(0));
    });
}

#[test]
fn work_that_a_served_message_starts_runs_at_once() {
    with_runtime(|runtime| {
        let (process, log) = looping();
        let running = runtime.spawn(process).serve_all().unwrap();
        let gate = Gate::new();
        running.address().spawn_work(gate.clone()).wait().unwrap();
        gate.wait_for_arrival();
        running.address().note(1).wait().unwrap();
        gate.open_elsewhere();
        until(|| log.len() == 3);
        assert_eq!(lines(&log), ["begun", "1", "worked"]);
    });
}

#[test]
fn the_deadline_of_a_served_message_ends_with_it() {
    with_runtime(|runtime| {
        let other = runtime.spawn(looping().0).serve_all().unwrap().address();
        // First a message is served to completion.
        let running = runtime.spawn(looping().0).ask_between(other).unwrap();
        running.address().deadline().timeout(Duration::from_secs(20)).wait().unwrap();
        let [own, granted] = running.wait().unwrap();
        assert_eq!(own, None);
        assert!(granted.unwrap() > Instant::now() + LONG / 2);
        // Then the method of a message is cancelled.
        let (limit, gate) = (Gate::new(), Gate::new());
        let running = runtime.spawn(looping().0).serve_within(limit.clone(), other).unwrap();
        let mut call = pin!(running.address().linger(gate.clone()).timeout(Duration::from_secs(20)).into_future());
        assert!(poll_once(call.as_mut()).is_pending());
        gate.wait_for_arrival();
        limit.open_elsewhere();
        assert_eq!(runtime.block_on(call), Err(CallError::Dropped));
        let [own, granted] = running.wait().unwrap();
        assert_eq!(own, None);
        assert!(granted.unwrap() > Instant::now() + LONG / 2);
    });
}
