//! Cycles of calls: detected at once and named in full, without false positives.
//!
//! Deadlines are so far away that a missed cycle hangs, and the time limit then fails the test. If a wait must not
//! count as part of a cycle, the test checks with `waits_for` that all processes wait before it lets them continue.

use postroom::Runtime;
use postroom::error::Cycle;
use postroom::prelude::*;
use postroom_tests::face::{Gate, Log, builder, watched, with_runtime};
use postroom_tests::{HOUR, eventually};
use std::time::Duration;

mod at_once;
mod no_cycle;
pub(crate) mod stress;

const LONG: Duration = Duration::from_secs(3600);

/// The way in which a station calls the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// The station calls by `pass`, which awaits.
    Await,
    /// The station calls with `block`, which blocks the thread until the answer arrives.
    Block,
}

/// The result of a call along a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Out {
    /// The call reached the end of the path.
    Through(usize),
    Cycle(Cycle),
}

pub(crate) type Path = Vec<(Address<Station>, Way)>;

/// A process that calls others along paths.
#[process]
#[derive(Default)]
pub(crate) struct Station {
    handled: usize,
}

#[process]
impl Station {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    /// Serves from inside a future.
    #[entry]
    async fn serve_async(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }

    /// Makes one call and waits for it, and then serves.
    #[entry]
    async fn call_first(&mut self, ctx: &mut Context<Self>, out: Log<Out>, path: Path) {
        out.add(forward(path).await);
        ctx.serve(self).await;
    }

    #[message]
    pub(crate) async fn pass(&mut self, path: Path) -> Out {
        self.handled += 1;
        forward(path).await
    }

    #[message]
    async fn pass_after(&mut self, gate: Gate, path: Path, out: Log<Out>) {
        gate.passed().await;
        out.add(forward(path).await);
    }

    #[message]
    pub(crate) fn block(&mut self, path: Path) -> Out {
        self.handled += 1;
        forward_blocking(path)
    }

    #[message]
    async fn stand(&mut self, lookout: Address<Lookout>, gate: Gate) {
        lookout.stand(gate).timeout(LONG).await.expect("the gate is opened");
    }

    #[message]
    pub(crate) fn handled(&mut self) -> usize {
        self.handled
    }

    /// Spawns a process whose start calls this station.
    #[message]
    fn spawn_waiting(&mut self, ctx: &mut Context<Self>, out: Log<Out>) {
        let own = ctx.address();
        ctx.spawn(Eager).serve(own, out).expect("an eager one starts");
    }
}

/// A process that calls while it starts, on its spawner's thread.
#[process]
struct Eager;

#[process]
impl Eager {
    #[entry]
    fn serve(&mut self, station: Address<Station>, out: Log<Out>) {
        out.add(forward_blocking(vec![(station, Way::Await)]));
    }
}

fn onward<T>(path: &mut Vec<T>) -> Option<T> {
    (!path.is_empty()).then(|| path.remove(0))
}

fn settle(answer: Result<Out, CallError>) -> Out {
    match answer {
        Ok(Out::Through(count)) => Out::Through(count + 1),
        Ok(cycle) => cycle,
        Err(CallError::Cycle(cycle)) => Out::Cycle(cycle),
        Err(other) => panic!("an answer or a cycle was expected, and came: {other}"),
    }
}

async fn forward(mut path: Path) -> Out {
    match onward(&mut path) {
        None => Out::Through(0),
        Some((next, Way::Await)) => settle(next.pass(path).timeout(LONG).await),
        Some((next, Way::Block)) => settle(next.block(path).timeout(LONG).await),
    }
}

fn forward_blocking(mut path: Path) -> Out {
    match onward(&mut path) {
        None => Out::Through(0),
        Some((next, Way::Await)) => settle(next.pass(path).timeout(LONG).wait()),
        Some((next, Way::Block)) => settle(next.block(path).timeout(LONG).wait()),
    }
}

