//! Children that are started through a placement, and the supervisor's reactions to the reports about them, in any
//! order. The crate `postroom-cluster` tests whole clusters.

use super::*;
use postroom::supervision::{ChildError, ChildStart, ChildState, GaveUp, Place, Placement, StartReport};
use postroom::{ChildSpawn, Pool};
use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A placement whose requests for starts are answered by the test.
#[derive(Clone)]
struct Far(Sender<ChildStart>);

impl Placement for Far {
    fn choose(&self, _process: &'static str) -> Result<Place, Box<dyn Error + Send + Sync>> {
        let starts = self.0.clone();
        Ok(Place::elsewhere("far", move |start| starts.send(start).unwrap()))
    }
}

fn far() -> (Far, Receiver<ChildStart>) {
    let (starts, started) = channel();
    (Far(starts), started)
}

/// A placement on the supervisor's own host.
struct Near;

impl Placement for Near {
    fn choose(&self, process: &'static str) -> Result<Place, Box<dyn Error + Send + Sync>> {
        assert_eq!(process, "Plain");
        Ok(Place::Here)
    }
}

#[process]
#[derive(Default)]
struct Plain {
    sum: u64,
}

#[process]
impl Plain {
    #[entry]
    fn serve(&mut self, sum: u64) {
        self.sum = sum;
    }

    #[message]
    fn add(&mut self, amount: u64) -> u64 {
        assert!(amount < 1_000, "too much");
        self.sum += amount;
        self.sum
    }
}

fn plain(runtime: &Runtime) -> Pid {
    runtime.spawn(Plain::default()).serve(7).unwrap().pid()
}

fn report(starts: &Receiver<ChildStart>) -> StartReport {
    let (process, entry, inputs, report) = starts.recv_timeout(LIMIT).expect("it is asked for").take_apart();
    assert_eq!((process, &*entry, inputs.len()), ("Plain", "serve", 1));
    report
}

/// A time limit that guards against a hang. No result depends on it.
const LIMIT: Duration = Duration::from_secs(60);

fn end_of(tree: &Tree) -> ExitReason {
    tree.join().wait_timeout(LIMIT).expect("the supervisor ends")
}

fn supervisor() -> Supervisor {
    supervisor_of(Supervisor::one_for_one())
}

fn supervisor_of(supervisor: Supervisor) -> Supervisor {
    let backoff = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(5));
    supervisor.intensity(u32::MAX, Duration::from_secs(1)).backoff(backoff)
}

fn tree(supervisor: Supervisor, runtime: &Runtime, within: Duration) -> (Tree, Receiver<ChildStart>) {
    let (far, starts) = far();
    let child = move |spawn: ChildSpawn| spawn.on(&far).within(within).start::<Plain>("serve", payloads![7_u64]);
    (supervisor.child("a", child).spawn(runtime).unwrap(), starts)
}

