//! The state machine that owns a struct, and whatever future is pending.
//!
//! A [`Machine`] is a [`Process`]: the scheduler steps it, and so can a test, without a runtime. It serves messages one by
//! one; a process whose methods are all sync never leaves that state, and the code for futures is not even compiled for
//! it. An async entry or method takes the struct and its context into a future and gives them back at its end, so that
//! dropping the future (a kill) drops the struct with it, the method's locals first.

use super::active::{self, Seat};
use super::context::{Context, run_continuation};
use super::definition::{Actor, Delivery, names};
use super::entry::{Begin, Finished, Inputs, Pending, Start};
use super::waits;
use super::waker;
use crate::clock::Moment;
use crate::errors::{InitError, ProcessError, StepError};
use crate::exit::{Cancel, ExitReason, Signal};
use crate::mail::Mail;
use crate::mailbox::node::Content;
use crate::package::Package;
use crate::payload::Payloads;
use crate::pid::Pid;
use crate::process::event::Feed;
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
    /// A method has it, and acts for someone who stops waiting then.
    Away(Pending<P>, Option<Moment>),
    /// It is over. What is left of it is dropped when it is closed, so that whoever it leaves unanswered learns why.
    #[expect(dead_code, reason = "kept to be dropped")]
    OverStruct(P, Context<P>),
    #[expect(dead_code, reason = "kept to be dropped")]
    OverFuture(Pending<P>),
    /// It is over, and nothing is left.
    Over,
}

impl<P> State<P> {
    /// Takes the state out of its place, which is over.
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Over)
    }

    /// Nothing more happens in it.
    fn finish(&mut self) {
        *self = match self.take() {
            Self::New(_) => Self::Over,
            Self::Serving(process, context) => Self::OverStruct(process, context),
            Self::Away(future, _) => Self::OverFuture(future),
            over => over,
        };
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
    seat: Seat,
}

/// What is known of the processes of type `P`.
pub(crate) struct KindOf<P>(std::marker::PhantomData<P>);

impl<P: Actor> KindOf<P> {
    pub(crate) const KIND: &'static ProcessKind = &ProcessKind { name: || P::NAME, type_id: TypeId::of::<P>() };
}

impl<P: Actor> Machine<P> {
    /// A machine for a struct that has not been started.
    pub fn new(process: P) -> Self {
        Self { state: State::New(process), seat: Seat::default() }
    }

    /// The struct; `None` while an async method has it, and when the process is over.
    pub fn get(&self) -> Option<&P> {
        match &self.state {
            State::New(process) | State::Serving(process, _) => Some(process),
            _ => None,
        }
    }

    /// The struct, to do with it what a test wants.
    pub fn get_mut(&mut self) -> Option<&mut P> {
        match &mut self.state {
            State::New(process) | State::Serving(process, _) => Some(process),
            _ => None,
        }
    }

    /// Starts with an entry that is known.
    pub(crate) fn start(&mut self, ctx: &InitContext<'_>, start: Start<P>) -> Result<First, InitError> {
        match start.begin {
            Begin::Sync(begin) => self.start_sync(ctx, begin),
            Begin::Future(begin) => self.start_future(ctx, begin),
        }
    }

    pub(crate) fn start_sync(
        &mut self,
        ctx: &InitContext<'_>,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError>,
    ) -> Result<First, InitError> {
        let (mut process, mut context) = self.take_new(ctx)?;
        let (begun, end) = active::enter(&mut self.seat, active::deadline(), || {
            (begin(&mut process, &mut context), active::take_end())
        });
        if let Some(reason) = end {
            self.seat.end(reason);
        }
        let rest = self.seat.waits.as_ref().is_none_or(|waits| waits.is_at_rest());
        self.state = State::Serving(process, context);
        begun.map(|()| if rest { First::Rest } else { First::Step })
    }

    pub(crate) fn start_future(
        &mut self,
        ctx: &InitContext<'_>,
        begin: impl FnOnce(P, Context<P>) -> Pending<P>,
    ) -> Result<First, InitError> {
        let (process, context) = self.take_new(ctx)?;
        self.state = State::Away(begin(process, context), None);
        Ok(First::Step)
    }

