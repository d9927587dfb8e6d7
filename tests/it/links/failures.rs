//! Links: the effect of a process's failure on its partners.

use postroom::prelude::*;
use postroom_tests::face::{Gate, with_runtime};
use postroom_tests::partner::{LONG, Partner, Report, fell_with};

mod agreement;
mod trapping;

/// Spawns `count` partners.
fn partners(runtime: &Runtime, count: usize) -> Vec<Address<Partner>> {
    (0..count).map(|_| runtime.spawn(Partner::default()).serve().unwrap()).collect()
}

/// Spawns two linked partners. When this returns, both know of the link.
fn linked_pair(runtime: &Runtime) -> (Address<Partner>, Address<Partner>) {
    let pair = partners(runtime, 2);
    pair[0].link(pair[1].pid()).wait().unwrap();
    assert_eq!(pair[1].pid().bindings().wait().unwrap().links, [pair[0].pid()]);
    (pair[0], pair[1])
}

#[test]
fn a_chain_of_links_fails_and_each_process_names_the_first_failure() {
    with_runtime(|runtime| {
        let nodes = partners(runtime, 100);
        for pair in nodes.windows(2) {
            pair[1].link(pair[0].pid()).wait().unwrap();
        }
        let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
        nodes[0].fail().send().unwrap();
        for (place, end) in ends.into_iter().enumerate() {
            let reason = end.wait_timeout(LONG).unwrap();
            assert_eq!(fell_with(&reason, nodes[0].pid()), place > 0, "{place}: {reason}");
        }
    });
}

