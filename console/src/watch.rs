//! Sends a view every second, as server-sent events.

use crate::answer::Body;
use crate::api::{Sight, View};
use bytes::Bytes;
use http_body_util::{BodyExt, channel::Channel};
use hyper::body::Frame;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

/// Maximum number of simultaneous watches.
pub(crate) const MAX_WATCHES: usize = 8;
/// Interval between two events.
const EVERY: Duration = Duration::from_secs(1);
/// How long a watch lasts, so that a forgotten page does not cost anything for long.
const LASTS: Duration = Duration::from_secs(600);
/// Time limit for the client to read one event.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Returns a body that streams the events of a view. The watch ends when the client stops reading.
pub(crate) fn events(sight: Arc<Sight>, view: View, permit: OwnedSemaphorePermit) -> Body {
    // There is one event at a time: the next one is made only after the previous one has been read.
    let (mut sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        let end = Instant::now() + LASTS;
        while Instant::now() < end {
            let event = match view.json(&sight).await {
                Ok(json) => format!("data: {json}\n\n"),
                Err(missing) => format!("event: missing\ndata: {missing}\n\n"),
            };
            let sent = timeout(READ_WITHIN, sender.send(Frame::data(event.into()))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
            sleep(EVERY).await;
        }
        let over = Frame::data(Bytes::from_static(b"event: over\ndata: ten minutes are over\n\n"));
        let _ = timeout(READ_WITHIN, sender.send(over)).await;
    });
    // The body owns the permit, so that the place is free as soon as the connection ends, rather than at the next
    // event.
    body.map_frame(move |frame| {
        let _held = &permit;
        frame
    })
    .boxed()
}