fn stations(runtime: &Runtime, count: usize) -> Vec<Address<Station>> {
    (0..count).map(|_| runtime.spawn(Station::default()).serve().expect("a station starts")).collect()
}

fn method(way: Way) -> &'static str {
    match way {
        Way::Await => "Station::pass",
        Way::Block => "Station::block",
    }
}

/// Sends a call around the cycle: from outside to the first process, along all the others, and back to the first.
/// Checks the error. `ways` contains the way in which each process calls the next.
#[track_caller]
fn goes_round(ring: &[Address<Station>], ways: &[Way]) {
    let count = ring.len();
    // The first process is called in the same way as it calls the next one.
    let path: Path = (1..=count).map(|place| (ring[place % count], ways[place % count])).collect();
    let out = match ways[0] {
        Way::Await => ring[0].pass(path).timeout(LONG).wait(),
        Way::Block => ring[0].block(path).timeout(LONG).wait(),
    };
    // The error's list begins with the process whose call closed the cycle.
    let calls: Vec<(Pid, &'static str)> =
        (0..count).map(|place| (ring[(count - 1 + place) % count].pid(), method(ways[place]))).collect();
    assert_eq!(out, Ok(Out::Cycle(Cycle { calls })));
}

/// Runs `body` with one worker. In a cycle, the call from the last process that begins to wait fails, and its message
/// is never handled. With one worker, the last process to wait is the last caller: a step ends before the next begins,
/// even if the thread is preempted, since there is no stall detection.
fn with_one_worker(body: impl FnOnce(&Runtime) + Send + 'static) {
    watched(|| {
        let builder = builder().workers(1).stall_limit(Duration::MAX);
        let runtime = builder.build().expect("a runtime with one worker can be built");
        body(&runtime);
        assert!(!runtime.shutdown_within(HOUR).expect("asked from outside").was_forced());
    });
}

#[test]
fn a_cycle_of_awaited_calls_fails_at_once_and_names_all_with_their_methods() {
    with_one_worker(|runtime| {
        for count in [2, 3, 10] {
            let ring = stations(runtime, count);
            goes_round(&ring, &vec![Way::Await; count]);
            // No process is left waiting: the cycle can be repeated.
            goes_round(&ring, &vec![Way::Await; count]);
        }
    });
}

#[test]
fn the_text_of_a_cycle_names_every_process_and_method() {
    with_one_worker(|runtime| {
        let ring = stations(runtime, 3);
        let path: Path = vec![(ring[1], Way::Block), (ring[2], Way::Await), (ring[0], Way::Await)];
        let Ok(Out::Cycle(cycle)) = ring[0].pass(path).wait() else { panic!("it is a cycle") };
        let [a, b, c] = [0, 1, 2].map(|place: usize| ring[place].pid());
        assert_eq!(
            <CallError>::Cycle(cycle).to_string(),
            format!(
                "the call would wait for itself: {c} calls Station::pass, {a} calls Station::block, \
                 {b} calls Station::pass, which waits for the first"
            )
        );
    });
}

#[test]
fn a_cycle_of_blocking_calls_fails_at_once_on_one_worker() {
    with_one_worker(|runtime| {
        for count in [2, 3, 10] {
            goes_round(&stations(runtime, count), &vec![Way::Block; count]);
        }
    });
}

#[test]
fn a_cycle_may_mix_calls_that_await_and_calls_that_block() {
    with_one_worker(|runtime| {
        for ways in [[Way::Await, Way::Block], [Way::Block, Way::Await]] {
            goes_round(&stations(runtime, 2), &ways);
        }
        goes_round(&stations(runtime, 4), &[Way::Await, Way::Block, Way::Block, Way::Await]);
    });
}

#[test]
fn a_process_that_calls_itself_gets_a_cycle() {
    with_one_worker(|runtime| {
        for way in [Way::Await, Way::Block] {
            goes_round(&stations(runtime, 1), &[way]);
        }
    });
}

#[test]
fn a_cycle_through_a_process_that_serves_from_inside_a_future_is_found() {
    with_one_worker(|runtime| {
        let inside = runtime.spawn(Station::default()).serve_async().expect("a station starts").address();
        let ring = [inside, stations(runtime, 1)[0]];
        goes_round(&ring, &[Way::Await, Way::Await]);
        goes_round(&ring, &[Way::Block, Way::Await]);
        inside.pid().kill();
    });
}

#[test]
fn an_async_entry_that_waits_for_one_that_calls_it_is_part_of_the_cycle() {
    with_one_worker(|runtime| {
        let (out, called) = (Log::new(), Log::new());
        let entry =
            runtime.spawn(Entry { called: called.clone() }).run(out.clone()).expect("an entry starts").address();
        eventually(|| !out.is_empty());
        let meeting = called.all()[0];
        let calls = vec![(meeting, "Entry::ping"), (entry.pid(), "Meeting::call_back")];
        assert_eq!(out.all(), [Err(CallError::Cycle(Cycle { calls }))]);
        // The message of the failed call is never handled, although the entry now serves. It is discarded and counted.
        entry.ping().timeout(LONG).wait().expect("it serves");
        assert_eq!((called.len(), runtime.statistics().dead_letters.withdrawn), (2, 1));
        entry.pid().kill();
    });
}

/// A process whose entry calls a process that calls it back.
#[process]
struct Entry {
    called: Log<Pid>,
}

#[process]
impl Entry {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, out: Log<Result<(), CallError>>) {
        let meeting = ctx.spawn(Meeting).serve().expect("a meeting starts");
        self.called.add(meeting.pid());
        out.add(
            meeting
                .call_back(ctx.address())
                .timeout(LONG)
                .await
                .map_err(|error| error.failed().expect("it is the other call that fails")),
        );
        ctx.serve(self).await;
    }

    #[message]
    fn ping(&mut self, ctx: &mut Context<Self>) {
        self.called.add(ctx.pid());
    }
}

