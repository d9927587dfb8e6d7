//! Messages to a child that is being restarted: they are refused as `Restarting`, or wait for the successor if the
//! sender wants that.

use super::*;
use postroom::CallError;
use postroom::error::SendFailure;
use postroom::supervision::{Child, ChildState};
use postroom::test::Clock;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context as TaskContext, Poll, Waker};

/// Returns a supervisor that restarts a child only on request.
fn patient() -> Supervisor {
    Supervisor::one_for_one().intensity(u32::MAX, Duration::MAX).backoff(Backoff::constant(Duration::MAX))
}

/// Returns a crashed child of a [`patient`] supervisor, and the tree.
fn crashed(runtime: &Runtime) -> (Tree, Address<Worker>) {
    let tree = patient().child("a", worker("a", &Log::new())).spawn(runtime).unwrap();
    let a: Address<Worker> = tree.child("a").unwrap();
    crash(a);
    eventually(|| tree.children()[0].state == ChildState::BackingOff);
    (tree, a)
}

/// Returns the errors of a send, a call and a call that may wait.
fn refusals(a: Address<Worker>) -> [CallError; 3] {
    let sent = a.add(1).send().unwrap_err();
    assert_eq!(sent.delivery(), Delivery::NotDelivered);
    [sent.reason.into(), a.add(1).wait().unwrap_err(), a.add(1).wait_for_restart().wait().unwrap_err()]
}

/// Catches: a child that is reported as gone although it will be restarted, or as restarting although it will not.
#[test]
fn a_child_is_restarting_gone_or_shut_down() {
    soon(|| {
        let runtime = runtime();
        let (tree, a) = crashed(&runtime);
        let refused = runtime.send(a, WorkerAdd { amount: 4 }).unwrap_err();
        assert_eq!((refused.message.amount, refused.reason), (4, SendFailure::Restarting(a.pid())));
        assert!(refused.is_retryable() && refused.to_string().contains("is being restarted; try again later"));
        let error = a.add(4).wait().unwrap_err();
        assert_eq!((error.delivery(), error.is_retryable()), (Delivery::NotDelivered, true));
        assert_eq!(error, CallError::Restarting);
        assert_eq!(runtime.block_on(a.add(4).into_future()), Err(CallError::Restarting));
        // A child that was stopped on request is not restarted automatically.
        tree.stop_child("a").unwrap();
        eventually(|| tree.children()[0].state == ChildState::Down);
        // The child's mailbox is closed only after the tree shows the child as down.
        eventually(|| refusals(a) == [(); 3].map(|()| CallError::Gone(ExitReason::NoProcess)));
        tree.restart_child("a").unwrap();
        is_back(a);
        assert_eq!(a.add(4).wait_for_restart().wait(), Ok(4));
        runtime.shutdown().unwrap();
        assert_eq!(refusals(a), [(); 3].map(|()| CallError::Shutdown));
    });
}

/// Catches: a child that is reported as restarting although it has finished, or its supervisor has given up.
#[test]
fn a_child_that_will_not_be_restarted_is_gone() {
    soon(|| {
        let runtime = runtime();
        let strict = Supervisor::one_for_one().intensity(0, Duration::MAX);
        let tree = strict.child("a", worker("a", &Log::new())).spawn(&runtime).unwrap();
        let (a, end): (Address<Worker>, _) = (tree.child("a").unwrap(), tree.join());
        crash(a);
        end.wait();
        assert_eq!(refusals(a), [(); 3].map(|()| CallError::Gone(ExitReason::NoProcess)));

        let transient = Child::new("b", worker("b", &Log::new())).transient();
        let tree = Supervisor::one_for_one().add(transient).spawn(&runtime).unwrap();
        let b: Address<Worker> = tree.child("b").unwrap();
        b.finish().send().unwrap();
        eventually(|| tree.children()[0].state == ChildState::Down);
        // The child's mailbox is closed only after the tree shows the child as down.
        eventually(|| refusals(b) == [(); 3].map(|()| CallError::Gone(ExitReason::NoProcess)));
    });
}

/// Polls once, with a waker that does nothing.
fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
    matches!(future.poll(&mut TaskContext::from_waker(Waker::noop())), Poll::Pending)
}

