use super::Version;
use postroom::prelude::*;
use postroom::supervision::{Backoff, Supervisor};
use postroom::test::Sim;
use std::time::Duration;

/// A process that passes news on to its subscribers. After a restart it knows none.
#[process]
#[derive(Default)]
struct Feed {
    subscribers: Vec<Address<Reader>>,
}

#[process]
impl Feed {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn subscribe(&mut self, reader: Address<Reader>) {
        self.subscribers.push(reader);
    }
    #[message]
    fn publish(&mut self, news: u32) {
        for reader in &self.subscribers {
            let _reader_has_ended = reader.read(news).send();
        }
    }
}

#[process]
struct Reader {
    feed: Address<Feed>,
    news: u32,
}

#[process]
impl Reader {
    #[entry]
    fn subscribe(&mut self, ctx: &mut Context<Self>) {
        self.feed.subscribe(ctx.address()).send().expect("the feed has an address while the tree lives");
    }
    #[message]
    fn read(&mut self, news: u32) {
        self.news = self.news.max(news);
    }
    #[message]
    fn latest(&mut self) -> u32 {
        self.news
    }
}

pub fn run(sim: &Sim, version: Version) {
    let supervisor = if version.is_wrong() { Supervisor::one_for_one() } else { Supervisor::rest_for_one() };
    let tree = supervisor
        .intensity(u32::MAX, Duration::MAX)
        .backoff(Backoff::none())
        .child("feed", |spawn| spawn.of(Feed::default()).serve())
        .child("reader", |spawn| {
            let feed = spawn.sibling("feed")?;
            spawn.of(Reader { feed, news: 0 }).subscribe()
        })
        .spawn(sim.host())
        .expect("the children start");
    let (feed, reader) = (tree.child::<Feed>("feed"), tree.child::<Reader>("reader"));
    let (feed, reader) = (feed.expect("it is a child"), reader.expect("it is a child"));
    sim.crash::<Feed>(0.2);
    for news in 1..=10 {
        let published = feed.publish(news).wait_for_restart().wait().is_ok();
        sim.until_idle().expect("the test is no process");
        // If the feed has crashed, this news may be lost. The next publication reaches the reader.
        assert!(!published || reader.latest().wait_for_restart().wait() == Ok(news), "the reader misses {news}");
    }
}
