//! The state machine that owns a struct, and the pending future of its entry or method, if there is one.
//!
//! A [`Machine`] is a [`Process`]: it is stepped by the scheduler, or by a test without a runtime. It handles
//! messages one by one. If all methods of a process are sync, the machine always holds the struct itself, and no code
//! for futures is compiled for it. An async entry or method moves the struct and its context into a future, which
//! returns them when it completes. If the process is killed, the future is dropped: first the method's locals, then the
//! struct.

use super::serving::{Served, bring, bring_next, bring_next_apart, serve, serve_mail_only};
use crate::actor::definition::actor::{async_entry, names, traps_exits};
use crate::actor::definition::context::drop_continuations;
use crate::actor::definition::{Actor, Begin, FutureOutput, Inputs, MethodEvent, Pending};
use crate::actor::tasks::{Entered, Handover, TableCell, WaitKey, current, waker};
use crate::call::answer::AnswerNode;
use crate::process::description::StateShown;
use crate::process::handover::{Upgrade, UpgradeRefusal};
use crate::process::input::StepInput;
use crate::process::output::{StepStatus, Written};
use crate::process::resume::{FirstAnswer, StepParts};
use crate::process::{Events, InitContext, Process, StepOutput};
use crate::util::panics::{Drops, Site};
use crate::{
    Context, ExitReason, InitError, Payloads, Pid, ProcessError, engine::lifecycle::spawn::First, env::clock::Moment,
    errors::StepError,
};
use std::fmt;
use std::ops::ControlFlow;
use std::task::{Context as TaskContext, Poll};

enum MachineState<P> {
    New(P),
    Serving(P, Context<P>),
    /// The entry has asked the process to end, and the process waits for nothing: it ends with its next step. A process
    /// with a table of waits records the request in the table; this variant spares a process without a table the
    /// allocation of one. The flag tells whether the last step has run; it is part of the variant, so that the struct
    /// need not be moved.
    Stopping(P, Context<P>, bool),
    /// In an async entry, with the deadline of the caller.
    Entry(Pending<P>, Option<Moment>),
    /// In an async method, with the deadline of the caller.
    Method(Pending<P>, Option<Moment>),
    /// Ended. The remains are dropped when the machine is closed, so that unanswered callers get the exit reason.
    #[expect(dead_code, reason = "kept to be dropped")]
    OverStruct(P, Context<P>),
    #[expect(dead_code, reason = "kept to be dropped")]
    OverFuture(Pending<P>),
    /// Ended and dropped.
    Over,
}

impl<P> MachineState<P> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Over)
    }

    /// Marks the machine as ended; its struct or future is kept until the machine is closed.
    fn finish(&mut self) {
        *self = match self.take() {
            Self::New(_) => Self::Over,
            Self::Serving(process, context) | Self::Stopping(process, context, _) => Self::OverStruct(process, context),
            Self::Entry(future, _) | Self::Method(future, _) => Self::OverFuture(future),
            over => over,
        };
    }
}

/// A struct with `#[process]` as a [`Process`].
///
/// ```
/// use postroom::prelude::*;
/// use postroom::{this_node, Package};
/// use postroom::manual::{Event, Events, InitContext, Machine, Process, StepOutput};
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
    state: MachineState<P>,
    table: TableCell,
}

impl<P: Actor> Machine<P> {
    /// Creates a machine for a struct that has not been started.
    pub fn new(process: P) -> Self {
        Self { state: MachineState::New(process), table: TableCell::default() }
    }

    /// Returns the struct, or `None` if an async entry or method owns it or the machine has ended.
    pub fn get(&self) -> Option<&P> {
        match &self.state {
            MachineState::New(process)
            | MachineState::Serving(process, _)
            | MachineState::Stopping(process, _, false) => Some(process),
            _ => None,
        }
    }

    /// Returns a mutable reference to the struct, for tests. Returns `None` in the same cases as [`get`](Self::get).
    pub fn get_mut(&mut self) -> Option<&mut P> {
        match &mut self.state {
            MachineState::New(process)
            | MachineState::Serving(process, _)
            | MachineState::Stopping(process, _, false) => Some(process),
            _ => None,
        }
    }

