//! Supervisors and pools.

use super::Case;
use super::deed::Fuse;
use postroom::prelude::*;
use postroom::supervision::Child;
use postroom::{DeadLetterReason, Pool};
use postroom_tests::eventually;
use postroom_tests::face::Log;
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
            // It is started again after that, as after any other failure.
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
];

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
