//! Messages to, from and between pinned processes, which need no worker.

use super::*;
use postroom::inspect::ProcessState;
use postroom::{Bound, block_in_place};
use postroom_tests::act;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A process that records the numbers of each sender.
#[process]
struct Book {
    seen: Vec<u64>,
    count: u64,
}

impl Book {
    fn for_senders(senders: usize) -> Self {
        Self { seen: vec![0; senders], count: 0 }
    }
}

#[process]
impl Book {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn note(&mut self, sender: usize, number: u64) {
        assert_eq!(self.seen[sender] + 1, number, "in the order of each sender");
        self.seen[sender] = number;
        self.count += 1;
    }

    #[message]
    fn count(&self) -> u64 {
        self.count
    }

    #[message]
    fn send_many(&mut self, to: Address<Book>, sender: usize, count: u64) {
        for number in 1..=count {
            to.note(sender, number).send().unwrap();
        }
    }

    #[message]
    fn ask(&mut self, other: Address<Book>) -> u64 {
        other.count().wait().unwrap_or(u64::MAX)
    }

    #[message]
    async fn ask_later(&mut self, other: Address<Book>) -> u64 {
        other.count().await.unwrap_or(u64::MAX)
    }
}

#[test]
fn messages_keep_the_order_of_their_sender_from_threads_workers_and_pinned_processes() {
    soon(|| {
        let runtime = with_workers(2);
        let book = runtime.spawn_pinned(|| Book::for_senders(6)).serve().unwrap();
        let senders: Vec<_> = (0..2)
            .map(|_| runtime.spawn(Book::for_senders(0)).serve().unwrap())
            .chain((0..2).map(|_| runtime.spawn_pinned(|| Book::for_senders(0)).serve().unwrap()))
            .collect();
        for (sender, address) in senders.iter().enumerate() {
            address.send_many(book, sender, 5_000).send().unwrap();
        }
        std::thread::scope(|scope| {
            for sender in 4..6 {
                scope.spawn(move || (1..=2_000).for_each(|number| book.note(sender, number).send_wait().unwrap()));
            }
        });
        eventually(|| book.count().wait() == Ok(24_000));
    });
}

/// Pairs of processes send to each other far beyond the bounds of their mailboxes. Processes are suspended, and all
/// messages arrive.
#[test]
fn a_process_that_floods_a_full_mailbox_is_suspended_and_all_messages_arrive() {
    soon(|| {
        let runtime = with_workers(1);
        let make = || Book::for_senders(2);
        let pinned = runtime.spawn_pinned(make).mailbox(Bound::Soft(64)).serve().unwrap();
        let other = runtime.spawn_pinned(make).mailbox(Bound::Soft(64)).serve().unwrap();
        let ordinary = runtime.spawn(make()).mailbox(Bound::Soft(64)).serve().unwrap();
        pinned.send_many(ordinary, 0, 20_000).send_wait().unwrap();
        ordinary.send_many(pinned, 0, 20_000).send_wait().unwrap();
        pinned.send_many(other, 0, 20_000).send_wait().unwrap();
        other.send_many(pinned, 1, 20_000).send_wait().unwrap();
        for (book, count) in [(ordinary, 20_000), (other, 20_000), (pinned, 40_000)] {
            eventually(|| book.count().wait() == Ok(count));
        }
    });
}

/// A pinned and an ordinary process, each of which blocks in a call to the other. There is only one worker.
#[test]
fn calls_work_both_ways_and_a_cycle_is_reported() {
    soon(|| {
        let runtime = with_workers(1);
        let pinned = runtime.spawn_pinned(|| Book::for_senders(0)).serve().unwrap();
        let ordinary = runtime.spawn(Book::for_senders(0)).serve().unwrap();
        for _ in 0..200 {
            assert_eq!((pinned.ask(ordinary).wait(), ordinary.ask(pinned).wait()), (Ok(0), Ok(0)));
            assert_eq!((pinned.ask_later(ordinary).wait(), ordinary.ask_later(pinned).wait()), (Ok(0), Ok(0)));
        }
        assert_eq!(pinned.ask(pinned).wait(), Ok(u64::MAX), "it would wait for itself");
        assert_eq!(runtime.statistics().blocking.blocked, 0);
    });
}

/// Mutation: in `engine/pinned/mod.rs`, `PinnedSpawn::slot_owner`, return the owner of the host's other slots.
#[test]
fn it_runs_while_all_workers_are_busy_and_they_run_while_it_is() {
    soon(|| {
        let runtime = with_workers(1);
        let (busy, free) = (Latch::new(), Latch::new());
        let (begun, end) = (busy.clone(), free.clone());
        let hog = act(move |events, _| {
            if events.next().is_some() {
                begun.open();
                end.wait();
            }
            Ok(())
        });
        let hog = runtime.spawn_process(hog).start().unwrap();
        let pinned = runtime.spawn_pinned(|| Book::for_senders(1)).serve().unwrap();
        let other = runtime.spawn_pinned(|| Book::for_senders(1)).serve().unwrap();
        runtime.send(hog, 1_u8).unwrap();
        busy.wait();
        pinned.send_many(other, 0, 100).send().unwrap();
        eventually(|| other.count().wait() == Ok(100));
        assert_eq!(pinned.ask(other).wait(), Ok(100));
        free.open();
        let (inside, go) = (Latch::new(), Latch::new());
        let state = Waits(inside.clone(), go.clone());
        let waits = runtime.spawn_pinned(move || state).serve().unwrap();
        waits.wait().send().unwrap();
        inside.wait();
        let ordinary = runtime.spawn(Book::for_senders(1)).serve().unwrap();
        assert_eq!(ordinary.ask(other).wait(), Ok(100));
        go.open();
    });
}

