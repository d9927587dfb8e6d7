//! The state machine that owns a struct, and whatever future is pending.
//!
//! A [`Machine`] is a [`Process`]: the scheduler steps it, and so can a test, without a runtime. It serves messages one by
//! one; a process whose methods are all sync never leaves that state, and the code for futures is not even compiled for
//! it. An async entry or method takes the struct and its context into a future and gives them back at its end, so that
//! dropping the future (a kill) drops the struct with it, the method's locals first.

use super::context::{Context, run_continuation};
use super::definition::{Actor, Delivery, names};
use super::entry::{Begin, Finished, Inputs, Pending, Start};
use super::waits::{self, Waits};
use super::waker::{self, Owner};
use crate::clock::Moment;
use crate::errors::{InitError, ProcessError, StepError};
use crate::exit::{Cancel, ExitReason, Signal};
use crate::package::Package;
use crate::payload::Payloads;
use crate::process::output::Status;
use crate::process::{Event, Events, InitContext, Process, StepOutput};
use crate::scheduler::birth::First;
use crate::table::ProcessKind;
use std::any::TypeId;
use std::fmt;
use std::task::{Context as TaskContext, Poll};

enum State<P> {
    /// Not started.
    New(P),
    /// Takes messages one by one.
    Serving(P, Context<P>),
    /// A method has it.
    Away(Pending<P>),
    /// It is over. What is left of it is dropped when it is closed, so that whoever it leaves unanswered learns why.
    Over(Option<Remains<P>>),
}

#[expect(dead_code, reason = "kept to be dropped")]
enum Remains<P> {
    Struct(P, Context<P>),
    Future(Pending<P>),
}

impl<P> State<P> {
    /// Takes the state out of its place, which is over.
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Over(None))
    }

    /// Nothing more happens in it.
    fn finish(&mut self) {
        *self = Self::Over(match self.take() {
            Self::New(_) => None,
            Self::Serving(process, context) => Some(Remains::Struct(process, context)),
            Self::Away(future) => Some(Remains::Future(future)),
            Self::Over(remains) => remains,
        });
    }
}

/// A struct with `#[process]` as a [`Process`].
///
/// ```
/// use postroom::prelude::*;
/// use postroom::{Machine, this_node};
///
/// #[process]
/// struct Counter { count: i64 }
///
/// #[process]
/// impl Counter {
///     #[entry]
///     fn serve(&mut self, start: i64) { self.count = start; }
///     #[message]
///     fn add(&mut self, amount: i64) { self.count += amount; }
/// }
///
/// // No runtime: each step is made by hand.
/// let mut machine = Machine::new(Counter { count: 0 });
/// machine.init(&mut InitContext::detached(), "serve", payloads![40])?;
/// let pid: Pid = format!("<{}.0.0.1>", this_node()).parse()?;
/// let mut events = Events::of([Event::Message(Package::new(pid, CounterAdd { amount: 2 }))]);
/// machine.step(&mut events, &mut StepOutput::new())?;
/// assert_eq!(machine.get().map(|counter| counter.count), Some(42));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Machine<P: Actor> {
    state: State<P>,
    waits: Option<Box<Waits>>,
    owner: Owner,
    /// Of the caller whose async method is pending.
    deadline: Option<Moment>,
}

/// What is known of the processes of type `P`.
pub(crate) struct KindOf<P>(std::marker::PhantomData<P>);

impl<P: Actor> KindOf<P> {
    pub(crate) const KIND: &'static ProcessKind = &ProcessKind { name: || P::NAME, type_id: TypeId::of::<P>() };
}

impl<P: Actor> Machine<P> {
    /// A machine for a struct that has not been started.
    pub fn new(process: P) -> Self {
        Self { state: State::New(process), waits: None, owner: None, deadline: None }
    }

    /// The struct; `None` while an async method has it, and when the process is over.
    pub fn get(&self) -> Option<&P> {
        match &self.state {
            State::New(process) | State::Serving(process, _) => Some(process),
            State::Away(_) | State::Over(_) => None,
        }
    }

    /// The struct, to do with it what a test wants.
    pub fn get_mut(&mut self) -> Option<&mut P> {
        match &mut self.state {
            State::New(process) | State::Serving(process, _) => Some(process),
            State::Away(_) | State::Over(_) => None,
        }
    }

    /// Starts with an entry that is known.
    pub(crate) fn start(&mut self, ctx: &InitContext<'_>, start: Start<P>) -> Result<First, InitError> {
        let entry = P::ENTRIES[start.index].name;
        match start.begin {
            Begin::Sync(begin) => self.start_sync(ctx, entry, begin),
            Begin::Future(begin) => self.start_future(ctx, entry, begin),
        }
    }

    pub(crate) fn start_sync(
        &mut self,
        ctx: &InitContext<'_>,
        entry: &'static str,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError>,
    ) -> Result<First, InitError> {
        let (mut process, mut context) = self.take_new(ctx, entry)?;
        let owner = self.owner;
        let begun = waits::enter(&mut self.waits, owner, || begin(&mut process, &mut context));
        let rest = self.waits.as_ref().is_none_or(|waits| waits.is_at_rest());
        self.state = State::Serving(process, context);
        begun.map(|()| if rest { First::Rest } else { First::Step })
    }

