//! Attacks by a program that has the key of one node and bypasses this crate.

use super::secured::{Secured, frame, refusal};
use super::{GUARD, channel, create, get, next, wait_until};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use postroom_cluster::engine::{Engine, Lane};
use postroom_cluster::store::{Bucket, StoreError};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::runtime::Runtime;

/// A client with a node's key and arbitrary behaviour.
struct Attacker {
    runtime: Runtime,
    client: Client,
}

impl Attacker {
    fn with_key_of(secured: &Secured, node: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = secured.with_key_of(node).node(node).options().unwrap();
        let address = format!("tls://127.0.0.1:{}", secured.server.port());
        let client = runtime.block_on(options.connect(address)).unwrap();
        Self { runtime, client }
    }

    fn publish(&self, subject: &str, reply: Option<&str>, headers: &[(&str, &str)], payload: &'static str) {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| map.insert(*name, *value));
        let (subject, client) = (subject.to_owned(), &self.client);
        self.runtime.block_on(async {
            match reply {
                Some(reply) => {
                    client.publish_with_reply_and_headers(subject, reply.to_owned(), map, payload.into()).await
                }
                None => client.publish_with_headers(subject, map, payload.into()).await,
            }
            .unwrap();
            client.flush().await.unwrap();
        });
    }

    fn ask(&self, subject: &str, question: &Value, within: Duration) -> Option<Value> {
        let asked = self.client.request(subject.to_owned(), question.to_string().into());
        let answer = self.runtime.block_on(async { tokio::time::timeout(within, asked).await });
        serde_json::from_slice(&answer.ok()?.ok()?.payload).ok()
    }

    /// Makes the server deliver a table to a subject.
    fn deliver(&self, table: &str, subject: &str) -> Value {
        let configuration = json!({
            "deliver_subject": subject,
            "ack_policy": "none",
            "deliver_policy": "all",
            "idle_heartbeat": 100_000_000,
        });
        let question = json!({ "stream_name": format!("KV_bank_{table}"), "config": configuration });
        self.ask(&format!("$JS.API.CONSUMER.CREATE.KV_bank_{table}"), &question, GUARD).expect("an answer")
    }
}

/// The time for which a test waits to see that the server does not answer. If the server answers later, the test passes
/// although it should fail.
const PATIENCE: Duration = Duration::from_millis(500);

/// The server delivers to any subject that a consumer names, and checks no permission. The delivered messages have
/// another subject, or are heartbeats. They reach only subscriptions without wildcards; the subscriptions of nodes have
/// wildcards.
#[test]
fn what_a_consumer_delivers_is_no_frame() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let one = secured.engine("eu-1");
    let attacker = Attacker::with_key_of(&secured, "eu-2");
    let forged = frame("eu-1.1", "eu-3.3");
    let (push, frames) = channel();
    let _frames = one.subscribe(Lane::Data, "pr1.bank.n.eu-1.1.d.*.*", push).unwrap();
    let (push, exact) = channel();
    let _exact = one.subscribe(Lane::Data, &forged, push).unwrap();
    let own = frame("eu-1.1", "eu-2.2");
    wait_until(|| {
        attacker.publish(&own, None, &[], "ready");
        frames.try_recv().is_ok()
    });
    // The attacker has the server deliver a name whose key ends like the subject of a frame, and the consumer's
    // heartbeats.
    attacker.publish("$KV.bank_names.n.eu-1.1.d.eu-3.3", None, &[], "forged");
    let answer = attacker.deliver("names", &forged);
    assert!(answer.get("error").is_none(), "{answer}");
    wait_until(|| one.counts().misdelivered >= 3);
    attacker.publish(&own, None, &[], "last");
    loop {
        let message = next(&frames);
        assert_eq!(message.subject, own);
        if message.payload == "last" {
            break;
        }
    }
    assert!(exact.try_recv().is_err());
}

/// A consumer cannot write where its creator is not allowed to write.
#[test]
fn what_a_consumer_delivers_is_no_lease() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let (one, attacker) = (secured.engine("eu-1"), Attacker::with_key_of(&secured, "eu-2"));
    let (leases, _leases) = super::watch(&one, Bucket::Leases);
    let (nodes, _nodes) = super::watch(&one, Bucket::Nodes);
    let lease = create(&one, Bucket::Leases, "eu-1.1", "own").unwrap();
    let record = create(&one, Bucket::Nodes, "eu-1.1", "own").unwrap();
    attacker.publish("$KV.bank_names.name", None, &[], "forged");
    for subject in ["$KV.bank_leases.eu-1.1", "$KV.bank_nodes.eu-1.1.eu-1"] {
        let _ = attacker.deliver("names", subject);
    }
    // These writes follow everything that the consumers have delivered, since the consumers were created before them.
    create(&one, Bucket::Leases, "eu-1.2", "last").unwrap();
    create(&one, Bucket::Nodes, "eu-1.2", "last").unwrap();
    for (bucket, changes, revision) in [(Bucket::Leases, leases, lease), (Bucket::Nodes, nodes, record)] {
        assert_eq!(next(&changes), super::put("eu-1.1", "own", revision));
        let seen = next(&changes);
        assert!(
            matches!(&seen, postroom_cluster::store::Change::Put(entry) if entry.key == "eu-1.2"),
            "{bucket:?}: {seen:?}"
        );
        assert_eq!(get(&one, bucket, "eu-1.1").unwrap().unwrap().revision, revision);
    }
}