/// Catches: a call or send that fails, or is lost, although its child is restarted.
#[test]
fn calls_and_sends_that_wait_reach_the_successor() {
    soon(|| {
        let runtime = runtime();
        let (tree, a) = crashed(&runtime);
        let mut call = pin!(a.add(1).wait_for_restart().into_future());
        let mut send = pin!(a.add(2).send_async());
        assert!(is_pending(call.as_mut()) && is_pending(send.as_mut()));
        let threads = [
            std::thread::spawn(move || _ = a.add(4).timeout(Duration::MAX).wait_for_restart().wait().unwrap()),
            std::thread::spawn(move || a.add(8).timeout(Duration::MAX).send_wait().unwrap()),
        ];
        tree.restart_child("a").unwrap();
        assert!(runtime.block_on(call).is_ok());
        runtime.block_on(send).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(a.add(0).wait(), Ok(15));
    });
}

/// A process that calls a worker by blocking, by awaiting, and in the background.
#[process]
struct Asker {
    worker: Address<Worker>,
    heard: Log<Result<u64, CallError>>,
}

#[process]
impl Asker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn ask(&mut self, amount: u64) {
        let answer = self.worker.add(amount).wait_for_restart().await;
        self.heard.add(answer);
    }

    #[message]
    fn ask_beside(&mut self, ctx: &mut Context<Self>, amount: u64, limit: Duration) {
        let call = self.worker.add(amount).timeout(limit).wait_for_restart();
        ctx.run(call.into_future()).then(|this, answer, _| this.heard.add(answer));
    }

    #[message]
    fn ask_blocking(&mut self, amount: u64) -> Result<u64, CallError> {
        self.worker.add(amount).wait_for_restart().wait()
    }

    #[message]
    fn ping(&mut self) {}
}

/// Catches: a process that waits for a restart but is not woken by it, or that cannot handle messages while it waits.
#[test]
fn processes_wait_for_a_restart_in_each_way_that_they_can_wait() {
    soon(|| {
        let runtime = runtime();
        let (tree, a) = crashed(&runtime);
        let heard = Log::new();
        let askers = [(); 3].map(|()| runtime.spawn(Asker { worker: a, heard: heard.clone() }).serve().unwrap());
        let [waiting, beside, blocking] = askers;
        waiting.ask(1).send().unwrap();
        beside.ask_beside(2, Duration::MAX).send().unwrap();
        beside.ping().wait().unwrap();
        let mut blocked = pin!(blocking.ask_blocking(4).into_future());
        assert!(is_pending(blocked.as_mut()) && heard.all().is_empty());
        eventually(|| waiting.pid().info().is_some_and(|info| info.steps >= 1));
        tree.restart_child("a").unwrap();
        runtime.block_on(blocked).unwrap();
        eventually(|| heard.all().len() == 2);
        assert_eq!(a.add(0).wait(), Ok(7));
        assert!(heard.all().iter().all(Result::is_ok));
    });
}

/// Catches: a call that waits forever, or that leaves delivery unknown after its deadline.
#[test]
fn a_wait_for_a_restart_that_times_out_was_not_delivered() {
    soon(|| {
        let clock = Clock::manual();
        // The timeout of calls is five seconds.
        let runtime = postroom_tests::face::builder()
            .call_timeout(postroom::DEFAULT_TIMEOUT)
            .clock(clock.clone())
            .build()
            .unwrap();
        let (tree, a) = crashed(&runtime);
        let heard = Log::new();
        let askers = [(); 2].map(|()| runtime.spawn(Asker { worker: a, heard: heard.clone() }).serve().unwrap());
        askers[0].ask_beside(1, Duration::from_secs(3)).send().unwrap();
        askers[1].ask(2).send().unwrap();
        clock.advance(Duration::from_millis(2_999)).unwrap();
        assert!(heard.all().is_empty());
        clock.advance(Duration::from_millis(1)).unwrap();
        eventually(|| heard.all() == [Err(CallError::Restarting)]);
        clock.advance(Duration::from_secs(2)).unwrap();
        eventually(|| heard.all() == [Err(CallError::Restarting), Err(CallError::Restarting)]);
        // A thread that waits uses system time.
        let limit = Duration::from_millis(20);
        assert_eq!(a.add(4).timeout(limit).wait_for_restart().wait(), Err(CallError::Restarting));
        assert_eq!(a.add(16).timeout(limit).send_wait().unwrap_err().reason, SendFailure::Restarting(a.pid()));
        tree.restart_child("a").unwrap();
        is_back(a);
        assert_eq!(a.add(0).wait(), Ok(0), "nothing was delivered late");
    });
}

