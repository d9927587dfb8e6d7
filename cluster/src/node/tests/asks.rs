//! Requests of one node to another, and the policy on them.

use super::children::{Worker, all_meet, join_with};
use super::*;
use crate::envelope::{AskKind, Envelope};
use crate::{Ask, AskError, Builder};
use postroom::inspect::ProcessState;
use std::sync::Condvar;

const SOON: Duration = Duration::from_secs(5);

/// Returns two nodes. The second is configured by `set`.
fn two(set: impl FnOnce(Builder) -> Builder) -> (Nodes, [Node; 2]) {
    let nodes = Nodes::new();
    let two = [join_with(&nodes, "eu-1", |builder| builder), join_with(&nodes, "eu-2", set)];
    all_meet(&two.each_ref());
    (nodes, two)
}

fn worker(from: &Node, to: &str) -> Address<Worker> {
    let node = from.cluster.node(to).unwrap();
    node.start::<Worker>("serve", payloads![0_u64, "w".to_owned()]).wait().unwrap()
}

#[test]
fn a_snapshot_of_a_process_comes_from_its_node() {
    let (_nodes, [one, two]) = two(|builder| builder);
    let worker = worker(&one, "eu-2").pid();
    two.runtime.register_name("w-7", worker).unwrap();
    let info = one.cluster.info(worker, SOON).wait().unwrap();
    assert_eq!((info.pid, &*info.process, &*info.entry), (worker, "Worker", "serve"));
    assert_eq!((info.names, info.state, info.mailbox), (vec!["w-7".to_owned()], ProcessState::Idle, 0));
    assert_eq!(two.cluster.info(worker, SOON).wait().map(|info| info.pid), Ok(worker), "one of its own");
    assert_eq!(one.cluster.kill(worker, SOON).wait(), Ok(()));
    until("it has ended", || !worker.is_alive());
    let gone = Err(AskError::NoProcess { pid: worker });
    assert_eq!(one.cluster.info(worker, SOON).wait(), gone);
    assert_eq!(two.cluster.info(worker, SOON).wait(), gone);
    assert_eq!(one.cluster.stop(worker, SOON).wait(), Err(AskError::NoProcess { pid: worker }));
    two.cluster.leave().wait();
    until("it has left", || one.cluster.members().is_empty());
    assert_eq!(one.cluster.info(worker, SOON).wait(), Err(AskError::Unreachable { pid: worker }));
}

/// A remote snapshot equals the local one.
#[test]
fn a_snapshot_shows_the_mailbox_and_the_work_of_its_process() {
    let (_nodes, [one, two]) = two(|builder| builder);
    let worker = worker(&one, "eu-2");
    on(&one, || (0..20).for_each(|_| worker.touch().send().unwrap()));
    until("all are handled", || one.cluster.info(worker, SOON).wait().unwrap().messages == 20);
    let (there, here) = (one.cluster.info(worker, SOON).wait().unwrap(), on(&two, || worker.pid().info().unwrap()));
    assert_eq!(there, crate::RemoteInfo::from(here));
    assert!(there.steps > 0);
}

/// The deadline is measured in the node's time, not the machine's.
#[test]
fn a_request_that_is_not_answered_ends_at_its_deadline_or_with_the_session() {
    let gate = Arc::new(Gate::default());
    let opens = Arc::clone(&gate);
    let (nodes, [one, two]) = two(|builder| {
        builder.allow(move |_, ask| {
            if matches!(ask, Ask::Info(_)) {
                opens.pass();
            }
            true
        })
    });
    let pid = worker(&one, "eu-2").pid();
    let waited = Duration::from_secs(3);
    let before = nodes.lock().now;
    assert_eq!(one.cluster.info(pid, waited).wait(), Err(AskError::Timeout { pid, waited }));
    assert!(nodes.lock().now.since(before) >= waited);
    let pending = one.cluster.info(pid, Duration::from_secs(3_600));
    two.client.close();
    assert_eq!(pending.wait(), Err(AskError::Lost { pid }));
    gate.open();
}

/// A gate at which threads block until it is opened.
#[derive(Default)]
pub(super) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
}

impl Gate {
    pub(super) const fn new() -> Self {
        Self { is_open: Mutex::new(false), opened: Condvar::new(), waiting: AtomicU64::new(0) }
    }

    pub(super) fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Virtual time advances while the thread waits.
        postroom::block_in_place(|| {
            drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        });
    }

    /// Returns the number of threads that have reached the gate.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[test]
