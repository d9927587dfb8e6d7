//! What the log says of a stall. One test in its process, since a subscriber is the program's.

use super::{Stuck, Told, Wait, one_worker, stick};
use postroom_tests::{eventually, soon};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps what is said about stalls.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

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
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        if line.0.contains("stall") {
            self.0.lock().unwrap().push(line.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn each_stall_is_logged_once_when_it_is_noticed_and_once_when_it_is_over() {
    soon(|| {
        let (lines, told) = (Lines::default(), Told::default());
        // For the thread that looks for them, which is not this one.
        let _may_be_set = tracing::subscriber::set_global_default(lines.clone());
        let runtime = told.by(one_worker()).build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let pid = stuck.pid().to_string();
        let mine = move || -> Vec<String> {
            lines.0.lock().unwrap().iter().filter(|line| line.contains(&pid)).cloned().collect()
        };
        for round in 1..=3 {
            let until = stick(stuck, Wait);
            let other = runtime.spawn(super::Other).serve().unwrap();
            assert_eq!(other.ask().wait().unwrap(), 7);
            until.open();
            eventually(|| mine().len() == 2 * round && told.all().len() == 2 * round);
        }
        runtime.shutdown().unwrap();
        let lines = mine();
        assert_eq!(lines.len(), 6, "{lines:#?}");
        for pair in lines.chunks(2) {
            for word in ["WARN", "process=\"Stuck\"", "entry=\"serve\"", "Wait\"", "lasted=", "taken_over=true"] {
                assert!(pair.iter().all(|line| line.contains(word)), "{word} in {pair:#?}");
            }
            assert!(pair[0].contains("others wait") && pair[1].contains("has ended"), "{pair:#?}");
        }
    });
}
