//! Suspending and resuming processes.

use super::state::{
    BoundedQueue, Congestion, FullPlace, MailboxState, RoomSignal, RoomWaiter, SIDES, SuspendedAt, bound_of, is_over,
    side_of, take_full_queue,
};
use crate::deadlock::edges;
use crate::engine::blocking::block_in_place::while_handed_off;
use crate::engine::context::thread::{ThreadContext, with_current};
use crate::engine::host::Scheduler;
use crate::env::clock::{Moment, TimeKeeper, instant_now};
use crate::env::world::World;
use crate::mailbox::lanes::{Controls, Holder};
use crate::mailbox::node::Envelope;
use crate::pid::{Pid, Resident, incarnation};
use crate::process::control::Control;
use crate::recorder::kind::RecordKind;
use crate::routing::transport_queue::RoomListener;
use crate::slots::slot::words::Deferral;
use crate::slots::{Slot, Token};
use crate::sync::{AtomicU64, Ordering};
use crate::util::oneshot::Oneshot;
use std::collections::VecDeque;
use std::time::Duration;
use tracing::field::display;

/// The longest time that a process is suspended before it gets a step.
const FORCED_RELEASE_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeReason {
    Room,
    /// The process's own mailbox is over its bound.
    Overfull,
    /// The process got a signal, which must not wait.
    Signalled,
    /// The process is suspended at one that waits for it, so the two would form a cycle.
    Called,
    /// The process has waited for the maximum time.
    ForcedRelease,
    /// The process has ended.
    Ended,
}

impl ThreadContext {
    /// Performs backpressure:W2 to backpressure:W5: suspends a process while the mailbox that it congests is too full.
    /// Its step has sent about `sends` messages. `waits` says whether the process also waits for its yields. Returns
    /// the token if the process is not suspended.
    #[cold]
    pub(crate) fn suspend(&self, token: Token, congestion: Congestion, sends: u64, waits: bool) -> Option<Token> {
        let place = match congestion {
            Congestion::Mailbox { on, generation, .. } => FullPlace::Mailbox { slot: on, generation },
            Congestion::Abroad => match take_full_queue() {
                Some(place) => place,
                None => return Some(token),
            },
        };
        let (slot, generation) = (token.slot(), token.generation());
        if !may_be_suspended(slot, &place) {
            return Some(token);
        }
        let number = begin_suspension(slot, place.clone(), self.host, None);
        slot.deficit.suspend(waits);
        if !place.wait(RoomWaiter::Process { slot, generation, number, sends }) || is_over(slot) {
            end_suspension(slot, ResumeReason::Room);
        }
        if slot.is_suspended() {
            set_forced_release(slot, number, self.host);
        }
        self.stay_suspended(token)
    }

    /// Performs backpressure:W7: parks the token of a suspended process. Returns it if the process is no longer
    /// suspended.
    #[cold]
    pub(crate) fn stay_suspended(&self, mut token: Token) -> Option<Token> {
        let slot = token.slot();
        let waits = slot.deficit.deferral() == Deferral::Suspended { for_yields: true };
        loop {
            let taken = token.lanes().take_control();
            let is_signalled = taken.has_signal();
            keep(&mut token, taken);
            if is_signalled {
                end_suspension(slot, ResumeReason::Signalled);
            }
            // The wake may have been for senders that wait for room in this mailbox.
            if slot.is_congested() {
                resume_waiters(slot, true);
            }
            if slot.is_suspended() {
                // The edge is published again, since others took the process for running while its control lane was not
                // empty.
                if !publish(slot, false) {
                    end_suspension(slot, ResumeReason::Called);
                    continue;
                }
            } else {
                slot.deficit.clear();
                withdraw(slot);
                if !waits || token.cold_state().is_some_and(|cold_state| !cold_state.held.is_empty()) {
                    return Some(token);
                }
            }
            token = self.park_token(token, Token::park_waiting)?;
        }
    }

