//! Publishing to subscribers: by the type of the event, and by topic.

use postroom::Mailbox;
use postroom::error::{BadName, GroupError};
use postroom::prelude::*;
use postroom_tests::face::{builder, watched, with_runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[derive(Clone, Debug, PartialEq)]
struct Placed(u32);

#[derive(Clone, Debug, PartialEq)]
struct Paid(u32);

#[process]
#[derive(Default)]
struct Clerk {
    placed: Vec<u32>,
    paid: Vec<u32>,
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    /// Subscribes in its entry, before any other process knows its PID.
    #[entry]
    fn attentive(&mut self, ctx: &mut Context<Self>) {
        assert!(ctx.subscribe::<Placed>());
        assert!(!ctx.subscribe::<Placed>());
    }

    #[message(Placed)]
    fn placed(&mut self, placed: Placed) {
        self.placed.push(placed.0);
    }

    #[message(Paid)]
    fn paid(&mut self, ctx: &mut Context<Self>, paid: Paid) {
        self.paid.push(paid.0);
        // A subscriber that publishes gets its own event, later.
        assert_eq!(ctx.publish(Placed(paid.0 + 1)), 1);
    }

    #[message]
    fn forget(&mut self, ctx: &mut Context<Self>) -> bool {
        ctx.unsubscribe::<Placed>()
    }

    #[message]
    fn listen(&mut self, ctx: &mut Context<Self>, topic: String) -> Result<bool, GroupError> {
        ctx.topic::<Paid>(topic).subscribe(ctx.address())
    }

    #[message]
    fn seen(&mut self) -> (Vec<u32>, Vec<u32>) {
        (self.placed.clone(), self.paid.clone())
    }
}

fn clerk(runtime: &Runtime) -> Address<Clerk> {
    runtime.spawn(Clerk::default()).serve().unwrap()
}

fn end(pid: Pid) {
    let ended = pid.join();
    pid.kill();
    ended.wait();
}

#[test]
fn an_event_reaches_each_process_that_subscribed_to_its_type_once() {
    with_runtime(|runtime| {
        let (one, other, third) = (clerk(runtime), clerk(runtime), clerk(runtime));
        assert_eq!(runtime.publish(Placed(0)), 0);
        assert_eq!(runtime.subscribe::<Placed>(one), Ok(true));
        assert_eq!(runtime.subscribe::<Placed>(one), Ok(false));
        assert_eq!(runtime.subscribe::<Placed>(other.narrow::<Recipient<Placed>>()), Ok(true));
        assert_eq!(runtime.subscribe::<Paid>(third.pid()), Ok(true));
        assert_eq!(runtime.publish(Placed(1)), 2);
        let seen = |of: Address<Clerk>| of.seen().wait().unwrap();
        assert_eq!((seen(one).0, seen(other).0, seen(third)), (vec![1], vec![1], (vec![], vec![])));
        // The process has subscribed twice, but it has to unsubscribe only once.
        assert!(runtime.unsubscribe::<Placed>(one) && !runtime.unsubscribe::<Placed>(one));
        assert_eq!((runtime.publish(Placed(2)), seen(one).0, seen(other).0), (1, vec![1], vec![1, 2]));
        end(other.pid());
        assert_eq!((runtime.publish(Placed(3)), runtime.statistics().directory.subscribers), (0, 1));
    });
}

#[test]
fn a_process_subscribes_from_inside_from_its_entry_on() {
    with_runtime(|runtime| {
        let one = runtime.spawn(Clerk::default()).attentive().unwrap();
        assert_eq!(runtime.publish(Placed(1)), 1);
        one.paid(Paid(1)).send().unwrap();
        // In the mailbox, this call is behind `Paid`. The event that `paid` publishes is ahead of the next call.
        assert_eq!(one.seen().wait().map(|(_, paid)| paid), Ok(vec![1]));
        assert_eq!(one.seen().wait(), Ok((vec![1, 2], vec![1])));
        assert_eq!((one.forget().wait(), one.forget().wait()), (Ok(true), Ok(false)));
        assert_eq!((runtime.publish(Placed(3)), runtime.statistics().directory.topics), (0, 0));
    });
}

#[test]
fn topics_are_apart_by_name_by_type_and_by_host() {
    with_runtime(|runtime| {
        let other = builder().build().unwrap();
        let (mut mailbox, one) = (Mailbox::new().unwrap(), clerk(runtime));
        let orders = runtime.topic::<Placed>("orders/new");
        assert_eq!((orders.subscribe(mailbox.pid()), orders.name()), (Ok(true), Some("orders/new")));
        assert_eq!(one.listen("orders/new".to_string()).wait(), Ok(true));
        assert_eq!(runtime.publish(Placed(1)), 0);
        assert_eq!(runtime.topic::<Placed>("orders/old").publish(Placed(2)), 0);
        assert_eq!(other.topic::<Placed>("orders/new").publish(Placed(3)), 0);
        assert_eq!(runtime.topic::<Paid>("orders/new").subscribers()[..], [one.pid()]);
        assert_eq!(runtime.topic::<Placed>("orders/new").publish(Placed(4)), 1);
        assert_eq!(mailbox.try_receive().unwrap().take::<Placed>().ok(), Some(Placed(4)));
        assert!(mailbox.try_receive().is_none());
        assert_eq!((runtime.statistics().directory.topics, runtime.statistics().directory.subscribers), (2, 2));
        assert!(orders.unsubscribe(mailbox.pid()));
        end(one.pid());
        let statistics = runtime.statistics();
        assert_eq!(
            (statistics.directory.topics, statistics.directory.subscribers, statistics.directory.memberships),
            (0, 0, 0)
        );
    });
}

#[test]
fn topics_without_a_name_that_can_be_one_and_ended_processes_are_refused() {
    with_runtime(|runtime| {
        let one = clerk(runtime);
        let topic = runtime.topic::<Placed>("");
        assert_eq!(topic.subscribe(one), Err(GroupError::BadName(BadName::Empty)));
        assert_eq!((topic.publish(Placed(1)), topic.unsubscribe(one), topic.subscribers().len()), (0, false, 0));
        end(one.pid());
        assert_eq!(runtime.subscribe::<Placed>(one), Err(GroupError::Gone(one.pid())));
        assert_eq!(runtime.statistics().directory.topics, 0);
    });
}

/// An event is cloned for every subscriber but the last. If a clone panics, the panic reaches the publisher.
#[test]
fn an_event_is_copied_for_each_subscriber_but_one() {
    struct Counted(Arc<AtomicUsize>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::SeqCst);
            Self(self.0.clone())
        }
    }
    with_runtime(|runtime| {
        let copies = Arc::new(AtomicUsize::new(0));
        let mailboxes: Vec<_> = (0..5).map(|_| Mailbox::new().unwrap()).collect();
        for mailbox in &mailboxes {
            runtime.subscribe::<Counted>(mailbox.pid()).unwrap();
        }
        assert_eq!(runtime.publish(Counted(copies.clone())), 5);
        assert_eq!(copies.load(Ordering::SeqCst), 4);
    });
}

