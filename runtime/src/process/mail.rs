//! A message that has arrived, where it lies: what generated code opens.
//!
//! A message is written into its node by its sender and read out of it by its method: nothing on the way moves it.

use super::slice::TimeSlice;
use crate::call::caller::Caller;
use crate::call::package::Package;
use crate::mailbox::node::EnvelopeContent;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use std::{fmt, ptr};

/// A message that has arrived, and the caller that waits for an answer to it. For generated code.
///
/// What its process leaves unopened is to be turned into a [`Package`], and so becomes a dead letter.
pub struct Mail<'a> {
    content: &'a mut EnvelopeContent,
    /// The time slice in which it was taken out of the mailbox, if that is not known there yet.
    turn: Option<&'static TimeSlice>,
}

impl<'a> Mail<'a> {
    /// The message in `content`, whose word is its caller's or null, for a process in that time slice.
    #[inline(always)]
    pub(crate) fn new(content: &'a mut EnvelopeContent, turn: &'static TimeSlice) -> Self {
        Self { content, turn: Some(turn) }
    }

    /// The message of a package, put into `content`.
    pub(crate) fn of(package: Package, content: &'a mut EnvelopeContent) -> Self {
        let (_, payload, caller) = package.into_parts();
        *content = EnvelopeContent { word: caller.map_or(ptr::null_mut(), Caller::into_word), payload: Some(payload) };
        Self { content, turn: None }
    }

    /// Returns whether the message is an `M`.
    #[inline]
    pub fn is<M: 'static>(&self) -> bool {
        self.content.payload.as_ref().is_some_and(Payload::is::<M>)
    }

    /// The message and its caller, if it is an `M`.
    #[inline]
    pub(crate) fn open<M: Send + 'static>(&mut self) -> Option<(M, Option<Caller>)> {
        let message = Payload::take_from(&mut self.content.payload)?;
        let caller = self.caller();
        if let Some(turn) = self.turn {
            // Here, where its type is a constant, and not where it is taken out of the mailbox: that costs four
            // instructions.
            turn.note_message_of::<M>();
        }
        Some((message, caller))
    }

    /// The same; the message goes into `to`. `None` if it is not an `M`.
    pub(crate) fn open_into<M: Send + 'static>(&mut self, to: &mut Option<M>) -> Option<Option<Caller>> {
        if !Payload::take_into(&mut self.content.payload, to) {
            return None;
        }
        let caller = self.caller();
        if let Some(turn) = self.turn {
            turn.note_message_of::<M>();
        }
        Some(caller)
    }

    #[inline]
    fn caller(&mut self) -> Option<Caller> {
        // SAFETY: the word of a message is its caller, or null, and it is taken out here.
        unsafe { Caller::from_word(std::mem::replace(&mut self.content.word, ptr::null_mut())) }
    }

    /// The message as a package for `to`, unless it was opened.
    pub(crate) fn into_package(mut self, to: Pid) -> Option<Package> {
        let payload = self.content.payload.take()?;
        if let Some(turn) = self.turn {
            turn.note_message(&payload);
        }
        let caller = self.caller();
        Some(Package::from_parts(to, payload, caller))
    }
}

impl fmt::Debug for Mail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.content.payload.as_ref().map(Payload::type_name);
        f.debug_struct("Mail").field("message", &message).finish()
    }
}
