//! A process that does not keep up stops no other process.

use super::*;

/// A full mailbox: messages wait in order, their senders are refused, and other processes on the node are served.
#[test]
fn one_slow_process_stops_no_other() {
    one_slow_process(Overflow::Refuse);
}

/// Senders on the node of the process would wait, but the thread that delivers for all processes must not.
#[test]
fn one_slow_process_at_which_senders_wait_stops_no_other() {
    one_slow_process(Overflow::Wait);
}

fn one_slow_process(overflow: Overflow) {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join(name));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let slow = two.runtime.spawn(Slow::default()).mailbox(Bound::Hard(4, overflow)).serve().unwrap();
    let account = start(&one, "eu-2", 0);
    let gate = Arc::new(AtomicBool::new(false));
    slow.stand(Arc::clone(&gate)).send().unwrap();
    on(&one, || {
        // The sender is notified only after a thousand messages have found the mailbox full.
        let mut sent = 0;
        until("its sender is refused", || {
            (0..100).any(|_| match slow.take(sent).send() {
                Ok(()) => {
                    sent += 1;
                    false
                }
                Err(refused) => {
                    assert_eq!(refused.reason, SendFailure::Full(slow.pid()));
                    true
                }
            })
        });
        assert_eq!(account.deposit(1).wait(), Ok(1), "another is served");
        gate.store(true, Ordering::Relaxed);
        until("it takes messages again", || slow.take(sent).send().is_ok());
        until("all are taken", || slow.taken().wait() == Ok(sent + 1));
    });
    assert_eq!(losses(&two), crate::Statistics::default());
}
