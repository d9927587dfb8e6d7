//! The children of supervisors, as far as one session knows them.

use crate::envelope::Envelope;
use postroom::Pid;
use postroom::supervision::{EndReport, StartReport};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The children of one session, by the numbers of their starts.
#[derive(Default)]
pub(super) struct ChildTable {
    /// Starts that were requested from the peer and are not answered, with the name of the node.
    pub(super) starting: BTreeMap<u64, (StartReport, Arc<str>)>,
    /// Children that run on the peer.
    pub(super) running: BTreeMap<u64, EndReport>,
    /// Children that run here for the peer.
    pub(super) charges: BTreeMap<u64, Pid>,
    /// The PIDs of `charges`.
    pub(super) charged: BTreeSet<Pid>,
    /// Reports of children that ended here before their start was answered.
    pub(super) early: BTreeMap<u64, Envelope>,
    /// The largest number that the peer has used in a request for a child.
    pub(super) last_asked: u64,
}
