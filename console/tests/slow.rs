//! Tests of explanations of slow calls, in programs whose delays are known. Most run in virtual time, so that all
//! figures are exact.

use postroom::prelude::*;
use postroom::record::{ActiveRecording, EventKind, Recording};
use postroom::test::{Sim, Simulation};
use postroom_console::trace::{Analysis, Cause, Explanation, Part};
use postroom_tests::{Latch, soon};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEEDS: u64 = 8;
const LONG: Duration = Duration::from_secs(3_000);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A bank that takes a while for each message.
#[process]
struct Bank {
    ledger: Option<Address<Ledger>>,
}

#[process]
impl Bank {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn audit(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(ms(1)).await;
    }

    #[message]
    async fn withdraw(&mut self, ctx: &mut Context<Self>, amount: u64) -> u64 {
        match self.ledger {
            Some(ledger) => ledger.post(amount).await.expect("it lives"),
            None => {
                ctx.sleep(ms(2)).await;
                amount
            }
        }
    }
}

#[process]
struct Ledger {
    takes: Duration,
}

#[process]
impl Ledger {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn post(&mut self, ctx: &mut Context<Self>, amount: u64) -> u64 {
        ctx.sleep(self.takes).await;
        amount
    }
}

/// A till that calls the bank once.
#[process]
struct Till {
    bank: Address<Bank>,
}

#[process]
impl Till {
    #[entry]
    async fn pay(&mut self) -> Result<u64, CallError> {
        self.bank.withdraw(5).await
    }
}

/// A desk that makes two calls concurrently, and needs both answers.
#[process]
struct Desk {
    first: Address<Ledger>,
    second: Address<Ledger>,
}

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn both(&mut self) -> u64 {
        let both = futures_util::future::join(self.first.post(1).into_future(), self.second.post(2).into_future());
        let (first, second) = both.await;
        first.expect("it lives") + second.expect("it lives")
    }
}

#[process]
struct Visitor {
    desk: Address<Desk>,
}

#[process]
impl Visitor {
    #[entry]
    async fn visit(&mut self) -> Result<u64, CallError> {
        self.desk.both().await
    }
}

/// A clerk that sends more receipts than the printer has room for, and then answers.
#[process]
struct Clerk {
    printer: Address<Printer>,
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn print_all(&mut self, ctx: &mut Context<Self>, receipts: u64) {
        for number in 0..receipts {
            self.printer.print(number).send().expect("it lives");
        }
        // The step ends here, and the clerk is suspended for longer than the sleep.
        ctx.sleep(ms(1)).await;
    }
}

#[process]
struct Printer;

#[process]
impl Printer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn print(&mut self, ctx: &mut Context<Self>, _number: u64) {
        ctx.sleep(ms(1)).await;
    }
}

#[process]
struct Customer {
    clerk: Address<Clerk>,
}

#[process]
impl Customer {
    #[entry]
    async fn shop(&mut self) -> Result<(), CallError> {
        self.clerk.print_all(300).await
    }
}

fn record(sim: &Sim) -> ActiveRecording {
    sim.record(LONG).start().expect("nothing else is recorded")
}

/// Explains the slowest message of this type.
fn explain(recording: &Recording, message: &str) -> Explanation {
    let analysis = Analysis::of(recording);
    let slowest = analysis.slowest();
    let of_type = slowest.iter().find(|times| times.message.ends_with(message));
    let of_type = of_type.unwrap_or_else(|| panic!("there is no {message} in {slowest:#?}"));
    let explanation = analysis.explain(of_type.slowest[0].flow).expect("it is in the recording");
    assert!(explanation.is_finished && explanation.lost == 0, "{explanation:#?}");
    assert_eq!(explanation.whole.took, of_type.slowest[0].took);
    check(&explanation.whole);
    explanation
}

/// Checks that the sub-parts of each part add up to it.
fn check(part: &Part) {
    let sum: Duration = part.parts.iter().map(|part| part.took).sum();
    assert!(part.parts.is_empty() || sum == part.took, "{part:#?}");
    part.parts.iter().for_each(check);
}

