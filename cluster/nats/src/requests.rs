//! Requests to the server's store, and the meaning of its answers. NATS' documentation calls this the JetStream API;
//! its texts and numbers are part of the protocol.

use crate::connection::LaneConnection;
use crate::table::StoreTable;
use async_nats::{HeaderMap, Request, RequestErrorKind};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No one answers such requests: there is no store, or the stream has no leader. Nothing was done.
    NoResponders,
    /// There was no answer, or the answer cannot be read.
    NoAnswer,
    /// The request is longer than the server accepts. Nothing was done.
    TooLarge,
    /// The subject's last revision differs from the expected one. Nothing was done.
    WrongRevision,
    /// The stream does not exist.
    NoStream,
    /// The stream exists already, with another configuration. Nothing was done.
    Exists,
    /// The message does not exist.
    NoMessage,
    /// The account is not allowed to use the store.
    NotEnabled,
    /// The store cannot have the requested number of replicas.
    NoReplicas(String),
    /// This node has no permission for the request. Nothing was done.
    Forbidden,
    /// The stream has reached its limit of messages. Nothing was done.
    Full,
    /// Another refusal. Nothing was done.
    Refused(String),
}

impl Failure {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::NoResponders => "there is no responder".into(),
            Self::NoAnswer => "there was no answer in time".into(),
            Self::NoReplicas(text) | Self::Refused(text) => text.clone(),
            other => format!("{other:?}"),
        }
    }

    /// Converts an error from the server by its code. The server's file `errors.json` lists the codes.
    fn of_error(error: &Value) -> Self {
        let description = error["description"].as_str().unwrap_or("no reason given").to_owned();
        match error["err_code"].as_u64() {
            Some(10_071 | 10_164) => Self::WrongRevision,
            Some(10_059) => Self::NoStream,
            Some(10_058) => Self::Exists,
            Some(10_037) => Self::NoMessage,
            Some(10_054) => Self::TooLarge,
            Some(10_077) if description.contains("maximum") => Self::Full,
            Some(10_035 | 10_039 | 10_076) => Self::NotEnabled,
            Some(10_074) => Self::NoReplicas(description),
            _ => Self::Refused(description),
        }
    }
}

/// Sends a request, and waits for the answer.
pub(crate) async fn request(
    connected: &LaneConnection,
    subject: String,
    headers: Option<HeaderMap>,
    payload: Bytes,
    within: Duration,
) -> Result<Value, Failure> {
    let mut request = Request::new().payload(payload).timeout(Some(within));
    if let Some(headers) = headers {
        request = request.headers(headers);
    }
    // Subscribes before the request is sent, so that its refusal is not missed.
    let refusals = connected.refusals.subscribe();
    let answer = connected.client.send_request(subject.clone(), request);
    tokio::select! {
        answer = answer => {
            let answer = answer.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => Failure::NoResponders,
                RequestErrorKind::MaxPayloadExceeded => Failure::TooLarge,
                _ => Failure::NoAnswer,
            })?;
            read(&answer.payload)
        }
        () = refusal(refusals, &subject) => Err(Failure::Forbidden),
    }
}

