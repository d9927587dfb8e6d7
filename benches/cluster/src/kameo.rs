//! kameo with its feature `remote`, over libp2p. The transport is TCP with libp2p's encryption, which cannot be
//! disabled.

use super::{BATCH, CALLS, Figures, Outcome, WARM_UP, rate, ready};
use futures_util::{StreamExt, TryStreamExt};
use kameo::prelude::*;
use kameo::remote::{Behaviour, messaging};
use libp2p::swarm::{NetworkBehaviour, Swarm, SwarmEvent};
use libp2p::{Multiaddr, SwarmBuilder, noise, tcp, yamux};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Number of messages. There are fewer than for the other systems, since a message costs this system tens of times as
/// much.
const MESSAGES: u64 = 20_000;
/// Number of messages that may await their acknowledgement. In libp2p, each message is a stream of its own, and a
/// connection has at most a hundred streams. Beyond that, `send` without an acknowledgement fails.
const WINDOW: usize = 64;
const NAME: &str = "sink";

type Cargo = [u64; 8];

#[derive(Actor, RemoteActor, Default)]
struct Sink {
    taken: u64,
}

#[derive(Serialize, Deserialize)]
struct Take(Vec<Cargo>);

#[derive(Serialize, Deserialize, Reply)]
struct Echo(Cargo);

#[derive(Serialize, Deserialize)]
struct Taken;

#[remote_message]
impl Message<Take> for Sink {
    type Reply = ();

    async fn handle(&mut self, Take(cargoes): Take, _ctx: &mut Context<Self, ()>) {
        self.taken += cargoes.iter().map(|cargo| cargo[0]).sum::<u64>();
    }
}

#[remote_message]
impl Message<Echo> for Sink {
    type Reply = Echo;

    async fn handle(&mut self, echo: Echo, _ctx: &mut Context<Self, Echo>) -> Echo {
        echo
    }
}

#[remote_message]
impl Message<Taken> for Sink {
    type Reply = u64;

    async fn handle(&mut self, _message: Taken, _ctx: &mut Context<Self, u64>) -> u64 {
        self.taken
    }
}

#[derive(NetworkBehaviour)]
struct Network {
    kameo: Behaviour,
}

fn swarm() -> Outcome<Swarm<Network>> {
    let swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|key| Network {
            kameo: Behaviour::new(key.public().to_peer_id(), messaging::Config::default()),
        })?
        .build();
    swarm.behaviour().kameo.try_init_global()?;
    Ok(swarm)
}

fn drive(mut swarm: Swarm<Network>) {
    tokio::spawn(async move {
        loop {
            swarm.select_next_some().await;
        }
    });
}

pub(crate) async fn there() -> Outcome<()> {
    let mut swarm = swarm()?;
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    let address = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            break address.with_p2p(*swarm.local_peer_id()).map_err(|address| format!("not an address: {address}"))?;
        }
    };
    drive(swarm);
    let sink = Sink::spawn(Sink::default());
    ready(&address.to_string());
    // This fails until another node has connected.
    while sink.register(NAME).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::future::pending().await
}

pub(crate) async fn here(address: &str) -> Outcome<()> {
    let mut swarm = swarm()?;
    let (_, peer) = address.rsplit_once('/').ok_or("no peer")?;
    let address = address.parse::<Multiaddr>()?;
    swarm.add_peer_address(peer.parse()?, address.clone());
    swarm.dial(address)?;
    drive(swarm);
    let begun = Instant::now();
    let sink = loop {
        match RemoteActorRef::<Sink>::lookup(NAME).await {
            Ok(Some(sink)) => break sink,
            _ if begun.elapsed() > Duration::from_secs(60) => return Err("the name is not found".into()),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let mut figures = Figures::default();
    let mut expected = 0;
    for batch in [1, BATCH] {
        let take = Take(vec![[1; 8]; batch as usize]);
        // Both rows make the same number of sends, since a batch costs about as much as a single message.
        let messages = MESSAGES * batch;
        let begun = Instant::now();
        futures_util::stream::iter(0..MESSAGES)
            .map(|_| Ok(sink.tell(&take).send_ack()))
            .try_buffer_unordered(WINDOW)
            .try_collect::<()>()
            .await?;
        expected += messages;
        while sink.ask(&Taken).await? < expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        *(if batch == 1 { &mut figures.single } else { &mut figures.batched }) = rate(messages, begun);
    }
    for call in 0..WARM_UP + CALLS {
        let begun = Instant::now();
        sink.ask(&Echo([1; 8])).await?;
        if call >= WARM_UP {
            figures.calls.push(begun.elapsed());
        }
    }
    figures.print();
    Ok(())
}
