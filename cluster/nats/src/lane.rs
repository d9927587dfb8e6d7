//! Connects a lane, reconnects it when the connection breaks, and sends the queued messages.
//!
//! # A client for each connection
//! The client library reconnects by itself, and then sends the messages that it has kept in the meantime. That would be
//! wrong for accesses to the store: by then the caller has long been told that the access may have happened, has read
//! the key, and has acted on the result. So each connection has its own client. When the connection breaks, the client
//! ends, and drops everything that it has kept: its attempt to reconnect goes to an unreachable address ([`NOWHERE`]),
//! and only one such attempt is allowed.

use crate::connection::{LAST_WORDS, LaneConnection, OutgoingMessage};
use crate::problem::{OLDEST_SERVER, Problem, Violation};
use crate::shared::{EngineShared, ProblemSource};
use crate::store;
use async_nats::{Client, Event, ReconnectToServer, ServerAddr, ServerError};
use futures_util::StreamExt;
use postroom_cluster::engine::Lane;
use postroom_cluster::frame::MAX_FRAME;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{sleep, timeout};

/// The number of messages that the client may take from the queue before they are written. It is small, so that the
/// limits of the queue are the ones that take effect.
const CLIENT_CAPACITY: usize = 128;

/// The number of bytes per read. The client reads 128 times before it lets subscriptions run: that is 1 MiB, and fewer
/// messages than a subscription has room for.
const READ_BUFFER: u16 = 8 << 10;

/// The interval at which a silent server is asked for a sign of life. When two answers are missing at the time of the
/// third request, the connection counts as broken: after 3.75 s, about when a server with the settings of the guide
/// gives up a silent node. A server that hears a node but is not heard by it notices nothing; in that case only this
/// check ends the connection.
pub(crate) const PING_INTERVAL: Duration = Duration::from_millis(1_250);

/// The time limit for a connection attempt, with TLS and authentication.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a connection breaks, and after the first failed attempt. It doubles with each attempt, up to the
/// second value. About half of it is random, so that the nodes of a large cluster do not all reconnect at once.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// Maximum number of refusals that wait for their requests. A request that misses its refusal times out.
const MAX_REFUSALS: usize = 256;

/// An address without a server: none listens at port 0.
const NOWHERE: &str = "nats://127.0.0.1:0";

/// Keeps the lane connected while the engine is open.
pub(crate) async fn keep_connected(shared: Arc<EngineShared>, lane: Lane) {
    let servers = shared.settings.servers();
    let (mut number, mut failures) = (0, 0);
    for (place, server) in servers.iter().enumerate().cycle() {
        match connect(&shared, lane, server).await {
            Ok((client, refusals)) => {
                (number, failures) = (number + 1, 0);
                shared.tried(lane, place, server, None);
                serve(&shared, lane, LaneConnection { number, client, refusals }).await;
            }
            Err(problem) => {
                failures += 1;
                shared.tried(lane, place, server, Some(&problem));
                shared.set_problem(ProblemSource::Lane(lane), Some(problem));
            }
        }
        sleep(pause(failures)).await;
    }
}

/// Counts what the client reports, and passes the subject of a refused message to the waiting requests.
fn note_event(shared: &EngineShared, lane: Lane, refused: &broadcast::Sender<String>, event: Event) {
    match event {
        Event::SlowConsumer(_) => _ = shared.counters.dropped.fetch_add(1, Ordering::Relaxed),
        Event::ServerError(ServerError::Other(text)) => {
            let Some(refusal) = Violation::read(&text) else { return };
            shared.refused(lane, &refusal);
            if !refusal.is_subscription {
                // This fails if no request is waiting. That does not matter.
                let _ = refused.send(refusal.subject);
            }
        }
        _ => {}
    }
}

