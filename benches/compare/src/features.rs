//! Checks that Postroom is measured as users get it: the features that add to the cost of a message must be enabled in
//! the very build that is measured. Each feature is tried through the public API.

use postroom::Bound;
use postroom::error::SendFailure;
use postroom::inspect::{DeadLetterReason, Statistics};
use postroom::prelude::*;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Time to wait for an event that must happen. It is generous, since the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of messages that the statistics must have counted.
const COUNTED: u64 = 1_000;

/// Number of balls in the air between two processes that never pause. There are more than a process handles in one
/// step.
const BALLS: usize = 1_000;

/// Number of messages by which a mailbox may exceed or fall short of its bound, since its length is checked only once
/// for several messages.
const ROUGHLY: usize = 256;

type Dead = Arc<Mutex<Vec<DeadLetterReason>>>;

/// Tries all features, and returns those that are enabled. In one of the tests, a process panics.
///
/// # Errors
/// The feature that is not enabled, and the symptom.
pub fn check() -> Result<String, String> {
    let dead = Dead::default();
    let letters = dead.clone();
    let builder = Runtime::builder().workers(1).on_dead_letter(move |letter| {
        letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter.reason);
    });
    let runtime = builder.build().map_err(|error| error.to_string())?;
    statistics(&runtime).map_err(|error| format!("statistics: {error}"))?;
    panic_guards(&runtime).map_err(|error| format!("panic guards: {error}"))?;
    type_checks(&runtime, &dead).map_err(|error| format!("type checks: {error}"))?;
    bounds(&runtime).map_err(|error| format!("bounds: {error}"))?;
    fairness(&runtime).map_err(|error| format!("fairness: {error}"))?;
    Ok("statistics, panic guards, type checks, bounds and fairness are active".to_string())
}

#[process]
struct Probe {
    touched: u64,
}

#[process]
impl Probe {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn touch(&mut self) -> u64 {
        self.touched += 1;
        self.touched
    }

    #[message]
    fn fall(&mut self) {
        panic!("meant to happen");
    }
}

/// A process that handles nothing more once it is stalled.
#[process]
struct Stalled;

#[process]
impl Stalled {
    #[entry]
    fn serve(&mut self) {}

    /// Blocks until the other end of the channel is dropped.
    #[message]
    fn wait(&mut self, until: mpsc::Receiver<()>) {
        until.recv().expect_err("nobody sends");
    }

    #[message]
    fn more(&mut self) {}
}

/// A process that throws each ball back to its sender, forever.
#[process]
struct Thrower;

#[process]
impl Thrower {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, from: Address<Thrower>) {
        // At the end of the check, the other process may have been killed already.
        let _ = from.ball(ctx.address()).send();
    }
}

/// A message that no method handles.
struct Stranger;

fn probe(runtime: &Runtime) -> Result<Address<Probe>, String> {
    runtime.spawn(Probe { touched: 0 }).serve().map_err(|error| error.to_string())
}

/// Waits until `holds` is true of the statistics. Workers publish their counts after a step, so a count may only appear
/// shortly after the answer.
fn soon(runtime: &Runtime, holds: impl Fn(&Statistics) -> bool) -> Result<(), String> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if holds(&runtime.statistics()) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(format!("not counted: {:?}", runtime.statistics()))
}

/// Checks that spawns and messages are counted, and also the messages of each process.
fn statistics(runtime: &Runtime) -> Result<(), String> {
    let before = runtime.statistics();
    let probe = probe(runtime)?;
    for _ in 0..COUNTED {
        probe.touch().send().map_err(|error| error.to_string())?;
    }
    let touched = probe.touch().timeout(PATIENCE).wait().map_err(|error| error.to_string())?;
    if touched != COUNTED + 1 {
        return Err(format!("the process got {touched} messages of {}", COUNTED + 1));
    }
    soon(runtime, |now| {
        let messages = now.messages() - before.messages();
        let own = probe.pid().info().map_or(0, |info| info.messages);
        now.processes.spawned == before.processes.spawned + 1
            && now.processes.live == before.processes.live + 1
            && messages >= touched
            && own == touched
    })
}

