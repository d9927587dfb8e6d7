//! Calls to other nodes: deadlines, and cycles of calls.

use super::*;

/// A process that returns how long its caller still waits, and that calls the next station.
#[process]
#[derive(Default)]
struct Station {
    next: Option<Address<Station>>,
}

#[process(remote)]
impl Station {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn lead_to(&mut self, next: Address<Station>) {
        self.next = Some(next);
    }

    /// Returns the time until the deadline in milliseconds.
    #[message]
    fn time_left(&mut self, ctx: &mut Context<Self>) -> Option<u64> {
        ctx.deadline().map(|deadline| (deadline - ctx.now()).as_millis() as u64)
    }

    #[message]
    async fn round(&mut self, ctx: &mut Context<Self>, hops: u32) -> String {
        let next = self.next.filter(|_| hops > 0);
        let Some(next) = next else { return "the end".into() };
        let begun = ctx.now();
        match next.round(hops - 1).timeout(Duration::from_secs(2)).await {
            Ok(said) => said,
            Err(error) => format!("{error:?} after {} s", (ctx.now() - begun).as_secs()),
        }
    }
}

fn two(sim: &Sim) -> (SimulatedBroker, [SimulatedNode; 2]) {
    let broker = Broker::simulated(sim);
    let nodes = ["a", "b"].map(|name| broker.join(builder(name).export::<Station>()));
    broker.settle(&nodes.each_ref());
    (broker, nodes)
}

/// A deadline is sent as the time that is left. The called process does not subtract the transit time, since the clocks
/// of two machines are unrelated.
///
/// Mutation: in `Peer::send_encoded`, send no time; or in `Package::with_caller`, subtract some of it.
#[postroom::test(seeds = 10)]
fn a_deadline_travels_as_the_time_that_is_left(sim: Sim) {
    let (broker, [a, b]) = two(&sim);
    broker.faults(Faults { delay: Duration::from_secs(1), ..Faults::default() });
    let station = b.host().spawn(Station::default()).serve().unwrap();
    for seconds in [4_u64, 3_600] {
        let left = a.enter(|| station.time_left().timeout(Duration::from_secs(seconds)).wait()).unwrap().unwrap();
        assert!((1_000 * seconds - 100..=1_000 * seconds).contains(&left), "{left} ms of {seconds} s");
    }
    assert_eq!(a.enter(|| station.time_left().timeout(Duration::MAX).wait()), Ok(None));
}

/// A cycle of calls between nodes is not detected by either node. It ends with the deadline of one of the calls, and
/// then all processes continue.
#[postroom::test(seeds = 10)]
fn a_cycle_of_calls_between_nodes_ends_by_a_deadline(sim: Sim) {
    let (broker, [a, b]) = two(&sim);
    let [here, there] = [&a, &b].map(|node| node.host().spawn(Station::default()).serve().unwrap());
    here.lead_to(there).wait().unwrap();
    there.lead_to(here).wait().unwrap();
    let said = a.enter(|| here.round(2).timeout(Duration::from_secs(60)).wait());
    assert_eq!(said.as_deref(), Ok("Timeout after 2 s"));
    broker.rest(&[&a, &b]);
    assert_eq!(a.enter(|| there.round(0).wait()).as_deref(), Ok("the end"));
    assert_eq!(b.enter(|| here.round(0).wait()).as_deref(), Ok("the end"));
}
