//! Every error of a send or call reports correctly how far its message got.

use super::*;
use postroom::Overflow;
use postroom::error::{Cycle, MessageError, SendFailure};
use postroom::routing::Undeliverable;
use postroom::supervision::{Backoff, Child};
use std::future::Future;
use std::task::Poll;

/// A process that logs which of its methods have begun.
#[process]
#[derive(Default)]
struct Till {
    begun: Log<&'static str>,
    kept: Vec<Reply<()>>,
    peer: Option<Address<Till>>,
}

#[process]
impl Till {
    #[entry]
    fn serve(&mut self) {}

    /// Stashes arriving messages while it waits for one that never comes.
    #[entry]
    async fn wait_for_nothing(&mut self, ctx: &mut Context<Self>) {
        ctx.receive::<Never>().await;
    }

    /// Panics with a message in its inbox.
    #[entry]
    async fn fail_with_inbox(&mut self, ctx: &mut Context<Self>) {
        {
            let mut serves = pin!(ctx.serve_next(self));
            let mut polls = 0;
            std::future::poll_fn(|context| {
                polls += 1;
                if polls == 1 { serves.as_mut().poll(context) } else { Poll::Ready(()) }
            })
            .await;
        }
        panic!("it never came to the message");
    }

    #[message]
    fn count(&mut self) -> usize {
        self.begun.add("count");
        self.begun.len()
    }

    #[message]
    fn fail(&mut self) -> Result<(), String> {
        self.begun.add("fail");
        Err("no".to_string())
    }

    #[message]
    fn panic(&mut self) {
        self.begun.add("panic");
        panic!("in a method")
    }

    #[message]
    async fn panic_at(&mut self, gate: Gate) {
        self.begun.add("panic_at");
        gate.passed().await;
        panic!("in an async method")
    }

    #[message]
    fn block(&mut self, here: Gate, gate: Gate) {
        self.begun.add("block");
        here.open();
        gate.pass();
    }

    #[message]
    fn keep(&mut self, reply: Reply<()>) {
        self.begun.add("keep");
        self.kept.push(reply);
    }

    #[message]
    fn drop_it(&mut self, reply: Reply<()>) {
        self.begun.add("drop_it");
        drop(reply);
    }

    #[message]
    async fn ask_peer(&mut self) -> Result<usize, CallError> {
        let peer = self.peer.expect("it has one");
        peer.count().await
    }
}

struct Never;

fn till(runtime: &Runtime) -> (Address<Till>, Log<&'static str>) {
    let begun = Log::new();
    (runtime.spawn(Till { begun: begun.clone(), ..Till::default() }).serve().unwrap(), begun)
}

/// Makes the call on a new thread, and returns the thread.
fn asking<T: Send + 'static>(call: Call<impl Send + 'static, T>) -> thread::JoinHandle<Result<T, CallError>> {
    thread::spawn(move || call.timeout(LONG).wait())
}

/// Checks the error's delivery state, and returns the error. `began` tells whether the method was seen to begin.
fn checked<T: std::fmt::Debug>(answer: Result<T, CallError>, says: Delivery, began: bool) -> CallError {
    let error = answer.unwrap_err();
    assert_eq!(error.delivery(), says, "{error}");
    assert!(!began || says != Delivery::NotDelivered, "{error}");
    error
}

fn panicked(error: &CallError, with: &str) -> bool {
    let (CallError::Gone(reason) | CallError::Died(reason)) = error else { return false };
    matches!(reason, ExitReason::Panic(panic) if panic.message == with)
}

/// Mutation: in `caller.rs`, `Seen::ended`, return `Gone` for both, or `Died` for both.
#[test]
fn a_call_whose_method_dies_has_been_delivered_and_those_behind_it_have_not() {
    with_runtime(|runtime| {
        let ((desk, begun), here, gate) = (till(runtime), Gate::new(), Gate::new());
        desk.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        let (dies, behind) = (asking(desk.panic()), asking(desk.count()));
        until(|| desk.pid().info().is_some_and(|info| info.mailbox == 2));
        gate.open();
        let (dies, behind) = (dies.join().unwrap(), behind.join().unwrap());
        // The order of the two calls is not known: the call of `count` was either answered or not delivered.
        let died = checked(dies, Delivery::Unknown, true);
        assert!(matches!(died, CallError::Died(_)) && panicked(&died, "in a method"), "{died}");
        if let Err(error) = behind {
            assert!(matches!(error, CallError::Gone(_)) && panicked(&error, "in a method"), "{error}");
            checked(Err::<(), _>(error), Delivery::NotDelivered, begun.all().contains(&"count"));
        }
    });
}

