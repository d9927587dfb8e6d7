//! Watches: consumers of the streams of the store. [`replay`](crate::replay) describes the rules.

use crate::completion::run;
use crate::connection::{LaneConnection, newer};
use crate::replay::{KeyOperation, Next, Replay, ReplayStart, StreamMessage};
use crate::requests::{self, Failure, MARKER_HEADER, OPERATION_HEADER};
use crate::shared::EngineShared;
use crate::table::StoreTable;
use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use postroom_cluster::store::{Bucket, Change, Entry, OnChange, Revision};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The interval at which an idle consumer sends a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// The time for which a consumer may be silent. After that it may be gone: lost with its server, or deleted by the
/// server.
const SILENCE: Duration = Duration::from_secs(6);
/// The time after which the server deletes a consumer without a listener.
const INACTIVE: Duration = Duration::from_secs(10);
/// The time limit of a request about the consumer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before another consumer is created. It doubles, up to the second value, while the stream is missing
/// although the tables were prepared.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];

/// Number of changes that are reported before other tasks may run.
const TURN: usize = 256;

pub(crate) struct Watch {
    pub(crate) shared: Arc<EngineShared>,
    pub(crate) bucket: Bucket,
    pub(crate) on_change: OnChange,
    /// False once the subscription is dropped.
    pub(crate) is_wanted: Arc<AtomicBool>,
}

/// Why a consumer ended.
enum ConsumerEnd {
    /// The connection was lost.
    Disconnected,
    /// The consumer missed a message, or was silent.
    Restart,
    /// The watch has been dropped.
    Dropped,
}

impl Watch {
    pub(crate) async fn run(mut self, after: Option<Revision>) {
        let mut connections = self.shared.store.subscribe();
        let mut replay = Replay::new(after);
        let [first, longest] = PAUSES;
        let (mut last, mut doubts) = (0, 0);
        while let Some(connected) = newer(&mut connections, last).await {
            last = connected.number - 1;
            match self.consume(&connected, &mut replay).await {
                Ok(ConsumerEnd::Dropped) => return,
                Ok(ConsumerEnd::Disconnected) => last = connected.number,
                Err(Failure::NoStream) => {
                    self.shared.doubt_store(&connected);
                    sleep(first.saturating_mul(1 << doubts).min(longest)).await;
                    doubts = (doubts + 1).min(10);
                    continue;
                }
                Ok(ConsumerEnd::Restart) | Err(_) => sleep(first).await,
            }
            doubts = 0;
        }
    }

    /// Creates a consumer and reports its messages until it ends.
    async fn consume(&mut self, connected: &LaneConnection, replay: &mut Replay) -> Result<ConsumerEnd, Failure> {
        let client = &connected.client;
        let table = StoreTable::new(self.shared.settings.name(), self.bucket);
        let inbox = client.new_inbox();
        let Ok(mut messages) = client.subscribe(inbox.clone()).await else { return Ok(ConsumerEnd::Disconnected) };
        let pending = create_consumer(connected, &table, &inbox, replay.start()).await?;
        let subject = format!("$JS.API.STREAM.INFO.{}", table.stream);
        let seen = self.shared.floor.copy();
        let info = requests::request(connected, subject, None, Bytes::new(), REQUEST_TIMEOUT).await?;
        let last = info["state"]["last_seq"].as_u64().ok_or(Failure::NoAnswer)?;
        if seen.is_above(self.bucket, Revision(last)) {
            // The store was replaced while the connection lasted, or the answering leader was cut off.
            return Err(Failure::NoStream);
        }
        let mut next = replay.started(pending, last);
        loop {
            match next {
                Next::Restart => return Ok(ConsumerEnd::Restart),
                Next::Report(changes) => {
                    if !self.report(changes).await {
                        return Ok(ConsumerEnd::Dropped);
                    }
                    next = match receive(connected, &table, &mut messages).await {
                        ConsumerEvent::Delivery(delivery) => replay.delivered(delivery),
                        ConsumerEvent::Idle(number) => replay.idle(number),
                        ConsumerEvent::Other => Next::Report(Vec::new()),
                        ConsumerEvent::Silence => Next::Restart,
                        ConsumerEvent::End => return Ok(ConsumerEnd::Disconnected),
                    };
                }
                Next::Ask(changes, revision) => {
                    if !self.report(changes).await {
                        return Ok(ConsumerEnd::Dropped);
                    }
                    let is_there = requests::has(connected, &table.stream, revision, REQUEST_TIMEOUT).await?;
                    next = replay.answered(is_there);
                }
            }
        }
    }

