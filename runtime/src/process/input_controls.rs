//! The control lane: answers, cancels, and requests from the runtime.

use super::input::StepInput;
use crate::call::answer::AnswerNode;
use crate::exit::ExitReason;
use crate::mailbox::lanes::Controls;
use crate::mailbox::node::{NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::process::control::Control;
use crate::process::event::Event;
use crate::signal::{Cancel, Signal};

impl StepInput {
    /// Returns whether there may be controls. If this is false, [`next_control`](Self::next_control) has nothing to
    /// return.
    #[inline]
    pub(crate) fn may_have_controls(&self) -> bool {
        !self.controls.is_empty() || self.rare.is_some()
    }

    /// Returns whether the step has had no controls to deliver.
    #[inline(always)]
    pub(crate) fn has_mail_only(&self) -> bool {
        !self.controlled
    }

    /// Returns whether there are controls other than a wake-up.
    pub(crate) fn has_control_node(&self) -> bool {
        !self.controls.is_empty() || self.holder.has_control_node()
    }

    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        !self.controls.is_empty() || self.holder.has_control()
    }

    #[inline]
    pub(crate) fn note_control(&mut self) {
        self.controlled = true;
        self.slice.forget_message();
    }

    /// Begins a step with an answer for this incarnation, and no other controls.
    #[inline(always)]
    pub(crate) fn begin_with_answer(&mut self, answer: NodeBox) {
        self.note_control();
        self.controls.push_first(answer);
    }

    /// Takes the controls with which a step begins, and puts `brought` before all others. Returns them unless all of
    /// them are answers for this generation.
    #[inline(always)]
    pub(crate) fn begin_answered(&mut self, brought: Option<NodeBox>) -> Option<Controls> {
        self.note_control();
        let mut taken = self.holder.take_control();
        if let Some(brought) = brought {
            taken.push_first(brought);
        }
        if taken.are_answers_for(self.filter.generation()) {
            self.controls = taken;
            return None;
        }
        Some(taken)
    }

    /// Begins a step that has controls: `taken` from its lane, `kept` from the previous step, or `held` while the
    /// process was suspended. Returns whether a cancel is among them. If so, [`cancel`](Self::cancel) must be called.
    pub(crate) fn begin_controlled(&mut self, kept: Controls, held: Controls, taken: Controls) -> bool {
        self.note_control();
        self.controls = kept;
        let is_cancelled = self.absorb(held);
        self.absorb(taken) || is_cancelled
    }

    /// Delivers a cancel to a process that `handles` it; ends a process that does not.
    pub(crate) fn cancel(&mut self, handles: bool) {
        let mut controls = std::mem::take(&mut self.controls);
        while let Some(mut node) = controls.pop() {
            let envelope = node.take();
            let is_cancel = envelope.kind == NodeKind::Signal;
            if handles || !is_cancel {
                node.put(envelope);
                self.controls.push(node);
                continue;
            }
            node_pool::recycle(node);
            if let Some(Ok(Control::Cancel(reason))) = envelope.payload.map(Payload::take) {
                self.end(reason);
            }
        }
    }

    /// Sorts the controls: requests from the runtime take effect at once, the others are kept for the step. Returns
    /// whether a cancel is among them.
    #[cold]
    fn absorb(&mut self, mut taken: Controls) -> bool {
        let mut is_cancelled = false;
        while let Some(mut node) = taken.pop() {
            let mut envelope = node.take();
            if envelope.generation != self.filter.generation() {
                node_pool::recycle(node);
                self.rare().stale.push(envelope);
                continue;
            }
            if envelope.kind == NodeKind::Signal {
                let control = envelope.payload.take().and_then(|payload| payload.take().ok());
                let Some(cancel) = control.and_then(|control| self.grant(control)) else {
                    node_pool::recycle(node);
                    continue;
                };
                is_cancelled = true;
                envelope.payload = Some(Payload::new(Control::Cancel(cancel)));
            }
            node.put(envelope);
            self.controls.push(node);
        }
        is_cancelled
    }

    /// Does what the runtime requests, or notes the request for later in the step. For a cancel, returns its reason,
    /// because the step decides how to handle it.
    fn grant(&mut self, control: Control) -> Option<ExitReason> {
        match control {
            Control::Cancel(reason) => return Some(reason),
            Control::Kill => self.end(ExitReason::Killed),
            Control::Join(join) => self.rare().joins.push(join),
            Control::Link(sent) => drop(self.receive(*sent)),
            Control::Inspect(inspect) => {
                if let Some(endpoint) = self.endpoint {
                    // SAFETY: as in `receive`.
                    inspect.answer(unsafe { endpoint.inspect() });
                }
            }
            Control::Describe(request) => self.rare().descriptions.get_or_insert_default().push(request),
            Control::Tap(sink) => self.tap(sink),
            Control::Upgrade(upgrade) => self.rare().upgrades.get_or_insert_default().push(upgrade),
        }
        None
    }

    /// Counts an answer that the step has taken, from its controls or otherwise.
    #[inline(always)]
    pub(crate) fn count_answer(&mut self) {
        self.taken.others += 1;
        self.taken.completions += 1;
        node_pool::spend(1);
    }

    /// Takes the next control if it is an answer. The answer stays in the node that carried it.
    #[inline]
    pub(crate) fn next_answer(&mut self) -> Option<AnswerNode> {
        if self.ended {
            return None;
        }
        let node = self.controls.pop_answer()?;
        self.count_answer();
        Some(AnswerNode::new(node))
    }

    /// Returns the next completion, signal or notice that may be delivered before the next message.
    pub(crate) fn next_control(&mut self) -> Option<Event> {
        if let Some(answer) = self.next_answer() {
            return Some(Event::Completed { tag: answer.tag(), result: answer.into_result() });
        }
        if self.ended {
            return None;
        }
        let Some(mut node) = self.controls.pop() else { return self.next_stop_or_notice() };
        let envelope = node.take();
        node_pool::recycle(node);
        match envelope.payload?.take::<Control>() {
            Ok(Control::Cancel(reason)) => {
                self.taken.others += 1;
                node_pool::spend(1);
                Some(Event::Signal(Signal::Cancel(Cancel { reason })))
            }
            _ => None,
        }
    }
}
