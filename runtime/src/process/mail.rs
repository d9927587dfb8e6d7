//! A message in its mailbox node, as generated code accesses it.
//!
//! The sender writes a message into a node, and the method reads it from there: the message is not moved in between.

use super::slice::TimeSlice;
use crate::call::{caller::Caller, package::Package};
use crate::mailbox::node::EnvelopeContent;
use crate::mailbox::payload::{HeldMessage, Payload};
use crate::observe::spans::{self, EnteredSpan, HeldSpan};
use crate::{pid::Pid, util::debug::impl_debug};
use std::ptr;

/// A message that has arrived, with its waiting caller if there is one. For generated code.
///
/// An unopened message must be turned into a [`Package`], which becomes a dead letter if it is dropped.
pub struct Mail<'a> {
    envelope: &'a mut EnvelopeContent,
    /// The time slice of the step, if the message's type has yet to be recorded there.
    slice: Option<&'static TimeSlice>,
}

impl<'a> Mail<'a> {
    /// Wraps the message in `envelope`. The envelope's word is the message's caller, or null.
    #[inline(always)]
    pub(crate) fn new(envelope: &'a mut EnvelopeContent, slice: &'static TimeSlice) -> Self {
        Self { envelope, slice: Some(slice) }
    }

    /// Wraps the message in `envelope` for inspection; the message stays there.
    pub(crate) fn seen(envelope: &'a mut EnvelopeContent) -> Self {
        Self { envelope, slice: None }
    }

    /// Moves the message of a package into `envelope`, and wraps it.
    pub(crate) fn of(package: Package, envelope: &'a mut EnvelopeContent) -> Self {
        let (_, payload, caller) = package.into_parts();
        *envelope = EnvelopeContent { word: caller.map_or(ptr::null_mut(), Caller::into_word), payload: Some(payload) };
        Self { envelope, slice: None }
    }

    /// Opens and enters the span in which the message is handled, if a subscriber wants it.
    pub(crate) fn enter_span(&self) -> Option<EnteredSpan<HeldSpan>> {
        let payload = self.envelope.payload.as_ref()?;
        spans::open(payload.origin(), None, payload.type_name()).map(HeldSpan::enter)
    }

    /// Returns whether the message is an `M`.
    #[inline]
    pub fn is<M: 'static>(&self) -> bool {
        self.envelope.payload.as_ref().is_some_and(Payload::is::<M>)
    }

    /// Returns a reference to the message if it is an `M`. Takes `&mut self` because the message may not be `Sync`.
    pub fn peek<M: Send + 'static>(&mut self) -> Option<&M> {
        self.envelope.payload.as_mut()?.get_mut().map(|message| &*message)
    }

    /// Returns the name of the message's type.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        self.envelope.payload.as_ref().map(Payload::type_name)
    }

    #[inline]
    pub(crate) fn open<M: Send + 'static>(&mut self) -> Option<(M, Option<Caller>)> {
        let message = Payload::take_from(&mut self.envelope.payload)?;
        let caller = self.caller();
        if let Some(slice) = self.slice {
            // The type is recorded here, where it is a constant. To record it where the message is taken would cost
            // four more instructions.
            slice.note_message_of::<M>();
        }
        Some((message, caller))
    }

    /// Like `open`, but leaves the message in its node. Returns `None` if it is not an `M`.
    #[inline(always)]
    pub(crate) fn open_held<M: Send + 'static>(&mut self) -> Option<(HeldMessage<M>, Option<Caller>)> {
        let message = Payload::hold_from(&mut self.envelope.payload)?;
        let caller = self.caller();
        if let Some(slice) = self.slice {
            slice.note_message_of::<M>();
        }
        Some((message, caller))
    }

    #[inline]
    fn caller(&mut self) -> Option<Caller> {
        // SAFETY: the word of a message is its caller or null, and is replaced by null here.
        unsafe { Caller::from_word(std::mem::replace(&mut self.envelope.word, ptr::null_mut())) }
    }

    /// Converts the message into a package for `to`, unless it was opened.
    pub(crate) fn into_package(mut self, to: Pid) -> Option<Package> {
        let payload = self.envelope.payload.take()?;
        if let Some(slice) = self.slice {
            slice.note_message(&payload);
        }
        let caller = self.caller();
        Some(Package::from_parts(to, payload, caller))
    }
}

impl_debug!([] Mail<'_>, self => "Mail" { message: self.type_name() });
