//! The client library alone. It shows what a message and a request cost without actors.

use super::{BATCH, CALLS, Figures, Outcome, WARM_UP, rate, ready};
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;
use std::time::{Duration, Instant};

const MESSAGES: u64 = 500_000;

/// The capacity of a subscription. It exceeds the number of messages of any measurement, since the client drops
/// messages beyond the capacity.
const CAPACITY: usize = 1 << 20;

const SINK: &str = "compare.sink";
const COUNT: &str = "compare.count";
const ECHO: &str = "compare.echo";

async fn connect(url: &str) -> Outcome<Client> {
    Ok(ConnectOptions::new().subscription_capacity(CAPACITY).connect(url).await?)
}

pub(crate) async fn there(url: &str) -> Outcome<()> {
    let client = connect(url).await?;
    let mut sink = client.subscribe(SINK).await?;
    let mut counts = client.subscribe(COUNT).await?;
    let mut echoes = client.subscribe(ECHO).await?;
    client.flush().await?;
    ready(url);
    let mut taken = 0_u64;
    loop {
        tokio::select! {
            biased;
            Some(message) = sink.next() => {
                taken += message.payload.chunks(64).map(|cargo| u64::from(cargo[0])).sum::<u64>();
            }
            Some(request) = echoes.next() => {
                client.publish(request.reply.ok_or("no request")?, request.payload).await?;
            }
            Some(request) = counts.next() => {
                let taken = taken.to_string();
                client.publish(request.reply.ok_or("no request")?, taken.into()).await?;
            }
        }
    }
}

pub(crate) async fn here(url: &str) -> Outcome<()> {
    let client = connect(url).await?;
    let mut figures = Figures::default();
    let mut expected = 0;
    for batch in [1, BATCH] {
        let cargo = vec![1; 64 * batch as usize];
        let begun = Instant::now();
        for _ in 0..MESSAGES / batch {
            client.publish(SINK, cargo.clone().into()).await?;
        }
        expected += MESSAGES;
        loop {
            let answer = client.request(COUNT, Default::default()).await?;
            if std::str::from_utf8(&answer.payload)?.parse::<u64>()? == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        *(if batch == 1 { &mut figures.single } else { &mut figures.batched }) = rate(MESSAGES, begun);
    }
    for call in 0..WARM_UP + CALLS {
        let begun = Instant::now();
        client.request(ECHO, vec![1; 64].into()).await?;
        if call >= WARM_UP {
            figures.calls.push(begun.elapsed());
        }
    }
    figures.print();
    Ok(())
}
