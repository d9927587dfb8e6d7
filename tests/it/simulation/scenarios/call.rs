//! Calls that race with their deadlines, with the end of the caller, and with the end of the called process.

use super::*;
use crate::call::Desk;
use crate::call::abandoned::Busy;
use crate::call::bank::{Bank, Branch, FAULTS, OPENING, Vault};
use crate::call::later::Metronome;
use postroom::test::{Simulation, sometimes};
use postroom_tests::face::{Gate, Log};
use std::collections::HashSet;

/// A process that keeps calls until it is told to answer them. It answers each call with the call's number.
#[process]
#[derive(Default)]
struct Clerk {
    asked: u32,
    kept: Vec<(u32, Reply<u32>)>,
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ask(&mut self, reply: Reply<u32>) {
        self.asked += 1;
        self.kept.push((self.asked, reply));
    }

    #[message]
    #[derive(Clone)]
    fn answer(&mut self) {
        self.kept.drain(..).for_each(|(number, reply)| reply.send(number));
    }
}

/// The first call times out at a certain moment. The answers arrive shortly before, at, or after that moment.
#[postroom::test(seeds = 200)]
fn a_late_answer_is_not_taken_for_that_of_the_next_call(sim: Sim) {
    let clerk = sim.spawn(Clerk::default()).serve().unwrap();
    let calls = async move { [clerk.ask().timeout(SOON).await, clerk.ask().timeout(LONG).await] };
    let caller = race(&sim, calls);
    clerk.answer().send_every(Duration::from_millis(4 + sim.random() % 3)).unwrap();
    let answers = caller.wait().unwrap();
    sometimes!(answers[0].is_ok(), "the first answer is in time");
    sometimes!(answers[0].is_err(), "the first answer is late");
    assert!(matches!(answers[0], Ok(1) | Err(CallError::Timeout)), "{answers:?}");
    assert_eq!(answers[1], Ok(2));
}

#[postroom::test(seeds = 200)]
fn a_caller_that_dies_has_given_up(sim: Sim) {
    let [caller, callee] = [(); 2].map(|()| sim.spawn(Desk::default()).serve().unwrap());
    caller.ask(callee, LONG).send().unwrap();
    let killer = race(&sim, async move {
        pause().await;
        let end = caller.pid().join();
        caller.pid().kill();
        end.await
    });
    assert_eq!(killer.wait().unwrap(), ExitReason::Killed);
    let abandoned = callee.abandoned().wait().unwrap();
    sometimes!(abandoned.is_empty(), "it dies before its call arrives");
    sometimes!(!abandoned.is_empty(), "it dies while its reply is kept");
    assert!(abandoned.iter().all(|abandoned| *abandoned), "{abandoned:?}");
}

/// The process is slow: it takes its messages before their deadline, or up to a long time after it.
#[postroom::test(seeds = 200)]
fn a_process_that_skips_abandoned_calls_handles_only_what_is_still_wanted(sim: Sim) {
    sim.slow::<Busy>(0.8, 2 * SOON);
    let seen = Log::new();
    let busy = sim.spawn(Busy { seen: seen.clone(), gate: Gate::new() }).serve().unwrap();
    let called = race(&sim, async move { busy.note_async(1).timeout(SOON).await });
    let sent = race(&sim, async move { busy.note(2).send().unwrap() });
    let (called, ()) = (called.wait().unwrap(), sent.wait().unwrap());
    busy.note(3).timeout(LONG).wait().unwrap();
    let mut handled = seen.all();
    handled.sort();
    sometimes!(called.is_err(), "the called process comes to it too late");
    sometimes!(called.is_ok() && sim.elapsed() > Duration::ZERO, "the called process comes to it just in time");
    let expected: &[u32] = if called.is_ok() { &[1, 2, 3] } else { &[2, 3] };
    assert_eq!((handled.as_slice(), sim.statistics().dead_letters.expired), (expected, u64::from(called.is_err())));
}

/// A process that handles a number in two steps. It can die between them.
#[process]
struct Teller(Log<u32>);

#[process]
impl Teller {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn note(&mut self, number: u32) {
        self.0.add(number);
        pause().await;
    }
}

/// Every error reports how far its message got, and the report is true.
#[postroom::test(seeds = 200)]
fn what_an_error_says_of_delivery_is_true(sim: Sim) {
    let (handled, way) = (Log::new(), sim.random());
    let teller = sim.spawn(Teller(handled.clone())).serve().unwrap();
    let callers: Vec<_> =
        (0..4).map(|number| race(&sim, async move { teller.note(number).timeout(LONG).await })).collect();
    let ender = race(&sim, async move {
        pause().await;
        end(teller.pid(), way);
    });
    let (answers, ()) = (all(callers), ender.wait().unwrap());
    let handled: HashSet<u32> = handled.all().into_iter().collect();
    for (number, answer) in (0..).zip(&answers) {
        let said = answer.as_ref().map_or_else(|error| error.delivery(), |()| Delivery::Handled);
        let fits = match said {
            Delivery::NotDelivered => !handled.contains(&number),
            Delivery::Unknown => true,
            Delivery::Handled => handled.contains(&number),
        };
        assert!(fits, "{number} of {answers:?}, of which {handled:?} were handled");
        sometimes!(said == Delivery::Unknown && handled.contains(&number), "it dies in the middle of a message");
        sometimes!(said == Delivery::NotDelivered, "it dies before it comes to a message");
    }
    sometimes!(answers.iter().all(Result::is_ok), "it dies when it has handled everything");
}

