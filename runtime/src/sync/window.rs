//! Windows between two steps of a protocol, which unit tests can widen. A test registers an action for a window, and
//! the same thread performs the action once, when it next passes the window.

use std::cell::RefCell;

/// A point in a protocol at which other threads can intervene.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Window {
    /// A caller has determined the called process, but has not yet sent its message.
    BeforeCall,
    /// A sender has found the receiver alive, but has not yet pushed its message.
    BeforeMessage,
    /// A caller has pushed its message, but has not yet checked whether the process is still alive.
    BeforeLook,
    /// A process has sent the message of a call, but has not yet published that it waits.
    BeforeWait,
    /// A requester has found the process alive, but has not yet pushed its request.
    BeforeRequest,
    /// A token has been parked, but its holder has not yet checked the control lane again.
    AfterParking,
    /// Something has been pushed to the control lane, but the token, if parked, has not yet been claimed.
    BeforeClaim,
    /// A process on the short path of exit has found that it leaves nothing behind, but its slot has not yet been
    /// reused.
    BeforeReuse,
    /// A flush has not yet taken all tokens.
    InFlush,
    /// A thread has found that it has its permit, but has not yet queued a process in its deque.
    BeforeSharing,
}

type Action = Box<dyn FnOnce()>;

thread_local! {
    static ACTIONS: RefCell<Vec<(Window, Action)>> = const { RefCell::new(Vec::new()) };
}

/// Registers `action`, to be performed when the calling thread next passes `window`.
pub(crate) fn do_in(window: Window, action: impl FnOnce() + 'static) {
    ACTIONS.with_borrow_mut(|actions| actions.push((window, Box::new(action))));
}

/// Performs the action that the calling thread has registered for `window`, if any.
pub(crate) fn pass(window: Window) {
    let action = ACTIONS.with_borrow_mut(|actions| {
        let place = actions.iter().position(|(at, _)| *at == window)?;
        Some(actions.remove(place).1)
    });
    if let Some(action) = action {
        action();
    }
}