    /// Parks the token of a process that waits for its yields. Returns it if something has arrived. A mere wake does
    /// not count: it is for senders that wait for room in the mailbox.
    #[cold]
    pub(crate) fn park_for_yields(&self, mut token: Token) -> Option<Token> {
        let slot = token.slot();
        loop {
            token = self.park_token(token, Token::park_waiting)?;
            let taken = token.lanes().take_control();
            if !taken.is_empty() {
                keep(&mut token, taken);
                return Some(token);
            }
            if slot.is_congested() {
                resume_waiters(slot, true);
            }
        }
    }
}

/// Stores the input until the process is resumed.
fn keep(token: &mut Token, mut taken: Controls) {
    if taken.is_empty() {
        return;
    }
    token.set_checks_cold_state(true);
    let cold_state = token.make_cold_state();
    while let Some(node) = taken.pop() {
        cold_state.held.push(node);
    }
}

/// Returns whether `slot` may be suspended at `at`: not while its own mailbox is over its bound, not at itself, and not
/// twice.
fn may_be_suspended(slot: &'static Slot, at: &FullPlace) -> bool {
    !is_over(slot) && at.mailbox().is_none_or(|at| !std::ptr::eq(slot, at)) && !slot.is_suspended()
}

/// Marks a process as suspended. The caller then puts it on the list of `at`; taking it off that list clears the mark.
fn begin_suspension(slot: &'static Slot, at: FullPlace, host: &'static Scheduler, room: Option<RoomSignal>) -> u64 {
    /// The number of the program's next suspension.
    static NEXT: World<AtomicU64> = World::new(AtomicU64::new(0));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut state = side_of(slot).lock();
    if host.recorder.is_on() {
        let at = at.mailbox().and_then(Resident::resident).map_or(0, Pid::incarnation);
        host.recorder.note(RecordKind::Suspend, incarnation(slot.index(), slot.last()), at, None);
    }
    state.suspension = Some(SuspendedAt { at, number, host, room, forced_release: None });
    // The mark is set under the lock, so that it is cleared only later, together with the suspension.
    slot.note_suspended(true);
    drop(state);
    host.suspensions.add_shared(1);
    number
}

/// Sets the timer that ends this suspension after the maximum time, by the clock of its host. Returns false if the host
/// has stopped, or has too many timers.
fn set_forced_release(slot: &'static Slot, number: u64, host: &'static Scheduler) -> bool {
    let forced_release = move || end_that_suspension(slot, Some(number), ResumeReason::ForcedRelease);
    let Some(key) = host.later(Moment::now().after(FORCED_RELEASE_AFTER), Box::new(forced_release)) else {
        return false;
    };
    let mut side = side_of(slot).lock();
    match side.suspension.as_mut().filter(|suspension| suspension.number == number) {
        Some(suspension) => suspension.forced_release = Some(key),
        None => {
            drop(side);
            host.forget(key);
        }
    }
    true
}

/// Publishes the suspension of a process as an edge of the wait graph. Returns false if the edge would close a cycle.
/// If another process later closes a cycle with this edge, it finds this process suspended, since this process is
/// already marked.
fn publish(slot: &'static Slot, blocks: bool) -> bool {
    let at = SIDES.get(slot.index()).and_then(|side| side.lock().suspension.as_ref()?.at.mailbox());
    // A process that is being resumed has nothing to publish. Nor does one that waits for another node, since this node
    // does not know what happens there.
    let edge = at.and_then(|at| slot.resident().zip(at.resident()));
    edge.is_none_or(|(from, to)| edges::publish_suspension(from, to, blocks))
}

fn withdraw(slot: &'static Slot) {
    if let Some(pid) = slot.resident() {
        edges::withdraw(pid);
    }
}

/// Returns whether the mailbox of `at` is still congested: above half of its bound, or with a full queue.
fn is_still_congested(at: &'static Slot, bound: u64, state: &MailboxState) -> bool {
    match &state.queue {
        Some(queue) => queue.is_full(),
        None => at.lanes.depth() > bound.div_ceil(2),
    }
}

impl FullPlace {
    /// Lists a waiter for room. Returns whether it has to wait.
    fn wait(&self, waiting: RoomWaiter) -> bool {
        match self {
            Self::Mailbox { slot, generation } => wait_at(slot, *generation, waiting),
            Self::Abroad(queue, _) => queue.wait(waiting),
        }
    }

