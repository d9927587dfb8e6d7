//! Hard bounds: what happens to a message for which there is no room.

use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::{Bound, GroupEvent, Overflow};
use postroom_tests::{Latch, eventually, soon};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[process]
struct Keeper {
    kept: Arc<Mutex<Vec<u64>>>,
    /// A latch that is opened by the first message before it waits for `gate`.
    inside: Latch,
    gate: Option<Latch>,
}

#[process]
impl Keeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    fn keep(&mut self, number: u64) -> u64 {
        if let Some(gate) = self.gate.take() {
            self.inside.open();
            gate.wait();
        }
        self.kept.lock().unwrap().push(number);
        number
    }
}

/// A process with a hard bound, which blocks in its first message. Records the messages that it has kept, and the dead
/// letters.
struct Full {
    runtime: Runtime,
    keeper: Address<Keeper>,
    kept: Arc<Mutex<Vec<u64>>>,
    dead: Arc<Mutex<Vec<u64>>>,
    gate: Latch,
}

impl Full {
    fn new(overflow: Overflow) -> Self {
        let dead: Arc<Mutex<Vec<u64>>> = Arc::default();
        let dies = dead.clone();
        let builder = Runtime::builder().workers(2).on_dead_letter(move |letter| {
            if let Ok(letter) = letter.message.take::<KeeperKeep>() {
                dies.lock().unwrap().push(letter.number);
            }
        });
        let runtime = builder.build().unwrap();
        let (kept, gate): (Arc<Mutex<Vec<u64>>>, _) = (Arc::default(), Latch::new());
        let inside = Latch::new();
        let keeper = Keeper { kept: kept.clone(), inside: inside.clone(), gate: Some(gate.clone()) };
        let keeper = runtime.spawn(keeper).mailbox(Bound::Hard(4, overflow)).serve().unwrap();
        keeper.keep(0).send().unwrap();
        // The message is in the method, and no longer in the bounded queue.
        inside.wait();
        Self { runtime, keeper, kept, dead, gate }
    }

    /// Lets the process finish, and returns the kept messages and the dead letters.
    fn ends(self, kept: usize) -> (Vec<u64>, Vec<u64>) {
        self.gate.open();
        eventually(|| self.kept.lock().unwrap().len() == kept);
        assert_eq!(self.runtime.statistics().dead_letters.overflow, self.dead.lock().unwrap().len() as u64);
        let (kept, dead) = (self.kept.lock().unwrap().clone(), self.dead.lock().unwrap().clone());
        (kept, dead)
    }
}

#[test]
fn refuse_gives_the_message_back_and_never_holds_more() {
    soon(|| {
        let full = Full::new(Overflow::Refuse);
        (1..=4).for_each(|number| full.keeper.keep(number).send().unwrap());
        for number in 5..100 {
            let refused = full.keeper.keep(number).send().unwrap_err();
            assert_eq!((refused.message.number, refused.reason), (number, SendFailure::Full(full.keeper.pid())));
            assert_eq!(full.keeper.keep(number).wait(), Err(CallError::Full));
        }
        assert_eq!(full.keeper.pid().info().unwrap().mailbox, 4);
        assert_eq!(full.ends(5), (vec![0, 1, 2, 3, 4], vec![]));
    });
}

#[test]
fn drop_oldest_keeps_the_latest_and_fails_the_dropped_calls() {
    soon(|| {
        let full = Full::new(Overflow::DropOldest);
        let keeper = full.keeper;
        let caller = std::thread::spawn(move || keeper.keep(1).timeout(Duration::MAX).wait());
        eventually(|| keeper.pid().info().unwrap().mailbox == 1);
        (2..=20).for_each(|number| keeper.keep(number).send().unwrap());
        assert_eq!(caller.join().unwrap(), Err(CallError::Full));
        assert_eq!(full.ends(5), (vec![0, 17, 18, 19, 20], (1..=16).collect()));
    });
}

/// A full mailbox that drops its oldest message affects only the receiver: no sender waits.
#[test]
fn a_broadcast_and_a_try_send_make_room_as_the_mailbox_says() {
    soon(|| {
        let full = Full::new(Overflow::DropOldest);
        (1..=10).for_each(|number| full.keeper.keep(number).try_send().unwrap());
        let room = full.runtime.group("room");
        room.join(full.keeper).unwrap();
        (11..=20).for_each(|number| assert_eq!(room.broadcast(KeeperKeep { number }), 1));
        assert_eq!(full.ends(5), (vec![0, 17, 18, 19, 20], (1..=16).collect()));
    });
}

/// Catches: a message for which an older one is dropped takes the older one's place in the mailbox, before the request.
#[test]
fn what_is_sent_after_a_stop_request_never_overtakes_it() {
    soon(|| {
        let full = Full::new(Overflow::DropOldest);
        (1..=2).for_each(|number| full.keeper.keep(number).send().unwrap());
        assert!(full.keeper.pid().stop());
        (3..=8).for_each(|number| full.keeper.keep(number).send().unwrap());
        let end = full.keeper.pid().join();
        full.gate.open();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(*full.kept.lock().unwrap(), [0]);
        eventually(|| full.dead.lock().unwrap().len() == 8);
        let letters = full.runtime.statistics().dead_letters;
        assert_eq!((letters.overflow, letters.ended), (4, 4));
    });
}

/// A process that reports what it hears, in order, and blocks in its first message.
#[process]
struct Hears {
    heard: Vec<&'static str>,
    inside: Latch,
    gate: Latch,
}

