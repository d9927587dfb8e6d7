//! The permissions of a node at the broker, as patterns of subjects. The node's key has these permissions. The broker
//! in memory checks them for a client that has an identity.
//!
//! | a node may | object of the permission |
//! |---|---|
//! | publish | frames that are sent from its name, answers to probes from its name |
//! | write | its own record and lease, any name of the cluster and any group |
//! | remove | the record of any node, since another node has to announce that it is down |
//! | subscribe to | frames to its name, answers to its name |
//! | publish and subscribe to | topics: their subjects do not tell who has published |
//! | ask the store | to create its four tables, to watch and to read them, and to purge them, except for leases |
//!
//! # The removal of a record
//! The subject of a record ends in the name of its writer. A write by a node of another name counts as a **removal**,
//! whatever it contains. So a permission to remove a record does not include the permission to write it.
//!
//! # The purge
//! A purge removes tombstones, and the content of a store that is an older copy. A node could also purge valid entries.
//! That would evict other nodes, as removals do, and would free names, which any node may do anyway.
//!
//! # Limits
//! No permission can express which process holds which name of the cluster. A node may therefore free a name that
//! another node holds, and take it; but it cannot use the other node's token, or send as the other node.

use crate::store::Bucket;
use crate::subject::{Subjects, covers, matches};

/// Returns a bucket's table name, as used in the subjects of its keys and in its stream's name.
#[doc(hidden)]
pub fn table(cluster: &str, bucket: Bucket) -> String {
    let name = match bucket {
        Bucket::Nodes => "nodes",
        Bucket::Leases => "leases",
        Bucket::Names => "names",
        Bucket::Groups => "groups",
    };
    format!("{cluster}_{name}")
}

/// Returns the name of the node whose record is stored under a key: the first part of the key.
#[doc(hidden)]
pub fn owner(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

/// Returns the subject on which the node `writer` writes a key.
#[doc(hidden)]
pub fn write_subject(cluster: &str, bucket: Bucket, key: &str, writer: &str) -> String {
    let table = table(cluster, bucket);
    match bucket {
        Bucket::Nodes => format!("$KV.{table}.{key}.{writer}"),
        Bucket::Leases | Bucket::Names | Bucket::Groups => format!("$KV.{table}.{key}"),
    }
}

/// The permissions of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the node.
    pub node: String,
    /// The patterns of subjects that it may publish on.
    pub publish: Vec<String>,
    /// The patterns that it may subscribe to.
    pub subscribe: Vec<String>,
}

impl Rights {
    /// Returns the rights of a node.
    pub fn of(cluster: &str, node: &str) -> Self {
        let subjects = Subjects::of(cluster);
        let mut publish = vec![
            format!("pr1.{cluster}.n.*.*.*.{node}.*"),
            subjects.probe_answer("*", "*", node),
            format!("pr1.{cluster}.t.>"),
        ];
        for bucket in Bucket::ALL {
            let table = table(cluster, bucket);
            publish.push(match bucket {
                Bucket::Nodes => format!("$KV.{table}.*.*.{node}"),
                Bucket::Leases => format!("$KV.{table}.{node}.*"),
                Bucket::Names | Bucket::Groups => format!("$KV.{table}.>"),
            });
            let stream = format!("KV_{table}");
            publish.extend(
                ["STREAM.INFO", "STREAM.CREATE", "STREAM.MSG.GET", "CONSUMER.CREATE"]
                    .map(|question| format!("$JS.API.{question}.{stream}")),
            );
            // Leases need no purge, since they expire by themselves.
            if bucket != Bucket::Leases {
                publish.push(format!("$JS.API.STREAM.PURGE.{stream}"));
            }
            // The client of a watch publishes here to signal that it keeps up (flow control).
            publish.push(format!("$JS.FC.{stream}.>"));
        }
        let subscribe = vec![
            format!("pr1.{cluster}.n.{node}.>"),
            format!("{}.>", subjects.inbox(node)),
            subjects.probe_answer(node, "*", "*"),
            format!("pr1.{cluster}.t.>"),
        ];
        Self { cluster: cluster.into(), node: node.into(), publish, subscribe }
    }