/// Each exit notifies the next process through its mailbox. Nested exits would overflow the stack.
#[test]
fn a_chain_of_ten_thousand_fails() {
    with_runtime(|runtime| {
        let nodes = partners(runtime, 10_000);
        for pair in nodes.windows(2) {
            pair[1].link(pair[0].pid()).send().unwrap();
        }
        nodes.iter().for_each(|node| node.ping().wait().unwrap());
        let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
        nodes[5_000].fail().send().unwrap();
        for (place, end) in ends.into_iter().enumerate() {
            let reason = end.wait_timeout(LONG).unwrap();
            assert_eq!(fell_with(&reason, nodes[5_000].pid()), place != 5_000, "{place}: {reason}");
        }
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

#[test]
fn a_hub_of_ten_thousand_links_takes_them_all_with_it() {
    with_runtime(|runtime| {
        let nodes = partners(runtime, 10_000);
        let hub = runtime.spawn(Partner::default()).serve().unwrap();
        hub.link_all(nodes.iter().map(|node| node.pid()).collect()).wait().unwrap();
        let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
        hub.pid().kill();
        for end in ends {
            assert!(fell_with(&end.wait_timeout(LONG).unwrap(), hub.pid()));
        }
    });
}

#[test]
fn in_a_cycle_of_links_each_fails_once_even_in_an_async_method() {
    with_runtime(|runtime| {
        let nodes = partners(runtime, 3);
        for place in 0..3 {
            nodes[place].link(nodes[(place + 1) % 3].pid()).wait().unwrap();
        }
        let gate = Gate::new();
        nodes[1].pass(gate.clone()).send().unwrap();
        gate.wait_for_arrival();
        let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
        nodes[0].fail().send().unwrap();
        for end in ends {
            assert!(end.wait_timeout(LONG).is_some());
        }
        assert_eq!((runtime.statistics().processes.spawned, runtime.statistics().processes.ended), (3, 3));
    });
}

#[test]
fn a_normal_end_leaves_partners_alone_and_nothing_of_the_link() {
    with_runtime(|runtime| {
        let (one, other) = linked_pair(runtime);
        assert_eq!(one.pid().bindings().wait().unwrap().links, [other.pid()]);
        let end = other.pid().join();
        other.pid().stop();
        assert_eq!(end.wait_timeout(LONG), Some(ExitReason::Normal));
        one.ping().wait().unwrap();
        assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn whatever_else_ends_a_process_ends_its_partner_and_is_named_by_it() {
    with_runtime(|runtime| {
        let ends: [fn(Address<Partner>); 4] = [
            |partner| partner.fail().send().unwrap(),
            |partner| assert!(partner.pid().kill()),
            |partner| assert!(partner.pid().cancel("enough")),
            |partner| assert!(partner.pid().cancel(ExitReason::Shutdown)),
        ];
        for end in ends {
            let (one, other) = linked_pair(runtime);
            let (first, second) = (one.pid().join(), other.pid().join());
            end(one);
            let reason = first.wait_timeout(LONG).unwrap();
            let linked = ExitReason::Linked { pid: one.pid(), reason: reason.into() };
            assert_eq!(second.wait_timeout(LONG), Some(linked));
        }
    });
}

#[test]
fn a_link_to_an_exited_process_fails_the_linker() {
    with_runtime(|runtime| {
        let nodes = partners(runtime, 2);
        let (one, gone) = (nodes[0], nodes[1].pid());
        gone.stop();
        gone.join().wait();
        let end = one.pid().join();
        one.link(gone).send().unwrap();
        let linked = ExitReason::Linked { pid: gone, reason: ExitReason::NoProcess.into() };
        assert_eq!(end.wait_timeout(LONG), Some(linked));
    });
}

#[test]
fn linking_again_is_one_link_and_one_unlinking_ends_it_for_both() {
    with_runtime(|runtime| {
        let (one, other) = linked_pair(runtime);
        one.link(other.pid()).wait().unwrap();
        other.link(one.pid()).wait().unwrap();
        one.unlink(other.pid()).wait().unwrap();
        assert_eq!(other.pid().bindings().wait().unwrap().count(), 0);
        assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);
        let end = other.pid().join();
        other.pid().kill();
        end.wait_timeout(LONG).unwrap();
        one.ping().wait().unwrap();
    });
}

#[test]
fn unlinking_an_unlinked_process_does_nothing() {
    with_runtime(|runtime| {
        let nodes = partners(runtime, 2);
        nodes[0].unlink(nodes[1].pid()).wait().unwrap();
        nodes[1].pid().kill();
        nodes[0].ping().wait().unwrap();
        assert_eq!(nodes[0].pid().bindings().wait().unwrap().count(), 0);
    });
}

/// When the process unlinks, the failure notice has arrived, but has not been handled.
#[test]
fn unlinking_protects_against_a_failure_in_flight() {
    with_runtime(|runtime| {
        let (one, reports) = Partner::reporting();
        let one = runtime.spawn(one).serve().unwrap();
        let other = partners(runtime, 1)[0];
        one.link(other.pid()).wait().unwrap();
        let gate = Gate::new();
        let unlinks = one.hold_and_unlink(gate.clone(), other.pid());
        unlinks.send().unwrap();
        assert_eq!(reports.next(), Report::Word("holds"));
        let end = other.pid().join();
        other.pid().kill();
        end.wait_timeout(LONG).unwrap();
        gate.open();
        one.ping().wait().unwrap();
        assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_process_with_a_long_backlog_fails_before_it_handles_it() {
    with_runtime(|runtime| {
        let (one, reports) = Partner::reporting();
        let one = runtime.spawn(one).mailbox(postroom::Bound::Unbounded).serve().unwrap();
        let other = partners(runtime, 1)[0];
        one.link(other.pid()).wait().unwrap();
        let gate = Gate::new();
        one.hold(gate.clone()).send().unwrap();
        assert_eq!(reports.next(), Report::Word("holds"));
        for _ in 0..5_000 {
            one.say("still here").send().unwrap();
        }
        let (end, others) = (one.pid().join(), other.pid().join());
        other.pid().kill();
        others.wait_timeout(LONG).unwrap();
        gate.open();
        assert!(fell_with(&end.wait_timeout(LONG).unwrap(), other.pid()));
        assert_eq!(reports.rest(), [], "it had the choice between its backlog and its end");
    });
}

#[test]
fn partners_on_another_host_and_of_another_runtime_fall_too() {
    with_runtime(|runtime| {
        let elsewhere = postroom_tests::face::builder().name("elsewhere").build().unwrap();
        let (one, other) = (partners(runtime, 1)[0], partners(&elsewhere, 1)[0]);
        one.link(other.pid()).wait().unwrap();
        assert_eq!(other.pid().bindings().wait().unwrap().links, [one.pid()]);
        let end = other.pid().join();
        one.fail().send().unwrap();
        assert!(fell_with(&end.wait_timeout(LONG).unwrap(), one.pid()));
    });
}

/// This node knows nothing about the processes of an unknown node.
#[test]
fn a_link_to_a_process_of_an_unknown_node_fails_as_if_that_were_lost() {
    with_runtime(|runtime| {
        let one = partners(runtime, 1)[0];
        let far: Pid = "<54321.1.7.3>".parse().unwrap();
        let end = one.pid().join();
        one.link(far).send().unwrap();
        let linked = ExitReason::Linked { pid: far, reason: ExitReason::NodeLost.into() };
        assert_eq!(end.wait_timeout(LONG), Some(linked));
    });
}