/// Checks that a panic ends only its own process, with the message of the panic as the reason, and that the runtime
/// continues and counts the exit.
fn panic_guards(runtime: &Runtime) -> Result<(), String> {
    let (falls, stays) = (probe(runtime)?, probe(runtime)?);
    let before = runtime.statistics();
    let gone = falls.fall().timeout(PATIENCE).wait();
    if !matches!(&gone, Err(CallError::Died(ExitReason::Panic(panic))) if panic.message == "meant to happen") {
        return Err(format!("a call whose method panicked gave {gone:?}"));
    }
    match stays.touch().timeout(PATIENCE).wait() {
        Ok(1) => soon(runtime, |now| {
            now.processes.ended == before.processes.ended + 1 && now.processes.live == before.processes.live - 1
        }),
        other => Err(format!("after a panic another process answered {other:?}")),
    }
}

/// Checks that a message without a method is harmless. It becomes a dead letter, and as a call it fails.
fn type_checks(runtime: &Runtime, dead: &Dead) -> Result<(), String> {
    let probe = probe(runtime)?;
    runtime.send(probe.pid(), Stranger).map_err(|error| error.to_string())?;
    let called = Recipient::<Stranger, u64>::of(probe.pid()).call(Stranger).timeout(PATIENCE).wait();
    if called != Err(CallError::Unhandled) {
        return Err(format!("a call of the wrong type gave {called:?}"));
    }
    let wrong = Recipient::<ProbeTouch, String>::of(probe.pid()).call(ProbeTouch).timeout(PATIENCE).wait();
    if !matches!(wrong, Err(CallError::Mismatch { .. })) {
        return Err(format!("a call that expects another type of answer gave {wrong:?}"));
    }
    soon(runtime, |now| now.dead_letters.unhandled >= 2)?;
    let dead = dead.lock().unwrap_or_else(PoisonError::into_inner);
    if dead.len() < 2 || dead.iter().any(|&reason| reason != DeadLetterReason::Unhandled) {
        return Err(format!("the dead letters were {dead:?}"));
    }
    Ok(())
}

/// Checks that the mailbox of a process that takes nothing becomes full at about its default bound.
fn bounds(runtime: &Runtime) -> Result<(), String> {
    let Bound::Soft(bound) = Bound::DEFAULT else { return Err(format!("the default is {:?}", Bound::DEFAULT)) };
    let stalled = runtime.spawn(Stalled).serve().map_err(|error| error.to_string())?;
    let (release, until) = mpsc::channel();
    stalled.wait(until).send().map_err(|error| error.to_string())?;
    let most = bound + ROUGHLY;
    let refused = (0..=most).find_map(|sent| stalled.more().send().err().map(|error| (sent, error.reason)));
    drop(release);
    stalled.pid().kill();
    match refused {
        Some((sent, SendFailure::Full(_))) if sent + ROUGHLY >= bound => Ok(()),
        other => Err(format!("of {most} messages to a process that takes none were refused: {other:?}")),
    }
}

/// Checks that two processes do not starve others when they endlessly exchange balls on the only worker.
fn fairness(runtime: &Runtime) -> Result<(), String> {
    let mut throwers = Vec::new();
    for _ in 0..2 {
        throwers.push(runtime.spawn(Thrower).serve().map_err(|error| error.to_string())?);
    }
    for index in 0..BALLS {
        let (to, from) = (throwers[index % 2], throwers[1 - index % 2]);
        to.ball(from).send().map_err(|error| error.to_string())?;
    }
    let before = runtime.statistics().messages();
    soon(runtime, |now| now.messages() > before + 10 * BALLS as u64)?;
    let probe = probe(runtime)?;
    let served = probe.touch().timeout(PATIENCE).wait();
    for thrower in throwers {
        thrower.pid().kill();
    }
    match served {
        Ok(1) => Ok(()),
        other => Err(format!("a third process answered {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_are_active() {
        assert_eq!(
            super::check(),
            Ok("statistics, panic guards, type checks, bounds and fairness are active".to_string())
        );
    }
}
