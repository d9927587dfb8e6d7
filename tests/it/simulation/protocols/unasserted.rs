//! A program that uses much of the runtime and asserts nothing, so that only the simulation's own checks after each run
//! can fail. `tests/faults` plants one fault for each of these checks. No assertion of a test would catch these faults.

use super::pressure::{SOFT, press};
use postroom::manual::{Event, Events, StepOutput};
use postroom::prelude::*;
use postroom::test::{Sim, Simulation};
use postroom::{ProcessError, manual::Process};
use std::time::Duration;

const PEERS: usize = 4;
const DEEDS: u64 = 16;
const GROUP: &str = "peers";

#[process]
#[derive(Default)]
struct Peer {
    monitors: Vec<Monitor>,
    waiting: Vec<Reply<()>>,
}

#[process]
impl Peer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn act(&mut self, ctx: &mut Context<Self>, deed: u64, other: Address<Peer>) {
        match deed % 10 {
            0 | 1 => _ = other.pid().link(),
            2 => _ = other.pid().unlink(),
            3 => self.monitors.extend(other.pid().monitor()),
            4 => _ = self.monitors.pop().is_some_and(Monitor::demonitor),
            5 => _ = ctx.register_name(["a", "b"][(deed / 10) as usize % 2]),
            6 => _ = ctx.group(GROUP).join(ctx.pid()),
            7 => _ = other.ask().await,
            8 => _ = other.pid().join().await,
            _ => _ = other.note().send(),
        }
    }

    #[message]
    fn note(&mut self) {}

    /// Never answers; its callers fail when the process ends.
    #[message]
    fn ask(&mut self, reply: Reply<()>) {
        self.waiting.push(reply);
    }
}

fn peers(sim: &Sim) -> [Address<Peer>; PEERS] {
    [(); PEERS].map(|()| sim.spawn(Peer::default()).label("one of them").serve().expect("it starts"))
}

/// Makes the peers act on each other, and ends some of them. Time does not pass.
fn live(sim: &Sim) {
    let peers = peers(sim);
    for _ in 0..DEEDS {
        let [who, whom] = [(); 2].map(|()| sim.random() as usize % PEERS);
        let _it_has_ended = peers[who].act(sim.random(), peers[whom]).send();
        match sim.random() % 12 {
            0 => _ = peers[who].pid().kill(),
            1 | 2 => sim.until_idle().expect("the test is no process"),
            _ => {}
        }
    }
}

#[test]
fn nothing_is_asserted_of_processes_at_rest() {
    let test = Simulation::new("simulation::protocols::unasserted::nothing_is_asserted_of_processes_at_rest");
    test.seeds(200).run(|sim| {
        live(&sim);
        sim.until_idle().expect("the test is no process");
    });
}

#[test]
fn nothing_is_asserted_of_processes_that_are_ready() {
    let test = Simulation::new("simulation::protocols::unasserted::nothing_is_asserted_of_processes_that_are_ready");
    test.seeds(200).run(|sim| live(&sim));
}

#[test]
fn nothing_is_asserted_of_senders() {
    let test = Simulation::new("simulation::protocols::unasserted::nothing_is_asserted_of_senders");
    test.seeds(100).run(|sim| {
        let ends = sim.random().is_multiple_of(2);
        press(&sim, SOFT, ends);
    });
}

mod at_the_end {
    use super::*;

    /// No process has run when the body ends.
    #[test]
    fn nothing_is_asserted_of_what_was_just_sent() {
        let test = Simulation::new("simulation::protocols::unasserted::nothing_is_asserted_of_what_was_just_sent");
        test.seeds(20).run(|sim| {
            for peer in peers(&sim) {
                peer.note().send().expect("it lives");
            }
        });
    }
}

/// A process that is idle although it has set a timer. Messages and the timer wake it.
struct Patient(u32);

impl Process for Patient {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            match event {
                Event::Completed { .. } => out.done(),
                _ => out.after(Duration::from_secs(1), 7),
            }
            self.0 += 1;
        }
        Ok(())
    }
}

/// Catches: a check that takes it for granted that a hand-written process with an outstanding yield waits.
#[test]
fn a_process_may_be_idle_beside_what_it_has_yielded() {
    Simulation::new("simulation::protocols::unasserted::a_process_may_be_idle").seeds(20).run(|sim| {
        let patient = sim.spawn_process(Patient(0)).start().expect("it starts");
        sim.send(patient, ()).expect("it lives");
        sim.until_idle().expect("the test is no process");
    });
}
