//! Runtimes that are nodes of their own.

use postroom::error::SendFailure;
use postroom::prelude::*;
use postroom::routing::{Node, Receiver, Router, Transport, Undeliverable};
use postroom::{Mailbox, NodeId, Package, this_node};
use postroom_tests::face::{builder, until, watched};
use std::sync::Arc;

#[process]
struct Tells {
    at_start: Option<NodeId>,
}

#[process]
impl Tells {
    #[entry]
    fn serve(&mut self) {
        self.at_start = Some(this_node());
    }
    #[message]
    fn nodes(&mut self) -> [NodeId; 3] {
        let blocking = postroom::block_in_place(this_node);
        [self.at_start.unwrap(), this_node(), blocking]
    }
    #[message]
    fn ask(&mut self, other: Address<Tells>) -> Result<[NodeId; 3], CallError> {
        other.nodes().wait()
    }
    #[message]
    async fn later(&mut self, ctx: &mut Context<Self>) -> NodeId {
        ctx.sleep(std::time::Duration::from_millis(1)).await;
        this_node()
    }
    #[message]
    fn mailbox(&mut self) -> NodeId {
        Mailbox::new().unwrap().pid().node()
    }
    #[message]
    fn send_to(&mut self, to: Pid) -> Result<(), SendFailure> {
        Recipient::<u8>::of(to).send(1).map_err(|refused| refused.reason)
    }
}

#[test]
fn the_processes_of_a_logical_node_belong_to_it_and_no_others() {
    watched(|| {
        let own = this_node();
        let node = NodeId::random();
        assert!(Node::of(node).is_none());
        let runtime = builder().logical_node(node).build().unwrap();
        assert_eq!((runtime.node(), Node::of(node).map(Node::id)), (node, Some(node)));
        let plain = builder().build().unwrap();
        for (runtime, node) in [(&runtime, node), (&plain, own)] {
            let tells = runtime.spawn(Tells { at_start: None }).serve().unwrap();
            let pinned = runtime.spawn_pinned(|| Tells { at_start: None }).serve().unwrap();
            for tells in [tells, pinned] {
                assert_eq!(tells.pid().node(), node);
                assert_eq!(tells.nodes().wait(), Ok([node; 3]));
                assert_eq!(tells.later().wait(), Ok(node));
                assert_eq!(tells.mailbox().wait(), Ok(node));
            }
            let pool = Pool::fixed(2).spawn(runtime, |spawn| spawn.of(Tells { at_start: None }).serve()).unwrap();
            assert_eq!(pool.pid().node(), node);
            assert_eq!(Probe::<u8>::new(runtime.host()).unwrap().pid().node(), node);
        }
        assert_eq!((this_node(), Mailbox::new().unwrap().pid().node()), (own, own));
        drop(runtime);
        until(|| {
            drop(builder().build().unwrap());
            Node::of(node).is_none()
        });
    });
}

#[test]
fn without_a_transport_nothing_leaves_a_logical_node_and_an_observer_reaches_all() {
    watched(|| {
        let runtimes = [(); 2].map(|()| builder().logical_node(NodeId::random()).build().unwrap());
        let [one, other] = runtimes.each_ref().map(|it| it.spawn(Tells { at_start: None }).serve().unwrap());
        let plain = builder().build().unwrap();
        let default = plain.spawn(Tells { at_start: None }).serve().unwrap();
        for from in [one, other, default] {
            for to in [one, other, default] {
                let expected =
                    if from == to { Ok(()) } else { Err(CallError::Failed(SendFailure::UnknownNode(to.pid()))) };
                assert_eq!(from.send_to(to.pid()).wait(), expected);
            }
        }
        assert_eq!(Router::of_node(one.pid().node()).nodes(), []);
    });
}

/// Catches: a transport that is kept forever, with the messages that wait in it, although its node has ended.
#[test]
fn the_transports_of_a_logical_node_end_with_it() {
    struct Refuses;
    impl Receiver for Refuses {
        fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
            let reason = SendFailure::Gone(package.to());
            Err(Undeliverable { package, reason })
        }
    }
    impl Transport for Refuses {}
    watched(|| {
        let node = NodeId::random();
        let runtime = builder().logical_node(node).build().unwrap();
        let transport = Arc::new(Refuses);
        Router::of_node(node).connect(NodeId::random(), transport.clone());
        assert_eq!(Arc::strong_count(&transport), 2);
        drop(runtime);
        // If one of the host's threads was late, the host is forgotten only when another one starts or ends.
        until(|| {
            drop(builder().build().unwrap());
            Arc::strong_count(&transport) == 1
        });
    });
}

/// A host's record is reused for a host of another node. The new host must not inherit the old node's number or place.
#[test]
fn a_later_runtime_is_of_its_own_node() {
    watched(|| {
        for _ in 0..3 {
            let nodes = [NodeId::random(), this_node(), NodeId::random()];
            for node in nodes {
                let runtime = builder().name("reused").logical_node(node).build().unwrap();
                let tells = runtime.spawn(Tells { at_start: None }).serve().unwrap();
                assert_eq!((tells.pid().node(), tells.nodes().wait()), (node, Ok([node; 3])));
            }
        }
    });
}

/// Catches: a message that is delivered inside another node's send, and therefore counts as sent by that other node, so
/// that it goes through the other node's transports again.
#[test]
fn a_transport_may_deliver_at_once() {
    struct Direct(Node);
    impl Receiver for Direct {
        fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
            let (to, message, answerer) = package.take_apart();
            let time_left = answerer.time_left();
            self.0.deliver(Package::with_answer(to, message, time_left, move |answer| answerer.answer(answer)))
        }
    }
    impl Transport for Direct {}
    watched(|| {
        let [here, there] = [(); 2].map(|()| builder().logical_node(NodeId::random()).build().unwrap());
        Router::of_node(here.node()).connect(there.node(), Arc::new(Direct(Node::of(there.node()).unwrap())));
        let [one, other] = [&here, &there].map(|it| it.spawn(Tells { at_start: None }).serve().unwrap());
        assert_eq!(one.send_to(other.pid()).wait(), Ok(()));
        assert_eq!(one.ask(other).wait(), Ok([there.node(); 3]));
        assert!(there.shutdown().is_ok());
        let refused = one.send_to(other.pid()).wait();
        assert!(matches!(refused, Err(CallError::Failed(_))), "{refused:?}");
    });
}
