//! Connections that break, recover, or cannot be established.

use super::proxy::Proxy;
use super::server::Server;
use super::{
    block, channel, connect, create, get, next, reaches, subscribe, update, wait_until, wait_until_down, watch,
};
use crate::lane::PING_INTERVAL;
use crate::subscriptions::PROBE_TIMEOUT;
use crate::{MAX_QUEUED, MAX_QUEUED_BYTES, Nats, Problem};
use bytes::Bytes;
use postroom_cluster::engine::{Engine, Lane, ProbeOutcome, PublishError};
use postroom_cluster::membership::{GRACE, PROBE_AGAIN};
use postroom_cluster::store::{Bucket, Change, StoreError};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[test]
fn a_server_may_come_later() {
    if Server::start().is_none() {
        return;
    }
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let engine = Nats::at(format!("127.0.0.1:{port}")).start().unwrap();
    let (push, messages) = channel();
    let _subscription = engine.subscribe(Lane::Data, "late", push).unwrap();
    let (push, changes) = channel();
    let _watch = engine.watch(Bucket::Names, None, push).unwrap();
    wait_until(|| matches!(engine.problem(), Some(Problem::Unreachable { .. })));
    assert!(matches!(engine.wait(Duration::ZERO), Err(Problem::Unreachable { .. })));
    assert!(!engine.is_connected());
    let [tried] = &engine.attempts()[..] else { panic!("{:?}", engine.attempts()) };
    assert_eq!(tried.server, format!("nats://127.0.0.1:{port}"));
    assert!(tried.problem.contains("cannot be reached"), "{}", tried.problem);
    assert_eq!(engine.publish(Lane::Data, "late", Bytes::new()), Err(PublishError::Disconnected));
    assert_eq!(create(&engine, Bucket::Names, "name", "value"), Err(StoreError::Unavailable));
    assert_eq!(get(&engine, Bucket::Names, "name"), Err(StoreError::Unavailable));
    let (push, outcomes) = channel();
    engine.probe("late", push);
    assert_eq!(next(&outcomes), ProbeOutcome::Unknown);

    let Some(_server) = Server::at(port) else { return };
    engine.wait(super::GUARD).unwrap();
    assert!(engine.is_connected() && engine.problem().is_none());
    assert_eq!(engine.attempts(), []);
    reaches(&engine, "late", &messages);
    assert_eq!(next(&changes), Change::Resync);
    assert!(matches!(next(&changes), Change::Synced { .. }));
    create(&engine, Bucket::Names, "name", "value").unwrap();
}

