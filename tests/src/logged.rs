//! The log lines of the runtime, for tests that check them. The subscriber is global, so all tests of a binary share
//! it.
//!
//! Every event of the runtime is also written as JSON and parsed again. No field may occur twice, or have a name that
//! the format itself uses, such as `message` for the text of the event.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Write as _};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
static FAULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn install() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        let json = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(|| ReadBack);
        let printed = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_writer(|| Printed);
        // The layers receive an event in this order, so a test can see a line just before its JSON is checked.
        let subscriber = tracing_subscriber::registry().with(OfRuntime).with(Lines).with(printed).with(json);
        tracing::subscriber::set_global_default(subscriber).expect("there is no other subscriber");
    });
}

/// Returns the warnings and errors since the first call that contain `text`. Each has its level, its target and its
/// fields. If `text` is a PID, it selects the lines of one test.
///
/// # Panics
/// If another subscriber has been set, or if an event of the runtime is not valid JSON or repeats a name.
pub fn logged(text: &str) -> Vec<String> {
    install();
    let faults = lock(&FAULTS).clone();
    assert!(faults.is_empty(), "{faults:#?}");
    lock(&LINES).iter().filter(|line| line.contains(text)).cloned().collect()
}

/// Returns all events since the first call, down to the level `DEBUG`, as `tracing-subscriber` prints them.
pub fn printed() -> Vec<String> {
    install();
    lock(&PRINTED).clone()
}

/// A filter that accepts only the runtime's own events.
struct OfRuntime;

impl<S: Subscriber> Layer<S> for OfRuntime {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("postroom") && metadata.level() <= &Level::DEBUG
    }
}

struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _fits = write!(self.0, " {}={value:?}", field.name());
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        if level > &Level::WARN {
            return;
        }
        let mut line = Line(format!("{level} {target}"));
        event.record(&mut line);
        lock(&LINES).push(line.0);
    }
}

struct Printed;

impl Write for Printed {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        lock(&PRINTED).push(String::from_utf8_lossy(line).trim().to_string());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that parses each event written to it.
struct ReadBack;

impl Write for ReadBack {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = serde_json::from_slice::<Distinct>(line) {
            lock(&FAULTS).push(format!("{error}: {}", String::from_utf8_lossy(line)));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A JSON value in which no object repeats a name.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self, A::Error> {
        while sequence.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, _)) = map.next_entry::<String, Self>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("`{name}` is there twice")));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a check that accepts any input.
    #[test]
    fn a_name_that_is_there_twice_is_found_at_any_depth() {
        let read = |text: &str| serde_json::from_str::<Distinct>(text).map(drop).map_err(|error| error.to_string());
        assert_eq!(read(r#"{"a":[1,null,{"b":true}],"b":{"a":-1.5}}"#), Ok(()));
        for twice in [r#"{"message":"one","message":"two"}"#, r#"{"c":[{"d":{"a":1,"a":2}}]}"#] {
            assert!(read(twice).is_err_and(|error| error.contains("is there twice")), "{twice}");
        }
    }
}
