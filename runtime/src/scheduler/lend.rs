//! How a thread whose process blocks lends its worker to another one, so that the others run meanwhile.
//!
//! The thread that blocks gives everything that it runs processes with, its context, to a stand-in: a new thread, which
//! takes its place in every respect. When the wait is over it takes the context back from whoever has it by then, which
//! comes to pass at the end of a step, and goes on with its own step. So no two steps run at a time with one worker, but
//! for those that block; and what was queued behind the blocking one is run by the stand-in.
//!
//! This is what waiting for an answer inside a process needs (`.wait()` on the only worker must let the called process
//! run). Handing the worker on for blocking work of the user's own is a later part of this project.

use super::host::Blocked;
use super::local::{Context, with_current};
use super::seat::Shared;
use crate::oneshot::{Waiter, be_seen_as};
use crate::sync::{Arc, AtomicUsize, Ordering, lock, spawn_thread};
use crate::table::Slot;
use std::cell::RefCell;
use std::ptr;

/// How many threads of a program may block in processes at a time with a stand-in each; one more blocks its worker.
const STAND_INS: usize = 256;

static BLOCKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The context that this thread runs processes with.
    static MINE: RefCell<Option<Arc<Shared<Context>>>> = const { RefCell::new(None) };
}

/// Runs processes with `context` until the host stops or somebody wants the context back.
pub(crate) fn occupy(context: &Arc<Shared<Context>>) {
    MINE.set(Some(context.clone()));
    crate::clock::go_by(context.host.told);
    crate::caller::collect_orphans();
    crate::panics::contain_thread();
    crate::dead_letter::set_sink(Some(context.host));
    context.thread.occupy();
    context.user.within(|| context.enter(Context::run));
    if context.host.is_stopped() {
        context.worker.give_back();
    }
    context.seat.lay_down();
    MINE.set(None);
}

/// Whether the calling thread is one of a host's, also while its process waits on its stack.
pub(crate) fn is_of_a_host() -> bool {
    // Not there any more in the destructors of a thread's own variables.
    MINE.try_with(|mine| mine.borrow().is_some()).unwrap_or(false)
}

/// Runs `block`, which waits for something; inside a process another thread runs the others meanwhile.
pub(crate) fn while_blocked<R>(block: impl FnOnce() -> R) -> R {
    let inside = with_current(|context| context.is_some_and(|context| context.thread.running().is_some()));
    let mine = if inside { MINE.with_borrow(Clone::clone) } else { None };
    let loan = mine.as_ref().and_then(Loan::begin);
    match (&mine, loan) {
        (Some(context), Some(loan)) => lent(context, loan, block),
        // Not in a process, or no stand-in to be had.
        _ => block(),
    }
}

/// Runs `block` in a process while another thread runs the others; not at all if there is none to be had.
pub(crate) fn while_lent<R>(block: impl FnOnce() -> R) -> Option<R> {
    let inside = with_current(|context| context.is_some_and(|context| context.thread.running().is_some()));
    let context = if inside { MINE.with_borrow(Clone::clone) } else { None }?;
    let loan = Loan::begin(&context)?;
    Some(lent(&context, loan, block))
}

fn lent<R>(context: &Arc<Shared<Context>>, loan: Loan, block: impl FnOnce() -> R) -> R {
    context.step_out(|| {
        let _back_at_the_end = loan;
        let output = block();
        crate::clock::forget_now();
        output
    })
}

/// A context that another thread has. Dropping the loan waits for it to come back.
struct Loan {
    context: Arc<Shared<Context>>,
    running: &'static Slot,
}

impl Loan {
    /// Starts a stand-in for the calling thread, if there can be one more.
    fn begin(context: &Arc<Shared<Context>>) -> Option<Self> {
        let running = context.thread.running()?;
        if BLOCKED.fetch_add(1, Ordering::Relaxed) >= STAND_INS {
            BLOCKED.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let loan = Self { context: context.clone(), running };
        context.thread.running.store(ptr::null_mut(), Ordering::Relaxed);
        let host = context.host;
        let waiter = Waiter::new(host);
        be_seen_as(Some(waiter.clone()));
        lock(&host.blocked).push(Blocked { slot: running, waiter });
        let (theirs, name) = (context.clone(), format!("{}-{}+", host.config.name, context.index));
        // From here on the context is the stand-in's.
        match spawn_thread(name, move || occupy(&theirs)) {
            Ok(thread) => {
                let mut threads = lock(&host.running);
                // Stand-ins that have ended are let go here, so that their number stays that of the blocked.
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Some(loan)
            }
            Err(_) => {
                // There is no stand-in to come back from.
                context.seat.lay_down();
                drop(loan);
                None
            }
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let context = &self.context;
        context.seat.want();
        context.thread.unpark();
        context.seat.take();
        context.thread.occupy();
        context.thread.running.store(ptr::from_ref(self.running).cast_mut(), Ordering::Relaxed);
        let mut blocked = lock(&context.host.blocked);
        if let Some(place) = blocked.iter().position(|blocked| ptr::eq(blocked.slot, self.running)) {
            blocked.swap_remove(place);
        }
        drop(blocked);
        be_seen_as(None);
        BLOCKED.fetch_sub(1, Ordering::Relaxed);
    }
}
