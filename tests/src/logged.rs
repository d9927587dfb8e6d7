//! The log lines of the runtime, for tests that check them. The subscriber is global, so all tests of a binary share
//! it.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, OnceLock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the warnings and errors since the first call that contain `text`, each with its level, its target and its
/// fields. A PID as `text` selects the lines of one test.
///
/// # Panics
/// If another subscriber has been set.
pub fn logged(text: &str) -> Vec<String> {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| tracing::subscriber::set_global_default(Lines).expect("there is no other subscriber"));
    let lines = LINES.lock().expect("nothing panics with it");
    lines.iter().filter(|line| line.contains(text)).cloned().collect()
}

struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _fits = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= &Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let mut line = Line(format!("{level} {target}"));
        event.record(&mut line);
        LINES.lock().expect("nothing panics with it").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
