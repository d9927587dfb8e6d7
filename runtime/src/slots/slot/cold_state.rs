//! Data that only few processes need, behind one pointer of the slot.

use crate::env::clock::TimerKey;
use crate::links::message::SentLinkMessage;
use crate::links::protocol::Links;
use crate::mailbox::lanes::Controls;
use crate::pid::Pid;
use crate::process::control::{EndWaiter, Join};
use crate::process::guardian::Guardian;
pub(crate) use crate::process::kind::ProcessKind;
use crate::process::tap::TapSink;
use crate::util::dispose::dispose;
use crate::util::panics::Site;
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Values that a process passes on to the processes that it spawns.
pub(crate) type Values = Arc<ValueMap>;

/// The values, by type. Each is dropped separately, because dropping the last reference to one runs user code.
pub(crate) struct ValueMap(pub(crate) BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Drop for ValueMap {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_values().for_each(|value| dispose(Site::InheritedDrop, value));
    }
}

#[derive(Default)]
pub(crate) struct ColdState {
    pub(crate) result: Option<Arc<dyn EndWaiter>>,
    /// Further waiters for the end of the process.
    pub(crate) joined: Vec<Join>,
    pub(crate) values: Option<Values>,
    /// Whether the host stores a label of the process.
    pub(crate) labelled: bool,
    /// Whether the process has itself chosen whether to trap exits. If it has, the default of its definition does not
    /// apply.
    pub(crate) chose_to_trap: bool,
    /// Controls that were taken from the lane and not handled by the previous step.
    pub(crate) controls: Controls,
    /// Controls that arrived while the process was suspended.
    pub(crate) held: Controls,
    /// Notices that were taken from the data lane but not handled yet, because earlier link messages had not arrived.
    pub(crate) notices: VecDeque<Box<SentLinkMessage>>,
    /// Timers of the process's yields. Some of them may have fired. The timers of an async process are in its own
    /// table.
    pub(crate) timers: Vec<TimerKey>,
    /// Records the next messages of the process.
    pub(crate) tap: Option<Box<TapSink>>,
    pub(crate) guardian: Option<Arc<dyn Guardian>>,
    pub(crate) links: Option<Box<Links<Pid>>>,
}
