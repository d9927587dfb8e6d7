use super::Version;
use postroom::error::UpgradeError;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
#[derive(Default)]
struct Exchange {
    rate: Option<u32>,
    waiting: Vec<Reply<u32>>,
}

#[process]
impl Exchange {
    #[entry]
    fn serve(&mut self) {}
    /// Answers when the rate is known.
    #[message]
    fn rate(&mut self, reply: Reply<u32>) {
        match self.rate {
            Some(rate) => reply.send(rate),
            None => self.waiting.push(reply),
        }
    }
    #[message]
    fn publish(&mut self, rate: u32) {
        self.rate = Some(rate);
        self.waiting.drain(..).for_each(|reply| reply.send(rate));
    }
}

/// The new definition of `Exchange`.
#[process]
#[derive(Default)]
struct Market {
    rate: Option<u32>,
    waiting: Vec<Reply<u32>>,
}

#[process]
impl Market {
    #[entry]
    fn serve(&mut self) {}
    #[message(ExchangeRate)]
    fn rate(&mut self, _message: ExchangeRate, reply: Reply<u32>) {
        match self.rate {
            Some(rate) => reply.send(rate),
            None => self.waiting.push(reply),
        }
    }
    #[message(ExchangePublish)]
    fn publish(&mut self, message: ExchangePublish) {
        self.rate = Some(message.rate);
        self.waiting.drain(..).for_each(|reply| reply.send(message.rate));
    }
}

#[process]
struct Trader {
    exchange: Address<Exchange>,
}

#[process]
impl Trader {
    #[entry]
    async fn ask(&mut self) -> Result<u32, CallError> {
        self.exchange.rate().await
    }
    #[entry]
    async fn publish(&mut self) -> Result<u32, CallError> {
        self.exchange.publish(3).await?;
        Ok(3)
    }
    #[entry]
    async fn upgrade(&mut self, version: Version) -> Result<(), UpgradeError> {
        let upgraded = self.exchange.pid().upgrade(move |old: Exchange| Market {
            rate: old.rate,
            waiting: if version.is_wrong() { Vec::new() } else { old.waiting },
        });
        upgraded.await.map(|_| ())
    }
}

pub fn run(sim: &Sim, version: Version) {
    let exchange = sim.spawn(Exchange::default()).serve().expect("it starts");
    let asks = sim.spawn(Trader { exchange }).ask().expect("it starts");
    let publishes = sim.spawn(Trader { exchange }).publish().expect("it starts");
    let upgrades = sim.spawn(Trader { exchange }).upgrade(version).expect("it starts");
    upgrades.wait().expect("it lives");
    assert_eq!(publishes.wait().expect("it ends"), 3);
    assert_eq!(asks.wait().expect("it ends"), 3);
}
