//! A step blocks: its thread hands its worker to another one meanwhile, so that the others run, and comes back for one.
//!
//! The protocol is `handoff`'s. What blocks runs here, on the stack of the step, in which its borrows live; it runs outside of
//! the context, so that what it sends counts as sent from outside, whoever runs with that worker by then.

use super::handoff::{Back, HandedOff};
use super::host::Host;
use super::local::{Context, with_current};
use super::permits::Need;
use super::thread::{CALLED, LOST};
use crate::clock::forget_now;
use crate::sync::{Ordering, fence, lock, park};

/// Runs `block`, which waits for another process; inside a process another thread runs the others meanwhile.
pub(crate) fn while_blocked<R>(block: impl FnOnce() -> R) -> R {
    in_step(Need::Process, block)
}

/// Runs `block`, which blocks its thread (a system call, a foreign lock, a long computation): inside a process another thread
/// runs the other processes meanwhile, and the step goes on when it has a worker again. Outside of a process it simply runs.
///
/// For code that has no `ctx`, such as a library that is called from a method. `block` may borrow; a panic in it is the
/// step's. What it sends counts as sent from outside. Costs a hand-over to another thread, some microseconds; a new thread
/// if all that there are block, up to [`Builder::blocking_threads`](crate::Builder::blocking_threads); beyond that the worker
/// is blocked, which is counted and logged.
///
/// ```
/// use postroom::prelude::*;
///
/// #[process]
/// #[derive(Default)]
/// struct Reader;
///
/// #[process]
/// impl Reader {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn length(&mut self, path: String) -> u64 {
///         postroom::block_in_place(|| std::fs::metadata(&path).map_or(0, |data| data.len()))
///     }
/// }
///
/// let runtime = Runtime::new()?;
/// let reader = runtime.spawn(Reader).serve()?;
/// assert_eq!(reader.length("/no/such/file".to_string()).wait()?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn block_in_place<R>(block: impl FnOnce() -> R) -> R {
    in_step(Need::Blocking, block)
}

/// Runs `block` in a process while another thread runs the others; not at all if there is none to be had.
pub(crate) fn while_handed_off<R>(block: impl FnOnce() -> R) -> Option<R> {
    with_current(|context| {
        let context = context.filter(|context| context.thread.running().is_some())?;
        if context.hand_off(Need::Blocking) {
            return Some(context.outside(block));
        }
        context.host.idle.has_stayed(context.index);
        None
    })
}

fn in_step<R>(need: Need, block: impl FnOnce() -> R) -> R {
    with_current(|context| match context.filter(|context| context.thread.running().is_some()) {
        None => block(),
        Some(context) if context.hand_off(need) => context.outside(block),
        Some(context) => context.in_place(block),
    })
}

impl Context {
    /// H1 and H2. Gives whether somebody else has the worker; if not, the step blocks in its place.
    fn hand_off(&self, need: Need) -> bool {
        let host = self.host;
        loop {
            match host.idle.hand_off(self.index, need) {
                HandedOff::ToStandby(next) => {
                    host.leave_behind(self.index, self.thread);
                    host.unpark(next);
                    return true;
                }
                HandedOff::ToWaiting(next) => {
                    host.unpark(next);
                    self.keep_for_others();
                    host.leave_behind(self.index, self.thread);
                    host.announce();
                    return true;
                }
                HandedOff::HadNone => return true,
                HandedOff::Stays => return false,
                HandedOff::Grow => {
                    if let Err(error) = host.grow(need) {
                        tracing::error!(%error, host = %host.config.name, "no thread for a step that blocks could be started");
                        return false;
                    }
                }
            }
        }
    }

    /// H3, and back.
    fn outside<R>(&self, block: impl FnOnce() -> R) -> R {
        struct ComesBack<'a>(&'a Context);
        impl Drop for ComesBack<'_> {
            fn drop(&mut self) {
                self.0.come_back();
            }
        }
        self.step_out(|| {
            let _comes_back = ComesBack(self);
            let output = block();
            forget_now();
            output
        })
    }

    /// Blocks with the worker.
    fn in_place<R>(&self, block: impl FnOnce() -> R) -> R {
        struct Stayed<'a>(&'a Context);
        impl Drop for Stayed<'_> {
            fn drop(&mut self) {
                self.0.host.idle.has_stayed(self.0.index);
            }
        }
        self.host.ran_in_place.add_shared(1);
        self.tell_in_place();
        self.step_out(|| {
            let _stayed = Stayed(self);
            let output = block();
            forget_now();
            output
        })
    }

    /// Says so, once for each type of process.
    fn tell_in_place(&self) {
        let names = self.thread.running().and_then(|slot| slot.card.names());
        let (process, entry) = names.unwrap_or(("?", "?"));
        if lock(&self.host.in_place_told).insert(process) {
            let bound = self.host.config.blocking_threads;
            tracing::warn!(
                pid = ?self.pid(), process, entry, bound,
                "a step blocks its worker: there are as many threads as there may be; see `Builder::blocking_threads`"
            );
        }
    }

    /// B1 and B2: for a worker to go on with the step.
    fn come_back(&self) {
        let host = self.host;
        let mut back = host.idle.come_back(self.index, false);
        if let Back::Waits(others) = &back {
            for &other in others {
                if let Some(thread) = host.threads.get(other) {
                    thread.call(CALLED);
                }
            }
            back = loop {
                match host.idle.served(self.index) {
                    Some(back) => break back,
                    None => park(None),
                }
            };
            if host.idle.is_wanted() {
                // Whoever still waits has not called this one.
                self.thread.call(CALLED);
            }
        }
        match back {
            Back::With(worker, displaced) => {
                self.take_up(worker);
                displaced.into_iter().for_each(|displaced| host.unpark(displaced));
            }
            Back::Stray | Back::Waits(_) => self.thread.call(LOST),
        }
    }

    /// From here on it has that worker.
    pub(super) fn take_up(&self, worker: usize) {
        self.worker_index.set(worker);
        self.worker.set(&self.host.workers[worker]);
    }
}

impl Host {
    /// M1 to M4: `number` has been in the same step for long, and others wait. Its worker goes to another thread, and its step
    /// goes on where it is. Gives whether that was so: not if there are as many threads as there may be, or if it has no worker.
    ///
    /// For whoever looks again as long as there are strays.
    #[allow(dead_code, reason = "the monitor's")]
    pub(crate) fn take_over(&'static self, number: usize) -> bool {
        let Some(thread) = self.threads.get(number) else { return false };
        let next = loop {
            match self.idle.take_over(number) {
                HandedOff::ToStandby(next) | HandedOff::ToWaiting(next) => break next,
                HandedOff::HadNone | HandedOff::Stays => return false,
                HandedOff::Grow => {
                    if let Err(error) = self.grow(Need::Blocking) {
                        tracing::error!(%error, host = %self.config.name, "no thread to take over from a stalled step could be started");
                        return false;
                    }
                }
            }
        };
        thread.call(LOST);
        fence(Ordering::SeqCst);
        if let Some(token) = thread.take_run_next() {
            self.push_global(token);
        }
        self.leave_behind(number, thread);
        self.unpark(next);
        self.announce();
        true
    }
}
