//! Links and unlinks that cross. A process handles link messages at the start of its next step. So these steps block on
//! their stacks between two operations, and let the other process act in the meantime.

use postroom::prelude::*;
use postroom::test::Simulation;

#[process]
struct Pacer;

#[process]
impl Pacer {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn pass(&mut self) {}
}

#[process]
struct Partner {
    pacer: Address<Pacer>,
}

#[process]
impl Partner {
    #[entry]
    fn serve(&mut self) {}
    /// Links for each set bit of `deeds`, and unlinks for each clear one.
    #[message]
    fn act(&mut self, other: Pid, deeds: u64) {
        for deed in 0..4 {
            let done = if deeds >> deed & 1 == 1 { other.link() } else { other.unlink() };
            done.expect("both live");
            self.pacer.pass().wait().expect("it lives");
        }
    }
}

#[test]
fn partners_agree_in_the_end() {
    Simulation::new("simulation::protocols::crossing::partners_agree_in_the_end").seeds(300).run(|sim| {
        let pacer = sim.spawn(Pacer).serve().expect("it starts");
        let [one, other] = [(); 2].map(|()| sim.spawn(Partner { pacer }).serve().expect("it starts"));
        for _ in 0..2 {
            one.act(other.pid(), sim.random()).send().expect("it lives");
            other.act(one.pid(), sim.random()).send().expect("it lives");
        }
        sim.until_idle().expect("the test is no process");
        let links = [one, other].map(|partner| partner.pid().bindings().wait().expect("it lives").links.len());
        assert_eq!(links[0], links[1], "both are linked, or neither is");
    });
}