/// A process that calls an [`Entry`] back.
#[process]
struct Meeting;

#[process]
impl Meeting {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn call_back(&mut self, whom: Address<Entry>) -> Result<(), CallError> {
        whom.ping().timeout(LONG).wait()
    }
}

#[test]
fn a_start_that_waits_for_its_spawner_gets_a_cycle() {
    with_one_worker(|runtime| {
        let (out, station) = (Log::new(), stations(runtime, 1)[0]);
        station.spawn_waiting(out.clone()).wait().expect("the start gives up waiting");
        assert_eq!(out.all(), [Out::Cycle(Cycle { calls: vec![(station.pid(), "Station::pass")] })]);
    });
}

#[test]
fn the_info_of_a_waiting_process_names_what_it_waits_for() {
    with_one_worker(|runtime| {
        let (ring, gate) = (stations(runtime, 2), Gate::new());
        let lookout = runtime.spawn(Lookout).serve().expect("a lookout starts");
        ring[0].stand(lookout, gate.clone()).send().expect("it lives");
        gate.wait_for_arrival();
        eventually(|| ring[0].pid().info().is_some_and(|info| info.waits_for.is_some()));
        let waits_for = ring[0].pid().info().and_then(|info| info.waits_for).expect("just seen");
        assert_eq!((waits_for.pid, waits_for.method), (lookout.pid(), Some("Lookout::stand")));
        assert_eq!(waits_for.to_string(), format!("waiting for {} in Lookout::stand", lookout.pid()));
        // A wait for a gate is not a wait for a process.
        assert_eq!(lookout.pid().info().and_then(|info| info.waits_for), None);
        gate.open();
        ring[0].handled().wait().expect("it goes on");
        assert_eq!(ring[0].pid().info().and_then(|info| info.waits_for), None);
    });
}

/// A process that waits for a gate.
#[process]
struct Lookout;

#[process]
impl Lookout {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn stand(&mut self, gate: Gate) {
        gate.passed().await;
    }
}

