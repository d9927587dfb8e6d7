//! Delivery of a `Down`: in its place among the messages, and only when the process takes messages.

use super::{partner, watcher};
use postroom::Package;
use postroom::manual::{Event, Events, InitContext, Machine, Process, StepOutput};
use postroom::prelude::*;
use postroom_tests::act;
use postroom_tests::face::{Gate, with_runtime};
use postroom_tests::partner::{LONG, Report, Trapper, TrapperSay};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;

#[test]
fn the_last_message_comes_before_the_down() {
    with_runtime(|runtime| {
        for _ in 0..100 {
            let (watcher, reports) = watcher(runtime);
            let dying = partner(runtime);
            watcher.watch(dying.pid()).wait().unwrap();
            watcher.watch(dying.pid()).wait().unwrap();
            dying.say_to_and_fail("last words", watcher).send().unwrap();
            assert_eq!(reports.next(), Report::Word("last words"));
            assert_eq!((reports.down().pid, reports.down().pid), (dying.pid(), dying.pid()));
        }
    });
}

#[test]
fn a_down_waits_for_an_async_method_as_messages_do() {
    with_runtime(|runtime| {
        let (watcher, reports) = watcher(runtime);
        let dying = partner(runtime).pid();
        watcher.watch(dying).wait().unwrap();
        let gate = Gate::new();
        watcher.pass(gate.clone()).send().unwrap();
        gate.wait_for_arrival();
        watcher.say("before").send().unwrap();
        let end = dying.join();
        dying.kill();
        end.wait_timeout(LONG).unwrap();
        watcher.say("after").send().unwrap();
        gate.open();
        assert_eq!(reports.next(), Report::Word("before"));
        assert_eq!(reports.down().pid, dying);
        assert_eq!(reports.next(), Report::Word("after"));
    });
}

/// A process whose entries serve a `Down` at once, serve it after another wait, or remove its monitor.
#[process]
struct Awaits {
    sender: Sender<Pid>,
}

#[process]
impl Awaits {
    #[entry]
    async fn serve(&mut self, ctx: &mut Context<Self>, watched: Pid) {
        watched.monitor().expect("a process");
        ctx.serve(self).await;
    }

    #[entry]
    async fn serve_later(&mut self, ctx: &mut Context<Self>, watched: Pid, gate: Gate) {
        watched.monitor().expect("a process");
        gate.passed().await;
        ctx.serve(self).await;
    }

    /// Waits for a message and for the exit of `watched` at the same time. After the exit, removes the monitor.
    #[entry]
    async fn take_back(&mut self, ctx: &mut Context<Self>, watched: Pid, gate: Gate) -> bool {
        let monitor = watched.monitor().expect("a process");
        gate.passed().await;
        {
            // The notice wakes the process, since it waits for messages. The process first checks the exit, and nothing
            // else wakes it. So when it leaves this wait, the notice has been received but not delivered.
            let mut served = pin!(ctx.serve_next(self));
            poll_fn(|context| {
                if !watched.is_alive() {
                    return Poll::Ready(());
                }
                assert!(served.as_mut().poll(context).is_pending(), "nothing comes but the notice");
                Poll::Pending
            })
            .await;
        }
        let taken_back = monitor.demonitor();
        ctx.serve_ready(self).await;
        taken_back
    }

    #[signal]
    fn down(&mut self, down: Down) {
        let _over = self.sender.send(down.pid);
    }
}

#[test]
fn an_async_entry_that_serves_gets_a_down() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let watched = partner(runtime).pid();
        let running = runtime.spawn(Awaits { sender }).serve(watched).unwrap();
        // When the watched process knows of the monitor, the entry has begun.
        while watched.bindings().wait().unwrap().monitored_by.is_empty() {}
        watched.kill();
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), watched);
        running.pid().stop();
        assert!(matches!(running.wait(), Err(RunError::Ended(ExitReason::Normal))));
    });
}

