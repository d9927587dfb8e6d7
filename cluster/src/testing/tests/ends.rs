//! Reports of the ends of processes on other nodes.

use super::*;
use postroom::test::sometimes;

/// The way in which a witness is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Monitor,
    Link,
    Join,
}

/// A process that waits, in one of these ways, for the end of one process of another node.
#[process]
struct Witness {
    key: (u32, By),
    heard: Once<(u32, By)>,
}

#[process]
impl Witness {
    #[entry]
    async fn watch(&mut self, ctx: &mut Context<Self>, pid: Pid) {
        self.heard.expect(self.key);
        match self.key.1 {
            By::Monitor => _ = pid.monitor().unwrap(),
            By::Link => pid.link().unwrap(),
            By::Join => {
                let _reason = pid.join().await;
                self.heard.happened(self.key);
            }
        }
        ctx.serve(self).await;
    }

    #[signal]
    fn down(&mut self, _down: Down) {
        self.heard.happened(self.key);
    }

    #[signal]
    fn exit(&mut self, _exit: Exit) {
        self.heard.happened(self.key);
    }
}

/// Each monitor, link and join is notified once: of the end of the process, or of the loss of its node.
#[postroom::test(seeds = 20)]
fn each_end_is_heard_once(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let heard = Once::default();
    let mut targets = Vec::new();
    for (at, there) in nodes.iter().enumerate() {
        for here in nodes.iter().filter(|here| here.id() != there.id()) {
            for by in [By::Monitor, By::Link, By::Join] {
                // A link also ends the other process, so each witness has its own target.
                let target = there.host().spawn(Sink::default()).serve().unwrap();
                let key = (targets.len() as u32, by);
                let _running = here.host().spawn(Witness { key, heard: heard.clone() }).watch(target.pid()).unwrap();
                targets.push((at, target));
            }
        }
    }
    broker.pass(Duration::from_millis(sim.random() % 200));
    broker.faults(BAD);
    let mut left = targets;
    for _ in 0..3 {
        broker.trouble(&nodes.each_ref(), &Trouble::ALL);
        for _ in 0..4 {
            let (_, target) = left.swap_remove(sim.random() as usize % left.len());
            if sim.random().is_multiple_of(2) {
                _ = target.fail().send()
            } else {
                _ = target.pid().stop()
            }
            broker.pass(Duration::from_millis(sim.random() % 2_000));
        }
        heard.check(false);
        broker.heal();
        broker.pass(Duration::from_millis(sim.random() % 6_000));
    }
    let (_, before) = heard.counts();
    sometimes!(before > 12, "nodes are lost");
    broker.settle(&nodes.each_ref());
    left.into_iter().for_each(|(_, target)| _ = target.pid().stop());
    broker.rest(&nodes.each_ref());
    broker.pass(Duration::from_secs(1));
    // The normal end of a linked process is not reported. That link is over, and its witness may have received nothing.
    heard.check(false);
    for (key, (expected, happened)) in heard.all() {
        assert!(happened == expected || key.1 == By::Link, "{key:?} was heard {happened} times");
    }
}

/// The processes of a killed node are reported as lost, once.
#[postroom::test(seeds = 20)]
fn the_end_of_a_killed_node_is_heard_once(sim: Sim) {
    let (broker, [a, b, c]) = three(&sim);
    broker.faults(BAD);
    let heard = Once::default();
    for (number, by) in [By::Monitor, By::Link, By::Join].into_iter().cycle().take(12).enumerate() {
        let target = b.host().spawn(Sink::default()).serve().unwrap();
        let here = if number % 2 == 0 { &a } else { &c };
        let witness = Witness { key: (number as u32, by), heard: heard.clone() };
        let _running = here.host().spawn(witness).watch(target.pid()).unwrap();
    }
    broker.pass(Duration::from_millis(sim.random() % 400));
    broker.kill(&b);
    broker.pass(Duration::from_secs(30));
    heard.check(true);
    assert_eq!(heard.counts(), (12, 12));
    // The node comes back as another node.
    let d = broker.join(builder("b"));
    broker.settle(&[&a, &c, &d]);
    broker.rest(&[&a, &c, &d]);
}
