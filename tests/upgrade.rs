//! Processes that hand their state to another definition, under the same PID.
//!
//! Whether an upgrade overtakes messages, and which of two threads comes first, is decided by gates that the tests hold.

use postroom::prelude::*;
use postroom::{AddressError, Answered, Bound, Declared, Finished, Overflow, UpgradeError};
use postroom_tests::{Latch, act, eventually, soon};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Counts what is dropped.
#[derive(Default, Clone)]
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// The old definition.
#[process]
#[derive(Default)]
struct Counter {
    count: u64,
    held: Vec<Reply<u64>>,
    /// Counts the drops of the state.
    #[allow(dead_code)]
    kept: Option<Drops>,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self, count: u64) {
        self.count = count;
    }

    #[entry]
    async fn live(&mut self) {
        pending().await
    }

    #[message]
    fn add(&mut self, amount: u64) -> u64 {
        self.count += amount;
        self.count
    }

    /// Known to the old definition only.
    #[message]
    fn reset(&mut self) {
        self.count = 0;
    }

    /// Blocks its thread, so that what comes meanwhile is found together.
    #[message]
    fn block(&mut self, entered: Latch, leave: Latch) {
        entered.open();
        leave.wait();
    }

    /// Pending until a message comes there.
    #[message]
    async fn ask(&mut self, slow: Address<Slow>) -> u64 {
        self.count += slow.take().await.unwrap_or(0);
        self.count
    }

    /// Goes on while it waits.
    #[message]
    fn ask_beside(&mut self, ctx: &mut Context<Self>, slow: Address<Slow>, reply: Reply<u64>) {
        ctx.call(slow.take()).then(|this, answer, _| {
            this.count += answer.unwrap_or(0);
            reply.send(this.count);
        });
    }

    /// The same with a future.
    #[message]
    fn run(&mut self, ctx: &mut Context<Self>, slow: Address<Slow>) {
        ctx.run(async move { slow.take().await.unwrap_or(0) as u32 }).then(|this, number, _| {
            this.count += u64::from(number);
        });
    }

    #[message]
    fn sleep(&mut self, ctx: &mut Context<Self>, time: Duration) {
        let slept = ctx.sleep(time);
        ctx.run(slept).then(|this, (), _| this.count += 1);
    }

    #[message]
    fn grow(&mut self, ctx: &mut Context<Self>, by: u64) {
        ctx.upgrade(move |old: Counter| Better::of(old, by)).unwrap();
        // The method is finished first.
        self.count += 1;
    }

    #[message]
    fn hold(&mut self, reply: Reply<u64>) {
        self.held.push(reply);
    }
}

/// The new one.
#[process]
struct Better {
    state: Counter,
    factor: u64,
    seen: Vec<String>,
}

impl Better {
    fn of(state: Counter, factor: u64) -> Self {
        Self { state, factor, seen: Vec::new() }
    }
}

#[process]
impl Better {
    #[entry]
    fn serve(&mut self) {}

    #[message(CounterAdd)]
    fn add(&mut self, message: CounterAdd) -> u64 {
        self.state.count += message.amount * self.factor;
        self.state.count
    }

    #[message]
    fn count(&self) -> u64 {
        self.state.count
    }

    #[message]
    fn seen(&self) -> Vec<String> {
        self.seen.clone()
    }

    #[message]
    fn answer_held(&mut self) {
        self.state.held.drain(..).for_each(|reply| reply.send(self.state.count));
    }

    #[message(Answered<SlowTake, u64>)]
    fn asked(&mut self, answered: Answered<SlowTake, u64>) {
        self.seen.push(format!("{:?}", answered.result));
    }

    #[message(Finished<u32>)]
    fn ran(&mut self, finished: Finished<u32>) {
        self.seen.push(format!("{}", finished.output));
    }

    #[message(Finished<()>)]
    fn slept(&mut self, _slept: Finished<()>) {
        self.seen.push("slept".into());
    }
}

/// Answers when it is told to.
#[process]
#[derive(Default)]
struct Slow {
    asked: Vec<Reply<u64>>,
}

#[process]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, reply: Reply<u64>) {
        self.asked.push(reply);
    }

    #[message]
    fn asked(&self) -> usize {
        self.asked.len()
    }

    #[message]
    fn give(&mut self, number: u64) {
        self.asked.drain(..).for_each(|reply| reply.send(number));
    }
}

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

