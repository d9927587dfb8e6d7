//! Removal of tombstones: the engine that has deleted an entry makes the server forget the key some time later.
//! Otherwise each name and each run of a node would leave a message behind forever.
//!
//! The server purges the key up to the tombstone, so an entry that was created since is kept. The delay serves watches.
//! A watch that is cut off for a shorter time sees the deletion, and continues. A watch that is cut off for longer
//! finds a gap, and starts over. When the engine closes, it purges the remaining tombstones at once. The tombstones of
//! an engine that is killed remain.
//!
//! Leases need none of this: their tombstones expire.

use crate::connection::LAST_WORDS;
use crate::requests;
use crate::shared::EngineShared;
use crate::table::{KEPT, Tombstone};
use postroom_cluster::store::Revision;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

/// The time limit of a purge. A failed purge is not repeated.
const PURGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Purges tombstones when their time has come, and the remaining ones when the engine closes.
pub(crate) async fn sweep(shared: Arc<EngineShared>, mut tombstones: mpsc::UnboundedReceiver<Tombstone>) {
    let mut closed = shared.closed.subscribe();
    let mut waiting = None;
    let in_time = async {
        loop {
            let Tombstone { written, .. } = match &waiting {
                Some(tombstone) => tombstone,
                None => waiting.insert(tombstones.recv().await.expect("this task holds a sender")),
            };
            sleep_until(*written + KEPT).await;
            if let Some(tombstone) = waiting.take() {
                purge(&shared, &tombstone).await;
            }
        }
    };
    tokio::select! {
        _ = closed.wait_for(|closed| *closed) => {}
        () = in_time => {}
    }
    let rest = async {
        while let Some(tombstone) = waiting.take().or_else(|| tombstones.try_recv().ok()) {
            purge(&shared, &tombstone).await;
        }
    };
    let _ = timeout(LAST_WORDS, rest).await;
}

async fn purge(shared: &EngineShared, tombstone: &Tombstone) {
    let Some(connected) = shared.store.borrow().clone() else { return };
    let Tombstone { table, key, revision: Revision(revision), .. } = tombstone;
    let subject = format!("$JS.API.STREAM.PURGE.{}", table.stream);
    // The bound is exclusive, so this purges up to and including the tombstone.
    let question = json!({ "filter": table.pattern(key), "seq": revision + 1 }).to_string();
    let _ = requests::request(&connected, subject, None, question.into(), PURGE_TIMEOUT).await;
}