/// One reachable address of two is enough.
#[test]
fn a_server_that_is_not_there_is_passed_over() {
    let Some(server) = Server::start() else { return };
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    connect(Nats::at(format!("127.0.0.1:{port}, nats://127.0.0.1:{}", server.port())));
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_found_again() {
    let Some(mut server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (messages, _subscription) = subscribe(&engine, Lane::Data, "again");
    let (changes, _watch) = watch(&engine, Bucket::Names);
    let first = create(&engine, Bucket::Names, "before", "value").unwrap();
    next(&changes);

    // Each question that is asked while the server dies is answered once, with the best available knowledge.
    let (sender, answers) = mpsc::channel();
    let asked: u32 = 500;
    for number in 0..asked {
        let sender = sender.clone();
        let then = Box::new(move |result| drop(sender.send((number, result))));
        engine.create(Bucket::Names, &format!("n{number}"), Bytes::new(), then);
        if number == asked / 2 {
            server.kill();
        }
    }
    drop(sender);
    let mut written = Vec::new();
    let mut unknown = Vec::new();
    let mut count = 0;
    while let Ok((number, result)) = answers.recv_timeout(super::GUARD) {
        count += 1;
        match result {
            Ok(_) => written.push(number),
            Err(StoreError::Unknown) => unknown.push(number),
            result => assert_eq!(result, Err(StoreError::Unavailable)),
        }
    }
    assert_eq!(count, asked);
    wait_until_down(&engine);
    assert_eq!(engine.publish(Lane::Data, "again", Bytes::new()), Err(PublishError::Disconnected));

    server.restart();
    engine.wait(super::GUARD).unwrap();
    reaches(&engine, "again", &messages);
    assert!(engine.counts().connections >= 4);
    for number in 0..asked {
        let there = get(&engine, Bucket::Names, &format!("n{number}")).unwrap().is_some();
        assert!(there || !written.contains(&number), "n{number} was written, and is gone");
        assert!(!there || written.contains(&number) || unknown.contains(&number), "n{number} was not written");
    }
    let last = update(&engine, "before", "again", first).unwrap();
    // The watch continues, from a snapshot or from its position; either way it reports this change.
    while next(&changes) != super::put("before", "again", last) {}
}

/// The client library must not continue its earlier work, even if the server is available again at once.
#[test]
fn each_connection_has_a_client_of_its_own() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::to(server.port());
    let engine = connect(Nats::at(format!("127.0.0.1:{}", proxy.port())));
    let (messages, _subscription) = subscribe(&engine, Lane::Data, "again");
    for round in 1..=5 {
        proxy.interrupt();
        wait_until(|| engine.counts().connections >= 2 + 2 * round && engine.wait(super::GUARD).is_ok());
        reaches(&engine, "again", &messages);
    }
}

/// A write that was reported as unknown must not be performed by a later connection.
#[test]
fn what_was_asked_of_one_connection_is_not_done_by_the_next() {
    let Some(server) = Server::with(&["-js", "-m", "-1"], "") else { return };
    let proxy = Proxy::to(server.port());
    let (here, there) = (connect(Nats::at(format!("127.0.0.1:{}", proxy.port()))), connect(server.nats()));
    for round in 0..10 {
        let (sender, answers) = mpsc::channel();
        for number in 0..200 {
            let sender = sender.clone();
            let key = format!("r{round}n{number}");
            let of = key.clone();
            let then = Box::new(move |result: Result<_, _>| drop(sender.send((of, result))));
            here.create(Bucket::Names, &key, Bytes::new(), then);
            if number == 20 * round {
                proxy.cut();
            }
        }
        drop(sender);
        let unknown: Vec<_> = answers.iter().filter(|(_, result)| *result == Err(StoreError::Unknown)).collect();
        wait_until_down(&here);
        // By then, the server has read and written everything that came over the broken connections, so this write
        // comes after all of that.
        wait_until(|| server.connections() == 2);
        create(&there, Bucket::Names, &format!("r{round}fence"), "value").unwrap();
        let before: Vec<_> = unknown.iter().map(|(key, _)| get(&there, Bucket::Names, key).unwrap()).collect();
        proxy.heal();
        here.wait(super::GUARD).unwrap();
        create(&here, Bucket::Names, &format!("r{round}end"), "value").unwrap();
        let after: Vec<_> = unknown.iter().map(|(key, _)| get(&there, Bucket::Names, key).unwrap()).collect();
        assert_eq!(before, after);
    }
}

/// Bulk data in one lane delays the other lane neither at the sender nor at the receiver. While no bulk data gets
/// through, messages and probes of the other lane do.
#[test]
fn bulk_does_not_delay_the_control_lane() {
    let Some(server) = Server::start() else { return };
    for (held, most) in [(0, usize::MAX), (1, 16)] {
        let proxies = [(); 2].map(|()| Proxy::to(server.port()));
        let [here, there] = [0, 1].map(|at| connect(Nats::at(format!("127.0.0.1:{}", proxies[at].port()))));
        let (bulk, _bulk) = subscribe(&there, Lane::Data, "bulk");
        let (control, _control) = subscribe(&there, Lane::Control, "control");
        proxies[held].hold(Lane::Data);
        let long = Bytes::from(vec![0; 1 << 20]);
        // Publishes until no more is accepted. If this takes a long time, the connection counts as broken, which is
        // fine too.
        let sent = (0..most).take_while(|_| here.publish(Lane::Data, "bulk", long.clone()).is_ok()).count();
        assert!(sent > 0);
        wait_until(|| {
            let _ = here.publish(Lane::Control, "control", Bytes::from_static(b"now"));
            control.try_recv().is_ok()
        });
        wait_until(|| {
            let (push, outcomes) = channel();
            here.probe("control", push);
            next(&outcomes) == ProbeOutcome::Responders
        });
        assert!(bulk.try_recv().is_err(), "the bulk was to wait");
        proxies[held].release();
        wait_until(|| {
            let _ = here.publish(Lane::Data, "bulk", Bytes::from_static(b"more"));
            bulk.try_recv().is_ok()
        });
    }
}

#[test]
fn messages_that_wait_are_bounded() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (messages, _subscription) = subscribe(&engine, Lane::Data, "fill");
    let blocked = block(&engine);
    for lane in Lane::ALL {
        for _ in 0..MAX_QUEUED {
            engine.publish(lane, "fill", Bytes::new()).unwrap();
        }
        assert_eq!(engine.publish(lane, "fill", Bytes::new()), Err(PublishError::Busy));
    }
    drop(blocked);
    for _ in 0..2 * MAX_QUEUED {
        assert!(next(&messages).payload.is_empty());
    }

    let blocked = block(&engine);
    let long = Bytes::from(vec![0; 1 << 20]);
    for _ in 0..MAX_QUEUED_BYTES >> 20 {
        engine.publish(Lane::Data, "fill", long.clone()).unwrap();
    }
    assert_eq!(engine.publish(Lane::Data, "fill", Bytes::from_static(b"x")), Err(PublishError::Busy));
    drop(blocked);
    for _ in 0..MAX_QUEUED_BYTES >> 20 {
        assert_eq!(next(&messages).payload.len(), 1 << 20);
    }
    assert_eq!(engine.counts().unsent, 0);
}