fn slow(runtime: &Runtime) -> Address<Slow> {
    runtime.spawn(Slow::default()).serve().unwrap()
}

fn counter(runtime: &Runtime) -> Address<Counter> {
    runtime.spawn(Counter::default()).serve(10).unwrap()
}

fn better(address: Address<Counter>) -> Address<Better> {
    address.pid().upgrade(|old: Counter| Better::of(old, 2)).wait().unwrap()
}

#[test]
fn an_upgraded_process_has_its_pid_and_its_state() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        old.add(1).wait().unwrap();
        let new = better(old);
        assert_eq!(new.pid(), old.pid());
        assert_eq!(new.count().wait(), Ok(11));
        // An address of the old definition is as good for what both understand.
        assert_eq!(old.add(5).wait(), Ok(21));
        assert_eq!(old.reset().wait(), Err(CallError::Unhandled));
    });
}

#[test]
fn the_type_of_an_upgraded_process_is_the_new_one() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let new = better(old);
        let pid = new.pid();
        assert_eq!(runtime.address::<Better>(pid), Ok(new));
        let error = AddressError::Type { pid, expected: "Counter", found: "Better" };
        assert_eq!(runtime.address::<Counter>(pid), Err(error));
        assert_eq!(pid.info().unwrap().process, Better::NAME);
    });
}

#[test]
fn messages_that_wait_in_the_mailbox_go_to_the_new_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        (1..=3).for_each(|amount| old.add(amount).send().unwrap());
        let upgrading = old.pid().upgrade(|old: Counter| Better::of(old, 100));
        leave.open();
        // The wish has overtaken them.
        assert_eq!(upgrading.wait().unwrap().count().wait(), Ok(610));
    });
}

#[test]
fn name_label_joins_and_links_outlive_an_upgrade() {
    soon(|| {
        let runtime = runtime();
        let old = runtime.spawn(Counter::default()).named("counter").label("counts").serve(0).unwrap();
        let (downs, heard): (Sender<Signal>, Receiver<Signal>) = channel();
        let pid = old.pid();
        let watcher = || {
            let downs = downs.clone();
            let watcher = act(move |events, out| {
                while let Some(event) = events.next() {
                    match event {
                        Event::Message(package) if package.is::<u8>() => drop(pid.monitor()),
                        Event::Message(_) => pid.link().unwrap(),
                        Event::Signal(signal) => downs.send(signal).unwrap(),
                        Event::Completed { .. } => {}
                    }
                }
                out.idle();
                Ok(())
            });
            runtime.spawn_process(watcher).start().unwrap()
        };
        let (monitors, links) = (watcher(), watcher());
        runtime.send(monitors, 1_u8).unwrap();
        runtime.send(links, ()).unwrap();
        eventually(|| pid.bindings().wait().is_some_and(|bindings| bindings.count() == 2));
        let (joined, new) = (pid.join(), better(old));
        assert_eq!(runtime.whereis("counter"), Some(new.pid()));
        assert_eq!(pid.info().unwrap().label.as_deref(), Some("counts"));
        new.pid().kill();
        assert_eq!(joined.wait(), ExitReason::Killed);
        let reason = links.join().wait();
        assert!(matches!(reason, ExitReason::Linked { .. } | ExitReason::Gone), "{reason}");
        let Ok(Signal::Down(down)) = heard.recv() else { panic!("a monitor is told") };
        assert_eq!((down.pid, down.reason), (pid, ExitReason::Killed));
    });
}

#[test]
fn results_that_were_waited_for_reach_the_new_definition_each_as_what_it_is() {
    soon(|| {
        let runtime = runtime();
        let (old, slow) = (counter(&runtime), slow(&runtime));
        let caller = std::thread::spawn(move || old.ask_beside(slow).wait());
        eventually(|| slow.asked().wait() == Ok(1));
        old.run(slow).wait().unwrap();
        eventually(|| slow.asked().wait() == Ok(2));
        old.sleep(Duration::from_millis(20)).wait().unwrap();
        let new = better(old);
        // The closure held the reply.
        assert_eq!(caller.join().unwrap(), Err(CallError::Dropped));
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
        let runtime = runtime();
        let old = counter(&runtime);
        let caller = std::thread::spawn(move || old.hold().wait());
        eventually(|| old.add(0).wait().is_ok() && old.pid().info().unwrap().messages >= 2);
        old.add(4).send_after(Duration::from_millis(30)).unwrap();
        let new = better(old);
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
        let caller = std::thread::spawn(move || old.ask(slow).wait());
        eventually(|| slow.asked().wait() == Ok(1));
        let upgrading = old.pid().upgrade(|old: Counter| Better::of(old, 100));
        old.add(1).send().unwrap();
        let upgrading = upgrading.wait_timeout(Duration::from_millis(20)).expect_err("a method is at work");
        slow.give(5).wait().unwrap();
        let new = upgrading.wait().unwrap();
        // By the old definition, then by the new one.
        assert_eq!(caller.join().unwrap(), Ok(15));
        assert_eq!(new.count().wait(), Ok(115));
    });
}