fn without_a_policy_a_node_ends_only_what_it_has_started() {
    let (nodes, [one, two]) = two(|builder| builder);
    let (own, other) = (worker(&one, "eu-2"), two.runtime.spawn(Observer::default()).serve().unwrap().pid());
    let denied = Err(AskError::Denied { pid: other });
    assert_eq!(one.cluster.kill(other, SOON).wait(), denied);
    assert_eq!(one.cluster.stop(other, SOON).wait(), denied);
    assert_eq!(one.cluster.cancel(other, "no reason", SOON).wait(), denied);
    assert_eq!((two.cluster.statistics().refused, one.cluster.statistics().denied), (3, 0));
    // Requests that no one waits for are accepted by the transport, refused by the peer, and counted here.
    assert_eq!(on(&one, || (other.kill(), other.stop(), other.cancel("no reason"))), (true, true, true));
    until("the refusals are told", || one.cluster.statistics().denied == 3);
    assert_eq!(two.cluster.statistics().refused, 6);
    // The cluster's own process that starts others cannot be ended either.
    let pid = one.cluster.info(own, SOON).wait().unwrap().parent.unwrap();
    assert_eq!(one.cluster.kill(pid, SOON).wait(), Err(AskError::Denied { pid }));
    assert!(other.is_alive());
    assert_eq!(one.cluster.info(other, SOON).wait().map(|info| info.pid), Ok(other), "but it may be looked at");

    assert!(on(&one, || own.pid().stop()));
    until("its own has ended", || !own.pid().is_alive());
    // A process that one node has started cannot be ended by another, nor by a new node in place of the first.
    let three = join_with(&nodes, "eu-3", |builder| builder);
    all_meet(&[&one, &two, &three]);
    let own = worker(&one, "eu-2");
    assert_eq!(three.cluster.kill(own, SOON).wait(), Err(AskError::Denied { pid: own.pid() }));
    assert_eq!(one.cluster.cancel(own, "enough", SOON).wait(), Ok(()));
    until("it has ended", || !own.pid().is_alive());
}

#[test]
fn a_right_to_end_a_process_outlasts_the_session() {
    let (_nodes, [one, two]) = two(|builder| builder);
    let own = worker(&one, "eu-2").pid();
    two.client.disconnect();
    until("it is lost", || one.cluster.members().is_empty() && !two.cluster.is_member());
    two.client.reconnect();
    all_meet(&[&one, &two]);
    assert_eq!(one.cluster.kill(own, SOON).wait(), Ok(()));
    until("it has ended", || !own.is_alive());
}

#[test]
fn a_policy_decides_on_each_kind_of_request_with_the_peer_that_asks() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&asked);
    let (_nodes, [one, two]) = two(|builder| {
        builder.allow(move |peer, ask| {
            hears.lock().unwrap().push((peer.name.clone(), ask.clone()));
            // This is the reverse of the usual answer, except for starts.
            match ask {
                Ask::Start { entry, .. } => *entry == "serve",
                Ask::Info(_) => false,
                ask => !ask.is_usual(),
            }
        })
    });
    let own = worker(&one, "eu-2").pid();
    let other = two.runtime.spawn(Observer::default()).serve().unwrap().pid();
    let node = one.cluster.node("eu-2").unwrap();
    let refused = node.start::<Worker>("work", payloads![0_u64, String::new()]).wait();
    assert_eq!(refused.unwrap_err(), StartError::Denied { node: "eu-2".into() });
    assert_eq!(one.cluster.info(own, SOON).wait(), Err(AskError::Denied { pid: own }));
    assert_eq!(one.cluster.kill(own, SOON).wait(), Err(AskError::Denied { pid: own }));
    assert!(on(&one, || own.cancel("enough")));
    until("the refusal is told", || one.cluster.statistics().denied == 1);
    assert_eq!(two.cluster.statistics().refused, 4);
    assert!(own.is_alive());
    assert_eq!(one.cluster.stop(other, SOON).wait(), Ok(()));
    until("it has ended", || !other.is_alive());
    let asked: Vec<_> = asked.lock().unwrap().iter().map(|(peer, ask)| (peer.clone(), format!("{ask:?}"))).collect();
    assert!(asked.iter().all(|(peer, _)| peer == "eu-1"), "{asked:?}");
    let kinds: Vec<_> = asked.iter().map(|(_, ask)| ask.split([' ', '(']).next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["Start", "Start", "Info", "Kill", "Cancel", "Stop"]);
    assert!(asked[3].1.contains("process: Some(\"Worker\"), is_own: true"), "{}", asked[3].1);
    assert!(asked[5].1.contains("process: Some(\"Observer\"), is_own: false"), "{}", asked[5].1);
}

