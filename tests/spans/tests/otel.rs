//! The spans as the OpenTelemetry SDK exports them.

use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use postroom::prelude::*;
use tracing::info_span;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

#[process]
struct Clerk {
    next: Option<Address<Clerk>>,
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn relay(&mut self) -> u32 {
        let next = self.next.unwrap();
        next.number().await.unwrap()
    }

    #[message]
    fn number(&mut self) -> u32 {
        42
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|pair| pair.key.as_str() == name).map(|pair| pair.value.to_string())
}

/// Catches: a message's span that has a parent, and a link to another span than the sender's.
#[test]
fn messages_are_exported_as_roots_with_a_link_to_their_sender() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    tracing::subscriber::set_global_default(Registry::default().with(LevelFilter::INFO).with(layer)).unwrap();

    let runtime = Runtime::builder().workers(2).build().unwrap();
    let last = runtime.spawn(Clerk { next: None }).label("last").serve().unwrap();
    let first = runtime.spawn(Clerk { next: Some(last) }).label("first").serve().unwrap();
    info_span!("request").in_scope(|| assert_eq!(first.relay().wait(), Ok(42)));
    drop(runtime);
    provider.force_flush().unwrap();

    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let labelled = |label: &str| spans.iter().find(|span| attribute(span, "label").as_deref() == Some(label)).unwrap();
    let request = spans.iter().find(|span| span.name == "request").unwrap();
    let (relayed, answered) = (labelled("first"), labelled("last"));
    for (span, sender) in [(relayed, request), (answered, relayed)] {
        assert_eq!(span.name, "postroom.message");
        assert_eq!(span.parent_span_id, SpanId::INVALID);
        let links: Vec<_> = span.links.iter().map(|link| &link.span_context).collect();
        assert_eq!(links, [&sender.span_context]);
        assert_ne!(span.span_context.trace_id(), sender.span_context.trace_id(), "a trace of its own");
        assert_eq!(attribute(span, "process").as_deref(), Some("Clerk"));
    }
    assert_eq!(attribute(answered, "caller"), Some(first.pid().to_string()));
    assert_eq!(attribute(answered, "message_type").as_deref(), Some("otel::ClerkNumber"));
}
