//! Nodes, servers and requests that are refused, and the errors for them.

use super::server::Server;
use super::{GUARD, connect, create, next, subscribe};
use crate::{Nats, Problem};
use bytes::Bytes;
use postroom_cluster::engine::{Engine, Lane, PublishError};
use postroom_cluster::frame::MAX_FRAME;
use postroom_cluster::store::{Bucket, StoreError};

/// The seed of a user's nkey, from NATS' documentation.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
/// The public key of that nkey.
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

fn problem(nats: Nats) -> Problem {
    let engine = nats.start().unwrap();
    let problem = engine.wait(GUARD).unwrap_err();
    assert!(problem.is_lasting(), "{problem}");
    problem
}

#[test]
fn a_node_that_the_server_does_not_know_is_refused() {
    let Some(server) = Server::with(&["-js", "--auth", "secret"], "") else { return };
    for nats in [server.nats(), server.nats().token("wrong"), server.nats().nkey(SEED)] {
        let problem = problem(nats);
        assert!(matches!(problem, Problem::Refused { .. }), "{problem}");
        assert!(problem.to_string().contains(".credentials"), "{problem}");
    }
    connect(server.nats().token("secret"));
}

#[test]
fn an_nkey_is_proved_to_the_server() {
    let users = format!("authorization {{ users = [ {{ nkey: {PUBLIC} }} ] }}");
    let Some(server) = Server::with(&["-js"], &users) else { return };
    assert!(matches!(problem(server.nats()), Problem::Refused { .. }));
    assert!(matches!(problem(server.nats().token(SEED)), Problem::Refused { .. }));
    // The checksum is wrong.
    let damaged = SEED.replace("XIEDN", "XIEDM");
    assert!(matches!(problem(server.nats().nkey(damaged)), Problem::BadKey { .. }));
    connect(server.nats().nkey(SEED));
}

#[test]
fn a_server_that_cannot_do_what_is_needed_is_refused() {
    let Some(server) = Server::with(&[], "") else { return };
    assert_eq!(problem(server.nats()), Problem::NoStore);
    let Some(server) = Server::start() else { return };
    assert!(matches!(problem(server.nats().tls_required()), Problem::Tls { .. }));
    let three = problem(server.nats().replicas(3));
    assert!(matches!(three, Problem::BucketRefused { .. }) && three.to_string().contains(".replicas("), "{three}");
    connect(server.nats());
    let three = problem(server.nats().replicas(3));
    assert!(matches!(three, Problem::BucketDiffers { field: "num_replicas", .. }), "{three}");
}

#[test]
fn what_is_too_long_is_refused_by_the_servers_limit() {
    let Some(server) = Server::with(&["-js"], "max_payload: 70000") else { return };
    let engine = connect(server.nats());
    let (messages, _subscription) = subscribe(&engine, Lane::Data, "long");
    engine.publish(Lane::Data, "long", vec![1; 70_000].into()).unwrap();
    assert_eq!(next(&messages).payload.len(), 70_000);
    let result = engine.publish(Lane::Data, "long", vec![1; 70_001].into());
    assert_eq!(result, Err(PublishError::TooLarge { bytes: 70_001, limit: 70_000 }));

    let (push, answers) = super::channel();
    engine.create(Bucket::Names, "long", vec![1; 68_973].into(), push);
    assert_eq!(next(&answers), Err(StoreError::TooLarge { bytes: 68_977, limit: 68_976 }));
    // With the longest key, an entry of the maximum length is accepted by the server too.
    let key = "k".repeat(256);
    let (push, answers) = super::channel();
    engine.create(Bucket::Names, &key, vec![1; 68_976 - 256].into(), push);
    next(&answers).unwrap();
}

/// Such a server would accept the handshake and small messages, but each longer message would end a session.
#[test]
fn a_server_that_takes_no_frames_is_refused_when_a_node_joins() {
    for (limit, is_enough) in [(MAX_FRAME - 1, false), (MAX_FRAME, true)] {
        let Some(server) = Server::with(&["-js"], &format!("max_payload: {limit}")) else { return };
        let runtime = postroom::Runtime::builder().workers(1).logical_node(postroom::NodeId::random()).build().unwrap();
        let joined =
            postroom_cluster::Cluster::builder("bank").node("eu-1").join_within(GUARD).join(&runtime, server.nats());
        if is_enough {
            assert!(joined.unwrap().is_member());
            continue;
        }
        let postroom_cluster::JoinError::Broker { problem } = joined.unwrap_err() else { panic!("another error") };
        assert!(problem.contains(&limit.to_string()) && problem.contains("raise `max_payload`"), "{problem}");
    }
}

/// Catches: a node that waits for a store, and reports that it has tried no server.
#[test]
fn a_join_that_waits_for_the_store_names_its_server() {
    let Some(server) = Server::with(&[], "") else { return };
    let runtime = postroom::Runtime::builder().workers(1).logical_node(postroom::NodeId::random()).build().unwrap();
    let engine = std::sync::Arc::new(server.nats().cluster("bank").node("eu-1").start().unwrap());
    assert_eq!(engine.wait(GUARD), Err(Problem::NoStore));
    let builder =
        postroom_cluster::Cluster::builder("bank").node("eu-1").join_within(std::time::Duration::from_millis(10));
    let error = builder.join(&runtime, engine).unwrap_err();
    let postroom_cluster::JoinError::Timeout { attempts, .. } = &error else { panic!("{error}") };
    let [attempt] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!(attempt.server, format!("nats://127.0.0.1:{}", server.port()));
    assert_eq!(attempt.problem, Problem::NoStore.to_string());
}

#[test]
fn keys_that_would_be_several_subjects_are_refused() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    for key in ["a..b", "a.*", ">", "a b", "a\r\nPUB x 0", &"k".repeat(257)] {
        assert!(matches!(create(&engine, Bucket::Names, key, "value"), Err(StoreError::BadKey { .. })), "{key}");
    }
    for subject in ["a\r\nPUB x 0", "a b", "a..b", ""] {
        let result = engine.publish(Lane::Data, subject, Bytes::new());
        assert!(matches!(result, Err(PublishError::BadSubject { .. })), "{subject}");
        let (push, outcomes) = super::channel();
        engine.probe(subject, push);
        assert_eq!(next(&outcomes), postroom_cluster::engine::ProbeOutcome::Unknown, "{subject}");
    }
    create(&engine, Bucket::Names, "acct-7.of=eu/1_x", "value").unwrap();
}