#[test]
fn an_async_entry_that_awaits_something_else_gets_a_down_when_it_serves() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let watched = partner(runtime).pid();
        let gate = Gate::new();
        let running = runtime.spawn(Awaits { sender }).serve_later(watched, gate.clone()).unwrap();
        gate.wait_for_arrival();
        let end = watched.join();
        watched.kill();
        end.wait_timeout(LONG).unwrap();
        // If the notice had woken the process, it would have reported the notice before it answered this.
        assert_eq!(running.pid().bindings().wait().unwrap().monitors, [watched]);
        assert!(receiver.try_recv().is_err());
        gate.open_elsewhere();
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), watched);
        running.pid().stop();
        assert!(matches!(running.wait(), Err(RunError::Ended(ExitReason::Normal))));
    });
}

#[test]
fn a_received_but_undelivered_down_can_be_withdrawn() {
    with_runtime(|runtime| {
        for _ in 0..20 {
            let (sender, receiver) = channel();
            let watched = partner(runtime).pid();
            let gate = Gate::new();
            let running = runtime.spawn(Awaits { sender }).take_back(watched, gate.clone()).unwrap();
            gate.wait_for_arrival();
            gate.open_elsewhere();
            watched.kill();
            assert!(running.wait().unwrap(), "the monitor was there to be taken back");
            assert!(receiver.recv_timeout(LONG).is_err(), "and its Down is not given");
        }
    });
}

#[test]
fn a_machine_driven_by_hand_gets_notices_in_order_too() {
    let (trapper, reports) = Trapper::reporting();
    let mut machine = Machine::new(trapper);
    machine.init(&mut InitContext::detached(), "serve", payloads![]).unwrap();
    let pid: Pid = "<7.0.0.1>".parse().unwrap();
    let word = |word| Event::Message(Package::new(pid, TrapperSay { word }));
    let exit = Exit { pid, reason: ExitReason::Killed };
    let events = [word("before"), Event::Signal(Signal::Exit(exit.clone())), word("after")];
    machine.step(&mut Events::of(events), &mut StepOutput::new()).unwrap();
    drop(machine);
    assert_eq!(reports.rest(), [Report::Word("before"), Report::Exit(exit), Report::Word("after")]);
}

/// The process takes one event per step, and the others stay for the next steps.
#[test]
fn a_hand_written_process_that_takes_one_event_a_step_gets_all_in_their_order() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let watched: Vec<_> = (0..200).map(|_| partner(runtime).pid()).collect();
        let theirs = watched.clone();
        let pid = runtime
            .spawn_process(act(move |events, out| {
                match events.next() {
                    Some(Event::Message(package)) => match package.take::<u32>() {
                        Ok(number) => {
                            let _over = sender.send((Some(number), None));
                        }
                        Err(_begin) => {
                            for pid in &theirs {
                                pid.monitor().expect("a process");
                            }
                            let _over = sender.send((None, None));
                        }
                    },
                    Some(Event::Signal(Signal::Down(down))) => {
                        let _over = sender.send((None, Some(down.pid)));
                    }
                    _ => {}
                }
                out.idle();
                Ok(())
            }))
            .start()
            .unwrap();
        runtime.send(pid, ()).unwrap();
        // By now the process monitors all of them. If one had exited before that, its notice could arrive at any time.
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), (None, None));
        for (number, watched) in watched.iter().enumerate() {
            runtime.send(pid, number as u32).unwrap();
            let end = watched.join();
            watched.kill();
            // This request puts a message into the control lane, at any time around the notice.
            let _asked = pid.bindings();
            end.wait_timeout(LONG).unwrap();
        }
        for (number, watched) in watched.iter().enumerate() {
            assert_eq!(receiver.recv_timeout(LONG).unwrap(), (Some(number as u32), None));
            assert_eq!(receiver.recv_timeout(LONG).unwrap(), (None, Some(*watched)));
        }
    });
}
