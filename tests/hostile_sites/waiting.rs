//! Wakers.

use super::Case;
use super::deed::Hostile;
use super::values::LONG;
use postroom::prelude::*;
use postroom::{Mailbox, Replies};
use postroom_tests::bomb::ended;
use postroom_tests::{Latch, eventually, idle_for_ever};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{self, Poll, Wake, Waker};

pub(crate) const CASES: &[Case] = &[
    ("the waker of one that waits for an end", "Waker", |hostile| {
        let host = hostile.plain();
        let Ok(pid) = host.spawn_process(idle_for_ever()).start() else { return };
        let (waker, mut end, also) = (alarm(hostile), pin!(pid.join()), pid.join());
        assert!(end.as_mut().poll(&mut task::Context::from_waker(&waker)).is_pending());
        pid.kill();
        assert_eq!(ended(pid, also), ExitReason::Killed);
        eventually(|| hostile.has_struck());
    }),
    ("the waker of a mailbox", "MailboxWaker", |hostile| {
        let host = hostile.plain();
        let mut mailbox = Mailbox::new().expect("there are slots");
        let (to, waker) = (mailbox.pid(), alarm(hostile));
        {
            let mut received = pin!(mailbox.received());
            assert!(received.as_mut().poll(&mut task::Context::from_waker(&waker)).is_pending());
            host.send(to, 7_u8).expect("it is there");
        }
        eventually(|| hostile.has_struck());
        assert_eq!(mailbox.receive_timeout(LONG).and_then(|package| package.take::<u8>().ok()), Some(7));
    }),
    ("the waker of a stream of answers", "StreamWaker", |hostile| {
        let host = hostile.plain();
        let Ok(source) = host.spawn(Source { replies: None }).serve() else { return };
        let Ok(stream) = source.open().open() else { return };
        let (waker, mut stream) = (alarm(hostile), stream);
        let mut next = Box::pin(stream.next());
        // The future is polled before the next message makes the process send the reply.
        assert!(next.as_mut().poll(&mut task::Context::from_waker(&waker)).is_pending());
        let _sent = source.reply().send();
        eventually(|| hostile.has_struck());
        drop(next);
        if !hostile.shuts_down() {
            assert!(source.pid().is_alive());
        }
    }),
    ("the waker of one that waits for a thread to block on", "BlockedWaker", |hostile| {
        let host = hostile.run(|builder| builder.blocking_threads(1));
        let (inside, go, waits) = (Latch::new(), Latch::new(), Latch::new());
        let blocker = Blocks { hostile: hostile.clone(), inside: inside.clone(), go: go.clone(), waits: waits.clone() };
        let other = Blocks { hostile: hostile.clone(), inside: inside.clone(), go: go.clone(), waits: waits.clone() };
        let Ok(blocker) = host.spawn(blocker).serve() else { return };
        let Ok(other) = host.spawn(other).serve() else { return };
        let _sent = blocker.block().send();
        inside.wait();
        let _sent = other.wait_in_line().send();
        waits.wait();
        go.open();
        eventually(|| hostile.has_struck());
        other.pid().kill();
    }),
];

/// A waker that performs the deed when it is woken.
struct Alarm(Arc<Hostile>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.strike();
    }
}

fn alarm(hostile: &Arc<Hostile>) -> Waker {
    Waker::from(Arc::new(Alarm(hostile.clone())))
}

#[process]
struct Source {
    replies: Option<Replies<u8>>,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn open(&mut self, replies: Replies<u8>) {
        self.replies = Some(replies);
    }

    #[message]
    fn reply(&mut self) {
        if let Some(replies) = &self.replies {
            let _wanted = replies.send(7);
        }
    }
}

#[process]
struct Blocks {
    hostile: Arc<Hostile>,
    inside: Latch,
    go: Latch,
    waits: Latch,
}

#[process]
impl Blocks {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn block(&mut self, ctx: &mut Context<Self>) {
        ctx.blocking(|| {
            self.inside.open();
            self.go.wait();
        })
        .await;
    }

    /// Waits in the blocking queue with a separate waker until the process is killed.
    #[message]
    async fn wait_in_line(&mut self, ctx: &mut Context<Self>) {
        let waker = alarm(&self.hostile);
        let mut blocking = pin!(ctx.blocking(|| ()));
        std::future::poll_fn(|_| {
            let polled = blocking.as_mut().poll(&mut task::Context::from_waker(&waker));
            if polled.is_pending() {
                self.waits.open();
            }
            Poll::<()>::Pending
        })
        .await;
    }
}
