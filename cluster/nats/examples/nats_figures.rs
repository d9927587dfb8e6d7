//! Measures the engine on NATS: messages, round trips and accesses to the store.
//!
//! ```console
//! nats-server -a 127.0.0.1 -js -sd "$(mktemp -d)" &
//! cargo run --release --manifest-path cluster/nats/Cargo.toml --example nats_figures -- nats://127.0.0.1:4222
//! ```
//!
//! The store must not contain the keys that the example writes, so the cluster name contains the ID of the program's
//! process.

use bytes::Bytes;
use postroom_cluster::engine::{Engine, Lane, Message, ProbeOutcome, PublishError};
use postroom_cluster::store::Bucket;
use postroom_nats::{Nats, NatsEngine};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const MESSAGES: u64 = 1_000_000;
const ROUNDS: u32 = 5_000;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "nats://127.0.0.1:4222".into());
    let cluster = format!("figures-{}", std::process::id());
    let connect = || -> Result<Arc<NatsEngine>, Box<dyn Error>> {
        let engine = Nats::at(address.as_str()).cluster(cluster.as_str()).start()?;
        engine.wait(PATIENCE)?;
        Ok(Arc::new(engine))
    };
    let (here, there) = (connect()?, connect()?);
    publish_rate(&here, &there)?;
    round_trips(&here, &there)?;
    store(&here)?;
    println!("here {:?}, there {:?}", here.counts(), there.counts());
    Ok(())
}

/// Publishes until the subscription behind `heard` receives something, and then discards the messages that are still on
/// their way.
fn ready(from: &NatsEngine, lane: Lane, subject: &str, heard: &mpsc::Receiver<()>) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    while heard.try_recv().is_err() {
        from.publish(lane, subject, Bytes::new())?;
        std::thread::sleep(Duration::from_millis(1));
        if began.elapsed() > PATIENCE {
            return Err("nothing arrives".into());
        }
    }
    // Waits for the other messages of this loop, so that they do not count among the measured ones.
    std::thread::sleep(Duration::from_millis(200));
    while heard.try_recv().is_ok() {}
    Ok(())
}

fn publish_rate(here: &NatsEngine, there: &NatsEngine) -> Result<(), Box<dyn Error>> {
    let (sender, heard) = mpsc::channel();
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let on_message = move |message: Message| {
        if message.payload.is_empty() {
            let _ = sender.send(());
        } else {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let _subscription = there.subscribe(Lane::Data, "figures.rate", Box::new(on_message))?;
    ready(here, Lane::Data, "figures.rate", &heard)?;
    let payload = Bytes::from(vec![0; 64]);
    let began = Instant::now();
    let mut busy = 0;
    for _ in 0..MESSAGES {
        while let Err(error) = here.publish(Lane::Data, "figures.rate", payload.clone()) {
            if error != PublishError::Busy {
                return Err(error.into());
            }
            busy += 1;
            std::thread::yield_now();
        }
    }
    let published = began.elapsed();
    while here.publish(Lane::Data, "figures.rate", Bytes::new()).is_err() {
        std::thread::yield_now();
    }
    heard.recv_timeout(PATIENCE)?;
    let arrived = began.elapsed();
    let rate = |time: Duration| MESSAGES as f64 / time.as_secs_f64() / 1_000.0;
    println!(
        "messages of 64 bytes: {:.0} k/s published ({busy} times busy), {:.0} k/s arrived, {} of {MESSAGES}",
        rate(published),
        rate(arrived),
        received.load(Ordering::Relaxed)
    );
    Ok(())
}

fn round_trips(here: &Arc<NatsEngine>, there: &Arc<NatsEngine>) -> Result<(), Box<dyn Error>> {
    let (sender, heard) = mpsc::channel();
    let on_answer = move |_: Message| {
        let _ = sender.send(());
    };
    let _answers = here.subscribe(Lane::Control, "figures.answer", Box::new(on_answer))?;
    let answering = Arc::downgrade(there);
    let on_question = move |message: Message| {
        if let Some(engine) = answering.upgrade() {
            let _ = engine.publish(Lane::Control, "figures.answer", message.payload);
        }
    };
    let _questions = there.subscribe(Lane::Control, "figures.question", Box::new(on_question))?;
    ready(here, Lane::Control, "figures.question", &heard)?;
    let payload = Bytes::from(vec![0; 64]);
    measure("round trip of 64 bytes", || {
        here.publish(Lane::Control, "figures.question", payload.clone())?;
        Ok(heard.recv_timeout(PATIENCE)?)
    })?;
    for (what, subject, expected) in [
        ("probe with a subscriber", "figures.question", ProbeOutcome::Responders),
        ("probe without", "figures.nobody", ProbeOutcome::NoResponders),
    ] {
        measure(what, || {
            let (then, answered) = completion();
            here.probe(subject, then);
            let outcome = answered.recv_timeout(PATIENCE)?;
            if outcome == expected { Ok(()) } else { Err(format!("{outcome:?}").into()) }
        })?;
    }
    Ok(())
}

fn store(here: &NatsEngine) -> Result<(), Box<dyn Error>> {
    let mut number = 0;
    let mut key = || {
        number += 1;
        format!("k{number}")
    };
    measure("store: create", || {
        let (then, written) = completion();
        here.create(Bucket::Names, &key(), Bytes::from_static(b"value"), then);
        written.recv_timeout(PATIENCE)??;
        Ok(())
    })?;
    let (then, written) = completion();
    here.create(Bucket::Names, "updated", Bytes::new(), then);
    let mut last = written.recv_timeout(PATIENCE)??;
    measure("store: update", || {
        let (then, written) = completion();
        here.update(Bucket::Names, "updated", Bytes::new(), last, then);
        last = written.recv_timeout(PATIENCE)??;
        Ok(())
    })?;
    measure("store: get", || {
        let (then, read) = completion();
        here.get(Bucket::Names, "updated", then);
        read.recv_timeout(PATIENCE)??.ok_or("it is gone")?;
        Ok(())
    })?;
    let (sender, written) = mpsc::channel();
    let began = Instant::now();
    let (mut asked, mut done) = (0, 0);
    while done < 4 * ROUNDS {
        while asked < 4 * ROUNDS && asked - done < 64 {
            let sender = sender.clone();
            let then = Box::new(move |result| drop(sender.send(result)));
            here.create(Bucket::Names, &key(), Bytes::from_static(b"value"), then);
            asked += 1;
        }
        written.recv_timeout(PATIENCE)??;
        done += 1;
    }
    println!("store: {:.1} k/s created, 64 at a time", f64::from(done) / began.elapsed().as_secs_f64() / 1_000.0);
    Ok(())
}

fn completion<T: Send + 'static>() -> (Box<dyn FnOnce(T) + Send>, mpsc::Receiver<T>) {
    let (sender, answers) = mpsc::channel();
    (Box::new(move |answer| drop(sender.send(answer))), answers)
}

fn measure(what: &str, mut round: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    for _ in 0..ROUNDS / 10 {
        round()?;
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        round()?;
        times.push(began.elapsed().as_nanos() as f64 / 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{what}: {:.0} µs (half), {:.0} µs (99 %), {:.0} µs (longest)", at(0.5), at(0.99), at(1.0));
    Ok(())
}
