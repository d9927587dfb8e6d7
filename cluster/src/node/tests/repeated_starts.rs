//! Starts with a key, and addresses that follow a name. The tests were seen to fail with each of these defects:
//! starts that bypass the table of keys, a key that does not choose the node, an address that stays with the first
//! holder.

use super::*;
use std::collections::BTreeSet;

type Begun = Result<Address<Account>, StartError>;

fn keyed(from: &Node, to: &str, key: &str) -> Begun {
    from.cluster.node(to).unwrap().start::<Account>("serve", payloads![100_i64]).key(key).wait()
}

fn anywhere(from: &Node, key: &str) -> Begun {
    from.cluster.any::<Account>().unwrap().start::<Account>("serve", payloads![100_i64]).key(key).wait()
}

#[test]
fn a_start_with_a_key_is_made_once_on_a_node() {
    let (_nodes, [one, two, three]) = three();
    let first = keyed(&one, "eu-2", "order-17").unwrap();
    assert_eq!(keyed(&one, "eu-2", "order-17"), Ok(first));
    assert_eq!(keyed(&three, "eu-2", "order-17"), Ok(first), "whichever node asks");
    assert_ne!(keyed(&one, "eu-2", "order-18").unwrap(), first);
    assert_ne!(keyed(&one, "eu-3", "order-17").unwrap(), first, "each node has keys of its own");
    let taken = one.cluster.node("eu-2").unwrap().start::<Slow>("serve", payloads![]).key("order-17").wait();
    assert_eq!(
        taken.map(|slow| slow.pid()),
        Err(StartError::KeyTaken { node: "eu-2".into(), process: "Account".into() })
    );
    let long = keyed(&one, "eu-2", &"x".repeat(1_025));
    assert_eq!(long, Err(StartError::KeyLength { bytes: 1_025 }));
    assert_eq!(keyed(&one, "eu-2", ""), Err(StartError::KeyLength { bytes: 0 }));
    // A refused start does not use up its key.
    let refused = one.cluster.node("eu-2").unwrap().start::<Account>("serve", payloads![]).key("order-19").wait();
    assert!(matches!(refused, Err(StartError::Inputs(_))));
    assert!(keyed(&one, "eu-2", "order-19").is_ok());
    assert_eq!(losses(&two), crate::Statistics::default());
}

/// Each of the three nodes asks, including the chosen one.
#[test]
fn a_key_chooses_the_same_node_wherever_it_is_asked_for() {
    let (_nodes, nodes) = three();
    let mut chosen = BTreeSet::new();
    for key in ["order-1", "order-2", "order-3", "order-4", "order-5", "order-6", "order-7", "order-8"] {
        let started = nodes.each_ref().map(|node| anywhere(node, key).unwrap().pid());
        assert_eq!(started, [started[0]; 3], "{key}");
        chosen.insert(started[0].node());
    }
    assert!(chosen.len() > 1, "{chosen:?}");
}

/// The session ends before the answer arrives.
#[test]
fn a_start_whose_answer_was_lost_is_repeated_with_its_key() {
    let (nodes, [one, two, _three]) = three();
    let started = || two.runtime.statistics().processes.spawned;
    let world = nodes.lock();
    let before = started();
    let node = one.cluster.node("eu-2").unwrap();
    let asked = std::thread::spawn(move || node.start::<Account>("serve", payloads![100_i64]).key("order-17").wait());
    drop(world);
    until("it was started", || {
        let is_started = started() > before;
        if is_started {
            two.client.disconnect();
        }
        is_started
    });
    // The answer may have arrived in time.
    until("it was answered, or has failed", || asked.is_finished());
    let first = asked.join().unwrap();
    until("it knows that it is cut off", || !two.cluster.is_member());
    two.client.reconnect();
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(2, Duration::from_secs(60)));
    }
    let again = keyed(&one, "eu-2", "order-17").unwrap();
    assert_eq!(keyed(&one, "eu-2", "order-17"), Ok(again));
    assert_eq!(started(), before + 1, "{first:?}, then {again:?}");
}

#[test]
fn an_address_follows_its_name_from_holder_to_holder() {
    let (_nodes, [one, two, three]) = three();
    let address = one.cluster.named::<Account>("acct-7").unwrap();
    let deposit = |amount| on(&one, move || address.deposit(amount).wait());
    let sent = on(&one, move || address.deposit(1).send()).unwrap_err();
    assert_eq!((sent.reason, deposit(1)), (SendFailure::UnknownName, Err(CallError::UnknownName)));

    let [first, second] = [start(&one, "eu-2", 100), start(&one, "eu-3", 200)];
    two.cluster.register("acct-7", first).wait().unwrap();
    until("the name is known", || one.cluster.holder("acct-7").is_some());
    assert_eq!(deposit(1), Ok(101));
    assert_eq!(on(&one, move || address.pid().resolve()), Some(first.pid()));
    assert!(on(&one, || first.pid().stop()));
    until("the name is free", || one.cluster.holder("acct-7").is_none());
    assert_eq!(deposit(1), Err(CallError::UnknownName));

    three.cluster.register("acct-7", second).wait().unwrap();
    until("the name is known", || one.cluster.holder("acct-7").is_some());
    assert_eq!(deposit(2), Ok(202), "the same address");
    assert_eq!(one.cluster.named::<Account>("acct-7"), Ok(address));
    let here = one.runtime.spawn(Account::default()).serve(300).unwrap();
    assert!(three.cluster.release("acct-7", second).wait());
    until("the name is free", || one.cluster.holder("acct-7").is_none());
    one.cluster.register("acct-7", here).wait().unwrap();
    until("the name is known", || one.cluster.holder("acct-7").is_some());
    assert_eq!(deposit(3), Ok(303), "on the node itself");

    // Used on another node, the address leads to the holder through the node that created the address.
    let relay = start(&one, "eu-2", 0);
    assert_eq!(on(&one, move || relay.deposit(1).wait()), Ok(1));
    assert_eq!(on(&two, move || address.deposit(1).wait()), Ok(304));
    let bytes = crate::names::MAX_NAME + 1;
    assert_eq!(one.cluster.named::<Account>(&"x".repeat(bytes)), Err(crate::NamedError::Length { bytes }));
}