#[process]
impl Hears {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn watch(&mut self, other: Pid) {
        other.monitor().unwrap();
    }

    #[message]
    fn block(&mut self) {
        self.inside.open();
        self.gate.wait();
    }

    #[message]
    fn hear(&mut self, word: &'static str) {
        self.heard.push(word);
    }

    #[message]
    fn heard(&self) -> Vec<&'static str> {
        self.heard.clone()
    }

    #[message(GroupEvent)]
    fn changed(&mut self, _event: GroupEvent) {
        self.heard.push("joined");
    }

    #[signal]
    fn down(&mut self, _down: Down) {
        self.heard.push("down");
    }
}

/// Catches: as above, of notices of ends and of events of groups, which arrive however full the mailbox is.
#[test]
fn what_is_sent_after_a_notice_or_an_event_never_overtakes_it() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (inside, gate) = (Latch::new(), Latch::new());
        let hears = Hears { heard: Vec::new(), inside: inside.clone(), gate: gate.clone() };
        let hears = runtime.spawn(hears).mailbox(Bound::Hard(2, Overflow::DropOldest)).serve().unwrap();
        let waiting = || hears.pid().info().unwrap().mailbox;
        let (watched, room) = (Full::new(Overflow::Refuse), runtime.group("room"));
        hears.watch(watched.keeper.pid()).wait().unwrap();
        room.subscribe(hears).unwrap();
        hears.block().send().unwrap();
        inside.wait();

        ["dropped", "dropped too", "before"].iter().for_each(|word| hears.hear(word).send().unwrap());
        watched.gate.open();
        assert!(watched.keeper.pid().kill());
        eventually(|| waiting() == 3);
        ["between", "between too"].iter().for_each(|word| hears.hear(word).send().unwrap());
        room.join(hears).unwrap();
        hears.hear("after").send().unwrap();
        gate.open();
        eventually(|| waiting() == 0);
        assert_eq!(hears.heard().wait().unwrap(), ["down", "between too", "joined", "after"]);
    });
}

#[test]
fn drop_newest_keeps_the_first() {
    soon(|| {
        let full = Full::new(Overflow::DropNewest);
        (1..=20).for_each(|number| full.keeper.keep(number).send().unwrap());
        assert_eq!(full.ends(5), (vec![0, 1, 2, 3, 4], (5..=20).collect()));
    });
}

#[test]
fn wait_makes_threads_wait_and_loses_nothing() {
    soon(|| {
        let full = Full::new(Overflow::Wait);
        let keeper = full.keeper;
        let sender = std::thread::spawn(move || (1..=1_000).for_each(|number| keeper.keep(number).send().unwrap()));
        eventually(|| keeper.pid().info().unwrap().mailbox == 4);
        assert_eq!(keeper.keep(0).try_send().unwrap_err().reason, SendFailure::Full(keeper.pid()));
        let (kept, dead) = full.ends(1_001);
        sender.join().unwrap();
        assert_eq!((kept, dead), ((0..=1_000).collect(), vec![]));
    });
}

#[test]
fn wait_makes_processes_wait_in_their_step_but_never_for_themselves() {
    #[process]
    struct Sends {
        received: u64,
        refused: u64,
    }

    #[process]
    impl Sends {
        #[entry]
        fn serve(&mut self) {}

        #[message]
        fn send(&mut self, to: Address<Sends>, count: u64) {
            for _ in 0..count {
                if to.hit().send().is_err() {
                    self.refused += 1;
                }
            }
        }

        #[message]
        fn hit(&mut self) {
            self.received += 1;
        }

        #[message]
        fn counts(&self) -> (u64, u64) {
            (self.received, self.refused)
        }
    }

    for workers in [1, 2] {
        soon(move || {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let spawn = || {
                let sends = Sends { received: 0, refused: 0 };
                runtime.spawn(sends).mailbox(Bound::Hard(8, Overflow::Wait)).serve().unwrap()
            };
            let (one, other, third) = (spawn(), spawn(), spawn());
            one.send(third, 5_000).send().unwrap();
            eventually(|| third.counts().wait().is_ok_and(|(received, _)| received == 5_000));
            assert_eq!(one.counts().wait().unwrap().1, 0);
            // When two processes send to each other, some sends are refused, and each is counted.
            one.send(other, 1_000).send().unwrap();
            other.send(one, 1_000).send().unwrap();
            let all = |address: Address<Sends>| {
                eventually(|| address.counts().wait().is_ok());
                address.counts().wait().unwrap()
            };
            eventually(|| all(other).0 + all(one).1 == 1_000 && all(one).0 + all(other).1 == 1_000);
            one.send(one, 100).send_wait().unwrap();
            eventually(|| all(one).1 >= 92);
        });
    }
}

#[test]
fn stop_and_kill_reach_a_full_mailbox_and_the_rest_are_dead_letters() {
    for kill in [true, false] {
        soon(move || {
            let full = Full::new(Overflow::Refuse);
            (1..=4).for_each(|number| full.keeper.keep(number).send().unwrap());
            let end = full.keeper.pid().join();
            let expected = if kill {
                assert!(full.keeper.pid().kill());
                (ExitReason::Killed, vec![0], vec![1, 2, 3, 4])
            } else {
                assert!(full.keeper.pid().stop());
                (ExitReason::Normal, vec![0, 1, 2, 3, 4], vec![])
            };
            full.gate.open();
            assert_eq!(end.wait(), expected.0);
            assert_eq!(*full.kept.lock().unwrap(), expected.1);
            assert_eq!(*full.dead.lock().unwrap(), expected.2);
        });
    }
}
