use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;
use std::collections::BTreeSet;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1);

#[process]
#[derive(Default)]
struct Card {
    charged: u32,
    known: BTreeSet<u32>,
}

#[process]
impl Card {
    #[entry]
    fn serve(&mut self) {}
    /// With a key, a repeated charge is recognized.
    #[message]
    fn charge(&mut self, amount: u32, key: Option<u32>) {
        if key.is_none_or(|key| self.known.insert(key)) {
            self.charged += amount;
        }
    }
    #[message]
    fn charged(&mut self) -> u32 {
        self.charged
    }
}

#[process]
struct Shop {
    card: Address<Card>,
}

#[process]
impl Shop {
    #[entry]
    async fn sell(&mut self, version: Version) {
        let key = (!version.is_wrong()).then_some(7);
        while self.card.charge(10, key).timeout(PATIENCE).await.is_err() {}
    }
}

pub fn run(sim: &Sim, version: Version) {
    sim.slow::<Card>(0.2, 2 * PATIENCE);
    let card = sim.spawn(Card::default()).serve().expect("it starts");
    sim.spawn(Shop { card }).sell(version).expect("it starts").wait().expect("it ends");
    sim.until_idle().expect("the test is no process");
    assert_eq!(card.charged().timeout(Duration::MAX).wait(), Ok(10));
}
