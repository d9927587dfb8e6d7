//! A stand-in for what is handed over once: no process of a model is asked what binds it.

use std::marker::PhantomData;

pub(crate) struct Oneshot<T>(PhantomData<T>);

impl<T> Oneshot<T> {
    pub(crate) fn put(&self, _value: T) {}
}