#[test]
fn a_call_whose_async_method_dies_or_is_cut_short_has_been_delivered() {
    with_runtime(|runtime| {
        let ((desk, _), gate) = (till(runtime), Gate::new());
        let dies = asking(desk.panic_at(gate.clone()));
        gate.wait_for_arrival();
        let behind = asking(desk.count());
        until(|| desk.pid().info().is_some_and(|info| info.mailbox == 1));
        gate.open();
        let died = checked(dies.join().unwrap(), Delivery::Unknown, true);
        assert!(matches!(died, CallError::Died(_)) && panicked(&died, "in an async method"), "{died}");
        let gone = checked(behind.join().unwrap(), Delivery::NotDelivered, false);
        assert!(matches!(gone, CallError::Gone(_)) && panicked(&gone, "in an async method"), "{gone}");

        let ((desk, begun), gate) = (till(runtime), Gate::new());
        let cut = asking(desk.panic_at(gate.clone()));
        gate.wait_for_arrival();
        desk.pid().kill();
        assert_eq!(checked(cut.join().unwrap(), Delivery::Unknown, true), CallError::Died(ExitReason::Killed));
        assert_eq!(begun.all(), ["panic_at"]);
    });
}

#[test]
fn a_call_whose_reply_an_exiting_process_holds_has_been_delivered() {
    with_runtime(|runtime| {
        let ends: [End<Pid>; 3] = [
            (Pid::kill, ExitReason::Killed),
            (Pid::stop, ExitReason::Normal),
            (|pid| pid.cancel("over"), "over".into()),
        ];
        for (end, reason) in ends {
            let (desk, begun) = till(runtime);
            let kept = asking(desk.keep());
            until(|| begun.len() == 1);
            end(desk.pid());
            assert_eq!(checked(kept.join().unwrap(), Delivery::Unknown, true), CallError::Died(reason));
        }
    });
}

#[test]
fn a_call_that_is_still_in_the_mailbox_when_the_process_ends_has_not_been_delivered() {
    with_runtime(|runtime| {
        let ((desk, begun), here, gate) = (till(runtime), Gate::new(), Gate::new());
        desk.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        let waiting: Vec<_> = (0..3).map(|_| asking(desk.count())).collect();
        until(|| desk.pid().info().is_some_and(|info| info.mailbox == 3));
        desk.pid().kill();
        gate.open();
        for waiting in waiting {
            let error = checked(waiting.join().unwrap(), Delivery::NotDelivered, false);
            assert_eq!(error, CallError::Gone(ExitReason::Killed));
        }
        assert_eq!(begun.all(), ["block"]);
        desk.pid().join().wait();
        assert_eq!(checked(desk.count().wait(), Delivery::NotDelivered, false), CallError::Gone(ExitReason::NoProcess));
        let refused = desk.count().send().unwrap_err();
        assert_eq!((refused.reason, refused.delivery()), (SendFailure::Gone(desk.pid()), Delivery::NotDelivered));
    });
}

#[test]
fn a_stashed_call_and_one_in_the_inbox_have_not_been_delivered() {
    with_runtime(|runtime| {
        let till = Till::default();
        let begun = till.begun.clone();
        let picky = runtime.spawn(till).wait_for_nothing().unwrap().address();
        let aside = [asking(picky.count()), asking(picky.count())];
        until(|| picky.pid().info().is_some_and(|info| info.messages == 2));
        picky.pid().kill();
        for aside in aside {
            let error = checked(aside.join().unwrap(), Delivery::NotDelivered, !begun.is_empty());
            assert_eq!(error, CallError::Gone(ExitReason::Killed));
        }
        let till = Till::default();
        let begun = till.begun.clone();
        let hasty = runtime.spawn(till).fail_with_inbox().unwrap().address();
        let inbox = checked(asking(hasty.count()).join().unwrap(), Delivery::NotDelivered, !begun.is_empty());
        assert!(matches!(inbox, CallError::Gone(_)) && panicked(&inbox, "it never came to the message"), "{inbox}");
    });
}

