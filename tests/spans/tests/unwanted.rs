//! A subscriber that does not want the spans of messages. This test has its own binary, since the subscriber is global.

use postroom::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tracing::span::{Attributes, Id};
use tracing::{Subscriber, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

static OF_MESSAGES: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicUsize = AtomicUsize::new(0);

struct Counts;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Counts {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "postroom.message" {
            OF_MESSAGES.fetch_add(1, SeqCst);
        }
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        CLOSED.fetch_add(1, SeqCst);
    }
}

#[process]
struct Clerk;

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self) -> u32 {
        42
    }
}

/// Catches: a filter that is ignored, and messages that keep spans open although the subscriber sees no link.
#[test]
fn a_target_that_is_off_has_no_spans_and_keeps_none_open() {
    let filter: Targets = "info,postroom::message=off".parse().unwrap();
    tracing::subscriber::set_global_default(Registry::default().with(Counts).with(filter)).unwrap();
    let runtime = Runtime::builder().paused().build().unwrap();
    let clerk = runtime.spawn(Clerk).serve().unwrap();
    info_span!("request").in_scope(|| clerk.work().send().unwrap());
    assert_eq!(CLOSED.load(SeqCst), 1, "the message is still in the mailbox");
    runtime.resume().unwrap();
    assert_eq!(clerk.work().wait(), Ok(42));
    assert_eq!(OF_MESSAGES.load(SeqCst), 0);
}