/// Returns the first part with a matching cause, at any depth.
fn find(part: &Part, is_wanted: impl Fn(&Cause) -> bool + Copy) -> Option<&Part> {
    if is_wanted(&part.cause) {
        return Some(part);
    }
    part.parts.iter().find_map(|part| find(part, is_wanted))
}

#[test]
fn a_call_behind_41_audits_waits_for_41_audits() {
    Simulation::new("behind").seeds(SEEDS).without_faults().run(|sim| {
        let bank = sim.spawn(Bank { ledger: None }).serve().unwrap();
        let active = record(&sim);
        for _ in 0..41 {
            bank.audit().send().unwrap();
        }
        let till = sim.spawn(Till { bank }).pay().unwrap();
        assert_eq!(till.wait().unwrap(), 5);
        let explanation = explain(&active.stop(), "BankWithdraw");
        assert_eq!(explanation.whole.took, ms(43), "{explanation}");
        let is_behind =
            |cause: &Cause| matches!(cause, Cause::Behind { message, .. } if message.ends_with("BankAudit"));
        let behind = find(&explanation.whole, is_behind).unwrap_or_else(|| panic!("{explanation}"));
        assert_eq!((behind.count, behind.took), (41, ms(41)), "{explanation}");
        let handled = find(&explanation.whole, |cause| matches!(cause, Cause::Handling { .. })).unwrap();
        assert_eq!(handled.took, ms(2), "{explanation}");
        let remedy = explanation.remedy.expect("there is one");
        assert!(is_behind(&remedy.without), "{explanation}");
        assert_eq!(remedy.then, ms(2), "{explanation}");
        assert!(explanation.to_string().contains("behind Bank::audit, 41 of them"), "{explanation}");
    });
}

#[test]
fn a_slow_callee_two_levels_deep_is_found_there() {
    Simulation::new("deep").seeds(SEEDS).without_faults().run(|sim| {
        let ledger = sim.spawn(Ledger { takes: ms(8) }).serve().unwrap();
        let bank = sim.spawn(Bank { ledger: Some(ledger) }).serve().unwrap();
        let active = record(&sim);
        assert_eq!(sim.spawn(Till { bank }).pay().unwrap().wait().unwrap(), 5);
        let explanation = explain(&active.stop(), "BankWithdraw");
        assert_eq!(explanation.whole.took, ms(8), "{explanation}");
        let posting =
            find(&explanation.whole, |cause| matches!(cause, Cause::Message { to, .. } if to.pid == ledger.pid()));
        let posting = posting.unwrap_or_else(|| panic!("{explanation}"));
        assert_eq!(posting.took, ms(8), "{explanation}");
        let remedy = explanation.remedy.expect("there is one");
        assert!(matches!(remedy.without, Cause::Timer { process, .. } if process.pid == ledger.pid()), "{explanation}");
        assert_eq!(remedy.then, Duration::ZERO, "{explanation}");
    });
}

/// Without the slower of two concurrent calls, the other one would still take as long as it did.
#[test]
fn what_went_on_beside_the_critical_path_bounds_what_a_remedy_saves() {
    Simulation::new("beside").seeds(SEEDS).without_faults().run(|sim| {
        let ledger = |takes| sim.spawn(Ledger { takes }).serve().unwrap();
        let (first, second) = (ledger(ms(5)), ledger(ms(9)));
        let desk = sim.spawn(Desk { first, second }).serve().unwrap();
        let active = record(&sim);
        assert_eq!(sim.spawn(Visitor { desk }).visit().unwrap().wait().unwrap(), 3);
        let explanation = explain(&active.stop(), "DeskBoth");
        assert_eq!(explanation.whole.took, ms(9), "{explanation}");
        assert!(
            explanation
                .path
                .iter()
                .all(|step| { !matches!(step.cause, Cause::Timer { process, .. } if process.pid == first.pid()) })
        );
        let remedy = explanation.remedy.expect("there is one");
        assert!(matches!(remedy.without, Cause::Timer { process, .. } if process.pid == second.pid()), "{explanation}");
        assert_eq!(remedy.then, ms(5), "{explanation}");
    });
}

