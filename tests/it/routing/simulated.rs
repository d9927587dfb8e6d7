//! Two nodes under seeded schedules. A process on each node delivers what has arrived, one parcel per turn.

use super::wire::Net;
use postroom::prelude::*;
use postroom::routing::Node;
use postroom::test::{Sim, sometimes};
use postroom::{Monitor, NodeId};
use postroom_tests::face::Log;
use std::collections::BTreeMap;

/// A process that delivers parcels from the other node to its own.
#[process]
struct Postman {
    net: Net,
    from: NodeId,
    to: NodeId,
}

#[process]
impl Postman {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn deliver(&mut self) {
        self.net.step(self.from, self.to);
    }
}

/// Connects two nodes, with a postman on each.
fn connect(net: &Net, one: Host, other: Host) {
    net.connect(one.node(), other.node());
    for (from, to) in [(one, other), (other, one)] {
        let postman = to.spawn(Postman { net: net.clone(), from: from.node(), to: to.node() }).serve().unwrap();
        let node = Node::of(to.node()).unwrap();
        net.ring(to.node(), move || node.enter(|| drop(postman.deliver().send())));
    }
}

/// An event that a peer has received.
#[derive(Clone, Debug)]
enum Heard {
    Number(Pid, u64),
    Down(Monitor, ExitReason),
    Exit(Pid, ExitReason),
    Answer(u64, Result<u64, CallError>),
}

/// A process that acts on others when requested, and logs the events that it receives.
#[process]
#[derive(Default)]
struct Peer {
    log: Log<(Pid, Heard)>,
    asked: Log<(Pid, u64)>,
    monitored: Log<(Pid, Monitor)>,
    removed: Log<(Pid, Monitor)>,
    monitors: Vec<Monitor>,
    sent: BTreeMap<Pid, u64>,
}

#[process]
impl Peer {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn note(&mut self, ctx: &mut Context<Self>, from: Pid, number: u64) {
        self.hear(ctx.pid(), Heard::Number(from, number));
    }
    #[message]
    fn double(&mut self, number: u64) -> u64 {
        2 * number
    }
    #[message]
    fn act(&mut self, ctx: &mut Context<Self>, deed: u64, other: Address<Peer>) {
        let (me, pid) = (ctx.pid(), other.pid());
        match deed % 10 {
            0 | 1 => pid.link().unwrap(),
            2 => pid.unlink().unwrap(),
            3 | 4 => {
                let monitor = pid.monitor().unwrap();
                self.monitors.push(monitor);
                self.monitored.add((me, monitor));
            }
            5 => {
                if let Some(monitor) = self.monitors.pop()
                    && monitor.demonitor()
                {
                    self.removed.add((me, monitor));
                }
            }
            6 | 7 => {
                let number = self.sent.entry(pid).or_insert(0);
                *number += 1;
                let _gone = other.note(me, *number).send();
            }
            _ => {
                let number = self.asked.len() as u64;
                self.asked.add((me, number));
                ctx.call(other.double(number)).then(move |this, answer, ctx| {
                    this.hear(ctx.pid(), Heard::Answer(number, answer));
                });
            }
        }
    }
    #[message]
    fn fail(&mut self) {
        panic!("fails in a simulation");
    }
    #[signal]
    fn down(&mut self, ctx: &mut Context<Self>, down: Down) {
        self.hear(ctx.pid(), Heard::Down(down.monitor, down.reason));
    }
    #[signal]
    fn exit(&mut self, ctx: &mut Context<Self>, exit: Exit) {
        self.hear(ctx.pid(), Heard::Exit(exit.pid, exit.reason));
    }
}

impl Peer {
    fn hear(&self, me: Pid, heard: Heard) {
        self.log.add((me, heard));
    }
}

/// Two nodes, with two peers on each. All peers share their logs.
struct World {
    net: Net,
    nodes: [Host; 2],
    peers: Vec<Address<Peer>>,
    heard: Log<(Pid, Heard)>,
    asked: Log<(Pid, u64)>,
    monitored: Log<(Pid, Monitor)>,
    removed: Log<(Pid, Monitor)>,
}