/// A hand-written process that keeps its packages unopened, drops them in a panic, or opens them.
struct Hand(Vec<Package>, Log<&'static str>);

impl Process for Hand {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                if package.is::<TillPanic>() {
                    // The panic drops this package and the kept ones.
                    let _in_hand = package;
                    panic!("unopened");
                }
                if package.is::<TillFail>() {
                    let _handled = package.answer::<TillFail, ()>(|_| {
                        self.1.add("opened");
                        panic!("opened")
                    });
                    continue;
                }
                self.0.push(package);
            }
        }
        Ok(())
    }
}

#[test]
fn a_call_whose_package_was_not_opened_has_not_been_delivered() {
    with_runtime(|runtime| {
        let hand = || {
            let log = Log::new();
            let pid = runtime.spawn_process(Hand(Vec::new(), log.clone())).start().unwrap();
            let ask = |message| asking(Call::<_, ()>::new(pid, "Hand::keep", message));
            let kept = ask(TillCount);
            until(|| pid.info().is_some_and(|info| info.messages == 1));
            (pid, kept, log)
        };
        let (pid, kept, _) = hand();
        pid.kill();
        let killed = CallError::Gone(ExitReason::Killed);
        assert_eq!(checked(kept.join().unwrap(), Delivery::NotDelivered, false), killed);

        let (pid, kept, _) = hand();
        let dropped = asking(Call::<_, ()>::new(pid, "Hand::panic", TillPanic));
        for call in [kept, dropped] {
            let error = checked(call.join().unwrap(), Delivery::NotDelivered, false);
            assert!(matches!(error, CallError::Gone(_)) && panicked(&error, "unopened"), "{error}");
        }

        let (pid, kept, log) = hand();
        let opened = asking(Call::<_, ()>::new(pid, "Hand::fail", TillFail));
        let error = checked(opened.join().unwrap(), Delivery::Unknown, true);
        assert!(matches!(error, CallError::Died(_)) && panicked(&error, "opened"), "{error}");
        let error = checked(kept.join().unwrap(), Delivery::NotDelivered, false);
        assert!(matches!(error, CallError::Gone(_)) && panicked(&error, "opened"), "{error}");
        assert_eq!(log.all(), ["opened"]);
    });
}

#[test]
fn a_call_in_a_member_and_one_in_the_queue_have_distinct_errors() {
    with_runtime(|runtime| {
        let begun = Log::new();
        let log = begun.clone();
        let pool = Pool::fixed(1)
            .spawn(runtime, move |spawn| {
                spawn.of(Till { begun: log.clone(), ..Till::default() }).named("member").serve()
            })
            .unwrap();
        let gate = Gate::new();
        let in_flight = asking(pool.address().panic_at(gate.clone()));
        gate.wait_for_arrival();
        let in_line = asking(pool.address().count());
        until(|| pool.statistics().waiting == 1);
        let over = pool.pid().join();
        pool.pid().kill();
        let error = checked(in_flight.join().unwrap(), Delivery::Unknown, true);
        assert!(matches!(error, CallError::Died(_)), "{error}");
        let error = checked(in_line.join().unwrap(), Delivery::NotDelivered, false);
        assert_eq!(error, CallError::Gone(ExitReason::Killed));
        assert_eq!((over.wait(), begun.all()), (ExitReason::Killed, vec!["panic_at"]));

        let pool = Pool::fixed(1).spawn(runtime, |spawn| spawn.of(Till::default()).serve()).unwrap();
        let error = checked(asking(pool.address().panic()).join().unwrap(), Delivery::Unknown, true);
        assert!(matches!(error, CallError::Died(_)) && panicked(&error, "in a method"), "{error}");
        pool.pid().kill();
    });
}

