//! An oracle for the holders of names. A name never has two holders that may act, and each holder has a larger token
//! than the previous one.

use crate::access::Access;
use crate::memory::simulated::{Seen, SimulatedBroker, Written};
use crate::names::decode_record;
use crate::store::Bucket;
use crate::subject::Identity;
use postroom::Pid;
use postroom::routing::Node;
use std::collections::BTreeMap;

/// The known holders of names, by key: the last holder, unless it has released the name, and that holder's token.
#[derive(Default)]
struct Oracle(BTreeMap<String, (Option<Pid>, u64)>);

/// Makes the broker observe the writes of names, unless it already does.
pub(super) fn install(broker: &SimulatedBroker) {
    broker.observe(|| {
        let mut oracle = Some(Oracle::default());
        Box::new(move |seen| match seen {
            Seen::Written(written) => oracle.as_mut()?.written(written),
            // A member that has not noticed the replacement may write an entry, which does not count: see `names`.
            Seen::Replaced => {
                oracle = None;
                None
            }
        })
    });
}

impl Oracle {
    fn written(&mut self, written: &Written<'_>) -> Option<String> {
        if written.bucket != Bucket::Names {
            return None;
        }
        let is_of = |node: &str, pid: Pid| Identity::parse(node).is_some_and(|node| node.id == pid.node());
        let value = match written.access {
            Access::Create(value) | Access::Update(value, _) => value,
            // The node of a process that gives its name up deletes the entry, and the process may stay alive. Other
            // nodes delete the entry only when the membership is over.
            Access::Delete(_) => {
                if let Some((holder, _)) = self.0.get_mut(written.key)
                    && holder.zip(written.writer).is_some_and(|(pid, writer)| is_of(writer, pid))
                {
                    *holder = None;
                }
                return None;
            }
            Access::Get => return None,
        };
        let (name, holder) = match decode_record(value.clone()) {
            Ok(decoded) => decoded,
            Err(error) => return Some(format!("a node has written a record of a name that is none: {error}")),
        };
        let before = self.0.insert(written.key.to_owned(), (Some(holder.pid), written.revision));
        let (before, token) = before?;
        if written.revision <= token {
            return Some(format!("the name `{name}` had the token {token}, and has {} now", written.revision));
        }
        let pid = before?;
        // A paused node cannot act. When it continues, it learns that it is fenced.
        let is_paused = written.paused.iter().any(|key| is_of(key, pid));
        let is_alive = Node::of(pid.node()).is_some_and(|node| node.enter(|| pid.is_alive()));
        (pid != holder.pid && is_alive && !is_paused)
            .then(|| format!("the name `{name}` has passed to {}, and {pid} that held it is alive", holder.pid))
    }
}
