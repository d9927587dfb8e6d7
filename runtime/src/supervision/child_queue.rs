//! The part of a child's slot that is under a lock: the messages and requests that wait behind the child's address, and
//! the process that they are for.

use super::held::{EndWaits, FirstRequest};
use crate::sync::MutexGuard;
use crate::{Package, Pid, util::oneshot::Oneshot};
use std::{collections::VecDeque, sync::Arc};

pub(super) struct ChildQueue {
    pub(super) state: SlotState,
    /// The process that serves, or that is ending.
    pub(super) process: Option<Pid>,
    /// The most recent process that has declared that it accepts no more waits for its end.
    pub(super) ended: Option<Pid>,
    /// Whether the child has ever had a process.
    pub(super) has_begun: bool,
    pub(super) waits: EndWaits,
    pub(super) first: Vec<FirstRequest>,
    /// Waiting messages left by the process that is ending. The list is complete when that process has ended. They come
    /// first.
    pub(super) left: VecDeque<Package>,
    /// Waiting messages that earlier processes left, and that no successor was given. They come second.
    pub(super) older: VecDeque<KeptItem>,
    /// Waiting messages that were sent since. They come last.
    pub(super) kept: VecDeque<KeptItem>,
    /// Waiters that are signalled when there may be a process again.
    pub(super) waiters: Vec<Arc<Oneshot<()>>>,
}

/// An item that waits for the next process, in the order of its mailbox.
pub(super) enum KeptItem {
    Message(Package),
    /// A request to stop after all items before it. It waits only while the process has not begun, or is still being
    /// given the waiting items.
    Stop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Not started yet: messages wait, even if the child does not keep messages later.
    New,
    Up,
    Down,
    /// The child will not be restarted automatically.
    Shut,
}

impl ChildQueue {
    pub(super) fn new() -> Self {
        Self {
            state: SlotState::New,
            process: None,
            ended: None,
            has_begun: false,
            waits: EndWaits::default(),
            first: Vec::new(),
            left: VecDeque::new(),
            older: VecDeque::new(),
            kept: VecDeque::new(),
            waiters: Vec::new(),
        }
    }

    /// Takes all messages. A request to stop among them remains, for a process that has not begun.
    pub(super) fn take_messages(&mut self) -> VecDeque<Package> {
        let mut all = std::mem::take(&mut self.left);
        let mut stop = None;
        for item in std::mem::take(&mut self.older).into_iter().chain(std::mem::take(&mut self.kept)) {
            match item {
                KeptItem::Message(package) => all.push_back(package),
                KeptItem::Stop => stop = Some(KeptItem::Stop),
            }
        }
        self.kept.extend(stop);
        all
    }

    /// Returns true if there is a process, and it is not known to have ended.
    pub(super) fn has_process(&self) -> bool {
        self.process.is_some() && self.process != self.ended
    }

    /// Returns whether a request to end waits for the first process.
    pub(super) fn waits_to_begin(&self) -> bool {
        !self.has_begun && self.state != SlotState::Shut
    }

    /// Queues a kill for the first process, once: nothing else matters to a process that is killed before it begins.
    pub(super) fn hold_kill(&mut self) {
        if !self.first.iter().any(|request| matches!(request, FirstRequest::Kill)) {
            self.first.push(FirstRequest::Kill);
        }
    }

    pub(super) fn hold_stop(&mut self) -> bool {
        // The stop also waits while a process is being given the waiting items, since it comes after them.
        let is_getting = self.has_process() && self.state != SlotState::Up;
        if !self.waits_to_begin() && !is_getting {
            return false;
        }
        if !matches!(self.kept.back(), Some(KeptItem::Stop)) {
            self.kept.push_back(KeptItem::Stop);
        }
        true
    }
}

pub(super) fn wake_waiters(mut queue: MutexGuard<'_, ChildQueue>) {
    let waiters = std::mem::take(&mut queue.waiters);
    // Signalled outside the lock, since wakers may run any code.
    drop(queue);
    waiters.iter().for_each(|waiter| _ = waiter.put(()));
}
