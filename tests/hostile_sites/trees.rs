//! Supervisors and pools.

use super::Case;
use super::deed::{Fuse, Hostile};
use postroom::inspect::DeadLetterReason;
use postroom::prelude::*;
use postroom::supervision::Child;
use postroom::{CallError, Pool};
use postroom_tests::eventually;
use postroom_tests::face::Log;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    ("the start of a child", "ChildStart", |hostile| {
        let host = hostile.plain();
        hostile.disarm();
        let own = hostile.clone();
        let supervisor = Supervisor::one_for_one().intensity(100, Duration::MAX).backoff(Backoff::none());
        let tree = supervisor.child("node", move |spawn| {
            own.strike();
            spawn.of(Node).serve()
        });
        let tree = tree.spawn(host).expect("it starts");
        let node: Address<Node> = tree.child("node").expect("it has started");
        hostile.arm();
        node.pid().kill();
        eventually(|| hostile.has_struck());
        if !hostile.shuts_down() {
            // The child is restarted, as after any other failure.
            eventually(|| node.ping().wait() == Ok(()));
        }
    }),
    ("the drop of a child that is taken away", "ChildDrop", |hostile| {
        let host = hostile.plain();
        let Ok(tree) = Supervisor::dynamic().spawn(host) else { return };
        let fuse = Fuse(hostile.clone());
        let child = Child::new("node", move |spawn| {
            let _dropped_with_this = &fuse;
            spawn.of(Node).serve()
        });
        let _address = tree.start(child).expect("it starts");
        let _gone = tree.stop_child("node");
        eventually(|| hostile.has_struck());
        assert!(hostile.shuts_down() || tree.children().is_empty());
    }),
    ("the start of a pool's member", "MemberStart", |hostile| {
        let host = hostile.plain();
        hostile.disarm();
        let own = hostile.clone();
        let pool = Pool::fixed(1).backoff(Backoff::none()).intensity(100, Duration::MAX);
        let pool = pool.spawn(host, move |spawn| {
            own.strike();
            spawn.of(Node).serve()
        });
        let pool = pool.expect("it starts");
        hostile.arm();
        pool.members().into_iter().for_each(|member| _ = member.kill());
        eventually(|| hostile.has_struck());
        if !hostile.shuts_down() {
            eventually(|| pool.address().ping().wait() == Ok(()));
        }
    }),
    ("the key of a pool's message", "PoolKey", |hostile| {
        let (dead, own) = (Log::new(), hostile.clone());
        let log = dead.clone();
        let host = hostile.run(|builder| builder.on_dead_letter(move |letter| log.add(letter.reason)));
        let pool = Pool::by_key(move |_: &Ping| {
            own.strike();
            7_u8
        });
        let pool = pool.spawn(host, |spawn, _: &u8| spawn.of(Node).serve()).expect("it starts");
        let answer = host.send(pool.pid(), Ping);
        eventually(|| hostile.has_struck());
        if hostile.panics() {
            assert!(answer.is_ok());
            assert_eq!(dead.all(), [DeadLetterReason::Unhandled]);
        }
    }),
    ("the `Hash` of a pool's key", "PoolKey", |hostile| strike_in_key(hostile, Part::Hash)),
    ("the `Eq` of a pool's key", "PoolKey", |hostile| strike_in_key(hostile, Part::Eq)),
    ("the drop of a pool's key", "PoolKey", |hostile| strike_in_key(hostile, Part::Drop)),
    ("the drop of what says the key of a pool's message", "PoolKey", |hostile| {
        let host = hostile.run(|builder| builder);
        let fuse = Fuse(hostile.clone());
        let pool = Pool::by_key(move |_: &Ping| (&fuse, 7_u8).1);
        let pool = pool.spawn(host, |spawn, _: &u8| spawn.of(Node).serve()).expect("it starts");
        let end = pool.pid().join();
        pool.stop();
        drop(pool);
        assert_eq!(end.wait(), ExitReason::Normal);
        eventually(|| hostile.has_struck());
    }),
    ("the copying of a message for a pool's members", "PoolCopy", |hostile| {
        let (dead, own) = (Log::new(), hostile.clone());
        let log = dead.clone();
        let host = hostile.run(|builder| builder.on_dead_letter(move |letter| log.add(letter.reason)));
        let pool = Pool::fixed(3).broadcast::<Copied>().spawn(host, |spawn| spawn.of(Node).serve()).expect("it starts");
        let answer = host.send(pool.pid(), Copied(own));
        eventually(|| hostile.has_struck());
        if hostile.panics() {
            assert!(answer.is_ok());
            assert_eq!(dead.all(), [DeadLetterReason::Unhandled], "nobody gets it, rather than some");
            assert_eq!(pool.statistics().accepted, 0);
        }
        if !hostile.shuts_down() {
            assert_eq!(pool.address().ping().wait(), Ok(()), "the pool goes on");
        }
    }),
];

/// The method in which a key performs its deed.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Hash,
    Eq,
    Drop,
}

/// A key that performs its deed once. It is equal to all other keys.
#[derive(Clone)]
struct Marked(Arc<Hostile>, Part);

impl Marked {
    fn strike_in(&self, part: Part) {
        if self.1 == part {
            self.0.strike();
        }
    }
}

impl Hash for Marked {
    fn hash<H: Hasher>(&self, _: &mut H) {
        self.strike_in(Part::Hash);
    }
}

impl PartialEq for Marked {
    fn eq(&self, _: &Self) -> bool {
        self.strike_in(Part::Eq);
        true
    }
}

impl Eq for Marked {}

impl Drop for Marked {
    fn drop(&mut self) {
        self.strike_in(Part::Drop);
    }
}

/// A message of which each member but one gets a clone.
struct Copied(Arc<Hostile>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        self.0.strike();
        Self(self.0.clone())
    }
}

/// Catches: a pool that hangs because a key panics, and a pool that then loses a message without counting it.
fn strike_in_key(hostile: &Arc<Hostile>, part: Part) {
    let (dead, own) = (Log::new(), hostile.clone());
    let log = dead.clone();
    let host = hostile.run(|builder| builder.on_dead_letter(move |letter| log.add(letter.reason)));
    let pool = Pool::by_key(move |_: &NodePing| Marked(own.clone(), part));
    let pool = pool.spawn(host, |spawn, _| spawn.of(Node).serve()).expect("it starts");
    hostile.disarm();
    assert_eq!(pool.address().ping().wait(), Ok(()));
    hostile.arm();
    let answer = pool.address().ping().wait();
    eventually(|| hostile.has_struck());
    if hostile.shuts_down() {
        return;
    }
    if hostile.panics() && part != Part::Drop {
        assert_eq!((answer, dead.all()), (Err(CallError::Unhandled), vec![DeadLetterReason::Unhandled]));
    } else {
        // The answer alone is checked, since other effects of the deed may produce dead letters.
        assert_eq!(answer, Ok(()));
    }
    hostile.disarm();
    assert_eq!(pool.address().ping().wait(), Ok(()), "the pool goes on, with the same member");
    assert_eq!(pool.statistics().started, 1);
}

#[process]
struct Node;

#[process]
impl Node {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ping(&mut self) {}

    #[message]
    fn typed(&mut self, _ping: Ping) {}
}

struct Ping;
