//! A subscriber layer that records spans and events, for tests.
//!
//! The subscriber is global, so all tests of a binary share it. Each test looks only for its own processes and texts.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

static RECORD: Mutex<Record> = Mutex::new(Record { spans: Vec::new(), events: Vec::new(), faults: Vec::new() });

struct Record {
    /// All spans so far. The number of a span is its index.
    spans: Vec<Recorded>,
    /// The text of each event, and the number of the innermost span around it.
    events: Vec<(String, Option<usize>)>,
    faults: Vec<String>,
}

/// A span.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The index of the span among all spans.
    pub number: usize,
    /// The target of the span.
    pub target: &'static str,
    /// The name of the span.
    pub name: &'static str,
    /// The text of each field.
    pub fields: BTreeMap<&'static str, String>,
    /// The span in which this one is nested.
    pub parent: Option<usize>,
    /// The spans from which this one follows.
    pub follows: Vec<usize>,
    /// Number of times that the span was entered.
    pub entered: usize,
    /// Number of threads that are in the span.
    pub inside: isize,
    /// Whether the span has been closed.
    pub is_closed: bool,
}

impl Recorded {
    /// Returns the text of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

fn record() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the recording subscriber for the whole program when it is first called.
///
/// # Panics
/// If another subscriber is installed.
pub fn install() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        let subscriber = Registry::default().with(Recorder);
        tracing::subscriber::set_global_default(subscriber).expect("there is no other subscriber");
    });
}

/// Returns the spans in which a field has the given value.
pub fn spans_with(field: &str, value: &str) -> Vec<Recorded> {
    record().spans.iter().filter(|span| span.field(field) == Some(value)).cloned().collect()
}

/// Returns the span around the only event with the given text.
///
/// # Panics
/// Unless there is exactly one such event.
pub fn span_of_event(text: &str) -> Option<Recorded> {
    let record = record();
    let found: Vec<_> = record.events.iter().filter(|(event, _)| event == text).collect();
    let [(_, span)] = found.as_slice() else { panic!("one event `{text}`, not {}", found.len()) };
    span.map(|span| record.spans[span].clone())
}

/// Returns the span with the given number.
pub fn span(number: usize) -> Recorded {
    record().spans[number].clone()
}

/// Returns the number of spans that are open, or that a thread is in.
pub fn open_spans() -> usize {
    record().spans.iter().filter(|span| !span.is_closed || span.inside != 0).count()
}

/// Returns the violations of the rules of spans: an exit without an entry, or a use of a closed or unknown span.
pub fn faults() -> Vec<String> {
    record().faults.clone()
}

/// Forgets the spans and events. No span may be open.
pub fn forget_all() {
    let mut record = record();
    record.spans.clear();
    record.events.clear();
}

/// The number of a span, stored in its extensions.
struct Number(usize);

struct Recorder;

impl Recorder {
    fn with<S: Subscriber + for<'a> LookupSpan<'a>>(
        id: &Id,
        context: &Context<'_, S>,
        what: &str,
        change: impl FnOnce(&mut Recorded),
    ) {
        let number = number(id, context);
        let mut record = record();
        let Record { spans, faults, .. } = &mut *record;
        match number.and_then(|number| spans.get_mut(number)) {
            Some(span) => {
                if span.is_closed || (what == "exit" && span.inside == 0) {
                    faults.push(format!("{what} of {span:?}"));
                }
                change(span);
            }
            None => faults.push(format!("{what} of a span that is not known")),
        }
    }
}

fn number<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, context: &Context<'_, S>) -> Option<usize> {
    context.span(id)?.extensions().get::<Number>().map(|number| number.0)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().and_then(|parent| number(&parent.id(), &context));
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut record = record();
        let number = record.spans.len();
        record.spans.push(Recorded {
            number,
            target: span.metadata().target(),
            name: span.metadata().name(),
            fields: fields.0,
            parent,
            follows: Vec::new(),
            entered: 0,
            inside: 0,
            is_closed: false,
        });
        span.extensions_mut().insert(Number(number));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let other = number(follows, &context);
        Self::with(id, &context, "follow", |span| span.follows.push(other.expect("it is open")));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let text = fields.0.remove("message").unwrap_or_default();
        let span = context.event_span(event).and_then(|span| number(&span.id(), &context));
        record().events.push((text, span));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        Self::with(id, &context, "enter", |span| {
            span.entered += 1;
            span.inside += 1;
        });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        Self::with(id, &context, "exit", |span| span.inside -= 1);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Self::with(&id, &context, "close", |span| span.is_closed = true);
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
