//! Machines that are driven by hand, without a runtime.

use super::*;
use postroom::manual::Process;

fn by_hand() -> Pid {
    format!("<{}.0.0.1>", this_node()).parse().expect("the text form of a PID")
}

fn message<M: Send + 'static>(message: M) -> Event {
    Event::Message(Package::new(by_hand(), message))
}

#[test]
fn a_machine_is_driven_by_hand_without_a_runtime() {
    let mut machine = Machine::new(account(0));
    machine.init(&mut InitContext::detached(), "serve", payloads![40]).unwrap();
    let mut out = StepOutput::new();
    let mut events =
        Events::of([message(AccountDeposit { amount: 2 }), message(AccountLeave), message(AccountBalance)]);
    machine.step(&mut events, &mut out).unwrap();
    assert!(out.is_done());
    assert!(machine.get().is_none(), "a process that is over has no struct to show");
}

#[test]
fn a_machine_with_a_pending_method_continues_it() {
    let (mut machine, gate) = (Machine::new(account(1)), Gate::new());
    machine.init(&mut InitContext::detached(), "serve", payloads![40]).unwrap();
    let first = [message(AccountLinger { gate: gate.clone() }), message(AccountDeposit { amount: 10 })];
    machine.step(&mut Events::of(first), &mut StepOutput::new()).unwrap();
    assert!(machine.get().is_none(), "the method has it");
    gate.open();
    machine.step(&mut Events::of([]), &mut StepOutput::new()).unwrap();
    assert_eq!(machine.get().map(|account| account.balance), Some(41));
}

#[test]
fn a_machine_at_an_async_entry_ends_with_its_result() {
    let (mut machine, gate) = (Machine::new(account(1)), Gate::new());
    machine.init(&mut InitContext::detached(), "wait_at", payloads![gate.clone()]).unwrap();
    let mut out = StepOutput::new();
    machine.step(&mut Events::of([]), &mut out).unwrap();
    assert!(!out.is_done());
    gate.open();
    machine.step(&mut Events::of([]), &mut out).unwrap();
    assert_eq!(out.take_result::<Result<i64, Amount>>(), Some(Ok(1)));
}

#[test]
fn a_machine_driven_by_hand_calls_live_processes() {
    with_runtime(|runtime| {
        let there = runtime.spawn(account(0)).serve(42).unwrap();
        let mut machine = Machine::new(account(1));
        machine.init(&mut InitContext::detached(), "serve", payloads![1]).unwrap();
        let mut events = Events::of([message(AccountFetch { from: there })]);
        machine.step(&mut events, &mut StepOutput::new()).unwrap();
        until(|| {
            machine.step(&mut Events::of([]), &mut StepOutput::new()).unwrap();
            machine.get().is_some()
        });
    });
}

#[test]
fn a_machine_refuses_steps_before_init_a_second_init_and_steps_after_the_end() {
    let mut machine = Machine::new(account(0));
    let early = machine.step(&mut Events::of([]), &mut StepOutput::new());
    assert!(early.unwrap_err().to_string().contains("before `init`"));
    let wrong = machine.init(&mut InitContext::detached(), "server", payloads![1]);
    assert!(matches!(wrong, Err(InitError::Entry(error)) if error.to_string().contains("did you mean `serve`?")));
    machine.init(&mut InitContext::detached(), "serve", payloads![1]).unwrap();
    for entry in ["serve", "plain"] {
        let inputs = if entry == "serve" { payloads![1] } else { payloads![] };
        assert!(matches!(machine.init(&mut InitContext::detached(), entry, inputs), Err(InitError::Twice)));
    }
    machine.step(&mut Events::of([message(AccountLeave)]), &mut StepOutput::new()).unwrap();
    let late = machine.step(&mut Events::of([]), &mut StepOutput::new());
    assert!(late.unwrap_err().to_string().contains("after the process has ended"));

    let mut machine = Machine::new(account(0));
    machine.init(&mut InitContext::detached(), "plain", payloads![]).unwrap();
    machine.step(&mut Events::of([]), &mut StepOutput::new()).unwrap();
    assert!(machine.step(&mut Events::of([]), &mut StepOutput::new()).is_err());
    assert!(matches!(machine.init(&mut InitContext::detached(), "plain", payloads![]), Err(InitError::Twice)));
}