/// With two workers, the callee may make its own call before the caller's step has ended, and so be the first to wait.
#[test]
fn with_several_workers_one_call_of_the_cycle_fails_with_all_of_it_named() {
    with_runtime(|runtime| {
        let ring = stations(runtime, 3);
        for way in [Way::Await, Way::Block].repeat(200) {
            let path: Path = vec![(ring[1], way), (ring[2], way), (ring[0], way)];
            let Ok(Out::Cycle(cycle)) = ring[0].pass(path).timeout(LONG).wait() else { panic!("it is a cycle") };
            let place = |pid: Pid| ring.iter().position(|station| station.pid() == pid).expect("one of the three");
            let places: Vec<usize> = cycle.calls.iter().map(|(pid, _)| place(*pid)).collect();
            assert!(places.len() == 3 && places.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 3), "{places:?}");
        }
        // Each round reached each station once, since the message of the failed call is never handled.
        let handled = ring.iter().map(|station| station.handled().timeout(LONG).wait().expect("it serves"));
        assert_eq!(handled.collect::<Vec<_>>(), [400; 3]);
        assert_eq!(
            (runtime.statistics().dead_letters.withdrawn, runtime.statistics().dead_letters.total()),
            (400, 400)
        );
    });
}

#[test]
fn a_withdrawn_message_is_never_handled_however_messages_are_taken() {
    with_one_worker(|runtime| {
        let (out, taken) = (Log::new(), Log::new());
        // This process takes messages by selective receive.
        let selective = runtime.spawn(Selective).run(out.clone(), taken.clone()).expect("it starts").address();
        eventually(|| out.len() == 1);
        assert!(matches!(out.all()[..], [Err(CallError::Cycle(_))]), "{:?}", out.all());
        runtime.send(selective.pid(), Note(2)).expect("it lives");
        eventually(|| !taken.is_empty());
        assert_eq!((taken.all(), runtime.statistics().dead_letters.withdrawn), (vec![2], 1));
        selective.pid().kill();
    });
}

/// Catches: a callee that exits and then reports a withdrawn message as lost, although the caller already has its
/// `Cycle` error.
#[test]
fn a_withdrawn_message_is_not_lost_when_the_called_process_ends() {
    with_one_worker(|runtime| {
        let out = Log::new();
        let brief = runtime.spawn(Brief).run(out.clone()).expect("it starts").address();
        brief.pid().join().wait();
        assert!(matches!(out.all()[..], [Err(CallError::Cycle(_))]), "{:?}", out.all());
        eventually(|| runtime.statistics().dead_letters.withdrawn == 1);
        assert_eq!(runtime.statistics().dead_letters.total(), 1);
    });
}

/// A process that calls an [`Author`], which calls it back. The process then exits.
#[process]
struct Brief;

#[process]
impl Brief {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, out: Log<Result<(), CallError>>) {
        let author = ctx.spawn(Author).serve().expect("an author starts");
        let answer = author.write(ctx.pid()).timeout(LONG).await;
        out.add(answer.map_err(|error| error.failed().expect("it is the other call that fails")));
    }
}

/// A message that is taken by its type.
#[derive(Debug)]
struct Note(u32);

/// A process that calls an [`Author`], which calls it back with a note. The process then receives notes.
#[process]
struct Selective;

#[process]
impl Selective {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, out: Log<Result<(), CallError>>, taken: Log<u32>) {
        let author = ctx.spawn(Author).serve().expect("an author starts");
        out.add(
            author
                .write(ctx.pid())
                .timeout(LONG)
                .await
                .map_err(|error| error.failed().expect("it is the other call that fails")),
        );
        loop {
            taken.add(ctx.receive::<Note>().await.0);
        }
    }
}

/// A process that sends a note in a call.
#[process]
struct Author;

#[process]
impl Author {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn write(&mut self, to: Pid) -> Result<(), CallError> {
        Call::<Note>::new(to, "Selective::note", Note(1)).timeout(LONG).wait()
    }
}