    fn take_new(&mut self, ctx: &InitContext<'_>) -> Result<(P, Context<P>), InitError> {
        self.seat.life = waker::life_of(waker::owner_of(ctx.pid()));
        match self.state.take() {
            State::New(process) => Ok((process, Context::new(ctx.pid()))),
            started => {
                self.state = started;
                Err(InitError::Twice)
            }
        }
    }

    /// One step, with this process's table in place.
    fn step_inside(
        state: &mut State<P>,
        life: u64,
        events: &mut Events<'_>,
        out: &mut StepOutput<'_>,
    ) -> Result<(), ProcessError> {
        loop {
            match state {
                State::New(_) => {
                    return Err(StepError::BeforeInit.into());
                }
                State::Over | State::OverStruct(..) | State::OverFuture(_) => {
                    return Err(StepError::AfterDone.into());
                }
                State::Serving(process, context) => {
                    if let Some(served) = Self::serve(process, context, events)?.then_away() {
                        Self::send_away(state, served);
                        continue;
                    }
                    if let Some(reason) = active::take_end() {
                        out.set(Status::Ended(reason, None));
                        state.finish();
                    }
                    return Ok(());
                }
                State::Away(future, deadline) => {
                    active::set_deadline(*deadline);
                    let polled = Self::poll_away(future, life, events);
                    *deadline = active::deadline();
                    match polled {
                        Away::Idle => {}
                        Away::Suspended => out.set(Status::Suspended),
                        Away::Ended(reason) => {
                            out.set(Status::Ended(reason, None));
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
                            *state = State::OverStruct(process, context);
                            let reason = error.map_or(ExitReason::Normal, ExitReason::error);
                            out.set(Status::Ended(reason, Some(result)));
                        }
                    }
                    return Ok(());
                }
            }
        }
    }

    /// A step of a process that waits for something, or that something else than messages has come for.
    #[inline(never)]
    fn step_with_table(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let (state, life) = (&mut self.state, self.seat.life);
        active::enter(&mut self.seat, None, || Self::step_inside(state, life, events, out))
    }

