//! Handling the input of a struct: messages are handled in place, one by one, while there is nothing else to do.
//! Answers, signals and stashed messages take priority over the next message.

use crate::actor::definition::{
    Actor, Dispatched, FutureOutput, MethodEvent, MethodFuture, Movable, NotPinned, Pinned,
};
use crate::actor::tasks::{Entered, StashedMessage, WaitKey, Waits, current, pending};
use crate::call::answer::AnswerNode;
use crate::observe::spans::{self, HeldSpan};
use crate::process::{Event, Events};
use crate::process::{input::StepInput, mail::Mail};
use crate::{
    Cancel, Context, ExitReason, Package, ProcessError, Signal, actor::definition::context::run_continuation,
    mailbox::node::EnvelopeContent,
};
use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

/// The reason why serving stopped.
pub(crate) enum Served {
    All,
    /// Reached a message with an async method, or a signal that may have one.
    Away(MethodEvent),
}

/// Handles messages in place while there is nothing else to do: most steps consist of this alone. Returns true if
/// other work ended the loop, false if there is no message left for this step.
#[inline(always)]
pub(crate) fn serve_mail_only<P: Actor>(
    process: &mut P,
    context: &mut Context<P>,
    entered: &Entered<'_>,
    input: &mut StepInput,
) -> Result<bool, ProcessError> {
    while let Some(mut mail) = input.mail() {
        if P::ASYNC && P::is_async(&mail) {
            set_aside(context, mail);
            return Ok(true);
        }
        let fault = if spans::may_be_wanted() {
            fault_of(deliver_in_span(process, context, &mut mail))
        } else {
            fault_of(process.deliver(context, &mut mail))
        };
        match fault {
            None => {}
            Some(None) => refuse(context, mail),
            Some(Some(error)) => return Err(error),
        }
        if entered.is_busy() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the fault of a delivery, if there is one: `Some(None)` if no method accepts the message, or the error that
/// ends the process.
#[inline(always)]
fn fault_of(delivery: Dispatched<'_>) -> Option<Option<ProcessError>> {
    match delivery {
        Dispatched::Done => None,
        // Only async methods return `Pending`, and their messages do not get here.
        Dispatched::Pending(future) => {
            drop(future);
            None
        }
        Dispatched::Unhandled => Some(None),
        Dispatched::Failed(error) => Some(Some(error)),
    }
}

/// Handles a message in its span. Not inlined, so that a process without spans pays only for the check.
#[cold]
#[inline(never)]
fn deliver_in_span<'a, P: Actor>(
    process: &'a mut P,
    context: &'a mut Context<P>,
    mail: &mut Mail<'_>,
) -> Dispatched<'a> {
    let _span = mail.enter_span();
    deliver_apart(process, context, mail)
}

/// Moves a message with an async method to the inbox, for the slow path.
#[cold]
fn set_aside<P: Actor>(context: &Context<P>, mail: Mail<'_>) {
    let package = context.try_pid().and_then(|pid| mail.into_package(pid));
    current::with(|waits| waits.inbox.messages.extend(package.map(StashedMessage::of)));
}

#[cold]
fn refuse<P: Actor>(context: &Context<P>, mail: Mail<'_>) {
    drop(context.try_pid().and_then(|pid| mail.into_package(pid)));
}

/// Handles all input until none is left or an async method must run.
pub(crate) fn serve<P: Actor>(
    process: &mut P,
    context: &mut Context<P>,
    entered: &Entered<'_>,
    events: &mut Events<'_>,
) -> Result<Served, ProcessError> {
    loop {
        if entered.is_busy()
            && let Some(served) = serve_first(process, context)?
        {
            return Ok(served);
        }
        if bring_next_apart::<P>(entered, events) {
            continue;
        }
        if let Some(input) = events.input_mut() {
            if serve_mail_apart(process, context, entered, input)? {
                continue;
            }
            return Ok(Served::All);
        }
        match events.next_for_machine() {
            None => return Ok(Served::All),
            Some(Event::Message(package)) => {
                if let Some(served) = serve_package(process, context, package)? {
                    return Ok(served);
                }
            }
            // The slow path handles it before the next message.
            Some(event) => bring::<P>(event),
        }
    }
}

/// Like [`serve_mail_only`], but not inlined.
#[inline(never)]
fn serve_mail_apart<P: Actor>(
    process: &mut P,
    context: &mut Context<P>,
    entered: &Entered<'_>,
    input: &mut StepInput,
) -> Result<bool, ProcessError> {
    serve_mail_only(process, context, entered, input)
}

