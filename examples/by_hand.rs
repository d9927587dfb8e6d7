//! A process written by hand: a state machine with tags and yields, without a macro.
//!
//! ```text
//! cargo run --example by_hand
//! ```
//!
//! A step receives the events that have arrived and writes its requests, each under a tag that it chooses itself. The
//! answers carry the same tags, and arrive in any order.

use std::error::Error;
use std::time::Duration;

use postroom::ProcessError;
use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;

const SLOW: u64 = 1;
const FAST: u64 = 2;

#[derive(Default)]
struct Race {
    started: bool,
    finished: Vec<&'static str>,
}

impl Process for Race {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        if !self.started {
            self.started = true;
            out.after(Duration::from_millis(50), SLOW);
            out.after(Duration::from_millis(5), FAST);
        }
        while let Some(event) = events.next() {
            match event {
                Event::Completed { tag: SLOW, result } => result.map(|_| self.finished.push("slow"))?,
                Event::Completed { tag: FAST, result } => result.map(|_| self.finished.push("fast"))?,
                // A wake may be spurious, and unrequested events may arrive.
                Event::Completed { .. } | Event::Message(_) | Event::Signal(_) => {}
            }
        }
        if self.finished.len() == 2 {
            out.done();
        } else {
            out.wait();
        }
        Ok(())
    }

    fn close(&mut self) {
        println!("closed after {:?}", self.finished);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let race = runtime.spawn_process(Race::default()).start()?;
    println!("ended: {}", race.join().wait());
    Ok(())
}
