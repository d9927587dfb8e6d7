//! Who may hold a name: never two that both may act, and each holder with a larger token than the one before.

use crate::access::Access;
use crate::engine::Bucket;
use crate::memory::simulated::{Seen, SimulatedBroker, Written};
use crate::names::decode_record;
use crate::subject::Identity;
use postroom::Pid;
use postroom::routing::Node;
use std::collections::BTreeMap;

/// What is known of the holders of names: the last holder of each, by key, and its token.
#[derive(Default)]
struct Oracle(BTreeMap<String, (Pid, u64)>);

/// Has the writes of names observed, if they are not yet.
pub(super) fn install(broker: &SimulatedBroker) {
    broker.observe(|| {
        let mut oracle = Some(Oracle::default());
        Box::new(move |seen| match seen {
            Seen::Written(written) => oracle.as_mut()?.written(written),
            // A member that does not know it yet may write an entry, which does not count: see `names`.
            Seen::Replaced => {
                oracle = None;
                None
            }
        })
    });
}

impl Oracle {
    fn written(&mut self, written: &Written<'_>) -> Option<String> {
        let (Access::Create(value) | Access::Update(value, _)) = written.access else { return None };
        if written.bucket != Bucket::Names {
            return None;
        }
        let (name, holder) = match decode_record(value.clone()) {
            Ok(decoded) => decoded,
            Err(error) => return Some(format!("a node has written a record of a name that is none: {error}")),
        };
        let before = self.0.insert(written.key.to_owned(), (holder.pid, written.revision));
        let (pid, token) = before?;
        if written.revision <= token {
            return Some(format!("the name `{name}` had the token {token}, and has {} now", written.revision));
        }
        // A paused node cannot act; when it goes on, it learns that it may not.
        let is_paused = written.paused.iter().any(|key| Identity::parse(key).is_some_and(|node| node.id == pid.node()));
        let is_alive = Node::of(pid.node()).is_some_and(|node| node.enter(|| pid.is_alive()));
        (pid != holder.pid && is_alive && !is_paused)
            .then(|| format!("the name `{name}` has passed to {}, and {pid} that held it is alive", holder.pid))
    }
}