/// Handles a message that was taken out of its mailbox earlier.
fn serve_package<P: Actor>(
    process: &mut P,
    context: &mut Context<P>,
    package: Package,
) -> Result<Option<Served>, ProcessError> {
    let (to, mut envelope) = (package.to(), EnvelopeContent::empty());
    let mail = Mail::of(package, &mut envelope);
    let is_async = P::ASYNC && P::is_async(&mail);
    match mail.into_package(to) {
        Some(package) if is_async => Ok(Some(Served::Away(MethodEvent(Event::Message(package))))),
        Some(package) => {
            let _span = package.enter_span();
            match deliver(process, context, package) {
                Dispatched::Failed(error) => Err(error),
                _ => Ok(None),
            }
        }
        None => Ok(None),
    }
}

/// Handles the input that takes priority over messages in the mailbox.
fn serve_first<P: Actor>(process: &mut P, context: &mut Context<P>) -> Result<Option<Served>, ProcessError> {
    loop {
        if let Some(served) = serve_waits(process, context) {
            return Ok(Some(served));
        }
        if current::is_to_pause() {
            current::wake_self();
            return Ok(Some(Served::All));
        }
        let Some(package) = current::next_stashed() else { return Ok(None) };
        if let Some(served) = serve_package(process, context, package)? {
            return Ok(Some(served));
        }
    }
}

/// Runs continuations, background futures and signal methods. Returns the reason if serving stops.
fn serve_waits<P: Actor>(process: &mut P, context: &mut Context<P>) -> Option<Served> {
    // Continuations run on behalf of no caller.
    current::set_deadline(None);
    loop {
        while let Some((number, answer)) = current::peek(|waits| waits.ready.pop_front()).flatten() {
            run_continuation(process, context, number, answer);
        }
        current::poll_background();
        if current::peek(|waits| !waits.ready.is_empty()) == Some(true) {
            continue;
        }
        while let Some(signal) = current::peek(|waits| waits.inbox.signals.pop_front()).flatten() {
            if P::ASYNC {
                return Some(Served::Away(MethodEvent(Event::Signal(signal))));
            }
            if let Err(Signal::Cancel(cancel)) = process.signal(context, signal).map(drop) {
                end(cancel.reason);
            }
        }
        if current::is_ending() || current::is_upgrading() {
            return Some(Served::All);
        }
        // Signal methods may have started background futures.
        if current::peek(|waits| waits.new_background) != Some(true) {
            return None;
        }
    }
}

/// Stores the next completion or signal where the process's future finds it. Returns whether there was one.
#[inline(always)]
pub(crate) fn bring_next<P: Actor>(entered: &Entered<'_>, events: &mut Events<'_>) -> bool {
    if !events.has_controls() {
        return false;
    }
    if let Some(answer) = events.next_answer() {
        let tag = answer.tag();
        if let Err(answer) = entered.answer(WaitKey::of(tag), answer) {
            bring_answer(tag, answer);
        }
        return true;
    }
    match events.next_control() {
        Some(event) => {
            bring::<P>(event);
            true
        }
        None => false,
    }
}

/// Like [`bring_next`], but not inlined.
#[inline(never)]
pub(crate) fn bring_next_apart<P: Actor>(entered: &Entered<'_>, events: &mut Events<'_>) -> bool {
    bring_next::<P>(entered, events)
}

#[inline(never)]
fn bring_answer(tag: u64, answer: AnswerNode) {
    if tag == pending::DEADLINES {
        drop(answer);
        return expire();
    }
    if let Some(waker) = current::answer(WaitKey::of(tag), answer) {
        waker.wake();
    }
}

#[cold]
fn expire() {
    let wakers = current::with(Waits::expire);
    wakers.into_iter().flatten().for_each(std::task::Waker::wake);
}

/// Stores an event where the process's future finds it.
pub(crate) fn bring<P: Actor>(event: Event) {
    let event = match event {
        Event::Completed { tag, result } => return bring_answer(tag, AnswerNode::of(result)),
        other => other,
    };
    // Replaced exit reasons hold user values: they are dropped after the table is released.
    let (mut before, mut left) = ([None, None], None);
    let wakers = current::with(|waits| match event {
        Event::Message(package) => {
            waits.inbox.messages.push_back(StashedMessage::of(package));
            Vec::new()
        }
        // Handled above.
        Event::Completed { .. } => Vec::new(),
        // A process may be cancelled twice: by the shutdown itself, and by a spawn that coincided with it.
        Event::Signal(Signal::Cancel(Cancel { reason: ExitReason::Shutdown }))
            if waits.ending.requested == Some(ExitReason::Shutdown) =>
        {
            Vec::new()
        }
        Event::Signal(Signal::Cancel(cancel)) => {
            before[0] = waits.ending.requested.replace(cancel.reason.clone());
            if let Some((wakers, unneeded)) = waits.ending.give_request(&cancel.reason) {
                left = unneeded;
                return wakers;
            }
            if P::SIGNALS.contains(&"Cancel") {
                waits.inbox.signals.push_back(Signal::Cancel(cancel));
            } else if !waits.ending.is_shielded() {
                before[1] = waits.ending.end_with(cancel.reason);
            } else {
                left = waits.ending.leave_request(cancel.reason.clone());
                before[1] = waits.ending.end_after_shield(cancel.reason);
            }
            Vec::new()
        }
        Event::Signal(signal) => {
            waits.inbox.signals.push_back(signal);
            Vec::new()
        }
    });
    wakers.into_iter().flatten().for_each(std::task::Waker::wake);
    drop((before, left));
}