    pub(crate) fn start_sync(
        &mut self,
        ctx: &InitContext<'_>,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError>,
    ) -> Result<First, InitError> {
        let (mut process, mut context) = self.take_new(ctx)?;
        // Captured by reference, although they are usually `None`: a wide copy of a word that was just written stalls
        // for about twenty cycles.
        let (mut failed, mut end, mut stops) = (None, None, false);
        current::enter(&mut self.table, current::deadline(), |_| {
            if let Err(error) = begin(&mut process, &mut context) {
                failed = Some(error);
            }
            if !current::has_table() {
                stops = current::take_stop();
            } else if let Some(reason) = current::take_end() {
                end = Some(reason);
            }
        });
        self.state = if stops {
            MachineState::Stopping(process, context, false)
        } else {
            if let Some(reason) = end {
                let _none_before = self.table.allocated().ending.end_with(reason);
            }
            MachineState::Serving(process, context)
        };
        let rest = matches!(self.state, MachineState::Serving(..))
            && self.table.waits.as_ref().is_none_or(|waits| waits.is_at_rest());
        match failed {
            None => Ok(if rest { First::Rest } else { First::Step }),
            Some(error) => Err(error),
        }
    }

    pub(crate) fn start_future(
        &mut self,
        ctx: &InitContext<'_>,
        begin: impl FnOnce(P, Context<P>) -> Pending<P>,
    ) -> Result<First, InitError> {
        let (process, context) = self.take_new(ctx)?;
        self.state = MachineState::Entry(begin(process, context), None);
        Ok(First::Step)
    }

    fn take_new(&mut self, ctx: &InitContext<'_>) -> Result<(P, Context<P>), InitError> {
        self.table.incarnation = ctx.pid().map_or(0, Pid::incarnation);
        match self.state.take() {
            MachineState::New(process) => Ok((process, Context::new(ctx.pid()))),
            started => {
                self.state = started;
                Err(InitError::Twice)
            }
        }
    }

