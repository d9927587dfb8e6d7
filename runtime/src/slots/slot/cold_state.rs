//! What a slot keeps for its process: the process itself, and what only few processes have.

use crate::env::clock::TimerKey;
use crate::links::message::SentLinkMessage;
use crate::links::protocol::Links;
use crate::mailbox::lanes::Controls;
use crate::pid::Pid;
use crate::process::control::{EndWaiter, Join};
use crate::process::guardian::Guardian;
pub(crate) use crate::process::kind::ProcessKind;
use std::any::{Any, TypeId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Values that a process hands on to what it spawns.
pub(crate) type Values = Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;

/// What few processes have.
#[derive(Default)]
pub(crate) struct ColdState {
    pub(crate) result: Option<Arc<dyn EndWaiter>>,
    /// Who else waits for the end.
    pub(crate) joined: Vec<Join>,
    pub(crate) values: Option<Values>,
    /// Whether the host keeps a label of it.
    pub(crate) labelled: bool,
    /// Controls that were taken out of the lane and that the last step left alone.
    pub(crate) controls: Controls,
    /// What came through the control lane while the process was held, as it came.
    pub(crate) held: Controls,
    /// Notices that were taken out of the data lane and not heard: something said before them was still to come.
    pub(crate) notices: VecDeque<Box<SentLinkMessage>>,
    /// Timers of its yields, some of which have fired. Those of an async process are in its own table.
    pub(crate) timers: Vec<TimerKey>,
    /// Who looks after it.
    pub(crate) guardian: Option<Arc<dyn Guardian>>,
    /// What binds it to others.
    pub(crate) links: Option<Box<Links<Pid>>>,
}
