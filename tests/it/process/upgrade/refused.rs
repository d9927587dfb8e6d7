//! Upgrades that are refused or fail, and upgrades by name.

use super::*;

#[test]
fn an_upgrade_from_another_type_is_refused_and_the_process_continues() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        let error = pid.upgrade(|old: Slow| old).wait().unwrap_err();
        assert_eq!(error, UpgradeError::Type { pid, expected: "Slow", found: "Counter" });
        assert_eq!(error.to_string(), format!("{pid} is a `Counter`, not a `Slow`; it continues unchanged"));
        assert_eq!(old.add(1).wait(), Ok(11));

        let living = runtime.spawn(Counter::default()).live().unwrap();
        let pid = living.pid();
        let error = pid.upgrade(|old: Counter| old).wait().unwrap_err();
        assert_eq!(error, UpgradeError::Entry { pid, entry: "live" });
        assert!(pid.is_alive());

        let by_hand = runtime.spawn_process(postroom_tests::idle_for_ever()).start().unwrap();
        let error = by_hand.upgrade(|old: Counter| old).wait().unwrap_err();
        assert!(matches!(error, UpgradeError::Type { found, .. } if found.contains("Act")));
    });
}

#[test]
fn an_upgrade_that_cannot_make_the_new_state_ends_the_process_with_its_reason() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let joined = old.pid().join();
        let error = old.pid().upgrade(|_: Counter| Err::<Better, _>("no room")).wait().unwrap_err();
        assert_eq!(error, UpgradeError::Failed("no room"));
        assert_eq!(joined.wait(), ExitReason::error("could not be upgraded to `Better`: no room"));

        let old = counter(&runtime);
        let joined = old.pid().join();
        let make = |old: Counter| -> Better { panic!("{} is too much", old.count) };
        let Err(UpgradeError::Panicked(panic)) = old.pid().upgrade(make).wait() else { panic!("it panics") };
        assert_eq!(panic.message, "10 is too much");
        assert_eq!(joined.wait(), ExitReason::Panic(panic.into()));
    });
}

#[test]
fn an_upgrade_of_an_exited_process_or_one_that_exits_first_is_an_error() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        pid.kill();
        let upgrading = pid.upgrade(|old: Counter| old);
        leave.open();
        assert_eq!(upgrading.wait().unwrap_err(), UpgradeError::Gone(pid));
        pid.join().wait();
        assert_eq!(pid.upgrade(|old: Counter| old).wait().unwrap_err(), UpgradeError::Gone(pid));

        // The same holds for an upgrade that waits for a method that does not end.
        let (old, slow) = (counter(&runtime), slow(&runtime));
        let pid = old.pid();
        old.ask(slow).send().unwrap();
        eventually(|| slow.asked().wait() == Ok(1));
        let upgrading = pid.upgrade(|old: Counter| old);
        pid.kill();
        assert_eq!(upgrading.wait().unwrap_err(), UpgradeError::Gone(pid));
    });
}

#[test]
fn a_process_does_not_wait_for_its_own_upgrade() {
    soon(|| {
        let runtime = runtime();
        let (said, hear) = channel();
        let itself = runtime
            .spawn_process(act(move |events, out| {
                while let Some(event) = events.next() {
                    if let Event::Message(package) = event
                        && let Ok(pid) = package.take::<Pid>()
                    {
                        said.send(pid.upgrade(|old: Counter| old).wait().map(drop)).unwrap();
                    }
                }
                out.idle();
                Ok(())
            }))
            .start()
            .unwrap();
        runtime.send(itself, itself).unwrap();
        assert_eq!(hear.recv().unwrap(), Err(UpgradeError::Itself(itself)));
    });
}

#[test]
fn a_cancel_before_the_upgrade_ends_the_old_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        let joined = pid.join();
        pid.cancel("enough");
        let upgrading = pid.upgrade(|old: Counter| Better::of(old, 1));
        leave.open();
        assert_eq!(joined.wait(), ExitReason::Cancelled("enough".into()));
        assert_eq!(upgrading.wait().unwrap_err(), UpgradeError::Gone(pid));
    });
}

#[test]
fn joins_return_and_the_state_is_dropped_once_whenever_the_process_is_killed() {
    soon(|| {
        let runtime = runtime();
        for _ in 0..300 {
            let drops = Drops::default();
            let old = runtime.spawn(Counter { kept: Some(drops.clone()), ..Counter::default() }).serve(1).unwrap();
            let pid = old.pid();
            let (joined, asks) = (pid.join(), std::thread::spawn(move || pid.upgrade(|old: Counter| old).wait()));
            pid.kill();
            match asks.join().unwrap() {
                Ok(address) => assert_eq!(address, old),
                Err(error) => assert_eq!(error, UpgradeError::Gone(pid)),
            }
            joined.wait();
            assert_eq!(drops.0.load(SeqCst), 1);
        }
    });
}

#[test]
fn registered_upgrades_are_found_by_the_name_of_the_new_type() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        let missing = runtime.upgrade(pid, "Better").wait().unwrap_err();
        assert!(matches!(&missing, UpgradeError::Missing { process: "Counter", has, .. } if has.is_empty()));
        runtime.register_upgrade(|old: Counter| Better::of(old, 2));
        runtime.register_upgrade(|old: Better| if old.factor > 2 { Ok(old.state) } else { Err("too small") });
        let missing = runtime.upgrade(pid, "Bettr").wait().unwrap_err();
        assert_eq!(
            missing.to_string(),
            "no upgrade of `Counter` to `Bettr` is registered; there are upgrades to Better"
        );
        assert_eq!(runtime.upgrade(pid, "Better").wait().unwrap(), pid);
        assert_eq!(runtime.address::<Better>(pid).unwrap().count().wait(), Ok(10));
        let joined = pid.join();
        let failed = runtime.upgrade(pid, "Counter").wait().unwrap_err();
        assert!(matches!(&failed, UpgradeError::Failed(error) if error.to_string() == "too small"), "{failed}");
        assert!(matches!(joined.wait(), ExitReason::Error(_)));
        assert!(matches!(runtime.upgrade(pid, "Counter").wait(), Err(UpgradeError::Gone(gone)) if gone == pid));
    });
}