    /// Runs one step with this process's table of waits installed.
    fn step_inside(
        state: &mut MachineState<P>,
        incarnation: u64,
        entered: &Entered<'_>,
        events: &mut Events<'_>,
        out: &mut StepOutput<'_>,
        mut polled: Option<Poll<FutureOutput<P>>>,
    ) -> Result<(), ProcessError> {
        loop {
            let flow = match state {
                MachineState::New(_) => return Err(StepError::BeforeInit.into()),
                MachineState::Stopping(_, _, is_over @ false) => {
                    out.set(StepStatus::Ended(ExitReason::Normal, None));
                    *is_over = true;
                    return Ok(());
                }
                MachineState::Over
                | MachineState::OverStruct(..)
                | MachineState::OverFuture(_)
                | MachineState::Stopping(..) => return Err(StepError::AfterDone.into()),
                MachineState::Serving(..) => Self::step_serving(state, entered, events, out)?,
                MachineState::Entry(..) | MachineState::Method(..) => {
                    Self::step_away(state, incarnation, entered, events, out, polled.take())?
                }
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// Handles messages with the struct in place. Returns `Continue` if the struct was moved into the future of a
    /// method.
    #[inline(always)]
    fn step_serving(
        state: &mut MachineState<P>,
        entered: &Entered<'_>,
        events: &mut Events<'_>,
        out: &mut StepOutput<'_>,
    ) -> Result<ControlFlow<()>, ProcessError> {
        let MachineState::Serving(process, context) = state else { unreachable!("the caller has matched it") };
        if current::is_upgrading() {
            // First handles the other controls that have arrived, one of which may end the process.
            while bring_next_apart::<P>(entered, events) {}
            if !current::is_ending() {
                // `end_step` then calls `hand_over`.
                return Ok(ControlFlow::Break(()));
            }
        }
        if let Served::Away(event) = serve(process, context, entered, events)? {
            Self::send_away(state, event);
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(reason) = current::take_end() {
            out.set(StepStatus::Ended(reason, None));
            state.finish();
        }
        Ok(ControlFlow::Break(()))
    }

    /// Polls the future that owns the struct: that of an async entry or method. Returns `Continue` if a method has
    /// returned the struct.
    #[inline(always)]
    fn step_away(
        state: &mut MachineState<P>,
        incarnation: u64,
        entered: &Entered<'_>,
        events: &mut Events<'_>,
        out: &mut StepOutput<'_>,
        polled: Option<Poll<FutureOutput<P>>>,
    ) -> Result<ControlFlow<()>, ProcessError> {
        let (MachineState::Entry(future, deadline) | MachineState::Method(future, deadline)) = state else {
            unreachable!("the caller has matched it")
        };
        current::set_deadline(*deadline);
        current::set_polled(incarnation);
        let away = Self::poll_away(future, incarnation, entered, events, polled);
        current::set_polled(0);
        *deadline = current::deadline();
        match away {
            Away::Idle => {}
            Away::Suspended => out.set(StepStatus::Suspended),
            Away::Ended(reason) => {
                out.set(StepStatus::Ended(reason, None));
                state.finish();
            }
            Away::Finished(FutureOutput::Method(process, context, failed)) => {
                *state = MachineState::Serving(process, context);
                return failed.map_or(Ok(ControlFlow::Continue(())), Err);
            }
            Away::Finished(FutureOutput::Entry(process, context, result, error)) => {
                *state = MachineState::OverStruct(process, context);
                let reason = error.map_or(ExitReason::Normal, ExitReason::error);
                out.set(StepStatus::Ended(reason, Some(result)));
            }
        }
        Ok(ControlFlow::Break(()))
    }

    /// Runs a step of a process that waits for something, or that received input other than messages.
    #[inline(never)]
    fn step_with_table(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let (state, incarnation) = (&mut self.state, self.table.incarnation);
        let step = |entered: &Entered<'_>| Self::step_inside(state, incarnation, entered, events, out, None);
        current::enter(&mut self.table, None, step)?;
        self.end_step(out);
        Ok(())
    }

    /// Publishes whether the process has work left, and hands over to a successor if an upgrade was requested.
    #[inline(always)]
    fn end_step(&mut self, out: &mut StepOutput<'_>) {
        if let Some(waits) = &mut self.table.waits {
            waits.note_work(matches!(self.state, MachineState::Method(..)));
        }
        if matches!(self.state, MachineState::Serving(..)) && self.table.is_upgrading() {
            self.hand_over(out);
        }
    }

    /// Fast path of a step that begins with an answer: stores it in its row and polls the future that awaits it.
    /// Returns `Suspended` if this completes the step. Otherwise returns the result of the poll, or the answer if that
    /// must take the usual path.
    #[inline(always)]
    fn poll_answered(
        state: &mut MachineState<P>,
        incarnation: u64,
        entered: &Entered<'_>,
        answer: AnswerNode,
        input: &mut StepInput,
    ) -> AfterAnswer<P> {
        let (MachineState::Entry(future, deadline) | MachineState::Method(future, deadline)) = state else {
            return AfterAnswer::Not(answer);
        };
        if let Err(answer) = entered.answer(WaitKey::of(answer.tag()), answer) {
            return AfterAnswer::Not(answer);
        }
        input.count_answer();
        if entered.is_special() {
            return AfterAnswer::Polled(None);
        }
        current::set_deadline(*deadline);
        current::set_polled(incarnation);
        let waker = waker::own_waker_of(incarnation);
        let polled = future.as_mut().poll(&mut TaskContext::from_waker(&waker));
        *deadline = current::deadline();
        if polled.is_ready() {
            return AfterAnswer::Polled(Some(polled));
        }
        match current::pending_here() {
            current::AfterPending::Suspended => {}
            current::AfterPending::Again => return AfterAnswer::Polled(None),
            current::AfterPending::Special | current::AfterPending::Wants => return AfterAnswer::Polled(Some(polled)),
        }
        current::set_polled(0);
        AfterAnswer::Suspended
    }

    /// Continues a step that began with an answer.
    #[cold]
    #[inline(never)]
    fn step_on(
        state: &mut MachineState<P>,
        incarnation: u64,
        entered: &Entered<'_>,
        parts: StepParts<'_>,
        polled: Option<Poll<FutureOutput<P>>>,
    ) -> Result<(), ProcessError> {
        parts.step(|events, out| Self::step_inside(state, incarnation, entered, events, out, polled))
    }

    /// Runs a step that begins with an answer that must take the usual path.
    #[cold]
    #[inline(never)]
    fn step_answered(&mut self, answer: AnswerNode, parts: StepParts<'_>) -> Result<(), ProcessError> {
        parts.input.begin_with_answer(answer.into_node());
        parts.step(|events, out| self.step(events, out))
    }

    /// Runs a step whose only input is messages, for a process that has other work as well.
    #[inline(never)]
    fn serve_with_table(&mut self, parts: StepParts<'_>) -> Result<(), ProcessError> {
        if let MachineState::Stopping(_, _, is_over @ false) = &mut self.state
            && self.table.waits.is_none()
        {
            // Nothing is polled and nothing is handled: the table is not needed.
            parts.written.set(StepStatus::Ended(ExitReason::Normal, None));
            *is_over = true;
            return Ok(());
        }
        parts.step(|events, out| self.step_with_table(events, out))
    }

    /// Ends a process that has asked to end while handling the current message.
    #[cold]
    #[inline(never)]
    fn end_serving(&mut self, reason: ExitReason, written: &mut Written) {
        written.set(StepStatus::Ended(reason, None));
        self.state.finish();
    }

    /// Hands the state to the requested definition.
    #[cold]
    fn hand_over(&mut self, out: &mut StepOutput<'_>) {
        while let Some(upgrade) = self.table.waits.as_mut().and_then(|waits| waits.next_upgrade()) {
            let handover = match upgrade.open::<Handover<P>>() {
                Ok(handover) => handover,
                Err(other) => {
                    other.refuse(UpgradeRefusal::Type(P::NAME));
                    continue;
                }
            };
            let MachineState::Serving(process, _) = self.state.take() else { return };
            match (handover.make)(process) {
                Ok(successor) => {
                    out.set(StepStatus::Upgrade(Box::new(successor(std::mem::take(&mut self.table)))));
                }
                Err(reason) => out.set(StepStatus::Ended(reason, None)),
            }
            return;
        }
        // All requests were refused. Messages may have waited until the requests were decided.
        out.set(StepStatus::Continue);
    }

    /// Creates the machine of the new definition, with the pending waits of the old one.
    pub(crate) fn taking_over(process: P, pid: Option<Pid>, table: TableCell) -> Self {
        Self { state: MachineState::Serving(process, Context::new(pid)), table }
    }

    /// Moves the struct into the future of an async method.
    fn send_away(state: &mut MachineState<P>, event: MethodEvent) {
        let MachineState::Serving(process, context) = state.take() else { return };
        let deadline = current::deadline();
        *state = MachineState::Method(process.away(context, event), deadline);
    }

    /// Delivers the events that a future waits for, and polls background futures, before the future is polled. Returns
    /// the reason if the process is to end.
    #[inline(always)]
    fn prepare_poll(entered: &Entered<'_>, events: &mut Events<'_>) -> Option<ExitReason> {
        while bring_next::<P>(entered, events) {}
        if !entered.is_special() {
            return None;
        }
        // Something other than an answer or a message may have woken the process.
        current::peek(|waits| waits.waiting = None);
        current::poll_background();
        current::wake_server();
        current::take_end()
    }

    /// Delivers the events that a future waits for, and polls it. `polled`: the result of a poll that was already
    /// made.
    fn poll_away(
        future: &mut Pending<P>,
        incarnation: u64,
        entered: &Entered<'_>,
        events: &mut Events<'_>,
        polled: Option<Poll<FutureOutput<P>>>,
    ) -> Away<P> {
        let waker = waker::own_waker_of(incarnation);
        let mut polled = polled;
        loop {
            let poll = match polled.take() {
                Some(poll) => poll,
                None => match Self::prepare_poll(entered, events) {
                    Some(reason) => return Away::Ended(reason),
                    None => future.as_mut().poll(&mut TaskContext::from_waker(&waker)),
                },
            };
            if let Poll::Ready(finished) = poll {
                return Away::Finished(finished);
            }
            let mut pending = current::pending(false, events.is_from_scheduler());
            if matches!(pending, current::AfterPending::Special) {
                if let Some(reason) = current::take_end() {
                    return Away::Ended(reason);
                }
                if current::peek(|waits| waits.new_background) == Some(true) {
                    continue;
                }
                pending = current::pending(true, events.is_from_scheduler());
            }
            match pending {
                current::AfterPending::Again => continue,
                current::AfterPending::Suspended => return Away::Suspended,
                current::AfterPending::Special | current::AfterPending::Wants => {}
            }
            match events.next_for_machine() {
                None => {
                    // `None` also means that the budget of the step is used up.
                    let empty = !events.has_messages();
                    current::peek(|waits| waits.inbox.seen_empty = empty);
                    return Away::Idle;
                }
                Some(event) => bring::<P>(event),
            }
        }
    }
}

enum Away<P> {
    /// Waits for a message.
    Idle,
    /// Waits for something other than a message.
    Suspended,
    Ended(ExitReason),
    Finished(FutureOutput<P>),
}

/// The outcome of [`Machine::poll_answered`].
enum AfterAnswer<P> {
    /// The answer was not stored.
    Not(AnswerNode),
    /// The answer is in its row. Holds the result of the poll since then, if there was one.
    Polled(Option<Poll<FutureOutput<P>>>),
    /// The future waits for another answer, and there is nothing else to do.
    Suspended,
}

impl<P: Actor> Process for Machine<P> {
    fn entries(&self) -> &'static [&'static str] {
        names::<P>()
    }

    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        match P::start_by_name(entry, Inputs::values(input))?.begin {
            Begin::Sync(begin) => self.start_sync(ctx, begin).map(drop),
            Begin::Future(begin) => self.start_future(ctx, begin).map(drop),
        }
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        match events.mail_only() {
            Some(input) => self.serve(StepParts { input, written: out.written() }),
            None => self.step_with_table(events, out),
        }
    }

    fn serve(&mut self, parts: StepParts<'_>) -> Result<(), ProcessError> {
        if let MachineState::Serving(process, context) = &mut self.state
            && !self.table.is_busy()
        {
            let served = current::enter_first(&mut self.table, |entered| {
                let is_busy = serve_mail_only(process, context, entered, parts.input)?;
                Ok::<_, ProcessError>(is_busy.then(current::take_end))
            })?;
            match served {
                None => return Ok(()),
                Some(Some(reason)) => {
                    self.end_serving(reason, parts.written);
                    return Ok(());
                }
                Some(None) => {}
            }
        }
        self.serve_with_table(parts)
    }

    fn resume(&mut self, answer: FirstAnswer, mut parts: StepParts<'_>) -> Result<(), ProcessError> {
        let (state, incarnation) = (&mut self.state, self.table.incarnation);
        let answer = AnswerNode::new(answer.0);
        let refused = current::enter(&mut self.table, None, |entered| {
            match Self::poll_answered(state, incarnation, entered, answer, parts.input) {
                AfterAnswer::Suspended => {
                    parts.written.suspend();
                    Ok(None)
                }
                AfterAnswer::Polled(polled) => {
                    parts.input.note_control();
                    Self::step_on(state, incarnation, entered, parts.again(), polled).map(|()| None)
                }
                AfterAnswer::Not(answer) => Ok(Some(answer)),
            }
        })?;
        if let Some(answer) = refused {
            return self.step_answered(answer, parts);
        }
        self.end_step(&mut StepOutput::on(parts.written));
        Ok(())
    }

    fn close(&mut self) {
        // The pending future is dropped with its process's table installed, so that its waits are cancelled.
        let state = &mut self.state;
        current::enter(&mut self.table, current::deadline(), |_| {
            let mut drops = Drops::at(Site::StateDrop);
            // The old state is dropped in place.
            drops.run(|| *state = MachineState::Over);
            if current::has_table() {
                current::leave(&mut drops, drop_continuations::<P>);
            }
            drops.end();
        });
    }

    fn handles_cancel(&self) -> bool {
        true
    }

    fn traps_exits(&self) -> bool {
        const { traps_exits(P::SIGNALS) }
    }

    fn asked_to_upgrade(&mut self, upgrade: Upgrade) {
        // An earlier request may change the type to the one that this request expects.
        let is_first = !self.table.is_upgrading();
        if is_first && !upgrade.is::<Handover<P>>() {
            return upgrade.refuse(UpgradeRefusal::Type(P::NAME));
        }
        let entry = waker::owner_of(self.table.incarnation).and_then(|(slot, _)| slot.metadata.names());
        match entry.and_then(|(_, entry)| async_entry::<P>(entry)) {
            Some(entry) => upgrade.refuse(UpgradeRefusal::Entry(entry)),
            None => self.table.allocated().ask_to_upgrade(upgrade),
        }
    }

    fn describe(&self, to: &mut dyn fmt::Write) -> StateShown {
        match self.get() {
            _ if !P::INSPECTED => StateShown::Hidden,
            Some(process) => StateShown::Written(write!(to, "{:#?}", Inspected(process))),
            None => StateShown::Away,
        }
    }
}

/// The state as `#[process(inspect)]` shows it.
struct Inspected<'a, P>(&'a P);

impl<P: Actor> fmt::Debug for Inspected<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.inspect(f)
    }
}

impl<P: Actor> fmt::Debug for Machine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            MachineState::New(_) => "new",
            MachineState::Serving(..) => "serving",
            MachineState::Stopping(_, _, false) => "stopping",
            MachineState::Entry(..) => "in an async entry",
            MachineState::Method(..) => "in an async method",
            MachineState::Over
            | MachineState::OverStruct(..)
            | MachineState::OverFuture(_)
            | MachineState::Stopping(..) => "over",
        };
        write!(f, "Machine<{}>({state})", P::NAME)
    }
}
