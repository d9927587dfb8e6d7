use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(10);

/// A process that grants one leadership at a time, for the duration of a lease.
#[process]
struct Election {
    term: u32,
    until: Option<Instant>,
}

#[process]
impl Election {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn lead(&mut self, ctx: &mut Context<Self>) -> Option<u32> {
        let now = ctx.now();
        if self.until.is_some_and(|until| now < until) {
            return None;
        }
        self.until = Some(now + LEASE);
        self.term += 1;
        Some(self.term)
    }
}

#[process]
struct Disk {
    version: Version,
    terms: Vec<u32>,
}

#[process]
impl Disk {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn write(&mut self, term: u32) {
        // The term keeps former leaders from writing.
        if self.version.is_wrong() || self.terms.last().is_none_or(|&last| last <= term) {
            self.terms.push(term);
        }
    }
    #[message]
    fn terms(&mut self) -> Vec<u32> {
        self.terms.clone()
    }
}

#[process]
struct Candidate {
    election: Address<Election>,
    disk: Address<Disk>,
}

#[process]
impl Candidate {
    /// Writes as the leader. A slow candidate may no longer be the leader when it writes.
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        loop {
            if let Ok(Some(term)) = self.election.lead().await {
                return self.disk.write(term).send().expect("it lives");
            }
            ctx.sleep(LEASE / 2).await;
        }
    }
}

pub fn run(sim: &Sim, version: Version) {
    sim.slow::<Candidate>(0.3, 4 * LEASE);
    let election = sim.spawn(Election { term: 0, until: None }).serve().expect("it starts");
    let disk = sim.spawn(Disk { version, terms: Vec::new() }).serve().expect("it starts");
    let candidates = [(); 2].map(|()| sim.spawn(Candidate { election, disk }).run().expect("it starts"));
    for candidate in candidates {
        candidate.wait().expect("it ends");
    }
    let terms = disk.terms().wait().expect("it lives");
    assert!(terms.is_sorted(), "an old leader writes after a new one: {terms:?}");
}