#[test]
fn a_call_that_was_kept_for_a_child_that_does_not_come_back_has_not_been_delivered() {
    with_runtime(|runtime| {
        let begun = Log::new();
        let log = begun.clone();
        let child = Child::new("till", move |spawn| spawn.of(Till { begun: log.clone(), ..Till::default() }).serve());
        let tree = Supervisor::one_for_one().intensity(9, Duration::MAX).backoff(Backoff::constant(LONG));
        let tree = tree.add(child.keep_messages()).spawn(runtime).unwrap();
        let till: Address<Till> = tree.child("till").unwrap();
        let died = checked(asking(till.panic()).join().unwrap(), Delivery::Unknown, true);
        assert!(matches!(died, CallError::Died(_)), "{died}");
        // The child is down for an hour.
        let kept = asking(till.count());
        let over = tree.join();
        tree.stop();
        let error = checked(kept.join().unwrap(), Delivery::NotDelivered, begun.len() > 1);
        assert!(matches!(error, CallError::Gone(_)), "{error}");
        over.wait();
    });
}

/// Mutation: in `shutdown/mod.rs`, `close`, do not mark the host as shutting down.
#[test]
fn a_call_that_a_shutdown_discards_was_not_delivered_and_a_later_one_gets_the_shutdown() {
    watched(|| {
        // The runtime is paused, so that all processes are cancelled before any of them takes a step.
        let runtime = builder().paused().build().unwrap();
        let (desk, begun) = till(&runtime);
        let child = Child::new("till", |spawn| spawn.of(Till::default()).serve());
        let tree = Supervisor::one_for_one().add(child).spawn(&runtime).unwrap();
        let child: Address<Till> = tree.child("till").unwrap();
        drop(tree);
        let pool = Pool::fixed(1).spawn(&runtime, |spawn| spawn.of(Till::default()).serve()).unwrap().address();
        let named: Address<Till> = runtime.named_address("till").unwrap();
        let waiting = asking(desk.count());
        until(|| desk.pid().info().is_some_and(|info| info.mailbox == 1));
        runtime.shutdown().unwrap();
        let error = checked(waiting.join().unwrap(), Delivery::NotDelivered, !begun.is_empty());
        assert_eq!(error, CallError::Gone(ExitReason::Shutdown));
        for till in [desk, child, pool, named] {
            assert_eq!(checked(till.count().wait(), Delivery::NotDelivered, false), CallError::Shutdown);
            let refused = till.count().send().unwrap_err();
            assert_eq!(
                (refused.reason, refused.delivery()),
                (SendFailure::Shutdown(till.pid()), Delivery::NotDelivered)
            );
            assert_eq!(till.count().send_after(LONG).unwrap_err().reason, SendFailure::Shutdown(till.pid()));
        }
    });
}

/// Mutation: in `call.rs`, `unpack`, report an answer of the wrong type as an unhandled message.
#[test]
fn an_answer_of_another_type_has_been_handled_and_a_message_without_a_method_has_not() {
    with_runtime(|runtime| {
        let (desk, begun) = till(runtime);
        let wrong = Call::<_, String>::new(desk.pid(), "Till::count", TillCount);
        assert!(matches!(checked(wrong.wait(), Delivery::Handled, true), CallError::Mismatch { .. }));
        assert_eq!(begun.all(), ["count"]);
        let unknown = Call::<_, ()>::new(desk.pid(), "Till::never", Never);
        assert_eq!(checked(unknown.wait(), Delivery::NotDelivered, false), CallError::Unhandled);
        let failed = desk.fail().wait().unwrap_err();
        assert_eq!((failed.delivery(), failed), (Delivery::Handled, CallError::Failed("no".to_string())));
        assert_eq!(checked(desk.drop_it().wait(), Delivery::Unknown, true), CallError::Dropped);
    });
}

#[test]
fn an_abandoned_call_may_be_handled_later() {
    with_runtime(|runtime| {
        let ((desk, begun), here, gate) = (till(runtime), Gate::new(), Gate::new());
        desk.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        let late = desk.count().timeout(Duration::from_millis(1)).wait();
        assert_eq!(checked(late, Delivery::Unknown, false), CallError::Timeout);
        gate.open();
        until(|| begun.all() == ["block", "count"]);
    });
}

