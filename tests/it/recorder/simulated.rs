//! Recordings of simulations.

use super::{Client, Counter, check, handled};
use postroom::record::RecordedEvent;
use postroom::test::Simulation;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns the events of a simulation with the given seed.
fn events(seed: u64) -> Vec<String> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let found = events.clone();
    let test = Simulation::new("recorded").seed(seed).check(move |sim| {
        let active = sim.record(Duration::from_secs(600)).start().expect("nothing else is recorded");
        let counter = sim.spawn(Counter { sum: 0 }).serve().expect("it starts");
        let clients: Vec<_> = (0..3).map(|_| sim.spawn(Client { counter }).serve().expect("it starts")).collect();
        clients.iter().for_each(|client| client.call(2).send().expect("it lives"));
        counter.add_later(1).send().expect("it lives");
        sim.advance(Duration::from_secs(1));
        sim.until_idle().expect("outside");
        let recording = active.stop();
        check(&recording);
        assert_eq!(handled(&recording), 3 + 6 + 1);
        assert_eq!(recording.duration(), Duration::from_secs(1), "by the virtual clock");
        // PIDs differ from run to run, so numbers replace them.
        let pids: Vec<String> = [counter.pid()]
            .into_iter()
            .chain(clients.iter().map(|client| client.pid()))
            .map(|pid| pid.to_string())
            .collect();
        let text = |event: RecordedEvent| {
            let named = |text: String, (number, pid): (usize, &String)| text.replace(pid, &format!("<{number}>"));
            pids.iter().enumerate().fold(format!("{event:?}"), named)
        };
        *found.lock().unwrap() = recording.events().map(text).collect();
    });
    test.expect("nothing fails");
    let events = events.lock().unwrap();
    events.clone()
}

#[test]
fn two_runs_of_a_seed_have_the_same_events() {
    let runs = [7, 7].map(events);
    assert!(runs[0].len() > 30);
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], events(8), "another seed has another order");
}
