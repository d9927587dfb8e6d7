//! The address of a child, across its incarnations.

use super::*;
use postroom::error::SendFailure;
use postroom::supervision::{Child, ChildState};
use postroom::test::Clock;
use postroom::{CallError, Mailbox};

#[test]
fn the_address_stays_the_same_across_restarts_and_the_process_behind_it_does_not() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let (first, pid) = (a.pid().info().unwrap().pid, a.pid());
        assert_eq!(a.add(5).wait(), Ok(5));
        crash(a);
        is_back(a);
        assert_eq!(a.add(2).wait(), Ok(2), "its state is new");
        assert_eq!((tree.child::<Worker>("a").unwrap(), a.pid()), (a, pid));
        assert!(pid.is_alias() && pid.is_alive());
        assert_ne!(pid.info().unwrap().pid, first);
        assert_eq!(runtime.address::<Worker>(pid).unwrap(), a);
        runtime.send(pid, WorkerAdd { amount: 3 }).unwrap();
        assert_eq!(a.add(0).wait(), Ok(5));
    });
}

#[test]
fn messages_to_a_child_that_is_down_are_returned() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let never = Supervisor::one_for_one().backoff(Backoff::constant(Duration::MAX));
        let tree = never.child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        crash(a);
        eventually(|| tree.children()[0].state == ChildState::BackingOff);
        let refused = runtime.send(a, WorkerAdd { amount: 4 }).unwrap_err();
        assert_eq!((refused.message.amount, refused.reason), (4, SendFailure::Restarting(a.pid())));
        assert_eq!(a.add(4).wait(), Err(CallError::Restarting));
        assert!(!a.pid().is_alive());
        // A manual restart ends the delay, even an endless one.
        tree.restart_child("a").unwrap();
        is_back(a);
    });
}

/// When the child exits, half of the messages are in its mailbox.
#[test]
fn without_keeping_the_mailbox_of_an_exited_child_is_dead_letters_with_the_reason_for_callers() {
    soon(|| {
        let (builder, letters) = postroom_tests::face::with_dead_letters();
        let (runtime, log) = (builder.build().unwrap(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let (here, go) = (Latch::new(), Latch::new());
        a.pass(here.clone(), go.clone()).send().unwrap();
        here.wait();
        a.crash("it had to").send().unwrap();
        a.add(1).send().unwrap();
        let call = std::thread::spawn(move || a.add(2).timeout(Duration::MAX).wait());
        eventually(|| a.pid().info().is_some_and(|info| info.mailbox >= 3));
        go.open();
        assert!(matches!(call.join().unwrap(), Err(CallError::Gone(ExitReason::Panic(_)))));
        is_back(a);
        assert_eq!(a.add(0).wait(), Ok(0));
        assert_eq!(letters.len(), 2);
    });
}

#[test]
fn a_child_of_another_type_is_refused_with_both_names() {
    #[process]
    struct Other;
    #[process]
    impl Other {
        #[entry]
        fn serve(&mut self) {}
    }
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let wrong = tree.child::<Other>("a").unwrap_err();
        assert_eq!(wrong.to_string(), "the child `a` has type `Worker`, not `Other`");
    });
}

#[test]
fn a_name_that_no_child_has_is_refused_with_the_existing_ones() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("parser", worker("a", &log)).child("printer", worker("b", &log));
        let tree = tree.spawn(&runtime).unwrap();
        let text = tree.child::<Worker>("parse").unwrap_err().to_string();
        assert_eq!(text, "there is no child `parse`; there are `parser`, `printer`; did you mean `parser`?");
        assert_eq!(
            tree.stop_child("x").unwrap_err().to_string(),
            "there is no child `x`; there are `parser`, `printer`"
        );
    });
}

