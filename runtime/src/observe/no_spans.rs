//! Stubs in place of [`spans`](super::spans) without the feature `spans`: the same names, for spans and origins that
//! cannot exist. The compiler removes the code that depends on them.

use crate::pid::Pid;
use std::borrow::Borrow;
use std::convert::Infallible;
use std::marker::PhantomData;

#[inline(always)]
pub(crate) const fn may_be_wanted() -> bool {
    false
}

pub(crate) struct HeldSpan(Infallible);

impl HeldSpan {
    pub(crate) fn enter<S: Borrow<Self>>(this: S) -> EnteredSpan<S> {
        match this.borrow().0 {}
    }
}

pub(crate) struct EnteredSpan<S>(Infallible, PhantomData<S>);

#[derive(Clone)]
pub(crate) struct Origin(Infallible);

impl Origin {
    #[inline(always)]
    pub(crate) const fn of_thread() -> Option<Self> {
        None
    }

    pub(crate) fn sender(&self) -> Option<Pid> {
        match self.0 {}
    }

    pub(crate) fn without_span(&self) -> Option<Self> {
        match self.0 {}
    }

    pub(crate) fn enter(&self) -> EnteredSpan<&HeldSpan> {
        match self.0 {}
    }
}

#[inline(always)]
pub(crate) fn on_behalf_of<R>(_: Option<Origin>, body: impl FnOnce() -> R) -> R {
    body()
}

#[inline(always)]
pub(crate) fn open(_: Option<Origin>, _: Option<Pid>, _: &'static str) -> Option<HeldSpan> {
    None
}

#[inline(always)]
pub(crate) fn note_stop(_: Option<Origin>) {}

#[inline(always)]
pub(crate) fn enter_stop(_: Pid) -> Option<EnteredSpan<HeldSpan>> {
    None
}
