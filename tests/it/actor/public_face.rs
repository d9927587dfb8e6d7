//! The path from a value to a process: spawning, addresses, results, exits; several runtimes; machines without a
//! runtime.

use postroom::manual::{Event, Events, InitContext, Machine, StepOutput};
use postroom::prelude::*;
use postroom::{InitError, Package, this_node};
use postroom_tests::face::{Gate, Log, OnDrop, builder, poll_once, until, watched, with_runtime};
use std::collections::HashSet;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

mod by_hand;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0} is no amount")]
struct Amount(i64);

#[process]
#[derive(Default)]
struct Account {
    balance: i64,
    _held: Option<OnDrop>,
}

#[process]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64) {
        self.balance = opening;
    }

    #[entry]
    fn checked(&mut self, opening: i64) -> Result<(), Amount> {
        if opening < 0 { Err(Amount(opening)) } else { Ok(()) }
    }

    #[entry]
    fn explode(&mut self) {
        panic!("no account today, {}", self.balance);
    }

    #[entry]
    async fn accrue(&mut self, rounds: i64) -> Result<i64, Amount> {
        if rounds < 0 { Err(Amount(rounds)) } else { Ok(self.balance + rounds) }
    }

    #[entry]
    async fn plain(&mut self) -> String {
        "plain".to_string()
    }

    #[entry]
    async fn fall(&mut self) -> i64 {
        panic!("fell in an entry")
    }

    #[entry]
    async fn wait_at(&mut self, gate: Gate) -> Result<i64, Amount> {
        gate.passed().await;
        if self.balance < 0 { Err(Amount(self.balance)) } else { Ok(self.balance) }
    }

    #[message]
    fn deposit(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }

    #[message]
    fn balance(&self) -> i64 {
        self.balance
    }

    #[message]
    async fn fetch(&mut self, from: Address<Account>) -> i64 {
        from.balance().await.unwrap_or(-1)
    }

    #[message]
    async fn linger(&mut self, gate: Gate) {
        gate.passed().await;
        self.balance += 1;
    }

    #[message]
    fn leave(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

fn account(balance: i64) -> Account {
    Account { balance, _held: None }
}

#[test]
fn a_sync_entry_gives_an_address_with_a_method_for_each_message() {
    with_runtime(|runtime| {
        let address: Address<Account> = runtime.spawn(account(0)).serve(100).unwrap();
        address.deposit(20).send().unwrap();
        assert_eq!(address.deposit(5).wait(), Ok(125));
        assert_eq!(runtime.block_on(address.balance().into_future()), Ok(125));
    });
}

#[test]
fn an_async_entry_gives_its_result_or_its_own_error() {
    with_runtime(|runtime| {
        let running: Running<Account, i64, Amount> = runtime.spawn(account(2)).accrue(3).unwrap();
        assert_eq!(running.wait(), Ok(5));
        assert_eq!(runtime.spawn(account(2)).accrue(-3).unwrap().wait(), Err(RunError::Failed(Amount(-3))));
        assert_eq!(runtime.spawn(account(2)).plain().unwrap().wait().as_deref(), Ok("plain"));
        let awaited = runtime.spawn(account(2)).accrue(4).unwrap();
        assert_eq!(runtime.block_on(awaited), Ok(6));
    });
}

#[test]
fn the_end_of_an_async_entry_is_the_end_of_its_process_and_an_error_the_reason() {
    with_runtime(|runtime| {
        for (balance, reason) in [(7, ExitReason::Normal), (-7, ExitReason::error("-7 is no amount"))] {
            let gate = Gate::new();
            let process = runtime.spawn(account(balance)).wait_at(gate.clone()).unwrap();
            let ended = process.pid().join();
            gate.open();
            let result = if balance > 0 { Ok(balance) } else { Err(RunError::Failed(Amount(balance))) };
            assert_eq!((process.wait(), ended.wait()), (result, reason));
        }
    });
}

#[test]
fn a_process_that_exits_without_a_result_gives_the_reason() {
    with_runtime(|runtime| {
        let gate = Gate::new();
        let killed = runtime.spawn(account(0)).wait_at(gate.clone()).unwrap();
        killed.pid().kill();
        assert_eq!(killed.wait(), Err(RunError::Ended(ExitReason::Killed)));
        let cancelled = runtime.spawn(account(0)).wait_at(gate).unwrap();
        cancelled.pid().cancel("enough");
        assert_eq!(cancelled.wait(), Err(RunError::Ended("enough".into())));
        match runtime.spawn(account(0)).fall().unwrap().wait() {
            Err(RunError::Ended(ExitReason::Panic(panic))) => {
                assert_eq!(panic.message, "fell in an entry");
                assert!(panic.place.contains("public_face.rs"), "{}", panic.place);
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn dropping_a_running_leaves_the_process_alone() {
    with_runtime(|runtime| {
        let gate = Gate::new();
        let running = runtime.spawn(account(1)).wait_at(gate.clone()).unwrap();
        let pid = running.pid();
        let ended = pid.join();
        gate.wait_for_arrival();
        drop(running);
        assert!(pid.is_alive());
        gate.open();
        assert_eq!(ended.wait(), ExitReason::Normal);
    });
}

#[test]
fn a_wait_with_a_limit_gives_the_running_back() {
    with_runtime(|runtime| {
        let gate = Gate::new();
        let running = runtime.spawn(account(1)).wait_at(gate.clone()).unwrap();
        let running = running.wait_timeout(Duration::ZERO).expect_err("it waits at the gate");
        gate.open();
        match running.wait_timeout(Duration::MAX) {
            Ok(result) => assert_eq!(result, Ok(1)),
            Err(running) => panic!("{running:?} came back"),
        }
    });
}

#[test]
fn a_sync_entry_that_fails_or_panics_is_the_spawners_error_and_leaves_nothing() {
    with_runtime(|runtime| {
        let log = Log::new();
        let held = || Some(OnDrop(log.clone(), "dropped"));
        let failed = runtime.spawn(Account { balance: 0, _held: held() }).named("it").checked(-1);
        match failed {
            Err(SpawnError::Init(InitError::Failed(error))) => assert_eq!(error.downcast_ref(), Some(&Amount(-1))),
            other => panic!("{other:?}"),
        }
        let panicked = runtime.spawn(Account { balance: 3, _held: held() }).named("it").explode();
        match panicked {
            Err(SpawnError::Init(InitError::Panicked(panic))) => assert_eq!(panic.message, "no account today, 3"),
            other => panic!("{other:?}"),
        }
        assert_eq!(log.all(), ["dropped"; 2]);
        assert_eq!((runtime.whereis("it"), runtime.statistics().processes.live), (None, 0));
        assert!(runtime.spawn(account(0)).named("it").checked(1).is_ok());
    });
}

#[test]
fn a_builder_that_was_used_is_refused_the_second_time() {
    with_runtime(|runtime| {
        let spawn = runtime.spawn(account(0));
        let first = spawn.serve(1).unwrap();
        assert!(matches!(spawn.serve(2), Err(SpawnError::Used)));
        assert!(matches!(spawn.accrue(2), Err(SpawnError::Used)));
        assert_eq!(first.balance().wait(), Ok(1));
        assert_eq!(runtime.statistics().processes.live, 1);
    });
}

#[test]
fn a_name_has_one_holder_and_is_free_when_the_holders_exit_is_reported() {
    with_runtime(|runtime| {
        let first = runtime.spawn(account(0)).named("acct-1").serve(1).unwrap();
        assert_eq!(runtime.whereis("acct-1"), Some(first.pid()));
        match runtime.spawn(account(0)).named("acct-1").serve(2) {
            Err(SpawnError::Name { name, holder }) => assert_eq!((name.as_str(), holder), ("acct-1", first.pid())),
            other => panic!("{other:?}"),
        }
        first.pid().stop();
        assert_eq!(first.pid().join().wait_timeout(Duration::MAX).map(|_| runtime.whereis("acct-1")), Some(None));
        assert!(runtime.spawn(account(0)).named("acct-1").serve(2).is_ok());
    });
}

#[test]
fn the_values_of_a_spawn_can_be_looked_up() {
    with_runtime(|runtime| {
        let line = line!() + 1;
        let address = runtime.spawn(account(0)).label("the first").serve(1).unwrap();
        let info = address.pid().info().unwrap();
        assert_eq!((info.process, info.entry, info.label.as_deref()), ("Account", "serve", Some("the first")));
        assert_eq!((info.parent, info.place.map(|place| place.line())), (None, Some(line)));
    });
}

#[test]
fn an_address_is_small_copied_compared_hashed_and_printed() {
    fn is_copy<T: Copy + Send + Sync + 'static>() {}
    is_copy::<Address<Account>>();
    assert_eq!((size_of::<Address<Account>>(), size_of::<Option<Address<Account>>>()), (16, 16));
    with_runtime(|runtime| {
        let (one, other) = (runtime.spawn(account(0)).serve(1).unwrap(), runtime.spawn(account(0)).serve(1).unwrap());
        let copy = one;
        assert_eq!(one, copy);
        assert_ne!(one, other);
        assert_eq!(HashSet::from([one, copy, other]).len(), 2);
        assert_eq!(one.to_string(), one.pid().to_string());
        assert_eq!(one.to_string().parse(), Ok(one.pid()));
        assert_eq!(format!("{one:?}"), format!("Account{}", one.pid()));
        assert_eq!(Pid::from(one), one.pid());
    });
}

#[test]
fn an_address_that_is_narrowed_takes_one_type_of_message() {
    with_runtime(|runtime| {
        let address = runtime.spawn(account(0)).serve(1).unwrap();
        let recipient: Recipient<AccountDeposit, i64> = address.narrow();
        recipient.send(AccountDeposit { amount: 2 }).unwrap();
        assert_eq!(recipient.call(AccountDeposit { amount: 3 }).wait(), Ok(6));
        assert_eq!((recipient.pid(), recipient), (address.pid(), address.into()));
    });
}

#[test]
fn a_pid_becomes_an_address_only_of_its_process_type() {
    with_runtime(|runtime| {
        let address = runtime.spawn(account(0)).serve(1).unwrap();
        assert_eq!(runtime.address::<Account>(address.pid()), Ok(address));
        let wrong = runtime.address::<Other>(address.pid()).unwrap_err();
        assert_eq!(wrong.to_string(), format!("{} has type `Account`, not `Other`", address.pid()));
        address.pid().stop();
        address.pid().join().wait();
        assert_eq!(runtime.address::<Account>(address.pid()), Err(postroom::error::AddressError::Gone(address.pid())));
    });
}

#[process]
struct Other;

#[process]
impl Other {
    #[entry]
    fn serve(&mut self) {}
}

#[test]
fn messages_to_an_exited_process_are_returned() {
    with_runtime(|runtime| {
        let address = runtime.spawn(account(0)).serve(1).unwrap();
        address.leave().send().unwrap();
        address.pid().join().wait();
        let refused = address.deposit(7).send().unwrap_err();
        assert_eq!((refused.message.amount, refused.reason), (7, postroom::error::SendFailure::Gone(address.pid())));
        let refused = runtime.send(address.pid(), AccountDeposit { amount: 8 }).unwrap_err();
        assert_eq!(refused.message.amount, 8);
        assert_eq!(address.balance().wait(), Err(CallError::Gone(ExitReason::NoProcess)));
        assert_eq!(runtime.block_on(address.balance().into_future()), Err(CallError::Gone(ExitReason::NoProcess)));
        assert_eq!(address.pid().join().wait(), ExitReason::NoProcess);
        assert!(!address.pid().stop() && !address.pid().cancel("x") && !address.pid().kill());
    });
}

#[test]
fn the_exit_is_reported_after_the_state_has_been_dropped() {
    with_runtime(|runtime| {
        let ends: [fn(Pid) -> bool; 3] = [Pid::stop, Pid::kill, |pid| pid.cancel(ExitReason::Shutdown)];
        for end in ends {
            let log = Log::new();
            let _held = Some(OnDrop(log.clone(), "dropped"));
            let address = runtime.spawn(Account { balance: 0, _held }).serve(1).unwrap();
            let ended = address.pid().join();
            assert!(end(address.pid()));
            ended.wait();
            assert_eq!(log.all(), ["dropped"]);
            assert!(!address.pid().is_alive());
        }
    });
}

#[test]
fn methods_stay_methods_that_need_no_runtime() {
    let mut plain = account(1);
    plain.serve(10);
    assert_eq!((plain.deposit(5), plain.balance()), (15, 15));
    assert_eq!(plain.checked(-2), Err(Amount(-2)));
    match poll_once(pin!(plain.accrue(1))) {
        Poll::Ready(result) => assert_eq!(result, Ok(16)),
        Poll::Pending => panic!("there is nothing that it could wait for"),
    }
}

#[test]
fn a_process_may_be_declared_inside_a_function_and_be_an_enum() {
    #[process]
    enum Lamp {
        On,
        Off,
    }

    #[process]
    impl Lamp {
        #[entry]
        fn serve(&mut self) {}

        #[message]
        fn toggle(&mut self) -> bool {
            *self = if matches!(self, Self::On) { Self::Off } else { Self::On };
            matches!(self, Self::On)
        }
    }

    with_runtime(|runtime| {
        let lamp = runtime.spawn(Lamp::Off).serve().unwrap();
        assert_eq!((lamp.toggle().wait(), lamp.toggle().wait()), (Ok(true), Ok(false)));
    });
}

#[test]
fn runtimes_of_one_program_call_each_other() {
    watched(|| {
        let (one, two) = (builder().name("one").build().unwrap(), builder().name("two").build().unwrap());
        let there = two.spawn(account(0)).serve(42).unwrap();
        let here = one.spawn(account(0)).serve(1).unwrap();
        assert_ne!(here.pid().host_number(), there.pid().host_number());
        assert_eq!(here.fetch(there).wait(), Ok(42));
        assert_eq!(there.fetch(here).wait(), Ok(1));
        one.send(there.pid(), AccountDeposit { amount: 1 }).unwrap();
        assert_eq!(one.block_on(there.balance().into_future()), Ok(43));
        drop(two);
        assert_eq!(here.fetch(there).wait(), Ok(-1));
        assert!(!there.pid().is_alive() && here.pid().is_alive());
    });
}

#[test]
fn a_spawn_after_the_shutdown_began_is_refused() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let host = runtime.host();
        drop(runtime);
        assert!(matches!(host.spawn(account(0)).serve(1), Err(SpawnError::Shutdown)));
        assert!(matches!(host.spawn(account(0)).accrue(1), Err(SpawnError::Shutdown)));
    });
}

#[test]
fn processes_spawned_before_the_runtime_runs_wait_for_it() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let address = runtime.spawn(account(0)).serve(1).unwrap();
        let running = runtime.spawn(account(5)).accrue(1).unwrap();
        address.deposit(1).send().unwrap();
        assert_eq!(address.pid().info().map(|info| info.messages), Some(0));
        runtime.resume().unwrap();
        assert_eq!((address.balance().wait(), running.wait()), (Ok(2), Ok(6)));
    });
}

mod program {
    use super::*;

    #[postroom::main(workers = 2)]
    pub(super) async fn main(runtime: &Runtime) -> Result<i64, Box<dyn std::error::Error>> {
        assert_eq!(runtime.workers(), 2);
        let address = runtime.spawn(account(0)).serve(3)?;
        Ok(address.deposit(4).await?)
    }
}

#[test]
fn main_runs_inside_a_runtime_and_returns_its_result() {
    watched(|| assert_eq!(program::main().unwrap(), 7));
}