#[test]
fn a_full_mailbox_is_named_with_what_its_process_did_meanwhile() {
    Simulation::new("full").seeds(SEEDS).without_faults().run(|sim| {
        let printer = sim.spawn(Printer).mailbox(Bound::Soft(100)).serve().unwrap();
        let clerk = sim.spawn(Clerk { printer }).serve().unwrap();
        let active = record(&sim);
        sim.spawn(Customer { clerk }).shop().unwrap().wait().unwrap();
        let recording = active.stop();
        let explanation = explain(&recording, "ClerkPrintAll");
        let is_suspended = |cause: &Cause| matches!(cause, Cause::Suspended { at, .. } if at.pid == printer.pid());
        let suspended = find(&explanation.whole, is_suspended).unwrap_or_else(|| panic!("{explanation}"));
        let at = |is_wanted: &dyn Fn(EventKind) -> bool| {
            recording.events().find(|event| is_wanted(event.kind)).expect("it happened").at
        };
        let began = at(&|kind| matches!(kind, EventKind::Suspended { process, .. } if process == clerk.pid()));
        let ended = at(&|kind| matches!(kind, EventKind::Resumed { process } if process == clerk.pid()));
        assert_eq!(suspended.took, ended - began, "{explanation}");
        assert!(suspended.took >= ms(100), "{explanation}");
        assert_eq!(suspended.took, explanation.whole.took, "{explanation}");
        let [behind] = &suspended.parts[..] else { panic!("{explanation}") };
        assert!(matches!(behind.cause, Cause::Behind { of, .. } if of.pid == printer.pid()), "{explanation}");
        // One millisecond for each receipt that was printed in the meantime; the first and the last one count only in
        // part.
        assert!(ms(behind.count - 2) <= behind.took && behind.took <= ms(behind.count), "{explanation}");
        let remedy = explanation.remedy.expect("there is one");
        assert!(is_suspended(&remedy.without), "{explanation}");
        assert_eq!(remedy.then, Duration::ZERO, "{explanation}");
    });
}

