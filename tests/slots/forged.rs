//! A PID that differs from that of a live process only in its host or node identifies no process for any operation.
//! Such a PID comes from text or from another program.

use super::*;
use postroom::error::{GroupError, TopologyError, UpgradeError};
use postroom::routing::{Node, Receiver, Router, Transport};
use postroom::{Mailbox, Package, Pool, Topic};
use postroom_tests::face::{Log, until, watched};

/// A process that logs its messages.
#[process]
#[derive(Default)]
struct Victim {
    heard: Log<&'static str>,
}

#[process]
impl Victim {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    #[derive(Clone)]
    fn hit(&mut self) -> u32 {
        self.heard.add("a message");
        7
    }
}

/// A process that links to another process and monitors it, and logs the results.
#[process]
struct Binds {
    log: Log<String>,
}

#[process]
impl Binds {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>) {
        ctx.trap_exits(true);
    }
    #[message]
    fn monitor(&mut self, pid: Pid) {
        pid.monitor().unwrap();
    }
    #[message]
    fn link(&mut self, pid: Pid) {
        pid.link().unwrap();
    }
    #[signal]
    fn down(&mut self, down: Down) {
        self.log.add(format!("down {} {}", down.pid, down.reason));
    }
    #[signal]
    fn exit(&mut self, exit: Exit) {
        self.log.add(format!("exit {} {}", exit.pid, exit.reason));
    }
}

/// Returns PIDs that differ from `pid` in the host or in the node.
fn forged(pid: Pid, other_host: u16) -> Vec<Pid> {
    // The hosts are another existing one, one that never existed, and that of code without a host. The last PID has
    // another node instead. (Any other host number may belong to another test's runtime. If that runtime has been shut
    // down, there is a different error.)
    let hosts = [other_host, 40_000, u16::MAX].into_iter().filter(|host| *host != pid.host_number());
    let mut forged: Vec<Pid> = hosts.map(|host| altered(pid, |parts| parts[1] = host.into())).collect();
    forged.push(altered(pid, |parts| parts[0] ^= 1));
    forged
}

/// Checks every operation on a PID that identifies no process.
fn nothing_answers_to(runtime: &Runtime, pid: Pid) {
    let is_here = pid.node() == this_node();
    let gone = |reason: SendFailure| match reason {
        SendFailure::Gone(to) => is_here && to == pid,
        SendFailure::UnknownNode(to) => !is_here && to == pid,
        SendFailure::UnknownHost(to) => is_here && to == pid,
        _ => false,
    };
    // Messages.
    assert!(gone(runtime.send(pid, VictimHit {}).unwrap_err().reason));
    assert!(gone(runtime.try_send(pid, VictimHit {}).unwrap_err().reason));
    assert!(gone(runtime.send_wait(pid, VictimHit {}).unwrap_err().reason));
    let recipient = Recipient::<VictimHit, u32>::of(pid);
    assert!(gone(recipient.send(VictimHit {}).unwrap_err().reason));
    assert!(gone(runtime.block_on(recipient.call(VictimHit {}).send_async()).unwrap_err().reason));
    // Nothing is known about a process of another node.
    let text = if is_here { ExitReason::NoProcess } else { ExitReason::NodeLost };
    assert_eq!(recipient.call(VictimHit {}).wait(), Err(CallError::Gone(text.clone())));
    let called = runtime.block_on(async { recipient.call(VictimHit {}).await });
    assert_eq!(called, Err(CallError::Gone(text.clone())));
    let package = || Package::new(pid, Payload::new(VictimHit {}));
    assert!(gone(pid.deliver(package()).unwrap_err().reason));
    for station in [&runtime.host() as &dyn Receiver, &Node::this(), Router::of_program()] {
        assert!(gone(station.deliver(package()).unwrap_err().reason));
    }
    // Liveness and signals.
    assert!(!pid.is_alive() && !pid.stop() && !pid.cancel("no") && !pid.kill());
    assert_eq!(pid.join().wait(), text);
    assert!(pid.info().is_none() && pid.bindings().wait().is_none());
    assert!(runtime.address::<Victim>(pid).is_err());
    let upgraded = pid.upgrade(|victim: Victim| victim).wait();
    assert!(matches!(upgraded, Err(UpgradeError::Gone(_))), "{upgraded:?}");
    // Names, groups and topics.
    assert!(runtime.register_name("forged", pid).is_err());
    assert_eq!(runtime.whereis("forged"), None);
    let group = runtime.group("forged");
    assert!(matches!(group.join(pid), Err(GroupError::Gone(_))));
    assert!(group.subscribe(pid).is_err() && group.is_empty());
    let topic: Topic<u32> = runtime.topic("forged");
    assert!(topic.subscribe(pid).is_err());
    assert_eq!(topic.publish(1), 0);
    // Links and monitors.
    let log = Log::new();
    let binds = runtime.spawn(Binds { log: log.clone() }).serve().unwrap();
    binds.monitor(pid).wait().unwrap();
    binds.link(pid).wait().unwrap();
    until(|| log.len() == 2);
    assert_eq!(log.all(), [format!("down {pid} {text}"), format!("exit {pid} {text}")]);
    assert_eq!(binds.pid().bindings().wait().unwrap().count(), 0);
    assert_eq!(pid.monitor(), Err(TopologyError::NoProcess(pid)));
    binds.pid().kill();
}