/// Catches: calls that wait for a child and are forgotten when it will no longer be restarted.
#[test]
fn waiting_calls_fail_when_the_child_will_not_be_restarted() {
    soon(|| {
        let runtime = runtime();
        let (tree, a) = crashed(&runtime);
        let mut call = pin!(a.add(1).timeout(Duration::MAX).wait_for_restart().into_future());
        assert!(is_pending(call.as_mut()));
        tree.stop_child("a").unwrap();
        assert_eq!(runtime.block_on(call), Err(CallError::Gone(ExitReason::NoProcess)));
    });
}

/// Catches: children that are reported as gone while their supervisor is being restarted.
#[test]
fn the_children_of_a_supervisor_that_restarts_are_restarting() {
    soon(|| {
        let runtime = runtime();
        let tree = patient()
            .child("sub", |spawn| Supervisor::one_for_one().child("a", worker("a", &Log::new())).spawn(spawn))
            .spawn(&runtime)
            .unwrap();
        let a: Address<Worker> = tree.tree("sub").unwrap().child("a").unwrap();
        let end = tree.tree("sub").unwrap().join();
        tree.tree("sub").unwrap().pid().kill();
        end.wait();
        eventually(|| tree.children()[0].state == ChildState::BackingOff);
        assert_eq!(a.add(1).wait(), Err(CallError::Restarting));
        let mut call = pin!(a.add(1).wait_for_restart().into_future());
        assert!(is_pending(call.as_mut()));
        tree.restart_child("sub").unwrap();
        assert_eq!(runtime.block_on(call), Ok(1));
    });
}

/// A child that counts its messages in shared state.
#[process]
pub(crate) struct Till(pub(crate) std::sync::Arc<AtomicU64>);

#[process]
impl Till {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    pub(crate) fn put(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// The result of each call agrees with what happened to the call, while the child keeps being killed. Catches: an
/// answer to a call that was not handled, a handled call that is reported as undelivered, and `Restarting` for a call
/// that may wait.
#[test]
fn results_of_calls_agree_with_handling_while_a_child_keeps_being_killed() {
    soon(|| {
        let (runtime, count) = (runtime(), std::sync::Arc::new(AtomicU64::new(0)));
        let inside = count.clone();
        let tree = eager(Supervisor::one_for_one())
            .child("till", move |spawn| spawn.of(Till(inside.clone())).serve())
            .spawn(&runtime)
            .unwrap();
        let till: Address<Till> = tree.child("till").unwrap();
        let callers = [(); 3].map(|()| {
            std::thread::spawn(move || {
                let outcomes = (0..400).map(|_| till.put().timeout(Duration::MAX).wait_for_restart().wait());
                let mut counts = [0, 0];
                for outcome in outcomes {
                    match outcome {
                        Ok(()) => counts[0] += 1,
                        Err(CallError::Restarting) => panic!("it may wait for ever"),
                        Err(error) if error.delivery() == Delivery::NotDelivered => {}
                        Err(error) => {
                            assert_eq!(error, CallError::Died(ExitReason::Killed));
                            counts[1] += 1;
                        }
                    }
                }
                counts
            })
        });
        while callers.iter().any(|caller| !caller.is_finished()) {
            till.pid().kill();
            std::thread::yield_now();
        }
        let [handled, unknown] = callers
            .map(|caller| caller.join().unwrap())
            .iter()
            .fold([0, 0], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]]);
        let counted = count.load(SeqCst);
        assert!((handled..=handled + unknown).contains(&counted), "{counted} of {handled} and perhaps {unknown}");
    });
}