#[test]
fn a_child_that_a_policy_refuses_is_a_failed_start() {
    let (_nodes, [one, _two]) =
        two(|builder| builder.allow(|_, ask| !matches!(ask, Ask::Start { is_child: true, .. }) && ask.is_usual()));
    let node = one.cluster.node("eu-2").unwrap();
    let tree = Supervisor::one_for_one()
        .intensity(0, Duration::MAX)
        .child("a", move |spawn| spawn.on(&node).start::<Worker>("serve", payloads![0_u64, String::new()]))
        .spawn(&one.runtime)
        .unwrap();
    let ExitReason::Error(error) = tree.join().wait() else { panic!("an error") };
    assert!(error.to_string().contains("node `eu-2` does not allow the start"), "{error}");
    assert!(worker(&one, "eu-2").pid().is_alive(), "others may be started");
}

/// A node that allows the start of a child also allows the child's supervisor to end it.
#[test]
fn a_supervisor_ends_its_children_whatever_the_policy_says_of_ends() {
    let (_nodes, [one, two]) = two(|builder| builder.allow(|_, ask| matches!(ask, Ask::Start { .. })));
    let node = one.cluster.node("eu-2").unwrap();
    let tree = Supervisor::one_for_one()
        .child("a", move |spawn| spawn.on(&node).start::<Worker>("serve", payloads![0_u64, String::new()]))
        .spawn(&one.runtime)
        .unwrap();
    until("it runs", || tree.children()[0].pid.is_some());
    let pid = tree.children()[0].pid.unwrap();
    assert!(tree.stop());
    assert_eq!(tree.join().wait(), ExitReason::Normal);
    until("its child has ended", || !pid.is_alive());
    assert_eq!(two.cluster.statistics().refused, 0);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as users' code may");
    }
}

#[test]
fn a_policy_that_panics_refuses() {
    let (_nodes, [one, two]) = two(|builder| {
        builder.allow(|_, ask| match ask {
            Ask::Kill(_) => std::panic::panic_any(Bomb),
            ask => ask.is_usual(),
        })
    });
    let own = worker(&one, "eu-2").pid();
    for _ in 0..3 {
        assert_eq!(one.cluster.kill(own, SOON).wait(), Err(AskError::Denied { pid: own }));
    }
    let counted = two.cluster.statistics();
    assert_eq!((counted.refused, counted.policy_panics), (3, 3));
    assert_eq!(one.cluster.stop(own, SOON).wait(), Ok(()), "it goes on deciding");
}

/// A policy that blocks delays neither the lease nor the messages of others, and the number of waiting requests is
/// bounded.
#[test]
fn a_policy_that_blocks_stops_nothing_else() {
    let gate = Arc::new(Gate::default());
    let opens = Arc::clone(&gate);
    let (nodes, [one, two]) = two(|builder| {
        builder.allow(move |_, ask| {
            if matches!(ask, Ask::Cancel(_)) {
                opens.pass();
            }
            ask.is_usual()
        })
    });
    let (condemned, busy) = (worker(&one, "eu-2").pid(), worker(&one, "eu-2"));
    assert!(on(&one, || condemned.cancel("enough")));
    until("the policy blocks", || gate.waiting.load(Ordering::Relaxed) == 1);
    nodes.pass(Duration::from_secs(60));
    assert!(two.cluster.is_member(), "its lease was renewed");
    assert_eq!(on(&one, || busy.touch().wait()), Ok(1), "messages arrive");
    // This is a flood of requests. A thousand wait behind the first, and the others are refused at once.
    let peer = one.cluster.peer(two.cluster.id()).unwrap();
    for number in 0..2_000 {
        peer.say(Envelope::Ask { number, to: condemned, ask: AskKind::Info, reason: bytes::Bytes::new() });
    }
    until("those that are too many are refused", || two.cluster.statistics().refused == 2_000 - 1_023);
    assert!(condemned.is_alive());
    gate.open();
    until("it is cancelled in the end", || !condemned.is_alive());
    until("all is decided", || one.cluster.info(busy, SOON).wait().is_ok());
    assert_eq!(two.cluster.statistics().refused, 2_000 - 1_023);
}

/// A link alone does not end a process, since a process may decide to survive others.
#[test]
fn a_link_from_elsewhere_ends_no_process_that_traps_exits() {
    let (_nodes, [one, two]) = two(|builder| builder.allow(|_, _| false));
    let trapping = two.runtime.spawn(Observer::default()).serve().unwrap();
    let plain = two.runtime.spawn(Account::default()).serve(1).unwrap().pid();
    let account = one.runtime.spawn(Account::default()).serve(1).unwrap();
    let ties = one.runtime.spawn(Tied).serve().unwrap();
    ties.tie(trapping.pid()).wait().unwrap();
    ties.tie(plain).wait().unwrap();
    ties.tie(account.pid()).wait().unwrap();
    let _ = ties.fail().wait();
    until("the exit is heard", || trapping.heard().wait().unwrap().len() == 1);
    until("one that does not trap exits fails with it", || !plain.is_alive());
    until("as it does on its own node", || !account.pid().is_alive());
    assert_eq!(two.cluster.statistics().refused, 0);
}

