//! Actions on processes that a request can perform. Each one is logged.

use crate::taps::Taps;
use postroom::Pid;
use std::net::SocketAddr;

/// An action on a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Stop,
    Kill,
    /// Records the next messages.
    Tap,
}

impl Act {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "stop" => Some(Self::Stop),
            "kill" => Some(Self::Kill),
            "tap" => Some(Self::Tap),
            _ => None,
        }
    }

    /// Performs the action and logs it. Returns false if the process is not alive in this program. Processes of other
    /// nodes cannot be acted on from here.
    pub(crate) fn perform(self, pid: Pid, taps: &Taps, peer: SocketAddr) -> bool {
        let Some(info) = pid.info() else { return false };
        let is_told = match self {
            Self::Stop => pid.stop(),
            Self::Kill => pid.kill(),
            Self::Tap => {
                taps.begin(info.pid);
                true
            }
        };
        if is_told {
            let act = match self {
                Self::Stop => "stop",
                Self::Kill => "kill",
                Self::Tap => "tap",
            };
            tracing::warn!(
                target: "postroom",
                %pid, process = info.process, label = info.label.as_deref(), act, %peer,
                "an act on a process was asked for from the console"
            );
        }
        is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::prelude::*;
    use std::fmt;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    #[process]
    struct Clerk;

    #[process]
    impl Clerk {
        #[entry]
        fn serve(&mut self) {}
    }

    /// A subscriber that records the fields of each event as text.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 += &format!("{field}={value:?} ");
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(format!("{} ", event.metadata().level()));
            event.record(&mut line);
            self.0.lock().expect("no test panics with it").push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_act_is_logged_with_the_one_that_asked_and_nothing_that_was_not_done() {
        let runtime = Runtime::builder().workers(1).build().expect("it is built");
        let (taps, lines) = (Taps::default(), Lines::default());
        let peer: SocketAddr = "127.0.0.1:4711".parse().expect("an address");
        for (act, name) in [(Act::Tap, "tap"), (Act::Stop, "stop"), (Act::Kill, "kill")] {
            let clerk = runtime.spawn(Clerk).label("till 7").serve().expect("it starts").pid();
            let perform = || tracing::subscriber::with_default(lines.clone(), || act.perform(clerk, &taps, peer));
            assert!(perform());
            let line = lines.0.lock().expect("no test panics with it").pop().expect("a line");
            let expected = format!("act=\"{name}\" peer=127.0.0.1:4711 ");
            assert!(line.starts_with("WARN ") && line.contains(&expected), "{line}");
            assert!(line.contains(&format!("pid={clerk} process=\"Clerk\" label=\"till 7\"")), "{line}");
            clerk.kill();
            clerk.join().wait();
            assert!(!perform());
            assert!(lines.0.lock().expect("no test panics with it").is_empty());
        }
    }
}
