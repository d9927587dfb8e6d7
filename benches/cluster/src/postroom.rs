//! Postroom's cluster, over the NATS server.

use super::{BATCH, CALLS, Figures, Outcome, WARM_UP, rate, ready};
use postroom::Runtime;
use postroom::prelude::*;
use postroom_cluster::Cluster;
use postroom_nats::Nats;
use std::time::{Duration, Instant};

const MESSAGES: u64 = 500_000;

type Cargo = [u64; 8];

#[process]
#[derive(Default)]
pub(crate) struct Sink {
    taken: u64,
}

#[process(remote)]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, cargo: Cargo) {
        self.taken += cargo[0];
    }

    #[message]
    fn take_many(&mut self, cargoes: Vec<Cargo>) {
        self.taken += cargoes.iter().map(|cargo| cargo[0]).sum::<u64>();
    }

    #[message]
    fn echo(&mut self, cargo: Cargo) -> Cargo {
        cargo
    }

    #[message]
    fn taken(&mut self) -> u64 {
        self.taken
    }
}

#[process]
struct Source {
    sink: Address<Sink>,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    /// Sends `messages` messages in batches. Each send waits while the queue is full.
    #[message]
    fn send(&mut self, messages: u64, batch: u64) {
        for _ in 0..messages / batch {
            match batch {
                1 => self.sink.take([1; 8]).send_wait().expect("the sink lives"),
                _ => self.sink.take_many(vec![[1; 8]; batch as usize]).send_wait().expect("the sink lives"),
            }
        }
    }

    #[message]
    async fn call(&mut self) -> Vec<Duration> {
        let mut times = Vec::new();
        for call in 0..WARM_UP + CALLS {
            let begun = Instant::now();
            self.sink.echo([1; 8]).await.expect("the sink lives");
            if call >= WARM_UP {
                times.push(begun.elapsed());
            }
        }
        times
    }
}

fn join(name: &str, url: &str) -> Outcome<(Runtime, Cluster)> {
    let runtime = Runtime::new()?;
    let cluster = Cluster::builder("compare").node(name).export::<Sink>().join(&runtime, Nats::at(url))?;
    Ok((runtime, cluster))
}

pub(crate) fn there(url: &str) -> Outcome<()> {
    let node = join(&format!("there-{}", std::process::id()), url)?;
    ready(&format!("{url}/{}", node.1.name()));
    loop {
        std::thread::park();
    }
}

pub(crate) fn here(address: &str) -> Outcome<()> {
    let (url, there) = address.rsplit_once('/').ok_or("no name")?;
    let (runtime, cluster) = join("here", url)?;
    let begun = Instant::now();
    let sink = loop {
        // The cluster may still list a node of an earlier round as alive.
        match cluster.node(there).map(|node| node.start::<Sink>("serve", payloads![]).wait()) {
            Ok(Ok(sink)) => break sink,
            _ if begun.elapsed() > Duration::from_secs(60) => return Err("the other node does not come".into()),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let source = runtime.spawn(Source { sink }).serve()?;
    let mut figures = Figures::default();
    let mut expected = 0;
    for batch in [1, BATCH] {
        let begun = Instant::now();
        source.send(MESSAGES, batch).timeout(Duration::MAX).wait()?;
        expected += MESSAGES;
        loop {
            match sink.taken().timeout(Duration::MAX).wait() {
                Ok(taken) if taken >= expected => break,
                // The queue to the other node may be full of the messages that are being counted.
                Ok(_) | Err(CallError::Full) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(error.into()),
            }
        }
        *(if batch == 1 { &mut figures.single } else { &mut figures.batched }) = rate(MESSAGES, begun);
    }
    figures.calls = source.call().timeout(Duration::MAX).wait()?;
    figures.print();
    Ok(())
}
