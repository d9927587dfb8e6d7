//! Values of user types in flight.

use super::Case;
use super::deed::{Fuse, Hostile};
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::routing::{LinkMessage, Node, Receiver, Router, Transport, Undeliverable};
use postroom::{NodeId, Package};
use postroom_tests::bomb::{PATIENCE, ended};
use postroom_tests::{Latch, act, eventually, idle_for_ever};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A transport that accepts everything, and performs the deed on link messages.
struct Wire(Arc<Hostile>);

impl Receiver for Wire {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        drop(package);
        Ok(())
    }
}

impl Transport for Wire {
    fn send_link(&self, _from: Pid, _to: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        self.0.strike_with(message);
        Ok(())
    }
}

pub(crate) const CASES: &[Case] = &[
    ("the drop of a message that nobody takes", "ValueDrop", |hostile| {
        let host = hostile.plain();
        let Ok(pid) = host.spawn_process(idle_for_ever()).start() else { return };
        let _sent = host.send(pid, Fuse(hostile.clone()));
        eventually(|| hostile.has_struck());
        assert!(hostile.shuts_down() || pid.is_alive(), "it has not opened it");
        pid.kill();
    }),
    ("the drop of a message that is left in a mailbox", "ValueDrop", |hostile| {
        let host = hostile.plain();
        let (is_at_it, may_go) = (Latch::new(), Latch::new());
        let (at_it, go) = (is_at_it.clone(), may_go.clone());
        let busy = act(move |events, _| {
            if events.next().is_some() {
                is_at_it.open();
                may_go.wait();
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(busy).start() else { return };
        let _sent = host.send(pid, ());
        at_it.wait();
        let _sent = host.send(pid, Fuse(hostile.clone()));
        let end = pid.join();
        pid.kill();
        go.open();
        assert_eq!(ended(pid, end), ExitReason::Killed);
    }),
    ("the drop of the reason of a second cancel", "ReasonDrop", |hostile| {
        let host = hostile.plain();
        let (is_at_it, may_go) = (Latch::new(), Latch::new());
        let (at_it, go) = (is_at_it.clone(), may_go.clone());
        let stays = act(move |events, _| {
            if events.next().is_some() {
                is_at_it.open();
                may_go.wait();
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(stays).start() else { return };
        let _sent = host.send(pid, ());
        at_it.wait();
        let end = pid.join();
        pid.cancel("the first");
        pid.cancel(ExitReason::error(Reason(Fuse(hostile.clone()))));
        go.open();
        assert_eq!(ended(pid, end), ExitReason::from("the first"));
    }),
    ("the `Display` of the error of a start", "Display", |hostile| {
        let host = hostile.plain();
        let error = Spoken(hostile.clone());
        let refuses = act(|_, _| Ok(())).init(move |_| Err(InitError::failed(error)));
        assert!(host.spawn_process(refuses).named("it").start().is_err());
        assert_eq!(host.whereis("it"), None);
    }),
    ("what is done with an answer for another node", "RemoteAnswer", |hostile| {
        let host = hostile.plain();
        let answers = act(|events, _| {
            while let Some(event) = events.next() {
                if let Event::Message(package) = event {
                    let _other = package.answer(|(): ()| 7_u8);
                }
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(answers).start() else { return };
        let deed = hostile.clone();
        let package = Package::with_answer(pid, Payload::new(()), None, move |answer| deed.strike_with(answer));
        let _delivered = Node::this().deliver(package);
        eventually(|| hostile.has_struck());
        assert!(hostile.shuts_down() || pid.is_alive(), "it has answered, and goes on");
        pid.kill();
    }),
    ("a transport that is given the monitor of a process that fails", "Transport", |hostile| {
        let host = hostile.plain();
        let node = NodeId::random();
        let far: Pid = format!("<{node}.0.0.1>").parse().expect("the text form of a PID");
        Router::of_node(host.node()).connect(node, Arc::new(Wire(hostile.clone())));
        let watches = act(move |events, _| {
            while events.next().is_some() {
                let _watched = far.monitor();
            }
            Ok(())
        });
        let Ok(pid) = host.spawn_process(watches).start() else { return };
        let _sent = host.send(pid, ());
        eventually(|| hostile.has_struck());
        let end = pid.join();
        pid.kill();
        ended(pid, end);
        Router::of_node(host.node()).disconnect(node);
    }),
    ("the clone of a message that is sent again and again", "TimerAction", |hostile| {
        let host = hostile.plain();
        let Ok(pid) = host.spawn_process(idle_for_ever()).start() else { return };
        again_and_again(hostile, pid);
        pid.kill();
    }),
    ("the same of one that is sent to a mailbox", "OutsideTimer", |hostile| {
        let _host = hostile.plain();
        let mailbox = postroom::Mailbox::new().expect("there are slots");
        again_and_again(hostile, mailbox.pid());
    }),
    ("the drop of a timer's message in a shutdown", "TimerDrop", |hostile| {
        let host = hostile.plain();
        let Ok(pid) = host.spawn_process(idle_for_ever()).start() else { return };
        let call: Call<Fuse, (), std::convert::Infallible> = Call::new(pid, "never", Fuse(hostile.clone()));
        let _timer = call.send_after(Duration::from_secs(3600)).expect("it lives");
    }),
];

fn again_and_again(hostile: &Arc<Hostile>, to: Pid) {
    hostile.disarm();
    let call: Call<Copied, (), std::convert::Infallible> = Call::new(to, "again", Copied(hostile.clone()));
    let timer = call.send_every(Duration::from_millis(1)).expect("it lives");
    hostile.arm();
    eventually(|| hostile.has_struck());
    timer.cancel();
}

/// A message that performs the deed when it is cloned.
struct Copied(Arc<Hostile>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        self.0.strike();
        Self(self.0.clone())
    }
}

/// An error that performs the deed when it is dropped.
pub(crate) struct Reason(#[expect(dead_code, reason = "for its drop")] pub(crate) Fuse);

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reason")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reason")
    }
}

impl std::error::Error for Reason {}

/// An error that performs the deed when it is displayed.
struct Spoken(Arc<Hostile>);

impl fmt::Debug for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spoken")
    }
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strike();
        f.write_str("an error")
    }
}

impl std::error::Error for Spoken {}

/// A duration far longer than any operation.
pub(crate) const LONG: Duration = PATIENCE;