#[test]
fn a_process_that_it_wakes_runs_although_all_workers_sleep() {
    soon(|| {
        let runtime = with_workers(2);
        let pinned = runtime.spawn_pinned(|| Book::for_senders(0)).serve().unwrap();
        let ordinary = runtime.spawn(Book::for_senders(1)).serve().unwrap();
        for round in 1..=500_u64 {
            // Apart from this call, nothing is awake.
            pinned.send_many(ordinary, 0, 0).wait().unwrap();
            ordinary.note(0, round).send().unwrap();
            assert_eq!(pinned.ask(ordinary).wait(), Ok(round));
        }
    });
}

/// Mutation: in `block_in_place.rs`, leave out the case of a pinned process.
#[test]
fn blocking_code_in_it_blocks_only_its_own_thread() {
    soon(|| {
        let runtime = with_workers(1);
        let (inside, go) = (Latch::new(), Latch::new());
        let (begun, end) = (inside.clone(), go.clone());
        let process = move || {
            act(move |events, _| {
                if events.next().is_some() {
                    let rc = Rc::new(5);
                    let output = block_in_place(|| {
                        begun.open();
                        end.wait();
                        *rc
                    });
                    assert_eq!(output, 5);
                }
                Ok(())
            })
        };
        let pid = runtime.spawn_process_pinned(process).start().unwrap();
        runtime.send(pid, 1_u8).unwrap();
        inside.wait();
        let ordinary = runtime.spawn(Book::for_senders(0)).serve().unwrap();
        assert_eq!(ordinary.count().wait(), Ok(0));
        assert_eq!((runtime.statistics().blocking.blocked, runtime.statistics().blocking.blocked_in_place), (0, 0));
        assert_eq!(pid.info().unwrap().state, ProcessState::Running);
        let end = pid.join();
        pid.stop();
        go.open();
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}

/// A process that blocks in a sync and in an async method, with state that is not `Send`.
#[process(pinned)]
struct Blocks(Rc<ThreadId>);

#[process]
impl Blocks {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn at_once(&mut self, ctx: &mut Context<Self>) -> bool {
        let own = &self.0;
        ctx.blocking(|| **own == current().id()).wait()
    }

    #[message]
    async fn awaited(&mut self, ctx: &mut Context<Self>) -> bool {
        let own = self.0.clone();
        ctx.blocking(|| *own == current().id()).await && *own == current().id()
    }
}

#[test]
fn blocking_work_runs_on_its_thread_and_hands_nothing_over() {
    soon(|| {
        let runtime = with_workers(1);
        let blocks = runtime.spawn_pinned(|| Blocks(Rc::new(current().id()))).serve().unwrap();
        for _ in 0..50 {
            assert_eq!((blocks.at_once().wait(), blocks.awaited().wait()), (Ok(true), Ok(true)));
        }
        let statistics = runtime.statistics();
        assert_eq!(
            (statistics.blocking.spare, statistics.blocking.blocked, statistics.blocking.blocked_in_place),
            (0, 0, 0)
        );
    });
}

/// Pinned processes start and exit while they communicate: each is made, started and dropped once, on its own thread.
#[test]
fn many_pinned_processes_start_and_exit_at_once() {
    soon(|| {
        let runtime = with_workers(2);
        let (made, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        struct Bound(Arc<AtomicU64>, ThreadId);
        impl Drop for Bound {
            fn drop(&mut self) {
                assert_eq!(self.1, current().id());
                self.0.fetch_add(1, SeqCst);
            }
        }
        #[process(pinned)]
        struct Guest {
            bound: Bound,
            next: Option<Address<Guest>>,
        }
        #[process]
        impl Guest {
            #[entry]
            fn come(&mut self) {
                assert_eq!(self.bound.1, current().id());
            }
            #[message]
            async fn pass(&mut self, ctx: &mut Context<Self>, hops: u32) -> u32 {
                let rest = match self.next {
                    Some(next) if hops > 0 => next.pass(hops - 1).await.unwrap_or(0) + 1,
                    _ => 0,
                };
                assert_eq!(self.bound.1, current().id());
                ctx.stop();
                rest
            }
        }
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..40 {
                        let mut next = None;
                        for _ in 0..4 {
                            let (made, dropped) = (made.clone(), dropped.clone());
                            let make = move || {
                                made.fetch_add(1, SeqCst);
                                Guest { bound: Bound(dropped, current().id()), next }
                            };
                            next = Some(runtime.spawn_pinned(make).come().unwrap());
                        }
                        assert_eq!(next.unwrap().pass(10).wait(), Ok(3));
                    }
                });
            }
        });
        eventually(|| runtime.statistics().processes.pinned == 0);
        assert_eq!((made.load(SeqCst), dropped.load(SeqCst)), (480, 480));
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}