pub(crate) fn end(reason: ExitReason) {
    // Dropped after the table is released, because it may hold a user error.
    let before = current::with(|waits| waits.ending.end_with(reason));
    drop(before);
}

/// Calls [`Actor::deliver`]. Not inlined, because `deliver` itself is inlined at each of its calls: here and on the
/// fast path.
#[inline(never)]
fn deliver_apart<'a, P: Actor>(process: &'a mut P, context: &'a mut Context<P>, mail: &mut Mail<'_>) -> Dispatched<'a> {
    process.deliver(context, mail)
}

/// Dispatches a package to its method, or drops it if there is none.
pub(crate) fn deliver<'a, P: Actor>(
    process: &'a mut P,
    context: &'a mut Context<P>,
    package: Package,
) -> Dispatched<'a> {
    let to = package.to();
    let mut envelope = EnvelopeContent::empty();
    let mut mail = Mail::of(package, &mut envelope);
    let delivery = deliver_apart(process, context, &mut mail);
    if matches!(delivery, Dispatched::Unhandled) {
        drop(mail.into_package(to));
    }
    delivery
}

/// Awaits a delivery. Returns the error that ends the process, if any.
pub(crate) async fn finish(mut delivery: Dispatched<'_>) -> Option<ProcessError> {
    loop {
        delivery = match delivery {
            Dispatched::Done | Dispatched::Unhandled => return None,
            Dispatched::Failed(error) => return Some(error),
            Dispatched::Pending(future) => future.await,
        };
    }
}

/// Wraps the future of a method, so that it is polled and dropped inside its span.
pub(super) fn in_span(delivery: Dispatched<'_>, span: Option<HeldSpan>) -> Dispatched<'_> {
    match (delivery, span) {
        (Dispatched::Pending(future), Some(span)) => {
            Dispatched::Pending(Box::pin(SpannedFuture { span, future: Some(future) }))
        }
        (delivery, _) => delivery,
    }
}

struct SpannedFuture<'a> {
    span: HeldSpan,
    /// `None` during the drop.
    future: Option<MethodFuture<'a, Dispatched<'static>>>,
}

impl Future for SpannedFuture<'_> {
    type Output = Dispatched<'static>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Self { span, future } = &mut *self;
        let _entered = HeldSpan::enter(&*span);
        future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(context))
    }
}

impl Drop for SpannedFuture<'_> {
    fn drop(&mut self) {
        let _entered = HeldSpan::enter(&self.span);
        self.future = None;
    }
}

/// Wrappers that the macro's [`Actor::away`] uses. The name of the method is advice that the compiler shows in its
/// errors.
impl Pinned {
    /// Moves a struct and its context into the future of an async method, confined to one thread.
    pub fn let_the_state_be_send_or_write_process_pinned<P: Actor>(
        self,
        process: P,
        context: Context<P>,
        event: MethodEvent,
    ) -> MethodFuture<'static, FutureOutput<P>> {
        self.hold_only_what_is_send_or_write_process_pinned(away(process, context, event))
    }
}

impl NotPinned {
    /// Moves a struct and its context into the future of an async method.
    pub fn let_the_state_be_send_or_write_process_pinned<P: Actor + Movable>(
        self,
        process: P,
        context: Context<P>,
        event: MethodEvent,
    ) -> MethodFuture<'static, FutureOutput<P>> {
        self.hold_only_what_is_send_or_write_process_pinned(away(process, context, event))
    }
}

/// Runs an async method with the struct and its context inside the future.
async fn away<P: Actor>(process: P, context: Context<P>, event: MethodEvent) -> FutureOutput<P> {
    let (mut process, mut context) = (process, context);
    let span = match &event.0 {
        Event::Message(package) => package.open_span(),
        _ => None,
    };
    let delivery = match event.0 {
        Event::Message(package) => {
            let _entered = span.as_ref().map(HeldSpan::enter);
            deliver(&mut process, &mut context, package)
        }
        Event::Signal(signal) => process.signal(&mut context, signal).unwrap_or_else(|signal| {
            if let Signal::Cancel(cancel) = signal {
                end(cancel.reason);
            }
            Dispatched::Done
        }),
        // Completions have no method.
        Event::Completed { .. } => Dispatched::Done,
    };
    let failed = finish(in_span(delivery, span)).await;
    FutureOutput::Method(process, context, failed)
}

/// Stands in for [`Actor::away`] if a struct has no async methods. It is never called. For generated code.
pub fn never_away<P: Actor>(_: P, _: Context<P>, _: MethodEvent) -> MethodFuture<'static, FutureOutput<P>> {
    unreachable!("`{}` has no async method", P::NAME)
}
