//! `ractor_cluster`. The nodes are connected directly, and a remote actor is found by its group.

use super::{BATCH, CALLS, Figures, Outcome, WARM_UP, rate, ready};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, pg};
use ractor_cluster::{NodeServer, NodeServerMessage, RactorClusterMessage, client_connect};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

const MESSAGES: u64 = 500_000;
const GROUP: &str = "sinks";

#[derive(RactorClusterMessage)]
enum SinkMessage {
    Take(Vec<u8>),
    #[rpc]
    Echo(Vec<u8>, RpcReplyPort<Vec<u8>>),
    #[rpc]
    Taken(RpcReplyPort<u64>),
}

struct Sink;

impl Actor for Sink {
    type Msg = SinkMessage;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<SinkMessage>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _myself: ActorRef<SinkMessage>,
        message: SinkMessage,
        taken: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SinkMessage::Take(cargo) => *taken += cargo.chunks(64).map(|cargo| u64::from(cargo[0])).sum::<u64>(),
            SinkMessage::Echo(cargo, reply) => reply.send(cargo)?,
            SinkMessage::Taken(reply) => reply.send(*taken)?,
        }
        Ok(())
    }
}

/// Starts a node that listens on a free port. Returns the node's server, and the port.
async fn node(name: &str) -> Outcome<(ActorRef<NodeServerMessage>, u16)> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let server = NodeServer::new(port, "cookie".into(), name.into(), "localhost".into(), None, None)
        .with_listen_addr(Ipv4Addr::LOCALHOST.into());
    Ok((Actor::spawn(None, server, ()).await?.0, port))
}

pub(crate) async fn there() -> Outcome<()> {
    let (_server, port) = node("there").await?;
    let (sink, _) = Actor::spawn(None, Sink, ()).await?;
    pg::join(GROUP.into(), vec![sink.get_cell()]);
    ready(&port.to_string());
    std::future::pending().await
}

pub(crate) async fn here(port: &str) -> Outcome<()> {
    let (server, _) = node("here").await?;
    client_connect(&server, format!("127.0.0.1:{port}")).await?;
    let begun = Instant::now();
    let sink: ActorRef<SinkMessage> = loop {
        match pg::get_members(&GROUP.into()).into_iter().next() {
            Some(sink) => break sink.into(),
            None if begun.elapsed() > Duration::from_secs(60) => return Err("the group stays empty".into()),
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let mut figures = Figures::default();
    let mut expected = 0;
    for batch in [1, BATCH] {
        let begun = Instant::now();
        for _ in 0..MESSAGES / batch {
            sink.cast(SinkMessage::Take(vec![1; 64 * batch as usize]))?;
        }
        expected += MESSAGES;
        while ractor::call!(sink, SinkMessage::Taken)? < expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        *(if batch == 1 { &mut figures.single } else { &mut figures.batched }) = rate(MESSAGES, begun);
    }
    for call in 0..WARM_UP + CALLS {
        let begun = Instant::now();
        ractor::call!(sink, SinkMessage::Echo, vec![1; 64])?;
        if call >= WARM_UP {
            figures.calls.push(begun.elapsed());
        }
    }
    figures.print();
    Ok(())
}