    /// Handles messages as long as there is nothing else to see to: what most steps consist of. Gives whether that is why it
    /// ends; if not, there are no more.
    #[inline(always)]
    fn serve_mail_only(process: &mut P, context: &mut Context<P>, feed: &mut Feed) -> Result<bool, ProcessError> {
        while let Some(mut mail) = feed.mail() {
            if P::ASYNC && P::is_async(&mail) {
                Self::set_aside(context, mail);
                return Ok(true);
            }
            let fault = match process.deliver(context, &mut mail) {
                Delivery::Done => None,
                // Not for a message that is not async.
                Delivery::Pending(future) => {
                    drop(future);
                    None
                }
                Delivery::Unhandled => Some(None),
                Delivery::Failed(error) => Some(Some(error)),
            };
            match fault {
                None => {}
                Some(None) => Self::refuse(context, mail),
                Some(Some(error)) => return Err(error),
            }
            if active::is_busy() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A message whose method is async is served from the table.
    #[cold]
    fn set_aside(context: &Context<P>, mail: Mail<'_>) {
        let package = context.try_pid().and_then(|pid| mail.into_package(pid));
        active::with(|waits| waits.inbox.extend(package));
    }

    #[cold]
    fn refuse(context: &Context<P>, mail: Mail<'_>) {
        drop(context.try_pid().and_then(|pid| mail.into_package(pid)));
    }

    /// Handles what arrives until there is nothing left, or until a message has an async method.
    fn serve(process: &mut P, context: &mut Context<P>, events: &mut Events<'_>) -> Result<Served, ProcessError> {
        loop {
            if active::is_busy()
                && let Some(served) = Self::serve_first(process, context)?
            {
                return Ok(served);
            }
            if let Some(event) = events.next_control() {
                Self::bring(event);
                continue;
            }
            if let Some(feed) = events.feed_mut() {
                if Self::serve_mail_apart(process, context, feed)? {
                    continue;
                }
                return Ok(Served::All);
            }
            match events.next() {
                None => return Ok(Served::All),
                Some(event) => {
                    if let Some(served) = Self::serve_event(process, context, event)? {
                        return Ok(served);
                    }
                }
            }
        }
    }

    /// The same as [`serve_mail_only`](Self::serve_mail_only), which is put in the place of its call where most steps pass.
    #[inline(never)]
    fn serve_mail_apart(process: &mut P, context: &mut Context<P>, feed: &mut Feed) -> Result<bool, ProcessError> {
        Self::serve_mail_only(process, context, feed)
    }

    fn serve_mail(
        process: &mut P,
        context: &mut Context<P>,
        mut mail: Mail<'_>,
        to: Pid,
    ) -> Result<Option<Served>, ProcessError> {
        if P::ASYNC && P::is_async(&mail) {
            return Ok(mail.into_package(to).map(Served::Message));
        }
        match deliver_apart(process, context, &mut mail) {
            Delivery::Done | Delivery::Pending(_) => Ok(None),
            Delivery::Unhandled => {
                drop(mail.into_package(to));
                Ok(None)
            }
            Delivery::Failed(error) => Err(error),
        }
    }

    #[cold]
    fn serve_event(process: &mut P, context: &mut Context<P>, event: Event) -> Result<Option<Served>, ProcessError> {
        match event {
            Event::Message(package) => {
                let to = package.to();
                Self::serve_mail(process, context, Mail::of(package, &mut Content::empty()), to)
            }
            // Served from the table, before the next message.
            other => {
                Self::bring(other);
                Ok(None)
            }
        }
    }

    /// Serves what comes before the messages of the mailbox.
    fn serve_first(process: &mut P, context: &mut Context<P>) -> Result<Option<Served>, ProcessError> {
        loop {
            if let Some(served) = Self::serve_waits(process, context) {
                return Ok(Some(served));
            }
            let left_over = active::peek(|waits| waits.aside.pop_front().or_else(|| waits.inbox.pop_front())).flatten();
            let Some(package) = left_over else { return Ok(None) };
            if let Some(served) = Self::serve_event(process, context, Event::Message(package))? {
                return Ok(Some(served));
            }
        }
    }

    /// Runs what the process has waited for. Gives what serving comes to, if it does not go on.
    fn serve_waits(process: &mut P, context: &mut Context<P>) -> Option<Served> {
        // What follows belongs to no caller's message.
        active::set_deadline(None);
        loop {
            while let Some((number, answer)) = active::peek(|waits| waits.ready.pop_front()).flatten() {
                run_continuation(process, context, number, answer);
            }
            active::poll_beside();
            if active::peek(|waits| !waits.ready.is_empty()) == Some(true) {
                continue;
            }
            while let Some(signal) = active::peek(|waits| waits.signals.pop_front()).flatten() {
                if P::ASYNC {
                    return Some(Served::Signal(signal));
                }
                if let Err(Signal::Cancel(cancel)) = process.signal(context, signal).map(drop) {
                    active::with(|waits| waits.end = Some(cancel.reason));
                }
            }
            if active::is_ending() {
                return Some(Served::All);
            }
            // A signal method may have started some.
            if active::peek(|waits| waits.has_new_beside()) != Some(true) {
                return None;
            }
        }
    }

    /// Takes the struct into a future for an async method.
    fn send_away(state: &mut State<P>, for_what: Served) {
        let State::Serving(mut process, mut context) = state.take() else {
            return;
        };
        let deadline = active::deadline();
        let future = Box::pin(async move {
            let delivery = match for_what {
                Served::Message(package) => deliver(&mut process, &mut context, package),
                Served::Signal(signal) => process.signal(&mut context, signal).unwrap_or_else(|signal| {
                    if let Signal::Cancel(cancel) = signal {
                        active::with(|waits| waits.end = Some(cancel.reason));
                    }
                    Delivery::Done
                }),
                Served::All => Delivery::Done,
            };
            let failed = finish(delivery).await;
            Finished::Method(process, context, failed)
        });
        *state = State::Away(future, deadline);
    }

    /// Brings a future what it waits for, and polls it.
    fn poll_away(future: &mut Pending<P>, life: u64, events: &mut Events<'_>) -> Away<P> {
        let waker = waker::waker_of(waker::owner_of_life(life));
        loop {
            while let Some(event) = events.next_control() {
                Self::bring(event);
            }
            if active::special().0 {
                active::poll_beside();
                active::rouse();
                if let Some(reason) = active::take_end() {
                    return Away::Ended(reason);
                }
            }
            if let Poll::Ready(finished) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
                return Away::Finished(finished);
            }
            let (special, wants) = active::special();
            if special {
                if let Some(reason) = active::take_end() {
                    return Away::Ended(reason);
                }
                if active::peek(|waits| waits.has_new_beside()) == Some(true) {
                    continue;
                }
            }
            if !wants {
                return Away::Suspended;
            }
            match events.next() {
                None => {
                    // Not so if the budget of the step is used.
                    let empty = !events.has_messages();
                    active::peek(|waits| waits.seen_empty = empty);
                    return Away::Idle;
                }
                Some(event) => Self::bring(event),
            }
        }
    }

    /// Puts an event where the future will find it.
    fn bring(event: Event) {
        let event = match event {
            Event::Completed { tag, result } if !waits::is_deadline(tag) => {
                if let Some(waker) = active::with(|waits| waits.answer(tag, result)).flatten() {
                    waker.wake();
                }
                return;
            }
            other => other,
        };
        let wakers = active::with(|waits| match event {
            Event::Message(package) => {
                waits.inbox.push_back(package);
                Vec::new()
            }
            Event::Completed { .. } => waits.expire(),
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

/// [`Actor::deliver`] is put in the place of its call wherever it is called: where most messages come by, and here.
#[inline(never)]
fn deliver_apart<'a, P: Actor>(process: &'a mut P, context: &'a mut Context<P>, mail: &mut Mail<'_>) -> Delivery<'a> {
    process.deliver(context, mail)
}

/// Hands a package to its method; one without a method is dropped.
pub(crate) fn deliver<'a, P: Actor>(process: &'a mut P, context: &'a mut Context<P>, package: Package) -> Delivery<'a> {
    let to = package.to();
    let mut content = Content::empty();
    let mut mail = Mail::of(package, &mut content);
    let delivery = deliver_apart(process, context, &mut mail);
    if matches!(delivery, Delivery::Unhandled) {
        drop(mail.into_package(to));
    }
    delivery
}

/// Sees a delivery to its end. Gives the error that ends the process, if there is one.
async fn finish(mut delivery: Delivery<'_>) -> Option<ProcessError> {
    loop {
        delivery = match delivery {
            Delivery::Done => return None,
            Delivery::Failed(error) => return Some(error),
            Delivery::Unhandled => return None,
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
        if !self.seat.is_busy()
            && let Some(feed) = events.mail_only()
            && let State::Serving(process, context) = &mut self.state
        {
            let served = active::enter(&mut self.seat, None, || {
                let is_busy = Self::serve_mail_only(process, context, feed)?;
                Ok::<_, ProcessError>(is_busy.then(active::take_end))
            })?;
            match served {
                None => return Ok(()),
                Some(Some(reason)) => {
                    out.set(Status::Ended(reason, None));
                    self.state.finish();
                    return Ok(());
                }
                Some(None) => {}
            }
        }
        self.step_with_table(events, out)
    }

    fn close(&mut self) {
        // Whatever is pending ends with its process's table in place, so that what it waits for is cancelled.
        let state = self.state.take();
        active::enter(&mut self.seat, active::deadline(), || {
            drop(state);
            if active::has_table() {
                active::leave();
            }
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
            State::Away(..) => "in an async method",
            State::Over | State::OverStruct(..) | State::OverFuture(_) => "over",
        };
        write!(f, "Machine<{}>({state})", P::NAME)
    }
}