/// Waits until the server refuses a publication on this subject. The server does not answer such a request, but reports
/// its refusal separately.
async fn refusal(mut refusals: broadcast::Receiver<String>, subject: &str) {
    loop {
        match refusals.recv().await {
            Ok(refused) if refused == subject => return,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn read(payload: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(payload).map_err(|_| Failure::NoAnswer)?;
    match value.get("error") {
        Some(error) => Err(Failure::of_error(error)),
        None => Ok(value),
    }
}

/// The message that a stream stores for a subject.
pub(crate) struct StoredMessage {
    pub(crate) revision: u64,
    /// `None` if the entry was deleted.
    pub(crate) value: Option<Bytes>,
}

/// Reads the last message whose subject matches a pattern, from the stream's leader.
pub(crate) async fn last(
    connected: &LaneConnection,
    table: &StoreTable,
    subject: &str,
    within: Duration,
) -> Result<StoredMessage, Failure> {
    let question = json!({ "last_by_subj": subject });
    let answer = message_get(connected, &table.stream, question, within).await?;
    let mut stored = stored(&answer).ok_or(Failure::NoAnswer)?;
    let is_value =
        answer["message"]["subject"].as_str().and_then(|subject| table.key(subject)).is_some_and(|key| key.1);
    stored.value = stored.value.filter(|_| is_value);
    Ok(stored)
}

/// Returns whether the stream's leader has a message with this number.
pub(crate) async fn has(
    connected: &LaneConnection,
    stream: &str,
    revision: u64,
    within: Duration,
) -> Result<bool, Failure> {
    match message_get(connected, stream, json!({ "seq": revision }), within).await {
        Ok(_) => Ok(true),
        Err(Failure::NoMessage) => Ok(false),
        Err(failure) => Err(failure),
    }
}

async fn message_get(
    connected: &LaneConnection,
    stream: &str,
    question: Value,
    within: Duration,
) -> Result<Value, Failure> {
    let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
    request(connected, subject, None, question.to_string().into(), within).await
}

fn stored(answer: &Value) -> Option<StoredMessage> {
    let message = answer.get("message")?;
    let decoded = |field: &str| match message.get(field) {
        Some(text) => BASE64_STANDARD.decode(text.as_str()?).ok(),
        None => Some(Vec::new()),
    };
    let headers = decoded("hdrs")?;
    let mut lines = headers.split(|&byte| byte == b'\n');
    let is_deletion = lines.any(|line| {
        let (name, value) = line.split_at(line.iter().position(|&byte| byte == b':').unwrap_or(0));
        name == MARKER_HEADER.as_bytes() || (name == OPERATION_HEADER.as_bytes() && !value.ends_with(b" PUT\r"))
    });
    let value = decoded("data")?;
    Some(StoredMessage { revision: message["seq"].as_u64()?, value: (!is_deletion).then(|| value.into()) })
}

/// The header that names the operation by which an entry was written. Usually absent if a value was put.
pub(crate) const OPERATION_HEADER: &str = "KV-Operation";
/// The header of the marker with which the server replaces an entry that it has deleted.
pub(crate) const MARKER_HEADER: &str = "Nats-Marker-Reason";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_known_by_their_numbers() {
        let error = |number: u64| {
            let text = json!({ "error": { "code": 400, "err_code": number, "description": "why" } }).to_string();
            read(text.as_bytes()).unwrap_err()
        };
        assert_eq!(error(10_071), Failure::WrongRevision);
        assert_eq!(error(10_059), Failure::NoStream);
        assert_eq!(error(10_058), Failure::Exists);
        assert_eq!(error(10_074), Failure::NoReplicas("why".into()));
        assert_eq!(error(10_008), Failure::Refused("why".into()));
        assert_eq!(read(b"{}"), Ok(json!({})));
        assert_eq!(read(b"+OK"), Err(Failure::NoAnswer));
    }

    #[test]
    fn deletions_are_known_by_their_headers() {
        let read = |headers: &str| {
            let message = json!({ "message": {
                "seq": 7, "hdrs": BASE64_STANDARD.encode(headers), "data": BASE64_STANDARD.encode("value")
            } });
            let stored = stored(&message).unwrap();
            assert_eq!(stored.revision, 7);
            stored.value
        };
        let value = Some(Bytes::from_static(b"value"));
        assert_eq!(read("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n"), value);
        assert_eq!(read("NATS/1.0\r\nX: KV-Operation: DEL\r\n\r\n"), value);
        assert_eq!(read("NATS/1.0\r\nKV-Operation: PUT\r\n\r\n"), value);
        assert_eq!(read("NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"), None);
        assert_eq!(read("NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"), None);
        assert_eq!(read("NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 3s\r\n\r\n"), None);
        assert!(stored(&json!({ "message": { "seq": 7 } })).unwrap().value.is_some());
        assert!(stored(&json!({ "message": { "seq": 7, "data": "?" } })).is_none());
        assert!(stored(&json!({})).is_none());
    }
}
