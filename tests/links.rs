//! Links: what a failure does to those that are linked to the one that failed.

use postroom::prelude::*;
use postroom::{Exit, TopologyError};
use std::sync::mpsc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// Fails, panics and binds itself as it is told.
#[process]
#[derive(Default)]
struct Node {
    told: Option<mpsc::Sender<String>>,
}

#[process]
impl Node {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn link(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.link()
    }

    #[message]
    fn unlink(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.unlink()
    }

    #[message]
    fn watch(&mut self, other: Pid) -> Result<(), TopologyError> {
        other.monitor().map(drop)
    }

    #[message]
    fn trap(&mut self, ctx: &mut Context<Self>, traps: bool) {
        ctx.trap_exits(traps);
    }

    #[message]
    fn fail(&mut self) {
        panic!("as it was told");
    }

    #[message]
    fn ping(&mut self) {}

    #[message]
    async fn busy(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(Duration::from_secs(3_600)).await;
    }

    #[message]
    fn say(&mut self, what: String) {
        if let Some(told) = &self.told {
            let _ = told.send(what);
        }
    }

    #[message]
    fn last_words(&mut self, to: Address<Node>) {
        let _ = to.say("last words".to_string()).send();
        panic!("done");
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.say(format!("down {}", down.pid));
    }
}

fn is_linked(reason: &ExitReason, to: Pid) -> bool {
    matches!(reason, ExitReason::Linked { pid, .. } if *pid == to)
}

#[test]
fn a_chain_of_links_falls_and_each_names_the_first_that_failed() {
    let runtime = Runtime::new().unwrap();
    let nodes: Vec<_> = (0..100).map(|_| runtime.spawn(Node::default()).serve().unwrap()).collect();
    for pair in nodes.windows(2) {
        pair[1].link(pair[0].pid()).wait().unwrap();
    }
    let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
    nodes[0].fail().send().unwrap();
    for (place, end) in ends.into_iter().enumerate() {
        let reason = end.wait_timeout(LONG).unwrap();
        assert_eq!(is_linked(&reason, nodes[0].pid()), place > 0, "{place}: {reason}");
    }
}

#[test]
fn a_ring_falls_once_each_and_one_busy_in_an_async_method_does_not_wait_for_it() {
    let runtime = Runtime::new().unwrap();
    let nodes: Vec<_> = (0..3).map(|_| runtime.spawn(Node::default()).serve().unwrap()).collect();
    for place in 0..3 {
        nodes[place].link(nodes[(place + 1) % 3].pid()).wait().unwrap();
    }
    nodes[1].busy().send().unwrap();
    let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
    nodes[0].fail().send().unwrap();
    for end in ends {
        assert!(end.wait_timeout(LONG).is_some());
    }
    assert_eq!((runtime.statistics().spawned, runtime.statistics().closed), (3, 3));
}

#[test]
fn a_normal_end_leaves_partners_alone_and_nothing_of_the_link() {
    let runtime = Runtime::new().unwrap();
    let (one, other) =
        (runtime.spawn(Node::default()).serve().unwrap(), runtime.spawn(Node::default()).serve().unwrap());
    one.link(other.pid()).wait().unwrap();
    assert_eq!(one.pid().bindings().wait().unwrap().links, [other.pid()]);
    assert_eq!(other.pid().bindings().wait().unwrap().links, [one.pid()]);
    let end = other.pid().join();
    other.pid().stop();
    assert_eq!(end.wait_timeout(LONG), Some(ExitReason::Normal));
    one.ping().wait().unwrap();
    assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);
}

#[test]
fn the_last_message_comes_before_the_notice_and_a_down_comes_for_each_monitor() {
    let runtime = Runtime::new().unwrap();
    let (told, heard) = mpsc::channel();
    let watcher = runtime.spawn(Node { told: Some(told) }).serve().unwrap();
    let dying = runtime.spawn(Node::default()).serve().unwrap();
    watcher.watch(dying.pid()).wait().unwrap();
    watcher.watch(dying.pid()).wait().unwrap();
    dying.last_words(watcher).send().unwrap();
    let heard: Vec<_> = (0..3).map(|_| heard.recv_timeout(LONG).unwrap()).collect();
    let down = format!("down {}", dying.pid());
    assert_eq!(heard, ["last words".to_string(), down.clone(), down]);
}

#[test]
fn a_monitor_of_what_is_gone_answers_at_once_and_a_link_to_it_fails() {
    let runtime = Runtime::new().unwrap();
    let (told, heard) = mpsc::channel();
    let watcher = runtime.spawn(Node { told: Some(told) }).serve().unwrap();
    let gone = runtime.spawn(Node::default()).serve().unwrap().pid();
    gone.stop();
    gone.join().wait();
    watcher.watch(gone).wait().unwrap();
    assert_eq!(heard.recv_timeout(LONG).unwrap(), format!("down {gone}"));
    let end = watcher.pid().join();
    watcher.link(gone).send().unwrap();
    assert!(is_linked(&end.wait_timeout(LONG).unwrap(), gone));
}

#[test]
fn who_traps_exits_hears_of_them() {
    let (told, heard) = mpsc::channel();

    #[process]
    struct Trapper(mpsc::Sender<Exit>);

    #[process]
    impl Trapper {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn spawn(&mut self, ctx: &mut Context<Self>) -> Pid {
            let _ = ctx;
            Host::current().unwrap().spawn(Node::default()).linked().monitored().serve().unwrap().pid()
        }
        #[signal]
        fn exit(&mut self, exit: Exit) {
            let _ = self.0.send(exit);
        }
    }
    let runtime = Runtime::new().unwrap();
    let trapper = runtime.spawn(Trapper(told)).serve().unwrap();
    let node = trapper.spawn().wait().unwrap();
    assert_eq!(node.bindings().wait().unwrap().monitored_by, [trapper.pid()]);
    node.kill();
    let exit = heard.recv_timeout(LONG).unwrap();
    assert_eq!((exit.pid, exit.reason), (node, ExitReason::Killed));
    assert!(trapper.pid().is_alive());
}
