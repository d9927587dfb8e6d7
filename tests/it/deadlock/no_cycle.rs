//! Waits that another event may end: none of them is part of a cycle.
//!
//! In each test `Front` calls `Back`, which calls it back and waits for the answer. When the test sees that `Back`
//! waits, it lets another event end the wait of `Front`. If a call had failed by then, it would be in the log.

use super::*;
use futures_util::future::{join, select};
use postroom::manual::Event;
use postroom::{Call, CallError, ExitReason};
use postroom_tests::act;
use std::future::{IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;

type Ended = Result<(), CallError>;

/// A reply that any thread may send.
#[derive(Clone)]
struct Kept(Arc<Mutex<Option<Reply<()>>>>);

impl Kept {
    fn answer(&self) {
        let reply = self.0.lock().expect("nobody panics with it").take();
        reply.expect("it is answered once").send(());
    }
}

/// A process that calls a [`Front`] back.
#[process]
struct Back {
    ended: Log<Ended>,
}

#[process]
impl Back {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn ring(&mut self, whom: Address<Front>) {
        self.ended.add(whom.touch().timeout(LONG).await);
    }

    #[message]
    async fn fetch(&mut self, whom: Address<Front>) {
        self.ended.add(whom.fetch().timeout(LONG).await);
    }

    #[message]
    async fn have_kept(&mut self, whom: Address<Front>) {
        self.ended.add(whom.keep().timeout(LONG).await);
    }

    #[message]
    fn touch(&mut self) {}
}

/// A process that calls a [`Back`].
#[process]
struct Front {
    back: Address<Back>,
    ended: Log<Ended>,
    handed: Log<Kept>,
    kept: Vec<Reply<()>>,
}

#[process]
impl Front {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn touch(&mut self) {}

    /// Hands its reply out, so that any thread can send it.
    #[message]
    fn fetch(&mut self, reply: Reply<()>) {
        self.handed.add(Kept(Arc::new(Mutex::new(Some(reply)))));
    }

    /// Keeps its reply and never sends it.
    #[message]
    fn keep(&mut self, reply: Reply<()>) {
        self.kept.push(reply);
    }

    #[message]
    fn count_kept(&mut self) -> usize {
        self.kept.len()
    }

    #[message]
    async fn selects(&mut self, ctx: &mut Context<Self>, gate: Gate) {
        let call = self.back.ring(ctx.address()).timeout(LONG).into_future();
        let _first = select(call, gate.passed()).await;
    }

    #[message]
    async fn selects_with_time(&mut self, ctx: &mut Context<Self>, gate: Gate) {
        let call = self.back.ring(ctx.address()).timeout(LONG).into_future();
        // The gate ends this wait; the timer must not expire before the test has checked.
        let _first = select(call, pin!(select(pin!(ctx.sleep(LONG)), pin!(gate.passed())))).await;
    }

    /// Polls the gate once, so that the gate stores the waker, and never again.
    #[message]
    async fn registers_once(&mut self, ctx: &mut Context<Self>, gate: Gate, open: Arc<AtomicBool>) {
        let mut call = self.back.ring(ctx.address()).timeout(LONG).into_future();
        let mut passed = Some(gate.passed());
        poll_fn(|context| {
            if let Some(mut passed) = passed.take() {
                assert!(Pin::new(&mut passed).poll(context).is_pending());
            }
            let answered = Pin::new(&mut call).poll(context).is_ready();
            if answered || open.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[message]
    async fn joins(&mut self, ctx: &mut Context<Self>, lookout: Address<Lookout>, gate: Gate) {
        let ring = self.back.ring(ctx.address()).timeout(Duration::from_millis(20));
        let ring = async { self.ended.add(ring.await) };
        join(pin!(ring), lookout.stand(gate).timeout(LONG).into_future()).await.1.expect("the gate is opened");
    }

    #[message]
    fn continues(&mut self, ctx: &mut Context<Self>) {
        let call = self.back.ring(ctx.address()).timeout(LONG);
        ctx.call(call).then(|this, answer, _| this.ended.add(answer));
    }

    #[message]
    async fn runs_beside(&mut self, ctx: &mut Context<Self>, gate: Gate) {
        let back = self.back.pid();
        ctx.run(async move {
            gate.passed().await;
            back.kill();
        })
        .then(|_, (), _| ());
        self.ended.add(self.back.ring(ctx.address()).timeout(LONG).await);
    }

    #[message]
    async fn touches(&mut self, timeout: Duration) {
        self.ended.add(self.back.touch().timeout(timeout).await);
    }

    #[message]
    async fn calls_by_hand(&mut self, to: Pid) {
        self.ended.add(Call::<Hand, ()>::new(to, "Hand::take", Hand).timeout(LONG).await);
    }
}

/// A message to a hand-written process.
struct Hand;

/// Spawns a `Front` and a `Back`, and returns them with the log of all calls that have ended.
fn pair(runtime: &Runtime) -> (Address<Front>, Address<Back>, Log<Ended>) {
    let ended = Log::new();
    let back = runtime.spawn(Back { ended: ended.clone() }).serve().expect("it starts");
    let front = Front { back, ended: ended.clone(), handed: Log::new(), kept: Vec::new() };
    (runtime.spawn(front).serve().expect("it starts"), back, ended)
}

/// Waits until `who` is seen to wait for `whom`.
fn until_waiting(who: Pid, whom: Pid) {
    eventually(|| who.info().and_then(|info| info.waits_for).is_some_and(|waits_for| waits_for.pid == whom));
}

/// Checks a wait that is not part of a cycle. `start` makes `Front` call. `Back` then waits for `Front`, but `Front`
/// must not be reported as waiting. `let_go` ends the wait of `Front`.
fn no_cycle(start: impl FnOnce(Address<Front>) + Send + 'static, let_go: impl FnOnce(&Log<Ended>) + Send + 'static) {
    with_runtime(move |runtime| {
        let (front, back, ended) = pair(runtime);
        start(front);
        until_waiting(back.pid(), front.pid());
        assert_eq!(front.pid().info().and_then(|info| info.waits_for), None);
        assert!(ended.is_empty(), "{:?}", ended.all());
        let_go(&ended);
        front.touch().timeout(LONG).wait().expect("it goes on");
        back.touch().timeout(LONG).wait().expect("it goes on");
        let failed: Vec<Ended> = ended.all().into_iter().filter(|ended| *ended != Ok(())).collect();
        assert!(failed.iter().all(|ended| *ended == Err(CallError::Timeout)), "{failed:?}");
    });
}

#[test]
fn a_call_awaited_with_another_future_is_no_cycle() {
    let gate = Gate::new();
    let open = gate.clone();
    no_cycle(|front| front.selects(gate).send().expect("it lives"), move |_| open.open_elsewhere());
}

#[test]
fn a_call_awaited_with_a_timer_is_no_cycle() {
    let gate = Gate::new();
    let open = gate.clone();
    no_cycle(|front| front.selects_with_time(gate).send().expect("it lives"), move |_| open.open_elsewhere());
}

#[test]
fn a_call_whose_waker_others_hold_is_no_cycle() {
    let (gate, open) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let (opens, flag) = (gate.clone(), open.clone());
    no_cycle(
        |front| front.registers_once(gate, open).send().expect("it lives"),
        move |_| {
            flag.store(true, SeqCst);
            opens.open_elsewhere();
        },
    );
}

#[test]
fn calls_that_are_joined_are_left_to_their_deadlines() {
    with_runtime(|runtime| {
        let (by_front, by_back) = (Log::new(), Log::new());
        let back = runtime.spawn(Back { ended: by_back.clone() }).serve().expect("it starts");
        let front = Front { back, ended: by_front.clone(), handed: Log::new(), kept: Vec::new() };
        let front = runtime.spawn(front).serve().expect("it starts");
        let (lookout, gate) = (runtime.spawn(Lookout).serve().expect("it starts"), Gate::new());
        front.joins(lookout, gate.clone()).send().expect("it lives");
        // The callee has the same deadline, and may answer before the caller notices its timeout.
        eventually(|| by_front.len() + by_back.len() == 2);
        gate.open();
        back.touch().timeout(LONG).wait().expect("it goes on");
        assert_eq!(by_back.all(), [Err(CallError::Timeout)]);
        assert!([Err(CallError::Timeout), Ok(())].contains(&by_front.all()[0]), "{by_front:?}");
    });
}

#[test]
fn a_call_that_is_continued_is_no_wait() {
    with_runtime(|runtime| {
        let (front, _, ended) = pair(runtime);
        front.continues().send().expect("it lives");
        eventually(|| ended.len() == 2);
        assert_eq!(ended.all(), [Ok(()), Ok(())]);
    });
}

#[test]
fn a_call_with_a_background_task_is_no_cycle() {
    with_runtime(|runtime| {
        let (front, back, ended) = pair(runtime);
        let gate = Gate::new();
        front.runs_beside(gate.clone()).send().expect("it lives");
        until_waiting(back.pid(), front.pid());
        gate.open();
        front.touch().timeout(LONG).wait().expect("it goes on");
        assert_eq!(ended.all(), [Err(CallError::Died(ExitReason::Killed))]);
    });
}

#[test]
fn a_reply_held_by_other_code_may_arrive_while_its_process_waits() {
    with_runtime(|runtime| {
        let handed = Log::new();
        let ended = Log::new();
        let back = runtime.spawn(Back { ended: ended.clone() }).serve().expect("it starts");
        let front = Front { back, ended: ended.clone(), handed: handed.clone(), kept: Vec::new() };
        let front = runtime.spawn(front).serve().expect("it starts");
        back.fetch(front).send().expect("it lives");
        eventually(|| handed.len() == 1);
        // `Front` has taken the call of `Back`, and now waits for `Back` itself.
        front.touches(LONG).send().expect("it lives");
        until_waiting(front.pid(), back.pid());
        handed.all()[0].answer();
        eventually(|| ended.len() == 2);
        assert_eq!(ended.all(), [Ok(()), Ok(())]);
    });
}

/// Nothing else can answer this call, but the runtime cannot know that, since the program still holds the reply.
#[test]
fn a_reply_that_its_process_keeps_leaves_the_cycle_to_the_deadline() {
    with_runtime(|runtime| {
        let (front, back, ended) = pair(runtime);
        back.have_kept(front).send().expect("it lives");
        eventually(|| front.count_kept().timeout(LONG).wait() == Ok(1));
        until_waiting(back.pid(), front.pid());
        front.touches(Duration::from_millis(20)).send().expect("it lives");
        eventually(|| ended.len() == 1);
        assert_eq!(ended.all(), [Err(CallError::Timeout)]);
        front.pid().kill();
        eventually(|| ended.len() == 2);
        assert_eq!(ended.all()[1], Err(CallError::Died(ExitReason::Killed)));
    });
}

#[test]
fn a_package_that_a_process_passes_on_may_be_answered_while_it_waits() {
    with_runtime(|runtime| {
        let (front, _, ended) = pair(runtime);
        let (passes, passed) = channel();
        let hand = act(move |events, out| {
            while let Some(event) = events.next() {
                if let Event::Message(package) = event {
                    passes.send(package).expect("the test waits for it");
                    front.touch().timeout(LONG).wait().expect("it answers when it goes on");
                }
            }
            out.idle();
            Ok(())
        });
        let hand = runtime.spawn_process(hand).start().expect("it starts");
        front.calls_by_hand(hand).send().expect("it lives");
        let package = passed.recv().expect("it is passed on");
        until_waiting(hand, front.pid());
        package.answer(|Hand| ()).expect("it is what was sent");
        front.touch().timeout(LONG).wait().expect("it goes on");
        assert_eq!(ended.all(), [Ok(())]);
        hand.kill();
    });
}

/// While the package is in the mailbox, its receiver is the process that the caller waits for.
#[test]
fn a_process_written_by_hand_that_blocks_is_part_of_a_cycle() {
    with_one_worker(|runtime| {
        let (front, _, ended) = pair(runtime);
        let (own, waits) = channel::<Pid>();
        let hand = act(move |events, out| {
            while let Some(event) = events.next() {
                if let Event::Message(package) = event
                    && package.is::<u8>()
                {
                    drop(package);
                    let own = waits.recv().expect("the test says it");
                    front.calls_by_hand(own).timeout(LONG).wait().expect("the other call fails");
                    out.done();
                }
            }
            Ok(())
        });
        let hand = runtime.spawn_process(hand).start().expect("it starts");
        own.send(hand).expect("it waits for it");
        runtime.send(hand, 1_u8).expect("it lives");
        eventually(|| ended.len() == 1);
        let calls = vec![(front.pid(), "Hand::take"), (hand, "Front::calls_by_hand")];
        assert_eq!(ended.all(), [Err(CallError::Cycle(Cycle { calls }))]);
    });
}

#[test]
fn a_returned_waker_hides_no_cycle() {
    with_one_worker(|runtime| {
        let ring = stations(runtime, 2);
        let gate = Gate::new();
        let path: Path = vec![(ring[1], Way::Await), (ring[0], Way::Await)];
        let out = Log::new();
        ring[0].pass_after(gate.clone(), path, out.clone()).send().expect("it lives");
        gate.wait_for_arrival();
        gate.open_elsewhere();
        eventually(|| !out.is_empty());
        let calls = vec![(ring[1].pid(), "Station::pass"), (ring[0].pid(), "Station::pass")];
        assert_eq!(out.all(), [Out::Cycle(Cycle { calls })]);
    });
}

/// A process that a [`Caller`] waits for. When the test opens the gate, it calls the `Caller` back.
#[process]
struct Callee {
    inside: Gate,
    go: Gate,
    ended: Log<Ended>,
}

#[process]
impl Callee {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn call_back(&mut self, whom: Address<Caller>) {
        self.inside.open();
        // Blocks in the step, which occupies the only worker.
        self.go.pass();
        self.ended.add(whom.touch().timeout(LONG).await);
    }
}

#[process]
struct Caller;

#[process]
impl Caller {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn call(&mut self, whom: Address<Callee>, own: Address<Self>) {
        let _ended = whom.call_back(own).timeout(LONG).await;
    }

    #[message]
    fn touch(&mut self) {}
}

/// Catches: a process that counts as part of a cycle although a control is about to end its wait, here a kill, which
/// the process has not seen yet.
#[test]
fn a_process_that_is_about_to_be_killed_is_not_part_of_a_cycle() {
    watched(|| {
        let runtime = builder().workers(1).stall_limit(Duration::MAX).build().unwrap();
        let (inside, go, ended) = (Gate::new(), Gate::new(), Log::new());
        let callee = Callee { inside: inside.clone(), go: go.clone(), ended: ended.clone() };
        let callee = runtime.spawn(callee).serve().unwrap();
        let caller = runtime.spawn(Caller).serve().unwrap();
        caller.call(callee, caller).send().unwrap();
        inside.pass();
        caller.pid().kill();
        go.open();
        eventually(|| ended.len() == 1);
        assert_eq!(ended.all(), [Err(CallError::Gone(ExitReason::Killed))]);
    });
}
