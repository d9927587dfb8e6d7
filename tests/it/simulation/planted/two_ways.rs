use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
#[derive(Default)]
struct Store {
    is_created: bool,
    is_wrong: bool,
}

#[process]
impl Store {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn create(&mut self) {
        self.is_created = true;
    }
    #[message]
    fn update(&mut self) {
        self.is_wrong |= !self.is_created;
    }
    #[message]
    fn is_wrong(&mut self) -> bool {
        self.is_wrong
    }
}

/// A process that forwards its messages to the store.
#[process]
struct Proxy {
    store: Address<Store>,
}

#[process]
impl Proxy {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn create(&mut self) {
        self.store.create().send().expect("it lives");
    }
    #[message]
    fn update(&mut self) {
        self.store.update().send().expect("it lives");
    }
}

#[process]
struct Client {
    proxy: Address<Proxy>,
    store: Address<Store>,
}

#[process]
impl Client {
    #[entry]
    async fn work(&mut self, version: Version) {
        self.proxy.create().send().expect("it lives");
        if version.is_wrong() {
            self.store.update().send().expect("it lives");
        } else {
            self.proxy.update().send().expect("it lives");
        }
    }
}

pub fn run(sim: &Sim, version: Version) {
    let store = sim.spawn(Store::default()).serve().expect("it starts");
    let proxy = sim.spawn(Proxy { store }).serve().expect("it starts");
    sim.spawn(Client { proxy, store }).work(version).expect("it starts").wait().expect("it ends");
    sim.until_idle().expect("the test is no process");
    assert_eq!(store.is_wrong().wait(), Ok(false), "it is updated before it is created");
}