impl World {
    fn new(sim: &Sim) -> Self {
        let nodes = [(); 2].map(|()| sim.node());
        let net = Net::new();
        connect(&net, nodes[0], nodes[1]);
        let (heard, asked, monitored, removed) = (Log::new(), Log::new(), Log::new(), Log::new());
        let peer = |place: usize| {
            let peer = Peer {
                log: heard.clone(),
                asked: asked.clone(),
                monitored: monitored.clone(),
                removed: removed.clone(),
                ..Peer::default()
            };
            nodes[place % 2].spawn(peer).serve().unwrap()
        };
        let peers = (0..4).map(peer).collect();
        Self { net, nodes, peers, heard, asked, monitored, removed }
    }

    /// Makes the peers act on each other across the nodes. Returns true if this ended with the loss of the connection.
    fn live(&self, sim: &Sim) -> bool {
        let deeds = 40;
        for deed in 0..deeds {
            let place = (sim.random() % 4) as usize;
            let (one, other) = (self.peers[place], self.peers[(place + 1 + 2 * (sim.random() % 2) as usize) % 4]);
            assert_ne!(one.pid().node(), other.pid().node());
            match sim.random() % 40 {
                0 => drop(one.fail().send()),
                1 => _ = one.pid().kill(),
                2 => _ = one.pid().stop(),
                3 => _ = Node::of(one.pid().node()).unwrap().enter(|| other.pid().cancel("from elsewhere")),
                4 if deed > deeds / 2 => {
                    self.net.cut(self.nodes[0].node(), self.nodes[1].node());
                    return true;
                }
                _ => drop(one.act(sim.random(), other).send()),
            }
            // Sometimes wait until everything has arrived, and sometimes only for what precedes an answer.
            match sim.random() % 8 {
                0 => sim.until_idle().unwrap(),
                1..4 => drop(self.peers[place].double(0).wait()),
                _ => {}
            }
        }
        false
    }

    /// Checks the order of the messages from each sender, and that none of them came after the notice of the sender's
    /// end.
    fn check_order(&self, was_cut: bool) {
        let mut last: BTreeMap<(Pid, Pid), u64> = BTreeMap::new();
        let mut ended = Vec::new();
        for (me, heard) in self.heard.all() {
            match heard {
                Heard::Number(from, number) => {
                    let before = last.insert((me, from), number).unwrap_or(0);
                    assert!(number == before + 1 || (was_cut && number > before), "{number} after {before}");
                    assert!(!ended.contains(&(me, from)), "a message came after the end of its sender");
                }
                Heard::Down(monitor, _) => ended.push((me, monitor.pid())),
                Heard::Exit(pid, _) => ended.push((me, pid)),
                Heard::Answer(..) => {}
            }
        }
    }

    /// Checks that each call from a live process has exactly one answer.
    fn check_calls(&self) {
        let heard = self.heard.all();
        for (me, number) in self.asked.all() {
            let is_it = |(who, heard): &&(Pid, Heard)| {
                *who == me && matches!(heard, Heard::Answer(answered, _) if *answered == number)
            };
            let answers: Vec<_> = heard.iter().filter(is_it).collect();
            assert!(answers.len() == 1 || (answers.is_empty() && !me.is_alive()), "call {number}: {answers:?}");
            if let Some((_, Heard::Answer(_, Ok(double)))) = answers.first() {
                assert_eq!(*double, 2 * number);
            }
        }
    }

    /// Checks that each monitor of a live process has fired exactly once, or never if it was removed.
    fn check_monitors(&self) {
        let (heard, removed) = (self.heard.all(), self.removed.all());
        for (me, monitor) in self.monitored.all() {
            let is_it = |(who, heard): &&(Pid, Heard)| {
                *who == me && matches!(heard, Heard::Down(fired, _) if *fired == monitor)
            };
            let fired = heard.iter().filter(is_it).count();
            let expected = usize::from(!removed.contains(&(me, monitor)));
            assert!(fired == expected || (fired == 0 && !me.is_alive()), "{monitor:?} has fired {fired} times");
        }
    }
}