/// Threads publish while processes subscribe and exit. A live process gets every event that was published after it
/// subscribed, and gets the events of each publisher in order. Each mailbox has room for all events.
#[test]
fn events_arrive_intact_and_in_order_while_others_subscribe_and_exit() {
    watched(|| {
        let runtime = Arc::new(builder().build().unwrap());
        let over = Arc::new(AtomicBool::new(false));
        let churn: Vec<_> = (0..2)
            .map(|_| {
                let (runtime, over) = (runtime.clone(), over.clone());
                thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let one = runtime.spawn(Clerk::default()).attentive().unwrap();
                        end(one.pid());
                    }
                })
            })
            .collect();
        let mut mailbox = Mailbox::new().unwrap();
        runtime.subscribe::<(usize, usize)>(mailbox.pid()).unwrap();
        let steady = clerk(&runtime);
        runtime.subscribe::<Placed>(steady).unwrap();
        let publishers: Vec<_> = (0..2_usize)
            .map(|publisher| {
                let runtime = runtime.clone();
                thread::spawn(move || {
                    for number in 0..400_usize {
                        assert!(runtime.publish(Placed(number as u32)) >= 1);
                        assert_eq!(runtime.publish((publisher, number)), 1);
                    }
                })
            })
            .collect();
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        over.store(true, Ordering::Relaxed);
        churn.into_iter().for_each(|churn| churn.join().unwrap());
        let mut next = [0; 2];
        while let Some(package) = mailbox.try_receive() {
            let (publisher, number) = package.take::<(usize, usize)>().unwrap();
            assert_eq!(number, next[publisher]);
            next[publisher] += 1;
        }
        assert_eq!(next, [400; 2]);
        assert_eq!(steady.seen().wait().map(|(placed, _)| placed.len()), Ok(800));
        end(steady.pid());
        drop(mailbox);
        let statistics = runtime.statistics();
        assert_eq!(
            (statistics.directory.topics, statistics.directory.subscribers, statistics.directory.memberships),
            (0, 0, 0)
        );
    });
}

/// Catches: a list of subscribers that is cached from one publication to the next although a process has subscribed, or
/// unsubscribed, in between. (Mutation: in `group_table.rs`, `join_once` or `leave` does not clear the group's list.)
#[test]
fn subscribing_or_leaving_between_two_publications_affects_the_second() {
    with_runtime(|runtime| {
        let topic = runtime.topic::<Placed>("in between");
        let clerks = [(); 3].map(|()| clerk(runtime));
        let publish = |number| topic.publish(Placed(number));
        assert!(topic.subscribe(clerks[0]).unwrap());
        assert_eq!(publish(1), 1);
        assert!(topic.subscribe(clerks[1]).unwrap());
        assert_eq!(publish(2), 2);
        assert!(topic.unsubscribe(clerks[0].pid()));
        assert!(topic.subscribe(clerks[2]).unwrap());
        assert_eq!(publish(3), 2);
        let placed = clerks.map(|clerk| clerk.seen().wait().unwrap().0);
        assert_eq!(placed, [vec![1, 2], vec![2, 3], vec![3]]);
    });
}
