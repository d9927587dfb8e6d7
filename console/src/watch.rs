//! A view again and again, as server-sent events.

use crate::answer::Body;
use crate::api::{Sight, View};
use bytes::Bytes;
use http_body_util::{BodyExt, channel::Channel};
use hyper::body::Frame;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

/// The most views that are watched at a time.
pub(crate) const MAX_WATCHES: usize = 8;
/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// How long a watch lasts: a page that was forgotten does not cost anything for long.
const LASTS: Duration = Duration::from_secs(600);
/// How long the other side may take to read one event.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Returns the events of a view. The watch ends when no one reads.
pub(crate) fn events(sight: Arc<Sight>, view: View, permit: OwnedSemaphorePermit) -> Body {
    // One event at a time: none is made while the last has not been read.
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
    // Its place is free when the connection has ended, and not with the next event only.
    body.map_frame(move |frame| {
        let _held = &permit;
        frame
    })
    .boxed()
}
