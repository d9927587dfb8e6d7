//! An answer that a process awaits, in the node that carried it.
//!
//! The answer is read in place: nothing moves it between the method that wrote it and the future that awaits it.

use crate::errors::{CallError, CommandError};
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::{node_pool, payload::Payload};
use std::mem::ManuallyDrop;
use std::ptr;

#[derive(Debug)]
pub(crate) struct AnswerNode(ManuallyDrop<NodeBox>);

impl AnswerNode {
    /// Wraps a node whose content is an answer.
    #[inline]
    pub(crate) fn new(node: NodeBox) -> Self {
        debug_assert!(node.is_answer());
        Self(ManuallyDrop::new(node))
    }

    /// Creates an answer that does not come from another process or thread.
    pub(crate) fn of(result: Result<Payload, CommandError>) -> Self {
        let (kind, payload) = match result {
            Ok(value) => (NodeKind::Completed, value),
            Err(error) => (NodeKind::Failed, Payload::new(error)),
        };
        let envelope = Envelope { kind, generation: 0, word: ptr::null_mut(), payload: Some(payload) };
        Self::new(node_pool::node(envelope))
    }

    /// Returns the node.
    pub(crate) fn into_node(self) -> NodeBox {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the node is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }

    /// Returns the tag of the request that it answers.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.0.word().addr() as u64
    }

    /// Takes the value out of its node, if it is a `T`.
    ///
    /// # Errors
    /// The unchanged answer.
    #[inline]
    pub(crate) fn open<T: Send + 'static>(self) -> Result<T, Self> {
        let mut this = ManuallyDrop::new(self);
        match Payload::take_from(this.0.payload()) {
            Some(value) => {
                // SAFETY: `this` is never dropped, so the node is taken once.
                node_pool::recycle(unsafe { ManuallyDrop::take(&mut this.0) });
                Ok(value)
            }
            None => Err(ManuallyDrop::into_inner(this)),
        }
    }

    /// Takes the result out of its node.
    pub(crate) fn into_result(self) -> Result<Payload, CommandError> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the node is taken once.
        let mut node = unsafe { ManuallyDrop::take(&mut this.0) };
        let Envelope { kind, payload, .. } = node.take();
        node_pool::recycle(node);
        let payload = payload.ok_or(CommandError::Dropped)?;
        if kind == NodeKind::Completed {
            return Ok(payload);
        }
        Err(match payload.take().unwrap_or(CommandError::Dropped) {
            CommandError::Call(CallError::Dropped) => CommandError::Dropped,
            error => error,
        })
    }
}

/// Disposes of an answer that is no longer awaited.
impl Drop for AnswerNode {
    fn drop(&mut self) {
        // SAFETY: `self` is being dropped, so its node is taken once.
        let mut node = unsafe { ManuallyDrop::take(&mut self.0) };
        let envelope = node.take();
        node_pool::recycle(node);
        // Dropped last, because it may hold a user's value, whose drop may do anything.
        drop(envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_answer_is_opened_as_what_it_is_and_comes_back_as_anything_else() {
        let answer = AnswerNode::of(Ok(Payload::new(7_u64)));
        let answer = answer.open::<u32>().expect_err("it is a `u64`");
        assert_eq!(answer.open::<u64>().ok(), Some(7));
        let answer = AnswerNode::of(Err(CommandError::Call(CallError::Timeout)));
        let answer = answer.open::<u64>().expect_err("it has failed");
        assert!(matches!(answer.into_result(), Err(CommandError::Call(CallError::Timeout))));
    }

    #[test]
    fn the_value_of_an_answer_is_dropped_once_whoever_has_it() {
        let value = Arc::new(());
        drop(AnswerNode::of(Ok(Payload::new(value.clone()))));
        assert_eq!(Arc::strong_count(&value), 1);
        let opened = AnswerNode::of(Ok(Payload::new(value.clone()))).open::<Arc<()>>().ok();
        assert_eq!(Arc::strong_count(&value), 2);
        drop(opened);
        drop(AnswerNode::of(Ok(Payload::new(value.clone()))).into_result());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