/// The type of a hand-written process is not known before it runs.
#[test]
fn a_child_may_be_a_hand_written_process() {
    soon(|| {
        let runtime = runtime();
        let tree = eager(Supervisor::one_for_one())
            .child("byhand", |spawn| spawn.process(postroom_tests::idle_for_ever()).start())
            .spawn(&runtime)
            .unwrap();
        let pid = tree.child_pid("byhand").unwrap();
        let life = pid.join();
        runtime.send(pid, 7_u64).unwrap();
        assert!(pid.kill());
        assert_eq!(life.wait(), ExitReason::Killed);
        eventually(|| pid.is_alive());
        let wrong = tree.child::<Worker>("byhand").unwrap_err().to_string();
        assert!(wrong.contains("has type `Act`, not `Worker`"), "{wrong}");
    });
}

/// If a child passes on its own PID, that PID belongs to one incarnation. The PID that outlives it is in the tree.
#[test]
fn the_pid_of_one_incarnation_is_gone_with_it() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let life = a.pid().info().unwrap().pid;
        crash(a);
        is_back(a);
        assert!(!life.is_alive());
        assert_eq!(runtime.send(life, WorkerAdd { amount: 1 }).unwrap_err().reason, SendFailure::Gone(life));
    });
}

/// A child is spawned on another runtime. Its exit is noticed all the same, and it is restarted.
#[test]
fn a_child_that_was_spawned_elsewhere_is_supervised_too() {
    soon(|| {
        let (here, there, log) = (runtime(), runtime(), Log::new());
        let (host, own) = (there.host(), log.clone());
        let tree = eager(Supervisor::one_for_one())
            .child("a", move |_| host.spawn(Worker { name: "a", log: own.clone(), sum: 0 }).serve())
            .spawn(&here)
            .unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        assert_eq!(a.pid().info().unwrap().pid.host_number(), there.number());
        crash(a);
        is_back(a);
        let end = tree.join();
        tree.stop();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(lines(&log), ["a starts", "a ends", "a starts", "a ends"]);
    });
}

#[test]
fn a_closure_that_returns_a_process_it_did_not_spawn_is_an_error() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let supervisor = Supervisor::one_for_one().intensity(0, Duration::MAX).child("a", move |spawn| {
            let other = spawn.host().spawn(Worker { name: "other", log: own.clone(), sum: 0 }).serve()?;
            spawn.of(Worker { name: "a", log: own.clone(), sum: 0 }).serve()?;
            Ok::<_, SpawnError>(other)
        });
        let tree = supervisor.spawn(&runtime).unwrap();
        let reason = tree.join().wait().to_string();
        assert!(reason.contains("spawn other processes on `spawn.host()`"), "{reason}");
        eventually(|| lines(&log).contains(&"a ends".to_string()));
    });
}

#[test]
fn a_timer_to_a_child_reaches_the_incarnation_at_its_due_time() {
    soon(|| {
        let (clock, log) = (Clock::manual(), Log::new());
        let runtime = postroom_tests::face::builder().clock(clock.clone()).build().unwrap();
        let child = Child::new("a", worker("a", &log)).keep_messages();
        let tree = eager(Supervisor::one_for_one()).add(child).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        a.add(9).send_after(Duration::from_millis(30)).unwrap();
        crash(a);
        clock.advance(Duration::from_millis(30)).unwrap();
        eventually(|| a.add(0).wait() == Ok(9));
    });
}

/// The PID of a child can be sent, printed, parsed and used.
#[test]
fn the_pid_of_a_child_is_a_pid_as_any_other() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let pid = tree.child_pid("a").unwrap();
        let parsed: Pid = pid.to_string().parse().unwrap();
        assert_eq!(parsed, pid);
        let mut mailbox = Mailbox::new().unwrap();
        runtime.send(mailbox.pid(), parsed).unwrap();
        let received = mailbox.receive().take::<Pid>().unwrap();
        assert_eq!(runtime.address::<Worker>(received).unwrap().add(1).wait(), Ok(1));
    });
}
