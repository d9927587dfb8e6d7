//! A hand-written process made of closures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use postroom::error::EntryError;
use postroom::manual::{Event, Events, InitContext, Process, StepOutput};
use postroom::{InitError, Payloads, Pid, ProcessError, Runtime};

type Init = Box<dyn FnOnce(&mut InitContext<'_>) -> Result<(), InitError> + Send>;
type Step = Box<dyn FnMut(&mut Events<'_>, &mut StepOutput<'_>) -> Result<(), ProcessError> + Send>;

/// A hand-written process that is made of closures; see [`act`].
pub struct Act {
    init: Option<Init>,
    step: Step,
    close: Option<Box<dyn FnOnce() + Send>>,
    handles_cancel: bool,
    traps_exits: bool,
}

/// Makes a process that calls `step` in each of its steps.
pub fn act(step: impl FnMut(&mut Events<'_>, &mut StepOutput<'_>) -> Result<(), ProcessError> + Send + 'static) -> Act {
    Act { init: None, step: Box::new(step), close: None, handles_cancel: false, traps_exits: false }
}

/// Makes a process that discards all messages and never exits by itself.
pub fn idle_for_ever() -> Act {
    act(|events, out| {
        while events.next().is_some() {}
        out.idle();
        Ok(())
    })
}

/// Spawns `count` processes. One shared counter counts the messages that they receive.
pub fn listeners(runtime: &Runtime, count: usize) -> (Vec<Pid>, Arc<AtomicU64>) {
    let heard = Arc::new(AtomicU64::new(0));
    let spawn = |_| {
        let hears = heard.clone();
        let listener = act(move |events, _| {
            while let Some(event) = events.next() {
                hears.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
            }
            Ok(())
        });
        runtime.spawn_process(listener).start().unwrap()
    };
    ((0..count).map(spawn).collect(), heard)
}

/// Makes a process that yields `times` times and then exits.
pub fn counts_to(times: u64, steps: Arc<AtomicU64>, closes: Arc<AtomicU64>) -> Act {
    let mut left = times;
    act(move |_, out| {
        steps.fetch_add(1, SeqCst);
        if left == 0 {
            out.done();
        } else {
            left -= 1;
            out.go_on();
        }
        Ok(())
    })
    .close(move || {
        closes.fetch_add(1, SeqCst);
    })
}

impl Act {
    /// Runs `init` when the process starts.
    pub fn init(mut self, init: impl FnOnce(&mut InitContext<'_>) -> Result<(), InitError> + Send + 'static) -> Self {
        self.init = Some(Box::new(init));
        self
    }

    /// Runs `close` when the process ends.
    pub fn close(mut self, close: impl FnOnce() + Send + 'static) -> Self {
        self.close = Some(Box::new(close));
        self
    }

    /// Delivers the failures of linked processes to `step`.
    pub fn traps_exits(mut self) -> Self {
        self.traps_exits = true;
        self
    }

    /// Delivers cancel signals to `step`.
    pub fn handles_cancel(mut self) -> Self {
        self.handles_cancel = true;
        self
    }
}

impl Process for Act {
    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        if !input.is_empty() {
            let (process, entry) = ("Act".to_string(), entry.to_string());
            return Err(EntryError::Count { process, entry, expected: 0, came: input.len(), inputs: vec![] }.into());
        }
        self.init.take().map_or(Ok(()), |init| init(ctx))
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        (self.step)(events, out)
    }

    fn close(&mut self) {
        if let Some(close) = self.close.take() {
            close();
        }
    }

    fn handles_cancel(&self) -> bool {
        self.handles_cancel
    }

    fn traps_exits(&self) -> bool {
        self.traps_exits
    }
}
