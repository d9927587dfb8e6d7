//! Subscriptions, and the probes that they answer.
//!
//! A message counts only if its subject matches the subscription. The server can deliver other messages to it: a node
//! may create a consumer of a table, and have it deliver to any subject.
//!
//! A probe is a request with a header. The server answers it if there is no subscriber; otherwise the engine of the
//! subscriber does, on the connection of the subscription. An answer also shows that all messages before the probe
//! have been taken from that connection.

use crate::completion::run;
use crate::connection::newer;
use crate::shared::EngineShared;
use async_nats::{HeaderMap, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::StreamExt;
use postroom_cluster::__private::{is_subject, matches};
use postroom_cluster::engine::{Lane, Message, OnMessage, ProbeOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The header that makes a message a probe.
const PROBE_HEADER: &str = "Postroom-Probe";

/// The time for which a probe waits for an answer. A server reports the absence of subscribers in less than a
/// millisecond; a subscriber behind a slow network that does not answer in this time is probed again. A longer wait
/// would only delay the probe that finds a silent node gone.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) struct LaneSubscriber {
    pub(crate) shared: Arc<EngineShared>,
    pub(crate) lane: Lane,
    pub(crate) pattern: String,
    pub(crate) on_message: OnMessage,
    /// False once the subscription is dropped.
    pub(crate) is_wanted: Arc<AtomicBool>,
}

impl LaneSubscriber {
    /// Receives messages from each connection of the lane in turn.
    pub(crate) async fn run(mut self) {
        let mut connections = self.shared.lane(self.lane).connection.subscribe();
        let mut last = 0;
        while let Some(connected) = newer(&mut connections, last).await {
            last = connected.number;
            let Ok(mut messages) = connected.client.subscribe(self.pattern.clone()).await else { continue };
            while let Some(message) = messages.next().await {
                if !self.is_wanted.load(Ordering::Acquire) {
                    return;
                }
                // A message with a status comes from the server itself, for the client that has created a consumer.
                if !matches(&self.pattern, &message.subject) || message.status.is_some() {
                    self.shared.counters.misdelivered.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let is_probe = message.headers.as_ref().is_some_and(|headers| headers.get(PROBE_HEADER).is_some());
                match message.reply {
                    Some(reply) if is_probe && self.may_answer(&message.subject, &reply) => {
                        let _ = connected.client.publish(reply, Bytes::new()).await;
                    }
                    Some(_) if is_probe => _ = self.shared.counters.misdelivered.fetch_add(1, Ordering::Relaxed),
                    _ => self.receive(Message { subject: message.subject.to_string(), payload: message.payload }),
                }
            }
        }
    }

    /// Returns whether a probe of `subject` asks for its answer on a subject that is reserved for such answers.
    fn may_answer(&self, subject: &str, reply: &str) -> bool {
        let (settings, subjects) = (&self.shared.settings, self.shared.settings.subjects());
        subjects.is_probe_answer(subject, reply, settings.answers_as())
    }

    fn receive(&mut self, message: Message) {
        if !run(|| (self.on_message)(message)) {
            self.shared.counters.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Asks whether a subject has a subscriber.
pub(crate) async fn probe(shared: &EngineShared, subject: String) -> ProbeOutcome {
    let connected = shared.lane(Lane::Control).connected();
    let Some(connected) = connected.filter(|_| is_subject(&subject)) else { return ProbeOutcome::Unknown };
    let mut headers = HeaderMap::new();
    headers.insert(PROBE_HEADER, "1");
    // The probe has a reply subject of its own: with a shared subject, the client would keep the state of a request
    // that is never answered.
    let (settings, subjects) = (&shared.settings, shared.settings.subjects());
    let token = connected.client.new_inbox();
    let token = token.rsplit('.').next().unwrap_or(&token);
    let asked = subjects.parse_frame(&subject).map_or_else(|| settings.answers_as().into(), |(to, _)| to.name);
    let inbox = subjects.probe_answer(settings.answers_as(), token, &asked);
    let request = Request::new().headers(headers).timeout(Some(PROBE_TIMEOUT)).inbox(inbox);
    match connected.client.send_request(subject, request).await {
        Ok(_) => ProbeOutcome::Responders,
        Err(error) if error.kind() == RequestErrorKind::NoResponders => ProbeOutcome::NoResponders,
        Err(_) => ProbeOutcome::Unknown,
    }
}