    /// Returns whether the node may publish on a subject.
    pub fn may_publish(&self, subject: &str) -> bool {
        self.publish.iter().any(|pattern| matches(pattern, subject))
    }

    /// Returns whether the node may subscribe to a pattern.
    pub fn may_subscribe(&self, pattern: &str) -> bool {
        self.subscribe.iter().any(|allowed| covers(allowed, pattern))
    }

    /// Returns whether the node may write a value under a key.
    pub(crate) fn may_write(&self, bucket: Bucket, key: &str) -> bool {
        self.may_publish(&write_subject(&self.cluster, bucket, key, owner(key)))
    }

    /// Returns whether the node may delete a key.
    pub(crate) fn may_delete(&self, bucket: Bucket, key: &str) -> bool {
        self.may_publish(&write_subject(&self.cluster, bucket, key, &self.node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Lane;
    use crate::subject::Identity;

    fn identity(text: &str) -> Identity {
        Identity::parse(text).unwrap()
    }

    #[test]
    fn a_node_sends_as_itself_and_hears_what_is_sent_to_it() {
        let (rights, subjects) = (Rights::of("bank", "eu-1"), Subjects::of("bank"));
        let (own, other) = (identity("eu-1.7f3a"), identity("eu-2.21"));
        for lane in Lane::ALL {
            assert!(rights.may_publish(&subjects.frame(&other, lane, &own)));
            assert!(!rights.may_publish(&subjects.frame(&own, lane, &other)));
            assert!(rights.may_subscribe(&subjects.frames_to(&own, lane)));
            assert!(!rights.may_subscribe(&subjects.frames_to(&other, lane)));
        }
        assert!(!rights.may_publish(&Subjects::of("other").frame(&other, Lane::Data, &own)));
        assert!(rights.may_subscribe("pr1.bank.i.eu-1.x.y") && !rights.may_subscribe("pr1.bank.i.eu-2.x"));
        let all = [">", "pr1.>", "pr1.bank.n.>", "pr1.bank.n.*.*.d.*.*", "pr1.bank.i.>", "_INBOX.>", "$JS.>", "$KV.>"];
        for pattern in all {
            assert!(!rights.may_subscribe(pattern), "{pattern}");
        }
        // A node answers probes only under its own name.
        assert!(rights.may_publish(&subjects.probe_answer("eu-2", "x", "eu-1")));
        assert!(!rights.may_publish(&subjects.probe_answer("eu-2", "x", "eu-3")));
        assert!(!rights.may_publish("pr1.bank.i.eu-2.x"));
    }

    #[test]
    fn a_node_writes_its_own_record_and_lease() {
        let rights = Rights::of("bank", "eu-1");
        for bucket in [Bucket::Nodes, Bucket::Leases] {
            assert!(rights.may_write(bucket, "eu-1.7f3a") && !rights.may_write(bucket, "eu-2.21"));
        }
        assert!(rights.may_delete(Bucket::Nodes, "eu-2.21") && rights.may_delete(Bucket::Leases, "eu-1.7f3a"));
        assert!(!rights.may_delete(Bucket::Leases, "eu-2.21"));
        assert!(rights.may_write(Bucket::Names, "acct-7") && rights.may_delete(Bucket::Groups, "any.key"));
    }

    #[test]
    fn the_store_is_asked_what_is_needed_and_no_more() {
        let rights = Rights::of("bank", "eu-1");
        for question in ["STREAM.DELETE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE"] {
            assert!(!rights.may_publish(&format!("$JS.API.{question}.KV_bank_nodes")), "{question}");
        }
        for subject in [
            "$JS.API.STREAM.PURGE.KV_bank_leases",
            "$JS.API.STREAM.CREATE.other",
            "$JS.API.STREAM.CREATE.KV_other_nodes",
            "$JS.API.CONSUMER.DURABLE.CREATE.KV_bank_nodes.x",
            "$JS.API.CONSUMER.DELETE.KV_bank_nodes.x",
            "$JS.ACK.KV_bank_nodes.x",
            "$SYS.REQ.SERVER.PING",
        ] {
            assert!(!rights.may_publish(subject), "{subject}");
        }
    }
}