#[test]
fn a_call_to_a_full_mailbox_has_not_been_delivered_and_may_be_made_again() {
    with_runtime(|runtime| {
        let till = Till::default();
        let begun = till.begun.clone();
        let bound = Bound::Hard(1, Overflow::Refuse);
        let desk = runtime.spawn(till).mailbox(bound).serve().unwrap();
        let (here, gate) = (Gate::new(), Gate::new());
        desk.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        desk.count().send().unwrap();
        let full = checked(desk.count().wait(), Delivery::NotDelivered, false);
        assert!(full == CallError::Full && full.is_retryable());
        let refused = desk.count().send().unwrap_err();
        assert!(refused.is_retryable() && refused.delivery() == Delivery::NotDelivered);
        gate.open();
        until(|| begun.len() == 2);
        assert_eq!(desk.count().wait(), Ok(3));
        assert_eq!(begun.all(), ["block", "count", "count"]);
    });
}

/// An error is retryable only if its message was not delivered and its cause is temporary.
#[test]
fn retryable_errors_are_of_undelivered_messages() {
    let reason = || ExitReason::Killed;
    let cycle = || Cycle { calls: Vec::new() };
    let pid: Pid = "<1.0.0.0>".parse().unwrap();
    let all: [(CallError<u8>, Delivery, bool); 11] = [
        (CallError::Failed(1), Delivery::Handled, false),
        (CallError::Gone(reason()), Delivery::NotDelivered, false),
        (CallError::Died(reason()), Delivery::Unknown, false),
        (CallError::Timeout, Delivery::Unknown, false),
        (CallError::Full, Delivery::NotDelivered, true),
        (CallError::Cycle(cycle()), Delivery::NotDelivered, false),
        (CallError::Dropped, Delivery::Unknown, false),
        (CallError::Unhandled, Delivery::NotDelivered, false),
        (CallError::Mismatch { expected: "u8", found: "u16" }, Delivery::Handled, false),
        (CallError::UnknownName, Delivery::NotDelivered, false),
        (CallError::Shutdown, Delivery::NotDelivered, false),
    ];
    for (error, delivery, is_retryable) in all {
        assert_eq!((error.delivery(), error.is_retryable()), (delivery, is_retryable), "{error:?}");
        // A conversion changes only the method's error.
        let (text, delivered) = (error.to_string(), error.delivery());
        let mapped = error.map_failed(|error| error.to_string());
        assert_eq!((mapped.to_string(), mapped.delivery()), (text, delivered));
    }
    assert_eq!(CallError::<std::convert::Infallible>::Dropped.widen::<u8>(), CallError::Dropped);
    let commands = [
        (CommandError::Unregistered { command: "Ask" }, Delivery::NotDelivered),
        (CommandError::Dropped, Delivery::Unknown),
        (CommandError::Panicked(String::new()), Delivery::Unknown),
        (CommandError::Failed("no".into()), Delivery::Handled),
        (CommandError::Call(CallError::Full), Delivery::NotDelivered),
    ];
    for (error, delivery) in commands {
        assert_eq!(error.delivery(), delivery, "{error:?}");
    }
    let messages = [
        MessageError::Untyped(pid),
        MessageError::Json(String::new()),
        MessageError::Unregistered { pid, process: "Till" },
        MessageError::Unknown { process: "Till", message: "count".to_string(), has: Vec::new() },
        MessageError::Refused(SendFailure::Full(pid)),
    ];
    for error in messages {
        assert_eq!(error.delivery(), Delivery::NotDelivered, "{error:?}");
    }
    let refused = Undeliverable { package: Package::new(pid, TillCount), reason: SendFailure::Full(pid) };
    assert_eq!(refused.delivery(), Delivery::NotDelivered);
    let said = [Delivery::NotDelivered, Delivery::Unknown, Delivery::Handled].map(|delivery| delivery.to_string());
    assert_eq!(said, ["not delivered", "possibly handled", "handled"]);
}