/// A node answers a probe on the subject that the asker chooses. The asker must not be able to make the node publish
/// where only the node itself may publish.
#[test]
fn no_node_publishes_for_another() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let (one, attacker) = (secured.engine("eu-1"), Attacker::with_key_of(&secured, "eu-2"));
    let (push, frames) = channel();
    let _frames = one.subscribe(Lane::Control, "pr1.bank.n.eu-1.1.d.*.*", push).unwrap();
    let own = frame("eu-1.1", "eu-2.2");
    wait_until(|| {
        attacker.publish(&own, None, &[], "ready");
        frames.try_recv().is_ok()
    });
    let lease = create(&one, Bucket::Leases, "eu-1.1", "own").unwrap();
    let replies = ["$KV.bank_leases.eu-1.1", "$KV.bank_nodes.eu-1.1.eu-1", "pr1.bank.n.eu-2.2.d.eu-1.1"];
    for (count, reply) in (1..).zip(replies) {
        attacker.publish(&own, Some(reply), &[("Postroom-Probe", "1")], "");
        wait_until(|| one.counts().misdelivered == count);
    }
    assert_eq!(get(&one, Bucket::Leases, "eu-1.1").unwrap().unwrap().revision, lease);
    assert_eq!(get(&one, Bucket::Nodes, "eu-1.1"), Ok(None));
}

#[test]
fn the_store_is_asked_for_nothing_but_what_a_node_needs() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let (one, attacker) = (secured.engine("eu-1"), Attacker::with_key_of(&secured, "eu-2"));
    let lease = create(&one, Bucket::Leases, "eu-1.1", "own").unwrap();
    let record = create(&one, Bucket::Nodes, "eu-1.1", "own").unwrap();
    for question in ["STREAM.PURGE", "STREAM.DELETE", "STREAM.UPDATE", "STREAM.MSG.DELETE"] {
        let answer = attacker.ask(&format!("$JS.API.{question}.KV_bank_leases"), &json!({ "seq": lease.0 }), PATIENCE);
        assert_eq!(answer, None, "{question}");
    }
    // A table with another configuration cannot replace an existing one, nor be created beside it.
    let republished = json!({ "name": "KV_bank_nodes", "subjects": ["$KV.bank_nodes.>"],
        "republish": { "src": ">", "dest": "pr1.bank.n.eu-1.1.d.eu-3.3" } });
    let answer = attacker.ask("$JS.API.STREAM.CREATE.KV_bank_nodes", &republished, GUARD).unwrap();
    assert!(answer.get("error").is_some(), "{answer}");
    assert_eq!(attacker.ask("$JS.API.STREAM.CREATE.KV_mine", &json!({ "name": "KV_mine" }), PATIENCE), None);
    // A rollup, as NATS calls a message that would replace all others of the table.
    attacker.publish("$KV.bank_nodes.eu-2.2.eu-2", None, &[("Nats-Rollup", "all")], "x");
    create(&one, Bucket::Nodes, "eu-1.2", "later").unwrap();
    assert_eq!(get(&one, Bucket::Nodes, "eu-1.1").unwrap().unwrap().revision, record);
    assert_eq!(get(&one, Bucket::Leases, "eu-1.1").unwrap().unwrap().revision, lease);
}

/// The server does not answer a refused request, but reports the refusal separately: the engine notices that before
/// the request times out.
#[test]
fn a_refused_request_is_answered_by_its_refusal() {
    let Some(secured) = Secured::start(&["eu-1", "eu-2"]) else { return };
    let two = secured.engine("eu-2");
    for number in 1..=20 {
        let key = format!("eu-1.{number}");
        assert_eq!(create(&two, Bucket::Leases, &key, "forged"), Err(StoreError::Forbidden { key }));
        refusal(&two, number);
    }
    assert_eq!(two.publish(Lane::Data, &frame("eu-1.1", "eu-3.3"), Bytes::new()), Ok(()));
    refusal(&two, 21);
}
