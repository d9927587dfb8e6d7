//! User code that is run because of messages from another node. No thread of a cluster runs it, and it sees the
//! messages in the order of their arrival.

use postroom::__private::ThreadKind;
use postroom::error::SendFailure;
use postroom::inspect::DeadLetter;
use postroom::prelude::*;
use postroom::routing::{Node, Receiver};
use postroom::{Package, Pool};
use postroom_tests::within;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender, channel};
use std::time::Duration;

#[process]
struct Desk {
    taken: Sender<u64>,
}

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, number: u64) {
        self.taken.send(number).expect("it is waited for");
    }

    /// Blocks until the other end of the channel is dropped.
    #[message]
    fn stand(&mut self, gate: Gate) {
        postroom::block_in_place(|| _ = gate.0.lock().expect("it is the only one").recv());
    }
}

/// A limit that only serves to detect hangs.
const GUARD: Duration = Duration::from_secs(60);

struct Gate(Mutex<mpsc::Receiver<()>>);

/// A message that reports the thread on which it is cloned.
struct Copied(Sender<ThreadKind>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        self.0.send(ThreadKind::current()).expect("it is waited for");
        Self(self.0.clone())
    }
}

/// Delivers the messages in order on a thread of a cluster. Retries each message until there is room.
fn arrive<M: Send + 'static>(to: Pid, messages: impl Iterator<Item = M> + Send) {
    let deliver = |message| {
        let mut package = Package::new(to, message);
        while let Err(refused) = Node::this().deliver(package) {
            assert!(matches!(refused.reason, SendFailure::Full(_)), "{}", refused.reason);
            package = refused.package;
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            ThreadKind::Cluster.enter();
            messages.for_each(deliver);
        });
        assert!(thread.join().is_ok(), "users' code on a thread of a cluster");
    });
}

/// Sends far more messages than the pool has room for.
#[test]
fn a_pool_takes_what_comes_from_another_node_in_order() {
    within(GUARD, || {
        const MESSAGES: u64 = 2_000;
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (kinds, taken) = (channel(), channel());
        let note = Mutex::new(kinds.0);
        let key = move |_: &DeskTake| {
            note.lock().expect("it cannot panic").send(ThreadKind::current()).expect("it is waited for");
        };
        let pool = Pool::by_key(key).queue(4);
        let started = taken.0.clone();
        let pool = pool.spawn(&runtime, move |spawn, ()| spawn.of(Desk { taken: started.clone() }).serve());
        let pool = pool.expect("it starts");
        arrive(pool.pid(), (0..MESSAGES).map(|number| DeskTake { number }));
        assert!(taken.1.iter().take(MESSAGES as usize).eq(0..MESSAGES), "in order, each once");
        // The key of a message is determined before the message is passed on. So all keys have been reported by now.
        let kinds: Vec<ThreadKind> = kinds.1.try_iter().collect();
        assert!(
            kinds.len() >= MESSAGES as usize && kinds.iter().all(|kind| *kind == ThreadKind::Notifier),
            "{kinds:?}"
        );
    });
}

#[test]
fn a_message_of_another_node_is_copied_on_no_thread_of_a_cluster() {
    within(GUARD, || {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (kinds, started) = (channel(), channel().0);
        let pool = Pool::fixed(2).broadcast::<Copied>();
        let pool = pool.spawn(&runtime, move |spawn| spawn.of(Desk { taken: started.clone() }).serve());
        let pool = pool.expect("it starts");
        arrive(pool.pid(), std::iter::once(Copied(kinds.0)));
        assert_eq!(kinds.1.recv(), Ok(ThreadKind::Notifier));
    });
}

#[test]
fn a_dead_letter_of_another_nodes_message_is_told_of_in_order() {
    within(GUARD, || {
        let (letters, gate) = (channel(), channel::<()>());
        let note = Mutex::new(letters.0);
        let hook = move |letter: DeadLetter| {
            if let Ok(DeskTake { number }) = letter.message.take() {
                let told = (number, ThreadKind::current());
                note.lock().expect("it cannot panic").send(told).expect("it is waited for");
            }
        };
        let runtime = Runtime::builder().workers(1).on_dead_letter(hook).build().expect("one worker");
        let desk = runtime.spawn(Desk { taken: channel().0 }).mailbox(Bound::Hard(1, Overflow::DropNewest));
        let desk = desk.serve().expect("it starts");
        desk.stand(Gate(Mutex::new(gate.1))).send().expect("it lives");
        arrive(desk.pid(), (0..500).map(|number| DeskTake { number }));
        // The first messages may have found room: some before the process blocked, and one since.
        let told: Vec<_> = letters.1.iter().take(490).collect();
        assert!(told.iter().all(|(_, kind)| *kind == ThreadKind::Notifier));
        assert!(told.is_sorted_by_key(|(number, _)| *number), "{told:?}");
        desk.pid().kill();
        drop(gate.0);
    });
}