/// Each caller gets the error that fits its own call: the first call is kept, the second is being handled, and the
/// third is queued behind the second.
#[postroom::test(seeds = 200)]
fn a_panic_is_told_to_those_whose_replies_were_kept_and_to_those_who_wait_in_line(sim: Sim) {
    let desk = sim.spawn(Desk::default()).serve().unwrap();
    let kept = race(&sim, async move { desk.keep().timeout(LONG).await });
    let panics = race(&sim, async move { desk.panic("all".into()).timeout(LONG).await });
    let in_line = race(&sim, async move { desk.echo(1).timeout(LONG).await });
    let [kept, panics, in_line] = [kept, panics, in_line].map(|call| call.wait().unwrap());
    let is_all = |reason: &ExitReason| matches!(reason, ExitReason::Panic(panic) if panic.message == "all");
    assert!(matches!(&panics, Err(CallError::Died(reason)) if is_all(reason)), "{panics:?}");
    match &kept {
        Err(CallError::Died(reason)) if is_all(reason) => sometimes!(true, "a reply is kept when it panics"),
        Err(CallError::Gone(ExitReason::NoProcess)) => sometimes!(true, "a call is made when it is gone"),
        Err(CallError::Gone(reason)) if is_all(reason) => {}
        other => panic!("{other:?}"),
    }
    match &in_line {
        Ok(1) => sometimes!(true, "a call is answered before it panics"),
        Err(CallError::Gone(reason)) if is_all(reason) => sometimes!(true, "a call waits in line when it panics"),
        Err(CallError::Gone(ExitReason::NoProcess)) => {}
        other => panic!("{other:?}"),
    }
}

/// The message is due at the same moment at which the process is killed.
#[postroom::test(seeds = 200)]
fn what_is_due_when_its_process_ends_is_handled_or_a_dead_letter(sim: Sim) {
    let log = Log::new();
    let desk = sim.spawn(Metronome { log: log.clone(), limit: 9 }).serve().unwrap();
    desk.beat(1).send_after(SOON).unwrap();
    let killer = race(&sim, async move {
        sleep(SOON).await;
        desk.pid().kill();
    });
    killer.wait().unwrap();
    sim.until_idle().unwrap();
    sometimes!(log.len() == 1, "the message is first");
    sometimes!(log.is_empty(), "the kill is first");
    assert_eq!(log.len() as u64 + sim.statistics().dead_letters.ended, 1);
    assert_eq!(sim.statistics().timers, 0);
}

/// Repeated messages end with their process, however and whenever it ends.
#[postroom::test(seeds = 200)]
fn what_is_sent_again_and_again_ends_with_its_process(sim: Sim) {
    let (log, way) = (Log::new(), sim.random());
    let desk = sim.spawn(Metronome { log: log.clone(), limit: 4 }).serve().unwrap();
    desk.beat(1).send_every(SOON).unwrap();
    let beats = (sim.random() % 6) as u32;
    let ender = race(&sim, async move {
        sleep(beats * SOON).await;
        end(desk.pid(), way);
    });
    ender.wait().unwrap();
    sim.advance(9 * SOON);
    sometimes!(log.len() == 4, "it ends by itself");
    sometimes!((1..4).contains(&log.len()), "it is ended between two beats");
    assert!(!desk.pid().is_alive() && log.len() <= 4 && sim.statistics().timers == 0);
}

/// The bank keeps its total whatever happens to a call: its branches crash, are slow, and have faults of their own.
#[test]
fn the_bank_keeps_its_sum_under_transfers_both_ways() {
    const ROUTES: [(usize, usize, u64, i64); 3] = [(0, 1, 1, 30), (1, 0, 2, 50), (0, 1, 3, 40)];
    let test = Simulation::new("bank").seeds(200).builder(|builder| builder.call_timeout(4 * SOON)).check(|sim| {
        let faults = || (0..sim.random() % 3).map(|_| FAULTS[sim.random() as usize % FAULTS.len()]);
        let vaults = (0..2).map(|_| Vault::of(OPENING, faults())).collect();
        let bank = Bank::of(sim.host(), vaults);
        sim.crash::<Branch>(0.05);
        sim.slow::<Branch>(0.1, 6 * SOON);
        let made = bank.transfer_all(&ROUTES);
        sometimes!(!made.iter().all(|made| *made), "a transfer is refused");
        sometimes!(bank.restarts() > 0 && made.iter().all(|made| *made), "a branch dies, and all is booked");
        // By now all late transfers have been booked.
        sim.advance(LONG);
        let mut expected = [OPENING; 2];
        for ((from, to, _, amount), _) in ROUTES.iter().zip(&made).filter(|(_, made)| **made) {
            expected[*from] -= amount;
            expected[*to] += amount;
        }
        assert_eq!(bank.balances(), expected);
    });
    test.expect("it keeps its sum");
}