#[test]
fn a_late_timer_is_told_from_the_sleep_before() {
    static LATE: AtomicU32 = AtomicU32::new(0);
    Simulation::new("late").seeds(60).run(|sim| {
        sim.late_timers(ms(5));
        let bank = sim.spawn(Bank { ledger: None }).serve().unwrap();
        let active = record(&sim);
        assert_eq!(sim.spawn(Till { bank }).pay().unwrap().wait().unwrap(), 5);
        let explanation = explain(&active.stop(), "BankWithdraw");
        let late = explanation.whole.took - ms(2);
        let timer = find(&explanation.whole, |cause| matches!(cause, Cause::Timer { .. }));
        assert_eq!(timer.map(|part| part.took), Some(ms(2)), "{explanation}");
        let is_late = |cause: &Cause| matches!(cause, Cause::LateTimer { process, .. } if process.pid == bank.pid());
        assert_eq!(find(&explanation.whole, is_late).map_or(Duration::ZERO, |part| part.took), late, "{explanation}");
        if late > ms(2) {
            assert!(is_late(&explanation.remedy.expect("there is one").without), "{explanation}");
            LATE.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(LATE.load(Ordering::Relaxed) > 0, "no timer was late");
}

#[test]
fn a_process_that_no_worker_runs_waits_for_a_worker() {
    static SLOW: AtomicU32 = AtomicU32::new(0);
    Simulation::new("worker").seeds(60).run(|sim| {
        sim.slow::<Ledger>(1.0, ms(50));
        let ledger = sim.spawn(Ledger { takes: Duration::ZERO }).serve().unwrap();
        let bank = sim.spawn(Bank { ledger: Some(ledger) }).serve().unwrap();
        let active = record(&sim);
        assert_eq!(sim.spawn(Till { bank }).pay().unwrap().wait().unwrap(), 5);
        let explanation = explain(&active.stop(), "BankWithdraw");
        if !explanation.whole.took.is_zero() {
            SLOW.fetch_add(1, Ordering::Relaxed);
            let remedy = explanation.remedy.expect("there is one");
            assert!(
                matches!(remedy.without, Cause::Worker { process } if process.pid == ledger.pid()),
                "{explanation}"
            );
            assert_eq!(remedy.then, Duration::ZERO, "{explanation}");
        }
    });
    assert!(SLOW.load(Ordering::Relaxed) > 0, "no process was slow");
}

/// The guide shows the text for such a program. With `POSTROOM_WRITE=1`, this test updates the guide.
#[test]
fn the_guide_shows_what_the_text_says() {
    let text = Arc::new(Mutex::new(String::new()));
    let written = text.clone();
    Simulation::new("guide").seeds(1).without_faults().run(move |sim| {
        let ledger = sim.spawn(Ledger { takes: ms(8) }).serve().unwrap();
        let bank = sim.spawn(Bank { ledger: Some(ledger) }).serve().unwrap();
        let active = record(&sim);
        for _ in 0..41 {
            bank.audit().send().unwrap();
        }
        assert_eq!(sim.spawn(Till { bank }).pay().unwrap().wait().unwrap(), 5);
        let explanation = explain(&active.stop(), "BankWithdraw");
        let pids = [(bank.pid(), "<7f3a.0.2.0>"), (ledger.pid(), "<7f3a.0.1.0>")];
        let text =
            pids.iter().fold(explanation.to_string(), |text, (pid, shown)| text.replace(&pid.to_string(), shown));
        *written.lock().unwrap() = text;
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/slow.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("```text\n").expect("the page has a block of text");
    let (shown, after) = rest.split_once("```\n").expect("the block ends");
    let text = text.lock().unwrap();
    if std::env::var_os("POSTROOM_WRITE").is_some() {
        std::fs::write(path, format!("{before}```text\n{text}```\n{after}")).unwrap();
    } else {
        assert_eq!(shown, *text, "POSTROOM_WRITE=1 cargo test -p postroom-console --test slow guide");
    }
}

/// A process that occupies its worker until it may continue.
#[process]
struct Stuck;

#[process]
impl Stuck {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn spin(&mut self, began: Latch, go: Latch) {
        began.open();
        go.wait();
    }
}

/// Uses real threads and real time: the cause of the delay is known, and its duration is taken from the recording.
#[test]
fn a_step_that_occupies_the_worker_is_named() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).stall_limit(LONG).build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let ledger = runtime.spawn(Ledger { takes: Duration::ZERO }).serve().unwrap();
        runtime.until_idle().unwrap();
        let active = runtime.record(LONG).start().unwrap();
        let (began, go) = (Latch::default(), Latch::default());
        stuck.spin(began.clone(), go.clone()).send().unwrap();
        began.wait();
        ledger.post(1).send().unwrap();
        go.open();
        runtime.until_idle().unwrap();
        let explanation = explain(&active.stop(), "LedgerPost");
        let busy = find(&explanation.whole, |cause| {
            matches!(cause, Cause::Busy { process, message: Some(message), is_stalled: false }
                if process.pid == stuck.pid() && message.ends_with("StuckSpin"))
        });
        let busy = busy.unwrap_or_else(|| panic!("{explanation}"));
        assert!(!busy.took.is_zero(), "{explanation}");
        let worker = find(&explanation.whole, |cause| matches!(cause, Cause::Worker { .. })).unwrap();
        assert!(matches!(worker.cause, Cause::Worker { process } if process.pid == ledger.pid()), "{explanation}");
        // The delay lasts from the send to the end of the step, to the nanosecond.
        let slice_ended = explanation.sent + busy.took;
        let step = explanation.path.iter().find(|step| step.cause == busy.cause).unwrap();
        assert_eq!(step.from + step.took, slice_ended, "{explanation}");
    });
}
