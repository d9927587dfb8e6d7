//! The log lines in spans that the guide shows. This test has its own binary, since the subscriber is global.

use postroom::prelude::*;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use tracing_subscriber::fmt;

static PRINTED: Mutex<String> = Mutex::new(String::new());

struct Printed;

impl Write for Printed {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        PRINTED.lock().unwrap().push_str(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

mod bank {
    use super::*;

    #[process]
    pub(super) struct Account {
        pub(super) balance: i64,
    }

    #[process]
    impl Account {
        #[entry]
        pub(super) fn serve(&mut self) {}

        #[message]
        pub(super) fn deposit(&mut self, amount: i64) {
            self.balance += amount;
            tracing::info!(target: "bank", amount, "deposited");
        }
    }

    #[process]
    pub(super) struct Teller {
        pub(super) account: Address<Account>,
    }

    #[process]
    impl Teller {
        #[entry]
        pub(super) fn serve(&mut self) {}

        #[message]
        pub(super) fn serve_customer(&mut self) {
            self.account.deposit(5).send().unwrap();
        }
    }
}

/// Replaces the PIDs, and removes the name of this test's crate.
fn without_what_varies(line: &str) -> String {
    let mut parts = line.trim().split('<');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        text.push_str("<…>");
        text.push_str(part.split_once('>').map_or(part, |(_, rest)| rest));
    }
    text.replace("guide::", "")
}

/// Catches: a line in the guide that no program prints.
#[test]
fn every_line_in_a_span_that_the_guide_shows_is_printed() {
    let subscriber = fmt().without_time().with_ansi(false).with_writer(|| Printed).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let runtime = Runtime::new().unwrap();
    let account = runtime.spawn(bank::Account { balance: 0 }).label("customer 17").serve().unwrap();
    let teller = runtime.spawn(bank::Teller { account }).serve().unwrap();
    teller.serve_customer().send().unwrap();
    runtime.until_idle().unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/observability.md");
    let page = std::fs::read_to_string(page).unwrap();
    let shown: Vec<String> =
        page.lines().filter(|line| line.starts_with("INFO postroom.message{")).map(without_what_varies).collect();
    assert!(!shown.is_empty());
    let printed: Vec<String> = PRINTED.lock().unwrap().lines().map(without_what_varies).collect();
    for line in shown {
        assert!(printed.contains(&line), "{line}\nis none of {printed:#?}");
    }
}
