//! Faults that a test enables.

use super::{Adder, Cell};
use postroom::prelude::*;
use postroom::test::{Simulation, buggify, sometimes};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

struct Fetch(u32);

impl Command for Fetch {
    type Output = u32;
}

#[process]
struct Fetcher;

#[process]
impl Fetcher {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    async fn fetch(&mut self, ctx: &mut Context<Self>, number: u32) -> Result<u32, CommandError> {
        ctx.perform(Fetch(number)).await
    }
}

#[test]
fn a_crash_between_two_messages_is_a_panic_like_any_other() {
    let test = Simulation::new("crash").check(|sim| {
        sim.crash::<Cell>(0.3);
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        let adder = sim.spawn(Adder { cell }).serve().expect("it starts");
        let added = adder.add_waiting().wait();
        sometimes!(added.is_err(), "the first or the second call fails");
        sometimes!(added.is_ok(), "nothing crashes");
        if let Err(error) = added {
            assert!(error.to_string().contains("a crash that the test has asked for"), "{error}");
        }
    });
    test.expect("a crash is heard of");
}

#[process]
struct Shaky;

#[process]
impl Shaky {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn work(&mut self) {}
}

/// A supervisor handles crashes and failed starts.
#[test]
fn supervisors_restart_what_crashes_and_what_does_not_start() {
    let test = Simulation::new("restart").seeds(200).check(|sim| {
        let child = Child::new("shaky", |spawn| spawn.of(Shaky).serve());
        let tree = Supervisor::one_for_one().intensity(1_000, HOUR).add(child).spawn(sim.host()).expect("it starts");
        let shaky = tree.child::<Shaky>("shaky").expect("it is there");
        sim.crash::<Shaky>(0.3);
        sim.fail_start::<Shaky>(0.3);
        let mut failures = 0;
        for _ in 0..10 {
            failures += u32::from(shaky.work().timeout(HOUR).wait_for_restart().wait().is_err());
        }
        sometimes!(failures > 0, "a call meets a crash");
        sim.advance(HOUR);
        assert!(tree.pid().is_alive(), "the intensity allows it");
    });
    test.expect("it goes on");
}

#[test]
fn a_slow_process_is_run_later_and_loses_nothing() {
    let test = Simulation::new("slow").check(|sim| {
        sim.slow::<Cell>(0.5, HOUR);
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        cell.set(3).send().expect("it lives");
        assert_eq!(cell.get().timeout(100 * HOUR).wait(), Ok(3));
        sometimes!(sim.elapsed() > Duration::ZERO, "it is slow");
        sometimes!(sim.elapsed() == Duration::ZERO, "it is not");
    });
    test.expect("nothing is lost");
}

/// Even a process that is always slow runs each time when its delay has passed.
#[test]
fn a_process_that_is_always_slow_goes_on() {
    let test = Simulation::new("always").max_time(1_000 * HOUR).check(|sim| {
        sim.slow::<Cell>(1.0, HOUR);
        sim.slow::<Cell>(1.0, 100 * HOUR);
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        cell.set(3).send().expect("it lives");
        assert_eq!(cell.get().timeout(Duration::MAX).wait(), Ok(3));
    });
    test.expect("it is run between its rests");
}

/// Catches: a delay of zero that counts as a failure.
#[test]
fn a_late_command_never_fails() {
    let handles =
        |builder: postroom::Builder| builder.handler(|Fetch(number), done: Completion<u32>| done.complete(number));
    let test = Simulation::new("late").seeds(2_000).builder(handles).check(|sim| {
        sim.delay_command::<Fetch>(1.0, Duration::from_nanos(300));
        let fetcher = sim.spawn(Fetcher).serve().expect("it starts");
        assert_eq!(fetcher.fetch(7).wait().expect("it is handled"), 7);
    });
    test.expect("it is only late");
}

#[test]
fn commands_fail_and_are_late_and_mailboxes_seem_full() {
    let handles =
        |builder: postroom::Builder| builder.handler(|Fetch(number), done: Completion<u32>| done.complete(number));
    let test = Simulation::new("others").seeds(200).builder(handles).check(|sim| {
        sim.fail_command::<Fetch>(0.5);
        sim.delay_command::<Fetch>(0.5, HOUR);
        sim.fill::<Fetcher>(0.3);
        let fetcher = sim.spawn(Fetcher).serve().expect("it starts");
        let fetched = fetcher.fetch(7).timeout(10 * HOUR).wait();
        sometimes!(matches!(&fetched, Err(CallError::Full)), "the mailbox seems full");
        sometimes!(matches!(&fetched, Err(CallError::Failed(..))), "the command fails");
        sometimes!(fetched.is_ok() && sim.elapsed() > Duration::ZERO, "the command is late");
        sometimes!(fetched.is_ok() && sim.elapsed() == Duration::ZERO, "nothing goes wrong");
    });
    test.expect("all of them happen");
}

#[test]
fn the_messages_in_a_mailbox_can_be_looked_at() {
    let test = Simulation::new("mailbox").seeds(5).check(|sim| {
        let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
        assert!(sim.mailbox(cell.pid()).is_empty());
        cell.set(1).send().expect("it lives");
        sim.send(cell.pid(), 'x').expect("it lives");
        let types = sim.mailbox(cell.pid());
        assert!(types.len() == 2 && types[0].ends_with("::CellSet") && types[1] == "char", "{types:?}");
        sim.until_idle().expect("outside");
        assert!(sim.mailbox(cell.pid()).is_empty());
        cell.pid().kill();
        sim.until_idle().expect("outside");
        assert!(sim.mailbox(cell.pid()).is_empty(), "it has ended");
        let elsewhere = postroom::Mailbox::new().expect("there are slots");
        sim.send(elsewhere.pid(), 'x').expect("it lives");
        assert!(sim.mailbox(elsewhere.pid()).is_empty(), "it is not a process of the simulation");
    });
    test.expect("it is idle");
}

#[test]
fn a_place_is_buggified_in_some_runs_and_never_outside_of_one() {
    assert!((0..1_000).all(|_| !buggify!()));
    let test = Simulation::new("buggify").check(|_sim| {
        let bugs = (0..100).filter(|_| buggify!()).count();
        sometimes!(bugs > 0, "it misbehaves");
        sometimes!(bugs == 0, "it behaves");
        assert!(bugs < 60, "a quarter of the times");
    });
    test.expect("both happen");
}