#[test]
fn a_process_upgrades_itself_when_the_method_is_done() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        old.grow(3).send().unwrap();
        old.add(1).send().unwrap();
        leave.open();
        assert_eq!(old.add(0).wait(), Ok(14));
        assert_eq!(runtime.address::<Better>(old.pid()).unwrap().count().wait(), Ok(14));
    });
}

#[test]
fn upgrades_in_a_row_are_taken_in_their_order() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        let first = old.pid().upgrade(|old: Counter| Better::of(old, 1));
        let second = old.pid().upgrade(|old: Better| Counter { count: old.state.count + 1, ..Counter::default() });
        let third = old.pid().upgrade(|old: Better| old);
        leave.open();
        assert!(first.wait().is_ok());
        assert_eq!(second.wait().unwrap().add(0).wait(), Ok(11));
        let pid = old.pid();
        assert_eq!(third.wait().unwrap_err(), UpgradeError::Type { pid, expected: "Better", found: "Counter" });
    });
}

#[test]
fn a_wish_that_does_not_fit_is_refused_and_the_process_goes_on() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        let error = pid.upgrade(|old: Slow| old).wait().unwrap_err();
        assert_eq!(error, UpgradeError::Type { pid, expected: "Slow", found: "Counter" });
        assert_eq!(error.to_string(), format!("{pid} is a `Counter`, not a `Slow`, and goes on as what it is"));
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
fn an_upgrade_of_what_is_gone_or_ends_first_says_so() {
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

        // Also one that waits for a method which does not end.
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
        assert_eq!(missing.to_string(), "no upgrade of `Counter` to `Bettr` is registered; there are those to Better");
        assert_eq!(runtime.upgrade(pid, "Better").wait().unwrap(), pid);
        assert_eq!(runtime.address::<Better>(pid).unwrap().count().wait(), Ok(10));
        let joined = pid.join();
        let failed = runtime.upgrade(pid, "Counter").wait().unwrap_err();
        assert!(matches!(&failed, UpgradeError::Failed(error) if error.to_string() == "too small"), "{failed}");
        assert!(matches!(joined.wait(), ExitReason::Error(_)));
        assert!(matches!(runtime.upgrade(pid, "Counter").wait(), Err(UpgradeError::Gone(gone)) if gone == pid));
    });
}

#[test]
fn the_state_is_moved_and_dropped_once() {
    soon(|| {
        let runtime = runtime();
        let drops = Drops::default();
        let old = runtime.spawn(Counter { kept: Some(drops.clone()), ..Counter::default() }).serve(1).unwrap();
        let new = better(old);
        new.count().wait().unwrap();
        assert_eq!(drops.0.load(SeqCst), 0);
        new.pid().stop();
        new.pid().join().wait();
        assert_eq!(drops.0.load(SeqCst), 1);
    });
}

#[test]
fn an_upgrade_can_be_awaited_in_a_process() {
    #[process]
    struct Operator;
    #[process]
    impl Operator {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        async fn upgrade(&mut self, old: Address<Counter>) -> Result<Address<Better>, UpgradeError<Infallible>> {
            old.pid().upgrade(|old: Counter| Better::of(old, 2)).await
        }
    }
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let operator = runtime.spawn(Operator).serve().unwrap();
        let new = operator.upgrade(counter(&runtime)).wait().unwrap();
        assert_eq!(new.count().wait(), Ok(10));
    });
}

