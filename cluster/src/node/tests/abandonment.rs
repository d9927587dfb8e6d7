//! Calls whose callers on another node no longer wait.

use super::*;
use std::pin::pin;
use std::task::{Context as TaskContext, Waker};

/// Longer than any test, so that no call here ends by its deadline.
const LONG: Duration = Duration::from_secs(3_600);

/// A process that skips calls that no one waits for.
#[process(skip_abandoned)]
#[derive(Default)]
struct Marked {
    marks: Vec<u32>,
}

#[process(remote)]
impl Marked {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn mark(&mut self, mark: u32) -> u32 {
        self.marks.push(mark);
        mark
    }

    #[message(local)]
    fn stand(&mut self, gate: Arc<AtomicBool>) {
        postroom::block_in_place(|| {
            while !gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
            }
        });
    }
}

#[process]
struct Asks {
    of: Address<Marked>,
}

#[process]
impl Asks {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn ask(&mut self, mark: u32) -> u32 {
        self.of.mark(mark).timeout(LONG).await.unwrap()
    }
}

/// Without the notice, the called process would handle these calls, since no deadline has passed. The test fails if
/// `take_abandoned` finds nothing.
#[test]
fn a_call_whose_caller_has_given_up_is_not_handled_on_another_node() {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.export::<Marked>()));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let marked = two.runtime.spawn(Marked::default()).serve().unwrap();
    let gate = Arc::new(AtomicBool::new(false));
    marked.stand(Arc::clone(&gate)).send().unwrap();

    let killed = one.runtime.spawn(Asks { of: marked }).serve().unwrap();
    killed.ask(1).send().unwrap();
    let lives = one.runtime.spawn(Asks { of: marked }).serve().unwrap();
    let answered = lives.ask(2).timeout(LONG);
    let answered = std::thread::spawn(move || answered.wait());
    on(&one, || {
        let mut dropped = pin!(marked.mark(3).timeout(LONG).into_future());
        assert!(dropped.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    });
    let queued = || marked.pid().info().unwrap().mailbox;
    until("all calls have arrived", || queued() == 3);
    assert!(killed.pid().kill());
    until("it has ended", || !killed.pid().is_alive());
    // A second of the nodes' time.
    nodes.pass(Duration::from_secs(1));
    assert_eq!(queued(), 3, "they lie there, and are not taken out");
    gate.store(true, Ordering::Relaxed);
    until("it is answered", || answered.is_finished());
    assert_eq!(answered.join().unwrap(), Ok(2));
    assert_eq!(on(&one, || marked.mark(4).wait()), Ok(4));
    assert_eq!(on(&two, || two.runtime.statistics().dead_letters.expired), 2);
    assert_eq!([&one, &two].map(losses), [crate::Statistics::default(); 2]);
}
