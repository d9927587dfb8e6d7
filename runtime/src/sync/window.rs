//! Windows between two steps of a protocol, which unit tests make wide: what a test has put there is done once, by the
//! test's own thread or the one that it runs on, when that comes by.

use std::cell::RefCell;

/// Where something can happen meanwhile.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Window {
    /// A caller has looked who is called, and has not sent its message.
    BeforeCall,
    /// A sender has found the receiver of its message alive, and has not pushed that.
    BeforeMessage,
    /// A requester has found the process alive, and has not pushed its request.
    BeforeRequest,
    /// A token has been parked, and its holder has not looked at the control lane again.
    AfterParking,
    /// Something has been pushed to the control lane, and the token has not been claimed if it is parked.
    BeforeClaim,
    /// A process that takes the short way has seen that it leaves nothing, and its slot has not been used again.
    BeforeReuse,
    /// A flush has not got all tokens.
    InFlush,
    /// A thread has seen that it has its permit, and has not queued a process in its deque.
    BeforeSharing,
}

type Action = Box<dyn FnOnce()>;

thread_local! {
    static ACTIONS: RefCell<Vec<(Window, Action)>> = const { RefCell::new(Vec::new()) };
}

/// Has `action` done when the calling thread next comes by that window.
pub(crate) fn do_in(window: Window, action: impl FnOnce() + 'static) {
    ACTIONS.with_borrow_mut(|actions| actions.push((window, Box::new(action))));
}

/// The calling thread comes by that window.
pub(crate) fn pass(window: Window) {
    let action = ACTIONS.with_borrow_mut(|actions| {
        let place = actions.iter().position(|(at, _)| *at == window)?;
        Some(actions.remove(place).1)
    });
    if let Some(action) = action {
        action();
    }
}