    /// Takes the process with this suspension off the list of waiters.
    fn forget(&self, number: u64) {
        let slot = match self {
            Self::Mailbox { slot, .. } => slot,
            Self::Abroad(queue, _) => return queue.forget(number),
        };
        // The process is usually among the first, which have waited longest.
        if let Some(side) = SIDES.get(slot.index()) {
            let mut state = side.lock();
            let is_it =
                |waiting: &RoomWaiter| matches!(waiting, RoomWaiter::Process { number: other, .. } if *other == number);
            if let Some(place) = state.waiting.iter().position(is_it) {
                state.waiting.remove(place);
            }
        }
    }
}

/// Performs backpressure:W3 and backpressure:W4: lists a waiter for room in the mailbox of `at`. Returns whether it has
/// to wait.
pub(crate) fn wait_at(at: &'static Slot, generation: u64, waiting: RoomWaiter) -> bool {
    let Some(bound) = bound_of(at) else { return false };
    let mut state = side_of(at).lock();
    if !is_still_congested(at, bound, &state) {
        return false;
    }
    if state.waiting.len() == state.waiting.capacity() {
        // Waiters that gave up are removed whenever the list would grow.
        state.waiting.retain(RoomWaiter::is_wanted);
    }
    state.waiting.push_back(waiting);
    // backpressure:W8 makes the same two accesses in the opposite order.
    at.note_congested(true);
    if !at.is_living_in_order(generation) {
        let _mine = state.waiting.pop_back();
        if state.waiting.is_empty() {
            state.known = 0;
            at.note_congested(false);
        }
        return false;
    }
    drop(state);
    if at.wake_unless_waiting(generation) {
        resume_waiters(at, true);
    }
    true
}

/// Performs backpressure:W6: resumes waiters for room in a mailbox, if there is room. If the process `rests` now,
/// resumes all. If it will check again soon, resumes one when the mailbox is below half of its bound, since some
/// senders send more at a time than a mailbox may contain; beyond that, resumes as many as there is [room](has_room)
/// for. (With the first rule alone, a thousand senders with one message each were resumed one per time slice. Also, a
/// process that hands out work and receives the results in the same mailbox handed out a full bound of work for each
/// half bound of results: the work grew without end.)
pub(crate) fn resume_waiters(slot: &'static Slot, rests: bool) {
    let (Some(bound), Some(side)) = (bound_of(slot), SIDES.get(slot.index())) else {
        return slot.note_congested(false);
    };
    let mut has_one_gone = false;
    loop {
        let mut state = side.lock();
        state.note_arrivals(slot.lanes.last_sequence());
        if !has_one_gone && slot.lanes.depth() == 0 {
            // The counts are reset: a process that was resumed may have ended without sending.
            (state.expected, state.known) = (0, 0);
        }
        let may_go = (rests || !has_one_gone) && !is_still_congested(slot, bound, &state);
        if !may_go && !has_room(slot, bound, &state) {
            return;
        }
        let first = state.waiting.pop_front();
        state.expected += first.as_ref().map_or(0, RoomWaiter::sends);
        if state.waiting.is_empty() {
            state.known = 0;
            slot.note_congested(false);
        }
        drop(state);
        let Some(first) = first else { return };
        has_one_gone |= resume(first);
    }
}

/// Returns whether there is room for what the first waiter is expected to send, together with what the processes
/// resumed before are still expected to send. Always false for a hard bound, since its queue makes room for one message
/// at a time.
fn has_room(at: &'static Slot, bound: u64, state: &MailboxState) -> bool {
    let Some(first) = state.waiting.front().filter(|_| state.queue.is_none()) else { return false };
    at.lanes.depth() + state.expected + first.sends() <= bound
}

/// Resumes a waiter that was taken off a list. Returns whether it was still waiting.
pub(crate) fn resume(waiting: RoomWaiter) -> bool {
    match waiting {
        RoomWaiter::Room(room) => room.put(()),
        RoomWaiter::Process { slot, generation, number, .. } => {
            let suspension = take_suspension(slot, Some(number));
            suspension.map(|suspension| release(slot, generation, suspension)).is_some()
        }
    }
}

impl RoomListener for RoomWaiter {
    fn resume(self: Box<Self>) -> bool {
        resume(*self)
    }