    pub(crate) fn start_future(
        &mut self,
        ctx: &InitContext<'_>,
        entry: &'static str,
        begin: impl FnOnce(P, Context<P>) -> Pending<P>,
    ) -> Result<First, InitError> {
        let (process, context) = self.take_new(ctx, entry)?;
        self.state = State::Away(begin(process, context));
        Ok(First::Step)
    }

    fn take_new(&mut self, ctx: &InitContext<'_>, entry: &'static str) -> Result<(P, Context<P>), InitError> {
        self.owner = waker::owner_of(ctx.pid());
        match self.state.take() {
            State::New(process) => Ok((process, Context::new(ctx.pid(), ctx.parent(), entry))),
            started => {
                self.state = started;
                Err(InitError::Twice)
            }
        }
    }

    /// One step, with this process's table in place.
    fn step_inside(
        state: &mut State<P>,
        owner: Owner,
        events: &mut Events<'_>,
        out: &mut StepOutput<'_>,
    ) -> Result<(), ProcessError> {
        loop {
            match state {
                State::New(_) => {
                    return Err(StepError::BeforeInit.into());
                }
                State::Over(_) => {
                    return Err(StepError::AfterDone.into());
                }
                State::Serving(process, context) => {
                    if let Some(served) = Self::serve(process, context, events)?.then_away() {
                        Self::send_away(state, served);
                        continue;
                    }
                    if let Some(reason) = waits::peek(|waits| waits.take_end()).flatten() {
                        out.status = Status::Ended(reason, None);
                        state.finish();
                    }
                    return Ok(());
                }
                State::Away(future) => {
                    match Self::poll_away(future, owner, events) {
                        Away::Idle => {}
                        Away::Suspended => out.status = Status::Suspended,
                        Away::Ended(reason) => {
                            out.status = Status::Ended(reason, None);
                            state.finish();
                        }
                        Away::Finished(Finished::Method(process, context, failed)) => {
                            *state = State::Serving(process, context);
                            match failed {
                                Some(error) => return Err(error),
                                None => continue,
                            }
                        }
                        Away::Finished(Finished::Entry(process, context, result, error)) => {
                            *state = State::Over(Some(Remains::Struct(process, context)));
                            let reason = error.map_or(ExitReason::Normal, ExitReason::error);
                            out.status = Status::Ended(reason, Some(result));
                        }
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Handles what arrives until there is nothing left, or until a message has an async method.
    fn serve(process: &mut P, context: &mut Context<P>, events: &mut Events<'_>) -> Result<Served, ProcessError> {
        loop {
            let mut left_over = None;
            if waits::peek(|_| ()).is_some() {
                if let Some(served) = Self::serve_waits(process, context) {
                    return Ok(served);
                }
                left_over = waits::peek(|waits| waits.aside.pop_front().or_else(|| waits.inbox.pop_front())).flatten();
            }
            let event = match left_over {
                Some(package) => Some(Event::Message(package)),
                None => events.next(),
            };
            match event {
                None => return Ok(Served::All),
                Some(Event::Message(package)) => {
                    if P::ASYNC && P::is_async(&package) {
                        return Ok(Served::Message(package));
                    }
                    match process.deliver(context, package) {
                        Delivery::Failed(error) => return Err(error),
                        Delivery::Unhandled(package) => drop(package),
                        Delivery::Done | Delivery::Pending(_) => {}
                    }
                }
                Some(event) => Self::bring(event),
            }
        }
    }

    /// Runs what the process has waited for. Gives what serving comes to, if it does not go on.
    fn serve_waits(process: &mut P, context: &mut Context<P>) -> Option<Served> {
        // What follows belongs to no caller's message.
        waits::set_deadline(None);
        loop {
            while let Some((number, answer)) = waits::peek(|waits| waits.ready.pop_front()).flatten() {
                run_continuation(process, context, number, answer);
            }
            waits::poll_beside();
            if waits::peek(|waits| !waits.ready.is_empty()) == Some(true) {
                continue;
            }
            while let Some(signal) = waits::peek(|waits| waits.signals.pop_front()).flatten() {
                if P::ASYNC {
                    return Some(Served::Signal(signal));
                }
                if let Err(Signal::Cancel(cancel)) = process.signal(context, signal).map(drop) {
                    waits::with(|waits| waits.end = Some(cancel.reason));
                }
            }
            if waits::peek(|waits| waits.is_ending()) == Some(true) {
                return Some(Served::All);
            }
            // A signal method may have started some.
            if waits::peek(|waits| waits.has_new_beside()) != Some(true) {
                return None;
            }
        }
    }

    /// Takes the struct into a future for an async method.
    fn send_away(state: &mut State<P>, for_what: Served) {
        let State::Serving(mut process, mut context) = state.take() else {
            return;
        };
        *state = State::Away(Box::pin(async move {
            let delivery = match for_what {
                Served::Message(package) => process.deliver(&mut context, package),
                Served::Signal(signal) => process.signal(&mut context, signal).unwrap_or_else(|signal| {
                    if let Signal::Cancel(cancel) = signal {
                        waits::with(|waits| waits.end = Some(cancel.reason));
                    }
                    Delivery::Done
                }),
                Served::All => Delivery::Done,
            };
            let failed = finish(delivery).await;
            Finished::Method(process, context, failed)
        }));
    }

    /// Brings a future what it waits for, and polls it.
    fn poll_away(future: &mut Pending<P>, owner: Owner, events: &mut Events<'_>) -> Away<P> {
        let waker = waker::waker_of(owner);
        loop {
            while let Some(event) = events.next_control() {
                Self::bring(event);
            }
            waits::poll_beside();
            waits::rouse();
            if let Some(reason) = waits::peek(|waits| waits.take_end()).flatten() {
                return Away::Ended(reason);
            }
            if let Poll::Ready(finished) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
                return Away::Finished(finished);
            }
            let (wants, end) = waits::peek(|waits| (waits.wants_message, waits.take_end())).unwrap_or((false, None));
            if let Some(reason) = end {
                return Away::Ended(reason);
            }
            if waits::peek(|waits| waits.has_new_beside()) == Some(true) {
                continue;
            }
            if !wants {
                return Away::Suspended;
            }
            match events.next() {
                None => {
                    // Not so if the budget of the step is used.
                    let empty = !events.has_messages();
                    waits::peek(|waits| waits.seen_empty = empty);
                    return Away::Idle;
                }
                Some(event) => Self::bring(event),
            }
        }
    }

    /// Puts an event where the future will find it.
    fn bring(event: Event) {
        let wakers = waits::with(|waits| match event {
            Event::Message(package) => {
                waits.inbox.push_back(package);
                Vec::new()
            }
            Event::Completed { tag, result } => waits.answer(tag, result),
            // Told twice: by a shutdown, and by the spawn that met it.
            Event::Signal(Signal::Cancel(Cancel { reason: ExitReason::Shutdown }))
                if waits.cancelled == Some(ExitReason::Shutdown) =>
            {
                Vec::new()
            }
            Event::Signal(Signal::Cancel(cancel)) => {
                waits.cancelled = Some(cancel.reason.clone());
                if let Some(wakers) = waits.cancel_wakers() {
                    return wakers;
                }
                if P::SIGNALS.contains(&"Cancel") {
                    waits.signals.push_back(Signal::Cancel(cancel));
                } else if !waits.is_shielded() {
                    waits.end = Some(cancel.reason);
                } else {
                    waits.end_after_shield = Some(cancel.reason);
                }
                Vec::new()
            }
            Event::Signal(signal) => {
                waits.signals.push_back(signal);
                Vec::new()
            }
        });
        wakers.into_iter().flatten().for_each(std::task::Waker::wake);
    }
}

/// Sees a delivery to its end. Gives the error that ends the process, if there is one.
async fn finish(mut delivery: Delivery<'_>) -> Option<ProcessError> {
    loop {
        delivery = match delivery {
            Delivery::Done => return None,
            Delivery::Failed(error) => return Some(error),
            Delivery::Unhandled(package) => {
                drop(package);
                return None;
            }
            Delivery::Pending(future) => future.await,
        };
    }
}

/// How far serving came.
enum Served {
    All,
    /// A message with an async method.
    Message(Package),
    /// A signal that may have an async method.
    Signal(Signal),
}

impl Served {
    fn then_away(self) -> Option<Self> {
        match self {
            Self::All => None,
            other => Some(other),
        }
    }
}

/// What became of a future.
enum Away<P> {
    /// It waits for a message.
    Idle,
    /// It waits for something else.
    Suspended,
    Ended(ExitReason),
    Finished(Finished<P>),
}

impl<P: Actor> Process for Machine<P> {
    fn entries(&self) -> &'static [&'static str] {
        names::<P>()
    }

    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        let start = P::start_by_name(entry, Inputs::values(input))?;
        self.start(ctx, start).map(drop)
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let (state, owner) = (&mut self.state, self.owner);
        let outer = waits::set_deadline(self.deadline);
        let result = waits::enter(&mut self.waits, owner, || Self::step_inside(state, owner, events, out));
        let deadline = waits::set_deadline(outer);
        self.deadline = deadline.filter(|_| matches!(self.state, State::Away(_)));
        result
    }

    fn close(&mut self) {
        // Whatever is pending ends with its process's table in place, so that what it waits for is cancelled.
        let state = self.state.take();
        let owner = self.owner;
        waits::enter(&mut self.waits, owner, || {
            drop(state);
            waits::leave();
        });
    }

    fn handles_cancel(&self) -> bool {
        true
    }
}

impl<P: Actor> fmt::Debug for Machine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::New(_) => "new",
            State::Serving(..) => "serving",
            State::Away(_) => "in an async method",
            State::Over(_) => "over",
        };
        write!(f, "Machine<{}>({state})", P::NAME)
    }
}
