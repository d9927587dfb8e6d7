//! Answers that a process awaits during an upgrade.

use super::*;

#[test]
fn awaited_results_reach_the_new_definition() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let (old, slow) = (counter(&runtime), slow(&runtime));
        let caller = std::thread::spawn(move || old.ask_beside(slow).timeout(Duration::MAX).wait());
        eventually(|| slow.asked().wait() == Ok(1));
        old.run(slow).wait().unwrap();
        eventually(|| slow.asked().wait() == Ok(2));
        old.sleep(Duration::from_millis(20)).wait().unwrap();
        let new = better(old);
        // The closure that held the reply has been dropped.
        assert_eq!(caller.join().unwrap(), Err(CallError::Dropped));
        clock.advance(Duration::from_millis(20)).unwrap();
        slow.give(7).wait().unwrap();
        eventually(|| new.seen().wait().unwrap().len() == 3);
        let mut seen = new.seen().wait().unwrap();
        seen.sort();
        assert_eq!(seen, ["7", "Ok(7)", "slept"]);
        assert_eq!(new.count().wait(), Ok(10));
    });
}

#[test]
fn timers_of_messages_and_replies_in_the_state_outlive_an_upgrade() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let old = counter(&runtime);
        let caller = std::thread::spawn(move || old.hold().timeout(Duration::MAX).wait());
        // Wait until the process has handled one message more than this thread's own calls: the other thread's call.
        let mut own = 0;
        eventually(|| {
            own += 1;
            old.add(0).wait().is_ok() && old.pid().info().unwrap().messages > own
        });
        old.add(4).send_after(Duration::from_millis(30)).unwrap();
        let new = better(old);
        assert_eq!(new.count().wait(), Ok(10));
        clock.advance(Duration::from_millis(30)).unwrap();
        eventually(|| new.count().wait() == Ok(18));
        new.answer_held().wait().unwrap();
        assert_eq!(caller.join().unwrap(), Ok(18));
    });
}

#[test]
fn an_async_method_at_work_is_finished_first_and_no_message_is_taken_meanwhile() {
    soon(|| {
        let runtime = runtime();
        let (old, slow) = (counter(&runtime), slow(&runtime));
        let caller = std::thread::spawn(move || old.ask(slow).timeout(Duration::MAX).wait());
        eventually(|| slow.asked().wait() == Ok(1));
        let upgrading = old.pid().upgrade(|old: Counter| Better::of(old, 100));
        old.add(1).send().unwrap();
        let upgrading = upgrading.wait_timeout(Duration::from_millis(20)).expect_err("a method is at work");
        slow.give(5).wait().unwrap();
        let new = upgrading.wait().unwrap();
        // The old definition finishes the call, then the new one handles the message.
        assert_eq!(caller.join().unwrap(), Ok(15));
        assert_eq!(new.count().wait(), Ok(115));
    });
}