    fn is_wanted(&self) -> bool {
        Self::is_wanted(self)
    }

    fn suspension(&self) -> Option<u64> {
        match self {
            Self::Process { number, .. } => Some(*number),
            Self::Room(_) => None,
        }
    }
}

pub(crate) fn end_suspension(slot: &'static Slot, why: ResumeReason) {
    end_that_suspension(slot, None, why);
}

fn end_that_suspension(slot: &'static Slot, number: Option<u64>, why: ResumeReason) {
    let Some(suspension) = take_suspension(slot, number) else { return };
    suspension.at.forget(suspension.number);
    let forced = (why == ResumeReason::ForcedRelease).then(|| {
        suspension.host.forced_releases.add_shared(1);
        let name = |slot: &'static Slot| slot.metadata.names().map(|(process, _)| process);
        let at = &suspension.at;
        (slot.resident().map(display), name(slot), at.pid().map(display), at.mailbox().and_then(name))
    });
    release(slot, slot.last(), suspension);
    // This is logged last, since a log subscriber is user code: it may block, or send to the process.
    if let Some((pid, process, mailbox, receiver)) = forced {
        let lasted = FORCED_RELEASE_AFTER;
        crate::util::log::warn!(
            pid,
            process,
            mailbox,
            receiver,
            ?lasted,
            "a suspended process continues although the mailbox is still full"
        );
    }
}

fn take_suspension(slot: &'static Slot, number: Option<u64>) -> Option<SuspendedAt> {
    let mut state = SIDES.get(slot.index())?.lock();
    let is_it = |suspension: &mut SuspendedAt| number.is_none_or(|number| suspension.number == number);
    state.suspension.take_if(is_it)
}

/// Completes a resumption (backpressure:W6): first clears the mark, then wakes the process.
fn release(slot: &'static Slot, generation: u64, suspension: SuspendedAt) {
    suspension.host.resumptions.add_shared(1);
    if suspension.host.recorder.is_on() {
        suspension.host.recorder.note(RecordKind::Resume, incarnation(slot.index(), generation), 0, None);
    }
    if let Some(forced_release) = suspension.forced_release {
        suspension.host.forget(forced_release);
    }
    withdraw(slot);
    slot.note_suspended(false);
    match suspension.room {
        Some(room) => {
            room.put(());
        }
        None => slot.wake(generation),
    }
}

/// Performs backpressure:W8 when the process has ended. Resumes all waiters for room in its mailbox, and ends its own
/// suspension. Returns the items of its queue; the messages become dead letters.
pub(crate) fn end(slot: &'static Slot) -> VecDeque<Envelope> {
    let Some(side) = SIDES.get(slot.index()) else { return VecDeque::new() };
    if slot.is_suspended() {
        end_suspension(slot, ResumeReason::Ended);
    }
    let state = std::mem::take(&mut *side.lock());
    state.waiting.into_iter().for_each(|waiting| _ = resume(waiting));
    state.queue.map(BoundedQueue::into_envelopes).unwrap_or_default()
}

impl Scheduler {
    pub(crate) fn suspended(&self) -> usize {
        self.suspensions.get().saturating_sub(self.resumptions.get()) as usize
    }
}

/// Returns where `slot` is suspended, if it is.
pub(crate) fn suspended_at(slot: &'static Slot) -> Option<FullPlace> {
    let side = SIDES.get(slot.index()).filter(|_| slot.is_suspended())?;
    side.lock().suspension.as_ref().map(|suspension| suspension.at.clone())
}

/// Returns whether the process whose step this thread runs has been told to end.
fn is_told_to_end(own: &'static Slot) -> bool {
    // SAFETY: the step has the token, and this thread, which runs the step, takes nothing from its lanes in the
    // meantime.
    let lanes = unsafe { Holder::new(&own.lanes) };
    // SAFETY: the contents of the lane belong to the token's holder.
    lanes.has_signal_such(|said| unsafe { said.peek::<Control>() }.is_some_and(Control::is_end))
}

