//! A protocol that is defined in another crate.

use super::*;
// Imports only the trait and its error type: the items that the macro generates need not be imported.
use postroom_tests::ledger::{Ledger, Overdrawn};

#[process]
struct Cash(i64);

#[process(protocols(Ledger<i64>))]
impl Cash {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Ledger<i64> for Cash {
    fn book(&mut self, amount: i64) -> Result<i64, Overdrawn> {
        self.0 += amount;
        if self.0 < 0 { Err(Overdrawn) } else { Ok(self.0) }
    }

    fn balance(&self) -> i64 {
        self.0
    }

    fn note(&mut self, text: String) {
        self.0 += text.len() as i64;
    }
}

#[process]
struct Branch {
    cash: Address<dyn Ledger<i64>>,
}

#[process(protocols(postroom_tests::ledger::Ledger<i64>))]
impl Branch {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl postroom_tests::ledger::Ledger<i64> for Branch {
    async fn book(&mut self, amount: i64) -> Result<i64, Overdrawn> {
        self.cash.book(amount).await.map_err(|_| Overdrawn)
    }

    async fn balance(&mut self) -> i64 {
        self.cash.balance().await.unwrap_or(-1)
    }

    fn note(&mut self, text: String) {
        let _gone = self.cash.note(text).send();
    }
}

#[test]
fn a_protocol_of_another_crate_is_answered() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let cash = runtime.spawn(Cash(0)).serve().unwrap();
        let branch = runtime.spawn(Branch { cash: cash.narrow() }).serve().unwrap();
        branch.note("three".into()).wait().unwrap();
        assert_eq!(branch.book(4).wait(), Ok(9));
        let ledger: Address<dyn Ledger<i64>> = branch.narrow();
        assert_eq!(ledger.balance().wait(), Ok(9));
        assert!(matches!(ledger.book(-10).wait(), Err(CallError::Failed(Overdrawn))));
        runtime.send(branch, String::new()).unwrap();
        runtime.send(branch, postroom_tests::ledger::LedgerBook { amount: 1_i64 }).unwrap();
    });
}