/// Catches: an operation that checks only the slot and the generation of a PID.
#[test]
fn a_pid_with_another_host_or_node_is_that_of_no_process() {
    watched(|| {
        let (runtime, other) = (two_workers(), two_workers());
        let heard = Log::new();
        let victim = runtime.spawn(Victim { heard: heard.clone() }).serve().unwrap();
        for pid in forged(victim.pid(), other.number()) {
            nothing_answers_to(&runtime, pid);
        }
        assert_eq!(victim.hit().wait(), Ok(7));
        assert_eq!(heard.all(), ["a message"]);
        assert_eq!(victim.pid().bindings().wait().unwrap().count(), 0);
    });
}

/// Like the test above, for aliases of a child, a pool and a name.
#[test]
fn an_alias_with_another_host_or_node_has_no_target() {
    watched(|| {
        let (runtime, other) = (two_workers(), two_workers());
        let tree = Supervisor::one_for_one()
            .child("victim", |spawn| spawn.of(Victim::default()).serve())
            .spawn(&runtime)
            .unwrap();
        let pool = Pool::fixed(1).spawn(&runtime, |spawn| spawn.of(Victim::default()).serve()).unwrap();
        let named = runtime.named_address::<Victim>("victim").unwrap();
        let victim = runtime.spawn(Victim::default()).named("victim").serve().unwrap();
        for real in [tree.child_pid("victim").unwrap(), pool.pid(), named.pid()] {
            assert!(real.is_alias());
            for pid in forged(real, other.number()) {
                nothing_answers_to(&runtime, pid);
                assert_eq!(pid.resolve().filter(|other| *other != pid), None);
            }
            assert_eq!(runtime.address::<Victim>(real).unwrap().hit().wait(), Ok(7));
        }
        assert!(victim.pid().is_alive());
    });
}

/// Like the test above, for a mailbox, which belongs to no host.
#[test]
fn the_pid_of_a_mailbox_with_another_host_or_node_is_no_mailbox() {
    watched(|| {
        let runtime = two_workers();
        let mut mailbox = Mailbox::new().unwrap();
        for pid in forged(mailbox.pid(), runtime.number()) {
            nothing_answers_to(&runtime, pid);
        }
        assert!(mailbox.try_receive().is_none());
        runtime.send(mailbox.pid(), 5_u8).unwrap();
        assert_eq!(mailbox.receive().take::<u8>().unwrap(), 5);
    });
}

/// Catches: routing by the slot instead of the node, although a live process here has the same slot and generation.
#[test]
fn a_message_to_another_node_goes_there_although_a_process_here_has_the_slot() {
    struct Engine(Log<Pid>);
    impl Receiver for Engine {
        fn deliver(&self, package: Package) -> Result<(), postroom::routing::Undeliverable> {
            self.0.add(package.to());
            package.answer(|_: VictimHit| 9_u32).unwrap();
            Ok(())
        }
    }
    impl Transport for Engine {}
    watched(|| {
        let runtime = two_workers();
        let victim = runtime.spawn(Victim::default()).serve().unwrap();
        let abroad = altered(victim.pid(), |parts| parts[0] ^= 2);
        let log = Log::new();
        Router::of_program().connect(abroad.node(), Arc::new(Engine(log.clone())));
        runtime.send(abroad, VictimHit {}).unwrap();
        assert_eq!(Recipient::<VictimHit, u32>::of(abroad).call(VictimHit {}).wait(), Ok(9));
        assert_eq!(log.all(), [abroad; 2]);
        Router::of_program().disconnect(abroad.node());
    });
}