/// Performs backpressure:W9 after a signal was sent: ends the wait inside the step of a process that has been told to
/// end.
pub(crate) fn let_step_end(slot: &'static Slot) {
    let is_in_step = |suspension: &&SuspendedAt| suspension.room.is_some();
    let number = side_of(slot).lock().suspension.as_ref().filter(is_in_step).map(|suspension| suspension.number);
    if number.is_some() {
        end_that_suspension(slot, number, ResumeReason::Signalled);
    }
}

/// Performs backpressure:W9 for a step of `own` that has sent far beyond the bound of `at`: blocks the step while
/// another thread uses its permit. Returns true if there may be room. Returns false if the step would wait for its own
/// process, or was told to end, or if no thread can take the permit.
pub(crate) fn wait_in_step(own: &'static Slot, at: &'static Slot, generation: u64) -> bool {
    // The step has sent that many messages since it first congested the mailbox.
    let sends = bound_of(at).unwrap_or_default();
    wait_in_step_at(own, FullPlace::Mailbox { slot: at, generation }, sends)
}

/// Like [`wait_in_step`], for a step that has sent `sends` messages.
pub(crate) fn wait_in_step_at(own: &'static Slot, at: FullPlace, sends: u64) -> bool {
    if !may_be_suspended(own, &at) || is_told_to_end(own) {
        return false;
    }
    let Some(host) = with_current(|context| context.map(|context| context.host)) else { return false };
    let room = RoomSignal::new(Oneshot::new());
    let number = begin_suspension(own, at.clone(), host, Some(room.clone()));
    let waiting = RoomWaiter::Process { slot: own, generation: own.last(), number, sends };
    let waited = if !at.wait(waiting) {
        // There is room by now.
        true
    } else if is_over(own) || is_told_to_end(own) || !publish(own, true) {
        false
    } else {
        let until =
            if set_forced_release(own, number, host) { None } else { Some(instant_now() + FORCED_RELEASE_AFTER) };
        let waited = while_handed_off(|| room.wait(until));
        if waited.is_some_and(|room| room.is_none()) {
            host.forced_releases.add_shared(1);
        }
        waited.is_some()
    };
    end_suspension(own, ResumeReason::Room);
    withdraw(own);
    waited
}

#[cfg(test)]
mod tests {
    use crate as postroom;
    use crate::prelude::*;
    use std::time::Duration;
    use tracing::span::{Attributes, Id, Record};

    #[postroom::process(crate = crate)]
    struct Sleeps {}

    #[postroom::process(crate = crate)]
    impl Sleeps {
        #[entry]
        async fn sleep(&mut self, ctx: &mut Context<Self>) {
            ctx.sleep(Duration::MAX).await;
        }
        #[message]
        fn take(&mut self) {}
    }

    #[postroom::process(crate = crate)]
    struct Floods {}

    #[postroom::process(crate = crate)]
    impl Floods {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn flood(&mut self, other: Address<Sleeps>) {
            (0..1_000).for_each(|_| other.take().send().expect("it lives"));
        }
        #[message]
        fn hear(&mut self) {}
    }

    /// A subscriber that sends a message to a process for each event.
    struct Tells(Address<Floods>);

    impl tracing::Subscriber for Tells {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.hear().send().expect("it lives");
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// Catches: a log event in the middle of a release. Its subscriber may send to the process that is being released.
    #[test]
    fn a_process_that_continues_although_there_is_no_room_is_released_before_that_is_logged() {
        let (say, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let clock = Clock::manual();
            let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().expect("one worker");
            let sleeps = runtime.spawn(Sleeps {}).mailbox(Bound::Soft(128)).sleep().expect("it starts");
            let bound = Bound::Hard(1, Overflow::DropOldest);
            let floods = runtime.spawn(Floods {}).mailbox(bound).serve().expect("it starts");
            floods.flood(sleeps.address()).send().expect("it lives");
            clock.settle().expect("all wait");
            assert_eq!(runtime.statistics().backpressure.suspensions, 1);
            floods.hear().send().expect("there is room");
            tracing::subscriber::with_default(Tells(floods), || clock.advance(Duration::from_secs(1))).expect("idle");
            assert_eq!(runtime.statistics().backpressure.forced_releases, 1);
            say.send(()).expect("it is waited for");
        });
        // The timeout only guards against a hang.
        said.recv_timeout(Duration::from_secs(60)).expect("it ends");
    }
}