fn last(tree: &Tree) -> String {
    tree.children()[0].last.as_ref().map(ToString::to_string).unwrap_or_default()
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn a_child_is_waiting_until_its_start_is_reported_and_runs_until_its_end_is() {
    let runtime = Runtime::new().unwrap();
    let (tree, starts) = tree(supervisor(), &runtime, LONG);
    let first = report(&starts);
    assert_eq!((tree.children()[0].state, tree.children()[0].pid), (ChildState::Waiting, None));
    // Messages to the child wait until it has started.
    let address: Address<Plain> = tree.child("a").unwrap();
    address.add(1).send().unwrap();
    let pid = plain(&runtime);
    let end = first.started(pid);
    eventually(|| tree.children()[0].state == ChildState::Running);
    let info = &tree.children()[0];
    assert_eq!((info.pid, info.node.as_deref(), info.restarts), (Some(pid), Some("far"), 0));
    assert_eq!(address.add(1).wait(), Ok(9));
    end.ended(ExitReason::Cancelled("enough".into()));
    let second = report(&starts);
    assert_eq!(last(&tree), "cancelled: enough");
    // If a report is dropped, that means that the node was lost.
    drop(second.started(plain(&runtime)));
    let third = report(&starts);
    assert_eq!((last(&tree), tree.children()[0].restarts), ("its node was lost".to_owned(), 2));
    drop(third);
    let fourth = report(&starts);
    assert_eq!((last(&tree), tree.children()[0].restarts), ("its node was lost".to_owned(), 3));
    fourth.failed("no room");
    let fifth = report(&starts);
    assert_eq!(last(&tree), "error: no room");
    let end = fifth.started(plain(&runtime));
    eventually(|| tree.children()[0].state == ChildState::Running);
    assert!(tree.stop());
    eventually(|| !tree.children()[0].pid.is_some_and(Pid::is_alive));
    end.ended(ExitReason::Shutdown);
    assert_eq!(end_of(&tree), ExitReason::Normal);
}

/// The node has been lost, but the supervisor has not been notified.
#[test]
fn a_message_to_a_child_that_is_lost_unheard_of_is_kept() {
    let runtime = Runtime::new().unwrap();
    let (far, starts) = far();
    let child = Child::new("a", move |spawn: ChildSpawn| spawn.on(&far).start::<Plain>("serve", payloads![7_u64]));
    let tree = supervisor().add(child.keep_messages()).spawn(&runtime).unwrap();
    let nowhere: Pid = "<7f.1.42.9>".parse().unwrap();
    let lost = report(&starts).started(nowhere);
    eventually(|| tree.children()[0].state == ChildState::Running);
    let address: Address<Plain> = tree.child("a").unwrap();
    address.add(1).send().unwrap();
    drop(lost);
    let end = report(&starts).started(plain(&runtime));
    assert_eq!(address.add(1).wait(), Ok(9));
    drop(end);
}

#[test]
fn what_is_started_too_late_is_killed() {
    let runtime = Runtime::new().unwrap();
    let (tree, starts) = tree(supervisor(), &runtime, Duration::from_millis(5));
    let first = report(&starts);
    let second = report(&starts);
    assert!(last(&tree).starts_with("error: node `far` has not answered the start within 5ms"), "{}", last(&tree));
    let late = plain(&runtime);
    let _end = first.started(late);
    eventually(|| !late.is_alive());
    drop(second);
    tree.stop();
    end_of(&tree);
}

/// An answer to an earlier start must not be taken for the answer to the current one.
#[test]
fn each_answer_belongs_to_its_start() {
    let runtime = Runtime::new().unwrap();
    let (far, starts) = far();
    let mut first = true;
    let child = move |spawn: ChildSpawn| {
        // Only the first start has this limit.
        let within = if std::mem::take(&mut first) { Duration::ZERO } else { LONG };
        spawn.on(&far).within(within).start::<Plain>("serve", payloads![7_u64])
    };
    let tree = supervisor().child("a", child).spawn(&runtime).unwrap();
    let (first, second) = (report(&starts), report(&starts));
    let (late, right) = (plain(&runtime), plain(&runtime));
    let a = tree.child_pid("a").unwrap();
    let life = a.join();
    first.started(late).ended(ExitReason::Normal);
    let end = second.started(right);
    eventually(|| tree.children()[0].state == ChildState::Running);
    assert_eq!((tree.children()[0].pid, tree.children()[0].restarts), (Some(right), 1));
    eventually(|| !late.is_alive());
    assert!(right.is_alive());
    assert!(last(&tree).contains("has not answered"), "{}", last(&tree));
    end.ended(ExitReason::Cancelled("enough".into()));
    assert_eq!(life.wait(), ExitReason::Cancelled("enough".into()), "the end of the other start is not its own");
}

/// The end of a start that was given up must not remove a dynamic child whose next process already runs.
#[test]
fn the_end_of_a_start_that_was_given_up_leaves_a_dynamic_child_alone() {
    let runtime = Runtime::new().unwrap();
    let (far, starts) = far();
    let mut first = true;
    let child = move |spawn: ChildSpawn| {
        let within = if std::mem::take(&mut first) { Duration::ZERO } else { LONG };
        spawn.on(&far).within(within).start::<Plain>("serve", payloads![7_u64])
    };
    let tree = supervisor_of(Supervisor::dynamic()).spawn(&runtime).unwrap();
    let a = tree.start(Child::new("a", child).transient()).unwrap().pid();
    let (first, second) = (report(&starts), report(&starts));
    let (late, right) = (plain(&runtime), plain(&runtime));
    let end = second.started(right);
    eventually(|| tree.children()[0].state == ChildState::Running);
    first.started(late).ended(ExitReason::Normal);
    eventually(|| !late.is_alive());
    assert_eq!(tree.child_pid("a"), Ok(a));
    end.ended(ExitReason::Normal);
    eventually(|| tree.children().is_empty());
}

#[test]
fn a_supervisor_that_is_stopped_does_not_wait_for_a_start() {
    let runtime = Runtime::new().unwrap();
    let (tree, starts) = tree(supervisor(), &runtime, LONG);
    let report = report(&starts);
    tree.stop();
    assert_eq!(end_of(&tree), ExitReason::Normal);
    assert_eq!((tree.children()[0].state, last(&tree)), (ChildState::Down, "shutdown".to_owned()));
    let late = plain(&runtime);
    let _end = report.started(late);
    eventually(|| !late.is_alive());
}

/// If a supervisor is killed, it does not stop its children, but kills them.
#[test]
fn a_runtime_that_ends_during_a_start_leaves_no_process() {
    let (runtime, other) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (_tree, starts) = tree(supervisor(), &runtime, LONG);
    let report = report(&starts);
    runtime.shutdown().unwrap();
    let late = plain(&other);
    let _end = report.started(late);
    eventually(|| !late.is_alive());
}

#[test]
fn a_closure_that_starts_elsewhere_returns_that_child() {
    let runtime = Runtime::new().unwrap();
    let (far, starts) = far();
    let other = runtime.spawn(Plain::default()).serve(0).unwrap();
    let child = move |spawn: ChildSpawn| {
        let _starting = spawn.on(&far).start::<Plain>("serve", payloads![7_u64])?;
        Ok::<_, Box<dyn Error + Send + Sync>>(other)
    };
    let tree = supervisor().intensity(0, Duration::MAX).child("a", child).spawn(&runtime).unwrap();
    let ExitReason::Error(error) = end_of(&tree) else { panic!("an error") };
    let reason = error.downcast_ref::<GaveUp>().unwrap().reason.to_string();
    let expected =
        format!("error: the closure spawned a process on node `far` through `spawn` but returned {}", other.pid());
    assert!(reason.starts_with(&expected), "{reason}");
    let late = plain(&runtime);
    let _end = report(&starts).started(late);
    eventually(|| !late.is_alive());
    assert!(other.pid().is_alive());
}

#[test]
fn only_children_of_supervisors_start_elsewhere() {
    let runtime = Runtime::new().unwrap();
    let (far, starts) = far();
    let pool = Pool::fixed(1).spawn(&runtime, move |spawn: ChildSpawn| -> Result<Address<Plain>, SpawnError> {
        let error = spawn.on(&far).start::<Plain>("serve", payloads![7_u64]).unwrap_err();
        assert_eq!(error.downcast_ref::<ChildError>(), Some(&ChildError::Unsupervised));
        Err(InitError::failed(error).into())
    });
    assert!(pool.is_err());
    assert!(starts.try_recv().is_err(), "nothing was asked for");
}

/// A child that is started through a placement on its own host behaves like any other, and can keep its mailbox.
#[test]
fn a_place_may_be_the_supervisors_own_host() {
    let runtime = Runtime::new().unwrap();
    runtime.register_type::<Plain>();
    let child = Child::new("a", |spawn: ChildSpawn| spawn.on(&Near).start::<Plain>("serve", payloads![7_u64]));
    let tree = supervisor().add(child.keep_messages()).spawn(&runtime).unwrap();
    let address: Address<Plain> = tree.child("a").unwrap();
    assert_eq!((address.add(1).wait(), tree.children()[0].node.clone()), (Ok(8), None));
    assert!(matches!(address.add(5_000).wait(), Err(CallError::Died(ExitReason::Panic(_)))));
    assert_eq!(address.add(2).wait(), Ok(9));
    assert_eq!(tree.children()[0].restarts, 1);
    let wrong = Child::new("a", |spawn: ChildSpawn| spawn.on(&Near).start::<Plain>("sreve", payloads![]));
    let tree = supervisor().intensity(0, Duration::MAX).add(wrong).spawn(&runtime).unwrap();
    let reason = end_of(&tree).to_string();
    assert!(reason.contains("`Plain` has no entry `sreve`; it has `serve`"), "{reason}");
}

#[test]
fn the_end_of_a_process_that_is_started_by_name_is_told_once() {
    let runtime = Runtime::new().unwrap();
    runtime.register_type::<Plain>();
    let (ends, ended) = channel();
    let start = |entry: &str| {
        let ends = ends.clone();
        runtime.start_watched("Plain", entry, payloads![7_u64], move |reason, _| ends.send(reason.clone()).unwrap())
    };
    assert!(start("sreve").is_err());
    let pid = start("serve").unwrap();
    assert!(pid.cancel("enough"));
    assert_eq!(ended.recv_timeout(LIMIT).unwrap(), ExitReason::Cancelled("enough".into()));
    assert_eq!(pid.join().wait(), ExitReason::NoProcess);
    drop(ends);
    assert!(ended.recv().is_err(), "once");
    // A panic of the callback has no effect.
    let pid = runtime.start_watched("Plain", "serve", payloads![7_u64], |_, _| panic!("told")).unwrap();
    let end = pid.join();
    pid.stop();
    assert_eq!(end.wait(), ExitReason::Normal);
}
