//! User code that has to run when a message is delivered: none of it runs on a thread of the cluster.

use super::*;
use postroom::__private::ThreadKind;
use postroom::Pool;
use postroom::inspect::DeadLetter;
use std::collections::BTreeSet;

type Kinds = Arc<Mutex<BTreeSet<String>>>;

fn note(kinds: &Kinds) {
    kinds.lock().unwrap().insert(format!("{:?}", ThreadKind::current()));
}

fn noted(kinds: &Kinds) -> Vec<String> {
    kinds.lock().unwrap().iter().cloned().collect()
}

/// A full mailbox with a dropping policy turns messages from another node into dead letters.
///
/// Mutation: in `Sink::dead_letter` of the scheduler, call the hook on this thread.
#[test]
fn a_dead_letter_of_another_nodes_message_is_reported_on_no_thread_of_the_cluster() {
    for overflow in [Overflow::DropOldest, Overflow::DropNewest] {
        let nodes = Nodes::new();
        let (kinds, numbers) = (Kinds::default(), Arc::<Mutex<Vec<u64>>>::default());
        let (notes, heard) = (Arc::clone(&kinds), Arc::clone(&numbers));
        let hook = move |letter: DeadLetter| {
            note(&notes);
            heard.lock().unwrap().extend(letter.message.take::<SlowTake>().map(|take| take.number));
        };
        let one = nodes.join("eu-1");
        let two = nodes.join_on(Runtime::builder().on_dead_letter(hook), "eu-2", |builder| builder);
        for node in [&one, &two] {
            assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
        }
        let slow = two.runtime.spawn(Slow::default()).mailbox(Bound::Hard(4, overflow)).serve().unwrap();
        let (account, gate) = (start(&one, "eu-2", 0), Arc::new(AtomicBool::new(false)));
        slow.stand(Arc::clone(&gate)).send().unwrap();
        until("it stands", || slow.pid().info().is_some_and(|info| info.mailbox == 0));
        on(&one, || {
            (0..200).for_each(|number| slow.take(number).send().unwrap());
            assert_eq!(account.deposit(1).wait(), Ok(1), "others are served");
        });
        until("nearly all are dead letters", || numbers.lock().unwrap().len() >= 195);
        // These are read before the process ends, because its worker then reports the messages that are still in its
        // mailbox.
        let (kinds, numbers) = (noted(&kinds), numbers.lock().unwrap().clone());
        slow.pid().kill();
        gate.store(true, Ordering::Relaxed);
        assert_eq!(kinds, ["Notifier"], "{overflow:?}");
        assert!(numbers.is_sorted(), "{overflow:?}: in their order: {numbers:?}");
    }
}

/// The members handle the messages in order, though more have arrived than the pool accepts.
///
/// Mutation: in `PoolRouter::take`, always call `take_now`.
#[test]
fn the_key_of_another_nodes_message_is_asked_for_on_no_thread_of_the_cluster() {
    const MESSAGES: u64 = 600;
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join(name));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let (kinds, gate) = (Kinds::default(), Arc::new(AtomicBool::new(false)));
    let notes = Arc::clone(&kinds);
    let key = move |_: &SlowTake| note(&notes);
    let pool = Pool::by_key(key).key(|_: &SlowTaken| ()).key(|_: &SlowStand| ()).queue(4);
    let pool = pool.spawn(&two.runtime, |spawn, ()| spawn.of(Slow::default()).serve()).unwrap();
    let slow = pool.address();
    slow.stand(Arc::clone(&gate)).send().unwrap();
    let account = start(&one, "eu-2", 0);
    on(&one, || {
        // These are more than fit into the queue and the mailbox of the pool: the rest waits in the delivery.
        (0..MESSAGES).for_each(|number| slow.take(number).send().unwrap());
        assert_eq!(account.deposit(1).wait(), Ok(1), "others are served");
        gate.store(true, Ordering::Relaxed);
        until("all are taken", || slow.taken().wait() == Ok(MESSAGES));
    });
    assert_eq!(noted(&kinds), ["Notifier"]);
    assert_eq!(losses(&two), crate::Statistics::default());
}