#[test]
fn many_upgrades_back_and_forth_lose_no_message() {
    const TIMES: u64 = 300;
    soon(|| {
        let runtime = runtime();
        let old = runtime.spawn(Counter::default()).serve(0).unwrap();
        let sender = std::thread::spawn(move || {
            (0..TIMES * 10).for_each(|_| {
                // The mailbox may be full.
                while old.add(1).send().is_err() {
                    std::thread::yield_now();
                }
            })
        });
        for _ in 0..TIMES {
            let new = old.pid().upgrade(|old: Counter| Better::of(old, 1)).wait().unwrap();
            new.pid().upgrade(|old: Better| old.state).wait().unwrap();
        }
        sender.join().unwrap();
        assert_eq!(old.add(0).wait(), Ok(TIMES * 10));
    });
}

#[test]
fn the_type_of_a_hand_written_process_changes_with_its_upgrade() {
    soon(|| {
        struct New;
        impl Process for New {
            fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
                while let Some(event) = events.next() {
                    if let Event::Message(package) = event {
                        let _other = package.answer(|(): ()| "new");
                    }
                }
                out.idle();
                Ok(())
            }
        }
        let runtime = runtime();
        let pid = runtime
            .spawn_process(act(|_, out| {
                out.upgrade(New);
                Ok(())
            }))
            .start()
            .unwrap();
        assert_eq!(Recipient::<(), &'static str>::of(pid).call(()).wait(), Ok("new"));
        assert!(pid.info().unwrap().process.contains("New"));
    });
}

/// A definition that traps exits and answers a protocol, with a message of its own to link and to tell what it heard.
#[process]
#[derive(Default)]
struct Guard {
    state: Counter,
    exits: usize,
}

#[protocol]
trait Guards {
    fn exits(&self) -> usize;
}

#[process(protocols(Guards))]
impl Guard {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn exit(&mut self, _exit: postroom::Exit) {
        self.exits += 1;
    }

    #[message]
    fn link(&mut self, other: Pid) {
        other.link().unwrap();
    }
}

#[process]
impl Guards for Guard {
    fn exits(&self) -> usize {
        self.exits
    }
}

/// Fails when it hears anything.
fn fragile(runtime: &Runtime) -> Pid {
    let fails = act(|events, out| match events.next() {
        Some(Event::Message(_)) => Err(postroom::ProcessError::new("as it was told")),
        _ => {
            out.idle();
            Ok(())
        }
    });
    runtime.spawn_process(fails).start().unwrap()
}

#[test]
fn whether_exits_are_trapped_is_up_to_the_new_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let guard = old.pid().upgrade(|state: Counter| Guard { state, exits: 0 }).wait().unwrap();
        let first = fragile(&runtime);
        guard.link(first).wait().unwrap();
        runtime.send(first, ()).unwrap();
        eventually(|| guard.exits().wait() == Ok(1));

        let second = fragile(&runtime);
        guard.link(second).wait().unwrap();
        let joined = guard.pid().join();
        guard.pid().upgrade(|guard: Guard| guard.state).wait().unwrap();
        runtime.send(second, ()).unwrap();
        assert!(matches!(joined.wait(), ExitReason::Linked { pid, .. } if pid == second));
    });
}

#[test]
fn the_protocols_of_an_upgraded_process_are_those_of_the_new_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        assert!(matches!(runtime.address::<dyn Guards>(pid), Err(AddressError::Protocol { found: "Counter", .. })));
        pid.upgrade(|state: Counter| Guard { state, exits: 4 }).wait().unwrap();
        assert_eq!(runtime.address::<dyn Guards>(pid).unwrap().exits().wait(), Ok(4));
    });
}

#[test]
fn a_bounded_mailbox_keeps_what_is_in_it() {
    soon(|| {
        let runtime = runtime();
        let old = runtime.spawn(Counter::default()).mailbox(Bound::Hard(3, Overflow::Refuse)).serve(0).unwrap();
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        (0..3).for_each(|_| old.add(1).send().unwrap());
        assert!(old.add(1).send().is_err());
        let upgrading = old.pid().upgrade(|old: Counter| Better::of(old, 10));
        leave.open();
        let new = upgrading.wait().unwrap();
        eventually(|| new.count().wait() == Ok(30));
    });
}

#[test]
fn a_cancel_before_the_wish_ends_the_process_as_what_it_is() {
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
fn whoever_asks_is_answered_and_the_state_is_dropped_once_whenever_the_process_is_killed() {
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
