//! Nothing is left of the spans of very many messages. This test has its own binary, since it counts all spans of the
//! program.

use postroom::prelude::*;
use postroom_spans::{faults, forget_all, install, open_spans};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::info_span;

const ROUNDS: usize = 10;
const MESSAGES: usize = 10_000;

#[process]
struct Node {
    next: Option<Address<Node>>,
}

/// A message that is too large for the frame of a step.
#[expect(dead_code, reason = "only moved")]
struct Large([u8; 4096], Arc<()>);

#[process]
impl Node {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn pass(&mut self, hops: usize, token: Arc<()>) {
        if let Some(next) = self.next.as_ref().filter(|_| hops > 0) {
            next.pass(hops - 1, token).send().unwrap();
        }
    }

    #[message]
    async fn ask(&mut self, token: Arc<()>) {
        let next = self.next.unwrap();
        next.answer(token).await.unwrap();
    }

    #[message]
    fn answer(&mut self, _token: Arc<()>) -> u32 {
        42
    }

    #[message(Large)]
    fn large(&mut self, large: Large) {
        drop(large);
    }

    #[message]
    fn later(&mut self, token: Arc<()>) {
        let next = self.next.as_ref().unwrap();
        next.pass(0, token).send_after(Duration::from_nanos(1)).unwrap();
    }
}

/// Waits until no span is open, since threads may still be leaving some.
fn nothing_is_open() {
    let begun = Instant::now();
    while open_spans() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} spans stay open", open_spans());
        std::thread::yield_now();
    }
    assert_eq!(faults(), Vec::<String>::new());
}

/// Catches: an origin that is not dropped with its message, whether the message is handled, unhandled, dropped at a
/// bound, or left in the mailbox of a process that ends.
#[test]
fn nothing_is_left_of_a_hundred_thousand_messages() {
    install();
    let token = Arc::new(());
    for _ in 0..ROUNDS {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        // The mailbox is unbounded, since this thread may send faster than the processes handle messages.
        let last = runtime.spawn(Node { next: None }).mailbox(Bound::Unbounded).serve().unwrap();
        let first = runtime.spawn(Node { next: Some(last) }).mailbox(Bound::Unbounded).label("first").serve().unwrap();
        let bounded = Bound::Hard(4, Overflow::DropOldest);
        let full = runtime.spawn(Node { next: None }).mailbox(bounded).serve().unwrap();
        for number in 0..MESSAGES / 4 {
            info_span!("request").in_scope(|| {
                first.pass(1, token.clone()).send().unwrap();
                full.pass(0, token.clone()).send().unwrap();
                match number % 5 {
                    0 => first.ask(token.clone()).send().unwrap(),
                    1 => first.later(token.clone()).send().unwrap(),
                    2 => assert_eq!(last.answer(token.clone()).wait(), Ok(42)),
                    3 => last.large(Large([0; 4096], token.clone())).send().unwrap(),
                    // No method takes this message.
                    _ => Recipient::<Arc<()>>::of(last.pid()).call(token.clone()).send().unwrap(),
                }
            });
        }
        runtime.until_idle().unwrap();
        // Some of the following messages are left in the mailbox of a process that ends.
        let end = first.pid().join();
        for number in 0..MESSAGES / 4 {
            let _ended = info_span!("request").in_scope(|| first.pass(0, token.clone()).send());
            if number == MESSAGES / 8 {
                first.pid().kill();
            }
        }
        end.wait();
        drop(runtime);
        nothing_is_open();
        assert_eq!(Arc::strong_count(&token), 1);
        forget_all();
    }
}