    /// Reports changes. Returns false if the watch has been dropped.
    async fn report(&mut self, changes: Vec<Change>) -> bool {
        for (at, change) in changes.into_iter().enumerate() {
            // A snapshot may be long, so other tasks get their turn.
            if at % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            if !self.is_wanted.load(Ordering::Acquire) {
                return false;
            }
            if let Change::Put(Entry { revision, .. })
            | Change::Deleted { revision, .. }
            | Change::Synced { revision } = &change
            {
                self.shared.floor.saw(self.bucket, *revision);
            }
            if !run(|| (self.on_change)(change)) {
                self.shared.counters.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }
}

/// Creates a consumer, and returns the number of messages that it has to send. The server deletes the consumer some
/// time after the last subscription to its inbox has ended.
async fn create_consumer(
    connected: &LaneConnection,
    table: &StoreTable,
    inbox: &str,
    start: ReplayStart,
) -> Result<u64, Failure> {
    let nanos = |time: Duration| time.as_nanos() as u64;
    let mut configuration = json!({
        "deliver_subject": inbox,
        "filter_subject": format!("{}>", table.prefix),
        "ack_policy": "none",
        "max_deliver": 1,
        "replay_policy": "instant",
        "flow_control": true,
        "idle_heartbeat": nanos(HEARTBEAT),
        "inactive_threshold": nanos(INACTIVE),
        "mem_storage": true,
        "num_replicas": 1,
    });
    match start {
        ReplayStart::Snapshot => configuration["deliver_policy"] = "last_per_subject".into(),
        ReplayStart::From(revision) => {
            configuration["deliver_policy"] = "by_start_sequence".into();
            configuration["opt_start_seq"] = revision.into();
        }
    }
    let question = json!({ "stream_name": table.stream, "config": configuration }).to_string();
    let subject = format!("$JS.API.CONSUMER.CREATE.{}", table.stream);
    let answer = requests::request(connected, subject, None, question.into(), REQUEST_TIMEOUT).await?;
    answer["num_pending"].as_u64().ok_or(Failure::NoAnswer)
}

enum ConsumerEvent {
    Delivery(StreamMessage),
    /// The consumer has nothing to send, and has sent this many messages.
    Idle(u64),
    /// A message without meaning for the watch.
    Other,
    Silence,
    End,
}

async fn receive(connected: &LaneConnection, table: &StoreTable, messages: &mut Subscriber) -> ConsumerEvent {
    let message = match timeout(SILENCE, messages.next()).await {
        Ok(Some(message)) => message,
        Ok(None) => return ConsumerEvent::End,
        Err(_) => return ConsumerEvent::Silence,
    };
    match message.status {
        Some(status) if is_idle_or_flow(status) => {
            // The consumer waits for an answer before it sends more than fits into the connection.
            let stalled = header(&message, "Nats-Consumer-Stalled").map(ToOwned::to_owned);
            if let Some(reply) = message.reply.as_ref().map(ToString::to_string).or(stalled) {
                let _ = connected.client.publish(reply, Bytes::new()).await;
            }
            let last = header(&message, "Nats-Last-Consumer").and_then(|number| number.parse().ok());
            last.map_or(ConsumerEvent::Other, ConsumerEvent::Idle)
        }
        // Any other status means that the consumer has ended.
        Some(_) => ConsumerEvent::Silence,
        None => delivery(table, message).map_or(ConsumerEvent::Other, ConsumerEvent::Delivery),
    }
}

fn is_idle_or_flow(status: StatusCode) -> bool {
    status == StatusCode::IDLE_HEARTBEAT
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(|value| value.as_str())
}

/// Decodes a message of the stream. Its numbers are in the subject for acknowledgements:
/// `$JS.ACK.<stream>.<consumer>.<deliveries>.<revision>.<number>.<time>.<pending>`. That subject may have two more
/// parts after `$JS.ACK`, and one at the end.
fn delivery(table: &StoreTable, message: Message) -> Option<StreamMessage> {
    let (key, is_value) = table.key(&message.subject)?;
    let key = key.to_owned();
    let parts: Vec<_> = message.reply.as_ref()?.split('.').collect();
    let first = if parts.len() > 9 { 7 } else { 5 };
    let number = |at: usize| parts.get(first + at)?.parse::<u64>().ok();
    let (revision, in_consumer, time, pending) = (number(0)?, number(1)?, number(2)?, number(3)?);
    let operation = if header(&message, MARKER_HEADER).is_some() {
        KeyOperation::Expire
    } else if !is_value || header(&message, OPERATION_HEADER).is_some_and(|operation| operation != "PUT") {
        KeyOperation::Delete
    } else {
        KeyOperation::Put(message.payload)
    };
    Some(StreamMessage { number: in_consumer, revision, pending, time, key, operation })
}
