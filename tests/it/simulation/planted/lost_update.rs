use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
struct Counter {
    value: u32,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn get(&mut self) -> u32 {
        self.value
    }
    #[message]
    fn set(&mut self, value: u32) {
        self.value = value;
    }
    #[message]
    fn add(&mut self, amount: u32) {
        self.value += amount;
    }
}

#[process]
struct Adder {
    counter: Address<Counter>,
}

#[process]
impl Adder {
    #[entry]
    async fn add(&mut self, version: Version) -> Result<(), CallError> {
        if version.is_wrong() {
            let value = self.counter.get().await?;
            self.counter.set(value + 1).await
        } else {
            self.counter.add(1).await
        }
    }
}

pub fn run(sim: &Sim, version: Version) {
    let counter = sim.spawn(Counter { value: 0 }).serve().expect("it starts");
    let adders = [(); 2].map(|()| sim.spawn(Adder { counter }).add(version).expect("it starts"));
    for adder in adders {
        adder.wait().expect("it ends");
    }
    assert_eq!(counter.get().wait(), Ok(2));
}
