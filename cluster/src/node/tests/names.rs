//! Names of a cluster pass from one holder to the next.

use super::*;
use crate::store;

/// A registration that was requested while the node was paused beyond its lease is not performed when the node
/// continues: the store may still have that lease.
#[test]
fn a_node_without_its_lease_registers_nothing() {
    let (nodes, [one, two, _three]) = three();
    let [account, other] = [start(&one, "eu-2", 1), start(&two, "eu-1", 2)];
    let (sender, changes) = std::sync::mpsc::channel();
    let on_change = Box::new(move |change| drop(sender.send(change)));
    let _watch = nodes.broker.connect().watch(store::Bucket::Names, None, on_change).unwrap();
    let paused = nodes.lock().machines[1].driver.take();
    let registered = two.cluster.register("acct-7", account);
    let timing = crate::lease::Timing::default();
    nodes.pass(timing.fence + (timing.ttl - timing.fence) / 2);
    nodes.lock().machines[1].driver = paused;
    assert_eq!(registered.wait(), Err(RegisterError::NotAMember));
    one.cluster.register("acct-8", other).wait().unwrap();
    loop {
        let change = changes.recv_timeout(Duration::from_secs(60)).expect("a change");
        if let store::Change::Put(entry) = change {
            assert_eq!(entry.key, crate::names::key("acct-8"));
            break;
        }
    }
}

/// Catches: a request that owns its engine, which owns the request until it is answered; a delivery that leaves peers
/// in its queue, which is a part of them.
#[test]
fn nodes_that_end_amid_everything_leave_no_engine_behind() {
    let (nodes, all) = three();
    let account = start(&all[1], "eu-1", 1);
    let clients = all.each_ref().map(|node| Arc::downgrade(&node.client));
    let mut world = nodes.lock();
    // From here on, no one performs the requests to the store.
    world.broker = Broker::new();
    drop(all[0].cluster.register("acct-7", account));
    world.machines.iter_mut().for_each(|machine| _ = machine.driver.as_mut().unwrap().run());
    world.machines.clear();
    drop(world);
    drop((nodes, all));
    assert_eq!(clients.map(|client| client.strong_count()), [0; 3]);
}

#[test]
fn a_name_has_one_holder_and_passes_on_when_the_lease_is_over() {
    let (_nodes, [one, two, _three]) = three();
    let [first, second] = [start(&two, "eu-1", 1), start(&one, "eu-2", 2)];
    let token = two.cluster.register("acct-7", second).wait().unwrap();
    let taken = one.cluster.register("acct-7", first).wait();
    assert_eq!(taken, Err(RegisterError::Taken { name: "acct-7".into(), holder: second.pid() }));
    let elsewhere = one.cluster.register("acct-8", second).wait();
    assert_eq!(elsewhere, Err(RegisterError::Elsewhere { pid: second.pid() }));
    until("the name is known", || one.cluster.holder("acct-7") == Some((second.pid(), token)));
    let named = one.cluster.named::<Account>("acct-7").unwrap();
    assert_eq!(on(&one, move || named.deposit(1).wait()), Ok(3));

    // The holder ends before another process can have the name.
    two.client.disconnect();
    until("the name is free", || one.cluster.holder("acct-7").is_none());
    assert!(!second.pid().is_alive(), "the holder has ended");
    let next = one.cluster.register("acct-7", first).wait().unwrap();
    assert!(next > token);
    assert!(!one.cluster.release("acct-7", second).wait());
    assert!(one.cluster.release("acct-7", first).wait());
    until("it is free", || one.cluster.holder("acct-7").is_none());
}

#[test]
fn a_name_is_free_when_its_process_has_ended_or_its_node_has_left() {
    let (_nodes, [one, two, _three]) = three();
    let [first, second] = [start(&one, "eu-2", 1), start(&one, "eu-2", 2)];
    two.cluster.register("a", first).wait().unwrap();
    two.cluster.register("b", second).wait().unwrap();
    until("both are known", || one.cluster.holder("a").is_some() && one.cluster.holder("b").is_some());
    assert!(first.pid().stop());
    until("the first is free", || one.cluster.holder("a").is_none());
    let ended = two.cluster.register("a", first).wait();
    assert_eq!(ended, Err(RegisterError::Ended { pid: first.pid() }));
    two.cluster.leave().wait();
    until("the second is free", || one.cluster.holder("b").is_none());
    until("it is no member", || one.cluster.members().len() == 1);
    assert_eq!(two.cluster.register("c", second).wait(), Err(RegisterError::NotAMember));
}

/// A process that does not end when it is cancelled.
#[process]
#[derive(Default)]
struct Stubborn;

#[process]
impl Stubborn {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn cancel(&mut self, _cancel: Cancel) {}
}

#[test]
fn a_node_that_leaves_ends_the_holders_of_its_names_before_others_get_them() {
    let (_nodes, [one, two, _three]) = three();
    let stubborn = two.runtime.spawn(Stubborn).serve().unwrap();
    two.cluster.register("acct-7", stubborn).wait().unwrap();
    until("the name is known", || one.cluster.holder("acct-7").is_some());
    let next = start(&two, "eu-1", 0);
    let left = two.cluster.leave();
    until("the name is free", || match one.cluster.register("acct-7", next).wait() {
        Ok(_) => true,
        Err(RegisterError::Taken { .. } | RegisterError::HolderLost { .. }) => false,
        Err(error) => panic!("{error}"),
    });
    assert!(!stubborn.pid().is_alive(), "its first holder has ended");
    left.wait();
}

/// No other node exists that could free its names.
#[test]
fn a_node_alone_that_was_cut_off_gets_its_names_again() {
    let nodes = Nodes::new();
    let one = nodes.join("eu-1");
    until("it is a member", || one.cluster.is_member());
    let account = one.runtime.spawn(Account::default()).serve(1).unwrap();
    let token = one.cluster.register("acct-7", account).wait().unwrap();
    one.client.disconnect();
    until("it has fenced itself", || !one.cluster.is_member());
    until("its holder has ended", || !account.pid().is_alive());
    one.client.reconnect();
    until("it is a member again", || one.cluster.is_member());
    let account = one.runtime.spawn(Account::default()).serve(1).unwrap();
    until("the name is free", || match one.cluster.register("acct-7", account).wait() {
        Ok(next) => next > token,
        Err(RegisterError::Taken { .. } | RegisterError::HolderLost { .. } | RegisterError::NotAMember) => false,
        Err(error) => panic!("{error}"),
    });
}

/// An address that follows a name leads to a process, and that process holds the second name. Its node can leave
/// nevertheless.
#[test]
fn a_name_is_held_by_a_process_and_not_by_an_address() {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join(name));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
        until("it is a member", || node.cluster.is_member());
    }
    let account = one.runtime.spawn(Account::default()).serve(0).unwrap();
    one.cluster.register("a", account).wait().unwrap();
    let named = one.cluster.named::<Account>("a").unwrap();
    one.cluster.register("b", named).wait().unwrap();
    until("it is known", || two.cluster.holder("b").is_some());
    assert_eq!(two.cluster.holder("b").unwrap().0, account.pid());
    one.cluster.leave().wait();
    until("both names are free", || ["a", "b"].iter().all(|name| two.cluster.holder(name).is_none()));
}
