//! Callbacks: their panics are contained, and the callback of a question runs exactly once.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a callback. Returns false if it panicked, in which case its argument is lost.
pub(crate) fn run(callback: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(callback)) else { return true };
    // Dropping the payload may panic, and dropping the payload of that panic may panic as well.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    false
}

/// The callback of a question. If the task that should answer is dropped, for example with the engine, the answer is
/// `otherwise`.
pub(crate) struct Completion<T: Send + 'static> {
    then: Option<Box<dyn FnOnce(T) + Send>>,
    otherwise: fn() -> T,
}

impl<T: Send + 'static> Completion<T> {
    pub(crate) fn new(then: Box<dyn FnOnce(T) + Send>, otherwise: fn() -> T) -> Self {
        Self { then: Some(then), otherwise }
    }

    /// Runs the callback. Returns false if it panicked.
    pub(crate) fn complete(mut self, answer: T) -> bool {
        self.then.take().is_none_or(|then| run(|| then(answer)))
    }
}

impl<T: Send + 'static> Drop for Completion<T> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            run(|| then((self.otherwise)()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Panics when it is dropped, with another such value as the payload.
    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                std::panic::panic_any(Bomb(left));
            }
        }
    }

    #[test]
    fn a_question_is_answered_once() {
        let answers: Arc<Mutex<Vec<u32>>> = Arc::default();
        let ask = || {
            let answers = Arc::clone(&answers);
            Completion::new(Box::new(move |answer| answers.lock().unwrap().push(answer)), || 0)
        };
        assert!(ask().complete(1));
        drop(ask());
        assert_eq!(*answers.lock().unwrap(), [1, 0]);
    }

    #[test]
    fn panics_of_callbacks_end_there() {
        assert!(run(|| {}));
        assert!(!run(|| panic!("as users' code may")));
        assert!(!run(|| std::panic::panic_any(Bomb(2))));
        assert!(!Completion::new(Box::new(|_| panic!("as users' code may")), || 0).complete(1));
        drop(Completion::new(Box::new(|_| panic!("as users' code may")), || 0));
    }
}