/// A callback that returns at once is fast enough for any number of messages that have accumulated in the connection.
#[test]
fn a_flood_is_received_whole() {
    // Without this deadline, the server would give up a connection that it cannot write to.
    let Some(server) = Server::with(&["-js"], "write_deadline: \"5m\"") else { return };
    let (here, there) = (connect(server.nats()), connect(server.nats()));
    let (messages, _subscription) = subscribe(&here, Lane::Data, "flood");
    let blocked = block(&here);
    const FLOOD: u32 = 200_000;
    for number in 0..FLOOD {
        wait_until(|| there.publish(Lane::Data, "flood", number.to_be_bytes().to_vec().into()).is_ok());
    }
    drop(blocked);
    for number in 0..FLOOD {
        assert_eq!(next(&messages).payload, number.to_be_bytes()[..]);
    }
    assert_eq!(here.counts().dropped, 0);
}

#[test]
fn a_slow_callback_loses_messages_of_its_own_and_no_others() {
    let Some(server) = Server::start() else { return };
    let (slow, quick) = (connect(server.nats().subscription_capacity(16)), connect(server.nats()));
    let (all, _all) = subscribe(&quick, Lane::Data, "flood");
    let (go, wait) = mpsc::channel::<()>();
    let (sender, heard) = mpsc::channel();
    let on_message = move |message: postroom_cluster::engine::Message| {
        let _ = sender.send(message.payload.clone());
        if message.payload == "first" {
            let _ = wait.recv();
        }
    };
    let _subscription = slow.subscribe(Lane::Data, "flood", Box::new(on_message)).unwrap();
    wait_until(|| {
        quick.publish(Lane::Data, "flood", "ready".into()).unwrap();
        heard.try_recv().is_ok()
    });
    quick.publish(Lane::Data, "flood", "first".into()).unwrap();
    while next(&heard) != "first" {}
    const FLOOD: u32 = 10_000;
    for number in 0..FLOOD {
        wait_until(|| quick.publish(Lane::Data, "flood", number.to_be_bytes().to_vec().into()).is_ok());
    }
    while next(&all).payload != (FLOOD - 1).to_be_bytes()[..] {}
    assert_eq!(slow.counts().dropped, 0);
    go.send(()).unwrap();
    wait_until(|| slow.counts().dropped > 0);
    // Later messages are received, in order, and nothing else was lost.
    wait_until(|| {
        quick.publish(Lane::Data, "flood", "end".into()).unwrap();
        heard.try_iter().any(|payload| payload == "end")
    });
    create(&slow, Bucket::Names, "name", "value").unwrap();
    assert_eq!((slow.counts().connections, quick.counts().dropped), (2, 0));
}

/// Checks the calculation at the head of the [crate](crate). The server's delay is computed from the server's own
/// rules.
#[test]
fn a_silent_network_is_heard_within_six_seconds() {
    // The server checks every `ping_interval`, and closes the connection at the third check without a sign of life.
    // The first check may come just too early to count.
    let server = Duration::from_secs(1) * (1 + 3);
    let given_up = server.max(PING_INTERVAL * 3);
    assert!(given_up + PROBE_TIMEOUT + PROBE_AGAIN + GRACE < Duration::from_secs(6));
}

/// The error of a failed join lists each server that was tried, and why there is no connection. This test needs no
/// server.
#[test]
fn a_join_without_a_server_says_which_were_tried_and_why_in_vain() {
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
    let runtime = postroom::Runtime::builder().workers(1).logical_node(postroom::NodeId::random()).build().unwrap();
    let nats = Nats::at(format!("127.0.0.1:{}, 127.0.0.1:{}", ports[0], ports[1]));
    let engine = Arc::new(nats.cluster("bank").node("eu-1").start().unwrap());
    wait_until(|| engine.attempts().len() == 2);
    let builder = postroom_cluster::Cluster::builder("bank").node("eu-1").join_within(Duration::from_millis(10));
    let error = builder.join(&runtime, Arc::clone(&engine)).unwrap_err();
    let postroom_cluster::JoinError::Timeout { attempts, .. } = &error else { panic!("{error}") };
    let servers: Vec<_> = attempts.iter().map(|attempt| attempt.server.clone()).collect();
    assert_eq!(servers, ports.map(|port| format!("nats://127.0.0.1:{port}")));
    for attempt in attempts {
        assert!(error.to_string().contains(&format!("tried `{}`: {}", attempt.server, attempt.problem)), "{error}");
    }
}