#[process]
struct Tied;

#[process]
impl Tied {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn tie(&mut self, pid: Pid) {
        pid.link().unwrap();
    }

    #[message]
    fn fail(&mut self) {
        panic!("broken");
    }
}

#[test]
fn a_process_that_is_refused_an_end_still_serves() {
    let (_nodes, [one, two]) = two(|builder| builder.allow(|_, ask| matches!(ask, Ask::Start { .. })));
    let own = worker(&one, "eu-2");
    assert!(on(&one, || own.pid().stop()));
    until("the refusal is told", || one.cluster.statistics().denied == 1);
    assert_eq!(on(&one, || own.touch().wait()), Ok(1));
    assert_eq!(two.cluster.statistics().refused, 1);
}

/// A process whose count of handled messages is visible after its end.
#[process]
#[derive(Default)]
struct Counting {
    handled: Arc<AtomicU64>,
}

#[process(remote)]
impl Counting {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self) {
        self.handled.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the process busy until the gate opens.
    #[message(local)]
    fn stand(&mut self, gate: Arc<Gate>) {
        gate.pass();
    }
}

/// The mailbox is full when the requests arrive. (This once failed: with a policy, a stop overtook messages that were
/// waiting for room.)
#[test]
fn what_was_sent_before_a_stop_is_handled_before_it_though_a_policy_decides() {
    for asks in [false, true] {
        let nodes = Nodes::new();
        let two = ["eu-1", "eu-2"]
            .map(|name| join_with(&nodes, name, |builder| builder.export::<Counting>().allow(|_, _| true)));
        all_meet(&two.each_ref());
        let [one, two] = two;
        let (gate, handled) = (Arc::new(Gate::default()), Arc::<AtomicU64>::default());
        let slow = Counting { handled: Arc::clone(&handled) };
        let slow = two.runtime.spawn(slow).mailbox(Bound::Hard(1, Overflow::Refuse)).serve().unwrap();
        slow.stand(Arc::clone(&gate)).send().unwrap();
        until("it is busy", || gate.waiting() == 1);
        on(&one, || (0..10).for_each(|_| slow.take().send().unwrap()));
        if asks {
            assert_eq!(one.cluster.stop(slow, SOON).wait(), Ok(()));
        } else {
            assert!(on(&one, || slow.pid().stop()));
            // The answer shows that the stop has been decided.
            assert!(one.cluster.info(slow, SOON).wait().is_ok());
        }
        gate.open();
        until("it has ended", || !slow.pid().is_alive());
        assert_eq!(handled.load(Ordering::Relaxed), 10, "asks: {asks}");
    }
}

/// A request that is allowed too late is counted and ignored: no process is ended or started.
#[test]
fn a_decision_that_comes_after_the_end_of_the_session_does_nothing() {
    let gate = Arc::new(Gate::default());
    let opens = Arc::clone(&gate);
    let (_nodes, [one, two]) = two(|builder| {
        builder.allow(move |_, ask| {
            if matches!(ask, Ask::Kill(_)) {
                opens.pass();
            }
            true
        })
    });
    let (condemned, busy) = (worker(&one, "eu-2").pid(), worker(&one, "eu-2"));
    let killed = one.cluster.kill(condemned, Duration::from_secs(3_600));
    until("the policy blocks", || gate.waiting() == 1);
    // These requests wait behind the first.
    let peer = one.cluster.peer(two.cluster.id()).unwrap();
    let inputs = peer.agreement().unwrap().encode_inputs("Worker", "serve", payloads![0_u64, "w".to_owned()]).unwrap();
    let content = crate::envelope::Content { message: inputs.id.0, bytes: inputs.bytes };
    peer.say(Envelope::Start { number: 1 << 40, content: content.clone() });
    peer.say(Envelope::StartKeyed { number: 1 << 41, key: "order-17".into(), content });
    peer.say(Envelope::Ask { number: 0, to: condemned, ask: AskKind::Stop, reason: bytes::Bytes::new() });
    // This call is in the same lane, so all of the requests have arrived when it is handled.
    assert!(on(&one, || busy.touch().wait()).is_ok());
    let spawned = two.runtime.statistics().processes.spawned;
    one.client.disconnect();
    until("the session is over", || two.cluster.members().is_empty());
    assert_eq!(killed.wait(), Err(AskError::Lost { pid: condemned }));
    gate.open();
    until("all is decided", || two.cluster.statistics().late_decisions == 4);
    assert!(condemned.is_alive());
    assert_eq!(two.runtime.statistics().processes.spawned, spawned);
    assert_eq!(two.cluster.statistics().refused, 0);
}