async fn connect(
    shared: &Arc<EngineShared>,
    lane: Lane,
    server: &str,
) -> Result<(Client, broadcast::Sender<String>), Problem> {
    let address = |text: &str| -> Result<ServerAddr, Problem> {
        text.parse().map_err(|error| Problem::Unreachable { server: text.into(), reason: format!("{error}") })
    };
    let (real, nowhere) = (address(server)?, address(NOWHERE)?);
    let servers = [real.clone(), nowhere.clone()];
    let is_first = AtomicBool::new(true);
    let counts = Arc::clone(shared);
    let (refusals, _) = broadcast::channel(MAX_REFUSALS);
    let refused = refusals.clone();
    shared.set_problem(ProblemSource::Rights(lane), None);
    let options = shared.settings.options().map_err(|reason| Problem::Tls { server: server.into(), reason })?;
    let options = options
        .name(format!("postroom-{}-{lane:?}", shared.settings.name()))
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_TIMEOUT)
        .client_capacity(CLIENT_CAPACITY)
        .read_buffer_capacity(READ_BUFFER)
        .ignore_discovered_servers()
        .max_reconnects(1)
        .reconnect_to_server_callback(move |_, _| {
            let addr = if is_first.swap(false, Ordering::Relaxed) { real.clone() } else { nowhere.clone() };
            async move { Some(ReconnectToServer { addr, delay: Some(Duration::ZERO) }) }
        })
        .event_callback(move |event| {
            note_event(&counts, lane, &refused, event);
            async {}
        });
    // The client's own limit applies only to the handshake.
    let attempt = timeout(CONNECT_TIMEOUT, options.connect(&servers[..])).await;
    let client = match attempt {
        Ok(result) => result.map_err(|error| Problem::of_connecting(server, &error))?,
        Err(_) => return Err(Problem::Unreachable { server: server.into(), reason: "it does not answer".into() }),
    };
    let info = client.server_info();
    if !is_new_enough(&info.version) {
        return Err(Problem::TooOld { version: info.version });
    }
    if info.max_payload < MAX_FRAME {
        return Err(Problem::SmallPayload { server: server.into(), limit: info.max_payload });
    }
    shared.max_payload.store(info.max_payload, Ordering::Relaxed);
    Ok((client, refusals))
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map_while(|part| part.parse::<u64>().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= OLDEST_SERVER
}

/// Makes a connection available to all tasks until it breaks.
async fn serve(shared: &Arc<EngineShared>, lane: Lane, connected: LaneConnection) {
    // No message is ever published on this subject, so the subscription ends only with the client.
    let Ok(mut end) = connected.client.subscribe(connected.client.new_inbox()).await else { return };
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    shared.lane(lane).connection.send_replace(Some(connected.clone()));
    shared.set_problem(ProblemSource::Lane(lane), None);
    let broken = async { while end.next().await.is_some() {} };
    match lane {
        Lane::Data => broken.await,
        Lane::Control => {
            tokio::select! { () = broken => {}, () = store::keep_prepared(shared, &connected) => {} }
            shared.set_problem(ProblemSource::Store, Some(Problem::NoAnswer));
            shared.store.send_replace(None);
        }
    }
    shared.set_problem(ProblemSource::Lane(lane), Some(Problem::NoAnswer));
    shared.lane(lane).connection.send_replace(None);
}

fn pause(failures: u32) -> Duration {
    let [first, longest] = PAUSES;
    let pause = first.saturating_mul(1 << failures.min(10)).min(longest);
    // The standard library's only source of randomness: the keys of a hash table.
    let random = std::hash::RandomState::new().build_hasher().finish() % 1_024;
    pause / 2 + pause / 2 * random as u32 / 1_024
}

/// Sends queued messages until the engine closes, and then the remaining ones.
pub(crate) async fn forward(shared: Arc<EngineShared>, lane: Lane, mut queue: mpsc::Receiver<OutgoingMessage>) {
    let mut closed = shared.closed.subscribe();
    let give_up = async {
        let _ = closed.wait_for(|closed| *closed).await;
        sleep(LAST_WORDS).await;
    };
    let is_sending = AtomicBool::new(false);
    tokio::select! { () = send(&shared, lane, &mut queue, &is_sending) => {}, () = give_up => {} }
    queue.close();
    let waiting = std::iter::from_fn(|| queue.try_recv().ok()).count() as u64;
    let unsent = waiting + u64::from(is_sending.into_inner());
    shared.counters.unsent.fetch_add(unsent, Ordering::Relaxed);
}

async fn send(shared: &EngineShared, lane: Lane, queue: &mut mpsc::Receiver<OutgoingMessage>, is_sending: &AtomicBool) {
    let mut closed = shared.closed.subscribe();
    let state = shared.lane(lane);
    loop {
        let mut next = tokio::select! {
            biased;
            next = queue.recv() => next,
            _ = closed.wait_for(|closed| *closed) => break,
        };
        let connected = state.connected();
        while let Some(OutgoingMessage { subject, payload }) = next.take() {
            state.queued_bytes.fetch_sub(payload.len(), Ordering::Relaxed);
            is_sending.store(true, Ordering::Relaxed);
            let sent = match &connected {
                Some(connected) => connected.client.publish(subject, payload).await.is_ok(),
                None => false,
            };
            is_sending.store(false, Ordering::Relaxed);
            if sent {
                next = queue.try_recv().ok();
            } else {
                shared.counters.unsent.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    if let Some(connected) = state.connected() {
        let _ = connected.client.flush().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_known_by_their_version() {
        for (version, expected) in [
            ("2.12.0", true),
            ("2.12.0-RC.1", true),
            ("3.0.0", true),
            ("2.9.10", false),
            ("1.99.0", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        for failures in [0, 1, 2, 3, 6, 20, u32::MAX] {
            let whole = PAUSES[0].saturating_mul(1 << failures.min(10)).min(PAUSES[1]);
            let pause = pause(failures);
            assert!(pause >= whole / 2 && pause <= whole, "{failures}: {pause:?}");
        }
    }
}
