//! Addresses by name: they follow the holder of the name, outlive holders, and do not accumulate.

use postroom::Mailbox;
use postroom::error::{BadName, GroupError, NameError, SendFailure};
use postroom::prelude::*;
use postroom_tests::face::{alone, until, watched, with_runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The number of addresses of free names that are kept.
const KEPT: usize = 1024;

#[process]
pub(crate) struct Account {
    pub(crate) number: u32,
    pub(crate) seen: Arc<AtomicU64>,
}

#[process]
impl Account {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    fn number(&mut self) -> u32 {
        self.number
    }

    #[message]
    pub(crate) fn note(&mut self, amount: u64) {
        self.seen.fetch_add(amount, Ordering::Relaxed);
    }
}

fn account(runtime: &Runtime, name: &str, number: u32) -> Address<Account> {
    runtime.spawn(Account { number, seen: Arc::default() }).named(name).serve().unwrap()
}

fn end(pid: Pid) {
    let ended = pid.join();
    pid.kill();
    ended.wait();
}

#[test]
fn an_address_by_name_serves_one_holder_after_the_other() {
    with_runtime(|runtime| {
        let by_name = runtime.named_address::<Account>("acct").unwrap();
        assert!(by_name.pid().is_alias() && !by_name.pid().is_alive());
        for number in 0..3 {
            let refused = by_name.note(1).send().unwrap_err();
            assert_eq!(refused.reason, SendFailure::UnknownName);
            assert_eq!(by_name.number().wait(), Err(CallError::UnknownName));
            let holder = account(runtime, "acct", number);
            assert_eq!(by_name.number().wait(), Ok(number));
            assert_eq!(by_name.pid().info().map(|info| info.pid), Some(holder.pid()));
            assert_eq!(runtime.named_address::<Account>("acct"), Ok(by_name));
            assert_eq!(runtime.address::<Account>(by_name.pid()), Ok(by_name));
            // Operations on the PID apply to the holder.
            let ended = by_name.pid().join();
            assert!(by_name.pid().stop());
            assert_eq!(ended.wait(), ExitReason::Normal);
            assert!(!holder.pid().is_alive() && !by_name.pid().is_alive());
        }
        let statistics = runtime.statistics();
        assert_eq!(
            (statistics.directory.names, statistics.directory.named_addresses, statistics.directory.memberships),
            (0, 1, 0)
        );
        assert_eq!(runtime.named_address::<Account>(""), Err(BadName::Empty));
    });
}

#[test]
fn the_type_of_an_address_by_name_is_checked_at_delivery() {
    #[process]
    struct Other;
    #[process]
    impl Other {
        #[entry]
        fn serve(&mut self) {}
    }
    with_runtime(|runtime| {
        let by_name = runtime.named_address::<Account>("acct").unwrap();
        runtime.spawn(Other).named("acct").serve().unwrap();
        assert_eq!(by_name.number().wait(), Err(CallError::Unhandled));
    });
}

/// The addresses of registered names are always kept. Of the addresses of free names, only a limited number is kept:
/// those whose names became free most recently.
#[test]
fn addresses_of_free_names_do_not_pile_up() {
    with_runtime(|runtime| {
        let held = runtime.named_address::<Account>("held").unwrap();
        account(runtime, "held", 1);
        let first = runtime.named_address::<Account>("first").unwrap();
        let second = runtime.named_address::<Account>("second").unwrap();
        // The first name is registered for a while, so that it becomes free after the second.
        end(account(runtime, "first", 2).pid());
        for number in 0..KEPT - 1 {
            runtime.named_address::<Account>(format!("free {number}")).unwrap();
        }
        assert_eq!(runtime.statistics().directory.named_addresses, KEPT + 1);
        // The second address has been retired, and does not refer to the new holder.
        account(runtime, "second", 3);
        let refused = second.note(1).send().unwrap_err();
        assert_eq!(refused.reason, SendFailure::Gone(second.pid()));
        let anew = runtime.named_address::<Account>("second").unwrap();
        assert_ne!(anew, second);
        assert_eq!(anew.number().wait(), Ok(3));
        account(runtime, "first", 4);
        assert_eq!((first.number().wait(), held.number().wait()), (Ok(4), Ok(1)));
        for number in 0..3 * KEPT {
            runtime.named_address::<Account>(format!("more {number}")).unwrap();
        }
        assert_eq!(runtime.statistics().directory.named_addresses, KEPT + 3);
        assert_eq!([held, first, anew].map(|by_name| by_name.number().wait()), [Ok(1), Ok(4), Ok(3)]);
    });
}

/// Catches: a registered name that still counts as free, so that another address is retired too early.
#[test]
fn a_name_that_is_registered_again_does_not_count_as_free() {
    with_runtime(|runtime| {
        let oldest = runtime.named_address::<Account>("oldest").unwrap();
        runtime.named_address::<Account>("held again").unwrap();
        account(runtime, "held again", 1);
        for number in 0..KEPT - 1 {
            runtime.named_address::<Account>(format!("free {number}")).unwrap();
        }
        assert_eq!(runtime.statistics().directory.named_addresses, KEPT + 1);
        account(runtime, "oldest", 2);
        assert_eq!(oldest.number().wait(), Ok(2));
    });
}

/// Catches: free names that stay in the record of a runtime that has ended.
#[test]
fn a_runtime_that_has_ended_keeps_no_name() {
    let name: Arc<str> = "free".into();
    let asked = name.clone();
    with_runtime(move |runtime| {
        runtime.named_address::<Account>(asked.clone()).unwrap();
        assert!(Arc::strong_count(&asked) > 2);
    });
    assert_eq!(Arc::strong_count(&name), 1);
}

#[test]
fn an_alias_can_be_a_member_and_have_names_until_it_is_retired() {
    with_runtime(|runtime| {
        let (room, mut mailbox) = (runtime.group("room"), Mailbox::new().unwrap());
        let by_name = runtime.named_address::<Account>("acct").unwrap();
        assert_eq!(room.join(by_name), Ok(true));
        assert_eq!(runtime.register_name("alias", by_name), Ok(()));
        room.subscribe(mailbox.pid()).unwrap();
        let events = runtime.topic::<AccountNote>("notes");
        assert_eq!(events.subscribe(by_name.pid()), Ok(true));
        for number in 0..2 {
            assert_eq!(room.broadcast(3_u8), 0);
            let seen = Arc::new(AtomicU64::new(0));
            let holder = Account { number, seen: seen.clone() };
            let holder = runtime.spawn(holder).named("acct").serve().unwrap();
            assert_eq!(runtime.whereis_as::<Account>("alias").unwrap().number().wait(), Ok(number));
            assert_eq!(runtime.topic::<AccountNote>("notes").subscribers()[..], [by_name.pid()]);
            by_name.note(1).send().unwrap();
            assert_eq!(by_name.number().wait(), Ok(number));
            assert_eq!(seen.load(Ordering::Relaxed), 1);
            end(holder.pid());
        }
        // The name is free, so no process could be notified of changes.
        assert_eq!(room.subscribe(by_name.pid()), Err(GroupError::Gone(by_name.pid())));
        assert!(mailbox.try_receive().is_none());
        for number in 0..KEPT {
            runtime.named_address::<Account>(format!("free {number}")).unwrap();
        }
        let left = mailbox.try_receive().expect("told when it was retired").take::<GroupEvent>().unwrap();
        let reason = Some(ExitReason::NoProcess);
        assert_eq!(left, GroupEvent::Left { group: "room".into(), pid: by_name.pid(), reason });
        assert_eq!((runtime.whereis("alias"), room.len(), events.subscribers().len()), (None, 0, 0));
        assert_eq!(room.join(by_name), Err(GroupError::Gone(by_name.pid())));
        let gone = NameError::Gone { name: "alias".to_string(), pid: by_name.pid() };
        assert_eq!(runtime.register_name("alias", by_name), Err(gone));
        drop(mailbox);
        assert_eq!((runtime.statistics().directory.memberships, runtime.statistics().directory.groups), (0, 0));
    });
}

/// Names that refer to each other in a cycle have no holder.
#[test]
fn a_cycle_of_names_is_no_process_and_does_not_hang() {
    with_runtime(|runtime| {
        let [one, other] = ["one", "other"].map(|name| runtime.named_address::<Account>(name).unwrap());
        runtime.register_name("one", other).unwrap();
        runtime.register_name("other", one).unwrap();
        assert!(one.note(1).send().is_err() && !one.pid().is_alive());
        assert_eq!(one.number().wait(), Err(CallError::UnknownName));
        assert!(runtime.unregister_name("one").is_some());
        account(runtime, "one", 7);
        assert_eq!(other.number().wait(), Ok(7));
    });
}

#[test]
fn a_host_that_goes_down_retires_its_addresses() {
    watched(|| {
        let runtime = postroom_tests::face::builder().build().unwrap();
        let host = runtime.host();
        let mailbox = Mailbox::new().unwrap();
        let by_name = runtime.named_address::<Account>("acct").unwrap();
        runtime.register_name("acct", mailbox.pid()).unwrap();
        assert!(by_name.pid().is_alive());
        runtime.shutdown().unwrap();
        assert!(!by_name.pid().is_alive());
        assert_eq!((host.statistics().directory.named_addresses, host.statistics().directory.memberships), (0, 0));
    });
}

/// Threads send by name while holders change. Each accepted message is handled by a holder, or was in the mailbox of a
/// holder that was killed. Beside other tests, a late message might be a dead letter of another runtime.
#[test]
fn messages_by_name_while_holders_change_are_handled_or_accounted_for() {
    alone("names::addresses::messages_by_name_while_holders_change_are_handled_or_accounted_for", || {
        let (builder, dead) = postroom_tests::face::with_dead_letters();
        let runtime = Arc::new(builder.build().unwrap());
        let (seen, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let by_name = runtime.named_address::<Account>("acct").unwrap();
        let senders: Vec<_> = (0..3)
            .map(|_| {
                let over = over.clone();
                thread::spawn(move || {
                    let (mut sent, mut refused) = (0_u64, 0_u64);
                    while !over.load(Ordering::Relaxed) {
                        match by_name.note(1).send() {
                            Ok(()) => sent += 1,
                            Err(error) => {
                                let full = SendFailure::Full(by_name.pid());
                                assert_eq!(error.message.amount, 1);
                                assert!([SendFailure::UnknownName, full].contains(&error.reason), "{error}");
                                refused += 1;
                            }
                        }
                    }
                    (sent, refused)
                })
            })
            .collect();
        let mut last = None;
        for number in 0..500 {
            let holder = Account { number, seen: seen.clone() };
            let holder = runtime.spawn(holder).named("acct").serve().unwrap();
            if number % 2 == 0 {
                let answer = std::iter::repeat_with(|| by_name.number().wait());
                let mut answer = answer.skip_while(|answer| *answer == Err(CallError::Full));
                assert_eq!(answer.next(), Some(Ok(number)));
            }
            end(holder.pid());
            last = Some(holder.pid());
        }
        over.store(true, Ordering::Relaxed);
        let (mut sent, mut refused) = (0, 0);
        for sender in senders {
            let (by_one, refused_one) = sender.join().unwrap();
            sent += by_one;
            refused += refused_one;
        }
        assert!(last.is_some() && sent > 0 && refused > 0, "{sent} sent, {refused} refused");
        // A message that arrives during its holder's exit becomes a dead letter shortly after the exit is reported.
        until(|| seen.load(Ordering::Relaxed) + dead.len() as u64 == sent);
    });
}
