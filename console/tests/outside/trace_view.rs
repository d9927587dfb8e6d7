//! Test of the page's view "Trace" in a browser.

use super::{browser, tools};
use postroom::prelude::*;
use postroom_console::Console;
use postroom_tests::within;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// A bank that handles withdrawals, and audits now and then.
#[process]
struct Bank {
    ledger: Address<Ledger>,
}

#[process]
impl Bank {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn audit(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(Duration::from_millis(1)).await;
    }

    #[message]
    async fn withdraw(&mut self, amount: u64) -> u64 {
        self.ledger.post(amount).await.unwrap_or_default()
    }
}

#[process]
struct Ledger;

#[process]
impl Ledger {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn post(&mut self, ctx: &mut Context<Self>, amount: u64) -> u64 {
        ctx.sleep(Duration::from_millis(3)).await;
        amount
    }
}

#[process]
struct Customer {
    bank: Address<Bank>,
}

#[process]
impl Customer {
    #[entry]
    async fn shop(&mut self, ctx: &mut Context<Self>) {
        while self.bank.withdraw(5).await.is_ok() {
            ctx.sleep(Duration::from_millis(20)).await;
        }
    }
}

#[process]
struct Auditor {
    bank: Address<Bank>,
}

#[process]
impl Auditor {
    #[entry]
    async fn audit_all(&mut self, ctx: &mut Context<Self>) {
        loop {
            for _ in 0..41 {
                if self.bank.audit().send().is_err() {
                    return;
                }
            }
            ctx.sleep(Duration::from_millis(300)).await;
        }
    }
}

#[test]
fn the_page_records_and_shows_where_the_time_of_a_call_went() {
    let Some(tools) = tools() else { return };
    within(Duration::from_secs(240), move || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let ledger = runtime.spawn(Ledger).serve().unwrap();
        let bank = runtime.spawn(Bank { ledger }).serve().unwrap();
        let _customers: Vec<_> = (0..3).map(|_| runtime.spawn(Customer { bank }).shop().unwrap()).collect();
        let _auditor = runtime.spawn(Auditor { bank }).audit_all().unwrap();
        let console = Console::of(&runtime).controls(true).start().unwrap();
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console-pictures");
        std::fs::create_dir_all(&pictures).unwrap();
        let pictures = pictures.to_str().expect("a path of UTF-8");
        let report = browser::run(&tools, "trace", &[console.url(), pictures, "Bank::withdraw"]);
        assert_eq!(report["faults"], Value::Array(Vec::new()));
        for scheme in ["light", "dark"] {
            let shown = |kind: &str| &report["shown"][format!("{scheme}-{kind}")];
            let text = |kind: &str| shown(kind).as_str().expect(kind).to_owned();
            assert!(text("trace").contains("Ledger::post") && text("trace").contains("Bank::audit"), "{report}");
            let one = text("slow");
            assert!(one.contains("handled by Bank::withdraw") && one.contains("Ledger::post"), "{one}");
            assert!(one.contains("Most would have helped: ") && one.contains("The critical path"), "{one}");
            assert!(shown("file").as_u64() > Some(1_000), "{report}");
            let bars = shown("bars").as_array().expect("bars");
            let [first, others @ ..] = &bars[..] else { panic!("{report}") };
            let of = |bar: &Value| [bar[0].as_f64().unwrap(), bar[1].as_f64().unwrap()];
            assert!(of(first)[0].abs() < 0.01 && (of(first)[1] - 1.0).abs() < 0.01, "the first is the whole: {report}");
            assert!(others.len() > 3 && others.iter().all(|bar| (0.0..=1.0).contains(&of(bar)[0])), "{report}");
        }
    });
}
