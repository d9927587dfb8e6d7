use crate::exit::ExitReason;
use crate::process::event::{Event, Events};
use crate::process::fixtures::OnMessage;
use crate::process::{InitContext, Process, StepOutput};
use crate::signal::Signal;
use crate::{InitError, Payloads, Pid, ProcessError, Runtime};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A process that reports the events of each step. On its first message, it monitors another process and waits until
/// that one has exited. On its second message, it takes the notice of that exit from the lane before the notice is
/// delivered, and cancels itself.
struct Hears {
    own: Option<Pid>,
    watched: Pid,
    told: Sender<Vec<&'static str>>,
    /// Signals that the monitored process has exited.
    over: Receiver<()>,
    is_watching: bool,
}

impl Process for Hears {
    fn init(&mut self, ctx: &mut InitContext<'_>, _: &str, _: Payloads) -> Result<(), InitError> {
        self.own = ctx.pid();
        Ok(())
    }

    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let mut effect = Vec::new();
        while let Some(event) = events.next() {
            effect.push(match event {
                Event::Message(_) if !std::mem::replace(&mut self.is_watching, true) => {
                    self.watched.monitor().map_err(|_| ProcessError::new("it lives"))?;
                    self.told.send(vec!["watches"]).map_err(ProcessError::new)?;
                    self.over.recv().map_err(ProcessError::new)?;
                    "first"
                }
                Event::Message(_) => {
                    let input = events.input_mut().ok_or_else(|| ProcessError::new("it runs"))?;
                    // On a busy machine the watchdog may have ended this slice. Then the lane is not checked and no
                    // notice is taken, but the order below still holds.
                    assert!(input.mail().is_none());
                    assert!(self.own.is_some_and(|own| own.cancel(ExitReason::error("why not"))));
                    "second"
                }
                Event::Signal(Signal::Cancel(_)) => "cancel",
                Event::Signal(Signal::Down(_)) => "down",
                _ => "something else",
            });
        }
        // The send fails if the test is over.
        let _over = self.told.send(effect);
        Ok(())
    }

    fn handles_cancel(&self) -> bool {
        true
    }
}

/// Catches: a step that gets a notice before a signal that arrived earlier. (Fault: `may_deliver_notice` does not check
/// whether the control lane is empty.)
#[test]
fn a_notice_that_was_taken_waits_for_what_is_in_the_control_lane() {
    let runtime = Runtime::builder().workers(2).stall_limit(Duration::MAX).build().unwrap();
    let (told, effect) = channel();
    let watched = runtime.spawn_process(OnMessage(drop)).start().unwrap();
    let (end, over) = channel();
    let hears = runtime.spawn_process(Hears { own: None, watched, told, over, is_watching: false }).start().unwrap();
    runtime.send(hears, ()).unwrap();
    let mut effect = std::iter::from_fn(|| effect.recv_timeout(Duration::from_secs(60)).ok()).flatten();
    assert_eq!(effect.next(), Some("watches"));
    runtime.send(hears, ()).unwrap();
    let ended = watched.join();
    watched.kill();
    // The notice is sent before `wait` returns, so it is behind the second message.
    ended.wait();
    end.send(()).unwrap();
    assert_eq!(effect.by_ref().take(4).collect::<Vec<_>>(), ["first", "second", "cancel", "down"]);
    // A shutdown would only send another `Cancel`, and this process survives that.
    hears.kill();
}

/// A process that reports the order of notices. On its first message, it monitors other processes and waits until they
/// have exited. On its second message, it takes the notices of all their exits before the first notice is delivered.
struct HearsAll {
    watched: Vec<Pid>,
    told: Sender<Option<Pid>>,
    /// Signals that the monitored processes have exited.
    over: Receiver<()>,
    is_watching: bool,
}

impl Process for HearsAll {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            let ended = match event {
                Event::Message(_) if !std::mem::replace(&mut self.is_watching, true) => {
                    for watched in &self.watched {
                        watched.monitor().map_err(|_| ProcessError::new("it lives"))?;
                    }
                    self.told.send(None).map_err(ProcessError::new)?;
                    self.over.recv().map_err(ProcessError::new)?;
                    continue;
                }
                Event::Message(_) => {
                    let input = events.input_mut().ok_or_else(|| ProcessError::new("it runs"))?;
                    // On a busy machine the watchdog may end the slice. Then fewer notices are taken: see `Hears`.
                    self.watched.iter().for_each(|_| assert!(input.mail().is_none()));
                    continue;
                }
                Event::Signal(Signal::Down(down)) => Some(down.pid),
                _ => None,
            };
            self.told.send(ended).map_err(ProcessError::new)?;
        }
        Ok(())
    }
}

/// Catches: notices that are taken together but delivered in a different order.
#[test]
fn notices_that_were_taken_together_are_delivered_in_order() {
    let runtime = Runtime::builder().workers(2).stall_limit(Duration::MAX).build().unwrap();
    let (told, heard) = channel();
    let watched: Vec<Pid> = (0..3).map(|_| runtime.spawn_process(OnMessage(drop)).start().unwrap()).collect();
    let (end, over) = channel();
    let hears = HearsAll { watched: watched.clone(), told, over, is_watching: false };
    let hears = runtime.spawn_process(hears).start().unwrap();
    runtime.send(hears, ()).unwrap();
    let mut heard = std::iter::from_fn(|| heard.recv_timeout(Duration::from_secs(60)).ok());
    assert_eq!(heard.next(), Some(None));
    runtime.send(hears, ()).unwrap();
    for watched in &watched {
        let ended = watched.join();
        watched.kill();
        ended.wait();
    }
    end.send(()).unwrap();
    assert_eq!(heard.by_ref().take(3).collect::<Option<Vec<_>>>(), Some(watched));
}