/// The runtime itself checks, after each run, that links and monitors are known on both sides.
#[postroom::test(seeds = 200)]
fn what_two_nodes_do_to_each_other_is_told_once_and_in_order(sim: Sim) {
    let world = World::new(&sim);
    let was_cut = world.live(&sim);
    sim.until_idle().unwrap();
    assert_eq!((world.net.under_way(), world.net.waiting()), (0, 0));
    world.check_order(was_cut);
    world.check_calls();
    // When the processes of one node have ended, all processes that monitor them must have been notified.
    world.peers.iter().skip(1).step_by(2).for_each(|peer| _ = peer.pid().kill());
    sim.until_idle().unwrap();
    world.check_order(was_cut);
    world.check_monitors();
    let heard = world.heard.all();
    let has = |is_such: fn(&Heard) -> bool| heard.iter().any(|(_, heard)| is_such(heard));
    sometimes!(was_cut, "the connection is lost");
    sometimes!(
        has(|heard| matches!(heard, Heard::Down(_, ExitReason::NodeLost))),
        "a monitor fires with the connection"
    );
    sometimes!(has(|heard| matches!(heard, Heard::Exit(_, ExitReason::NodeLost))), "a link ends with the connection");
    sometimes!(has(|heard| matches!(heard, Heard::Exit(_, ExitReason::Panic(_)))), "a failure crosses");
    sometimes!(
        has(|heard| matches!(heard, Heard::Answer(_, Err(CallError::Died(ExitReason::NodeLost))))),
        "a call is lost with the connection"
    );
    sometimes!(has(|heard| matches!(heard, Heard::Answer(_, Err(CallError::Gone(_))))), "a call comes too late");
    sometimes!(!world.removed.is_empty(), "a monitor is removed");
}

/// Like the test above, in the production scheduler's own order.
#[postroom::test(seeds = 50, strategy = "production")]
fn workers_of_several_nodes_share_the_threads_of_a_simulation(sim: Sim) {
    let world = World::new(&sim);
    let was_cut = world.live(&sim);
    sim.until_idle().unwrap();
    assert_eq!((world.net.under_way(), world.net.waiting()), (0, 0));
    world.check_order(was_cut);
    world.check_calls();
}

/// Catches: a delayed message that bypasses the transport. The thread that advances the clock sends it, and that thread
/// observes all nodes.
#[postroom::test(seeds = 10)]
fn a_message_for_later_goes_through_the_transport(sim: Sim) {
    #[process]
    struct Later;
    #[process]
    impl Later {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn tell(&mut self, other: Address<Later>) {
            // Dropping the timer does not cancel the message.
            let _timer = other.tell_nobody().send_after(std::time::Duration::from_secs(60)).unwrap();
        }
        #[message]
        fn tell_nobody(&mut self) {}
    }
    let [one, other] = [(); 2].map(|()| sim.node());
    let net = Net::new();
    net.connect(one.node(), other.node());
    let [one, other] = [one, other].map(|node| node.spawn(Later).serve().unwrap());
    one.tell(other).wait().unwrap();
    sim.advance(std::time::Duration::from_secs(59));
    assert_eq!(net.under_way(), 0);
    sim.advance(std::time::Duration::from_secs(1));
    assert_eq!(net.under_way(), 1);
}

/// Catches: a simulation that ignores the timers of further nodes, and so hangs or ends too early.
#[postroom::test(seeds = 10)]
fn nodes_share_the_time_of_the_simulation(sim: Sim) {
    #[process]
    struct Sleeper;
    #[process]
    impl Sleeper {
        #[entry]
        async fn nap(&mut self, ctx: &mut Context<Self>, seconds: u64) -> NodeId {
            ctx.sleep(std::time::Duration::from_secs(seconds)).await;
            postroom::this_node()
        }
    }
    let nodes = [(); 3].map(|()| sim.node());
    let naps = nodes.map(|node| node.spawn(Sleeper).nap(3_600).unwrap());
    for (nap, node) in naps.into_iter().zip(nodes) {
        assert_eq!(nap.wait().unwrap(), node.node());
    }
    assert_eq!(sim.elapsed(), std::time::Duration::from_secs(3_600));
}
