//! Measures the cost of messages and calls between two nodes over a NATS server on this machine:
//!
//! ```console
//! cargo run --release --manifest-path cluster/nats/Cargo.toml --example cluster_figures -- nats://127.0.0.1:4222
//! ```
//!
//! The second node is a child of this program. The last row is the same round trip without Postroom: a request of the
//! client library that the engine uses, answered by the child.

use futures_util::StreamExt;
use postroom::Runtime;
use postroom::prelude::*;
use postroom_cluster::Cluster;
use postroom_nats::Nats;
use std::error::Error;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Number of messages that are sent for each row.
const MESSAGES: u64 = 300_000;
/// Number of calls that are made for each row, one after the other.
const CALLS: usize = 5_000;
/// The subject on which the child answers requests that bypass Postroom.
const BARE: &str = "figures.bare";

/// 64 bytes, like the content of the messages in the benchmarks.
type Cargo = [u64; 8];

#[process]
#[derive(Default)]
struct Sink {
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

    /// Sends one message after the other, and waits while the queue is full.
    #[message]
    fn send(&mut self, messages: u64) {
        for _ in 0..messages {
            self.sink.take([1; 8]).send_wait().expect("the sink lives");
        }
    }

    #[message]
    fn send_many(&mut self, messages: u64) {
        for _ in 0..messages / 50 {
            self.sink.take_many(vec![[1; 8]; 50]).send_wait().expect("the sink lives");
        }
    }

    #[message]
    fn call(&mut self) -> Vec<Duration> {
        let mut times: Vec<_> = (0..CALLS)
            .map(|_| {
                let begun = Instant::now();
                self.sink.echo([1; 8]).wait().expect("the sink lives");
                begun.elapsed()
            })
            .collect();
        times.sort();
        times
    }
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn join(name: &str, url: &str) -> Result<(Runtime, Cluster), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let cluster = Cluster::builder("figures").node(name).export::<Sink>().join(&runtime, Nats::at(url))?;
    Ok((runtime, cluster))
}

fn reactor() -> Result<tokio::runtime::Runtime, std::io::Error> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Answers requests until the process is killed.
fn there(url: &str) -> Result<(), Box<dyn Error>> {
    let _node = join("there", url)?;
    reactor()?.block_on(async {
        let client = async_nats::connect(url).await?;
        let mut requests = client.subscribe(BARE).await?;
        while let Some(request) = requests.next().await {
            if let Some(reply) = request.reply {
                client.publish(reply, request.payload).await?;
            }
        }
        Ok(())
    })
}

fn here(url: &str) -> Result<(), Box<dyn Error>> {
    let _child = Ends(Command::new(std::env::current_exe()?).args([url, "there"]).spawn()?);
    let (runtime, cluster) = join("here", url)?;
    if !cluster.wait_for_members(1, Duration::from_secs(30)) {
        return Err("the second node does not come".into());
    }
    let sink = cluster.node("there")?.start::<Sink>("serve", payloads![]).wait()?;
    let source = runtime.spawn(Source { sink }).serve()?;
    let mut before = 0;
    for (row, batched) in [("64-byte messages, one by one", false), ("64-byte messages, 50 in each", true)] {
        let begun = Instant::now();
        if batched {
            source.send_many(MESSAGES).timeout(Duration::MAX).wait()?
        } else {
            source.send(MESSAGES).timeout(Duration::MAX).wait()?
        }
        // The call does not come from the sender of the messages, so it may overtake them. It is repeated until all of
        // them have arrived.
        while sink.taken().timeout(Duration::MAX).wait()? < before + MESSAGES {
            std::thread::sleep(Duration::from_millis(1));
        }
        before += MESSAGES;
        println!("{row:32} {:10.0} a second", MESSAGES as f64 / begun.elapsed().as_secs_f64());
    }
    let times = source.call().timeout(Duration::MAX).wait()?;
    println!("{:32} {:10.1?} median, {:.1?} at 99 %", "calls", times[CALLS / 2], times[CALLS * 99 / 100]);
    let times = reactor()?.block_on(async {
        let client = async_nats::connect(url).await?;
        let mut times = Vec::new();
        for _ in 0..CALLS {
            let begun = Instant::now();
            client.request(BARE, vec![1; 64].into()).await?;
            times.push(begun.elapsed());
        }
        times.sort();
        Ok::<_, Box<dyn Error>>(times)
    })?;
    println!(
        "{:32} {:10.1?} median, {:.1?} at 99 %",
        "requests of the client alone",
        times[CALLS / 2],
        times[CALLS * 99 / 100]
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let url = arguments.get(1).map_or("nats://127.0.0.1:4222", String::as_str);
    if arguments.get(2).is_some() { there(url) } else { here(url) }
}
