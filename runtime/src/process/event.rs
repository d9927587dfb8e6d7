//! What a step receives.

use super::control::{Control, Join};
use crate::caller::Caller;
use crate::errors::{CallError, CommandError};
use crate::exit::{Cancel, ExitReason, Signal};
use crate::mailbox::lanes::{Controls, Holder, Lanes};
use crate::mailbox::node::{Kind, Letter};
use crate::mailbox::pool;
use crate::package::Package;
use crate::payload::Payload;
use crate::pid::Pid;
use std::collections::VecDeque;
use std::fmt;

/// Something that happened to a process.
#[derive(Debug)]
pub enum Event {
    /// A yield was answered.
    Completed {
        /// The tag of the yield.
        tag: u64,
        /// The answer.
        result: Result<Payload, CommandError>,
    },
    /// A message came.
    Message(Package),
    /// The runtime says something.
    Signal(Signal),
}

/// What has arrived for a process, up to the budget of one step: completions and signals first, then messages in the
/// order of their arrival.
///
/// What a step does not take stays for the next one.
#[derive(Debug)]
pub struct Events<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    Lanes(&'a mut Feed),
    Queue(VecDeque<Event>),
}

impl<'a> Events<'a> {
    /// Events for a process that is driven by hand.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Events<'static> {
        Events(Source::Queue(events.into_iter().collect()))
    }

    pub(crate) fn feed(feed: &'a mut Feed) -> Self {
        Self(Source::Lanes(feed))
    }

    /// The next completion or signal; messages stay where they are.
    pub(crate) fn next_control(&mut self) -> Option<Event> {
        match &mut self.0 {
            Source::Lanes(feed) => feed.next_control(),
            Source::Queue(events) => {
                let place = events.iter().position(|event| !matches!(event, Event::Message(_)))?;
                events.remove(place)
            }
        }
    }

    /// Whether a message is left that `next` has not given.
    pub(crate) fn has_messages(&self) -> bool {
        match &self.0 {
            Source::Lanes(feed) => !feed.holder.is_data_empty(),
            Source::Queue(events) => events.iter().any(|event| matches!(event, Event::Message(_))),
        }
    }

    /// The next one. `None`: nothing has arrived, or the budget of this step is used.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "what has arrived can change between two calls, unlike an iterator's rest"
    )]
    pub fn next(&mut self) -> Option<Event> {
        match &mut self.0 {
            Source::Lanes(feed) => feed.next(),
            Source::Queue(events) => events.pop_front(),
        }
    }
}

/// The lanes of a running process, as its step sees them.
pub(crate) struct Feed {
    holder: Holder<'static>,
    pid: Pid,
    /// Controls taken out of the lane and not yet seen.
    controls: Controls,
    /// Events that may still be taken, less what the step sends.
    budget: u32,
    /// The thread's count of nodes drawn when the budget began.
    drawn: u32,
    handles_cancel: bool,
    /// Whether the process is to end after this step; why is in `rare`.
    ended: bool,
    /// Whether a wake was taken out of the lane during the step, perhaps after its future was polled: it needs another.
    woken: bool,
    /// How many events were taken.
    pub(crate) taken: u32,
    /// How many of them were messages.
    pub(crate) messages: u32,
    /// How many of them were completions.
    pub(crate) completions: u32,
    /// What few steps meet with.
    pub(crate) rare: Option<Box<Rare>>,
}

/// What few steps meet with.
#[derive(Default)]
pub(crate) struct Rare {
    /// Letters that were meant for an earlier process in the slot.
    pub(crate) strangers: Vec<Letter>,
    /// Who asked to be told of the end.
    pub(crate) joins: Vec<Join>,
    /// Controls that the step left alone.
    pub(crate) left: Controls,
    /// Why the process is to end.
    pub(crate) end: Option<ExitReason>,
}

impl Feed {
    /// # Safety
    /// The caller holds the token of `lanes`, and uses it through nothing else while this lives.
    #[inline]
    pub(crate) unsafe fn new(
        lanes: &'static Lanes,
        pid: Pid,
        controls: Controls,
        budget: u32,
        handles_cancel: bool,
    ) -> Self {
        // SAFETY: as the caller promises.
        let holder = unsafe { Holder::new(lanes) };
        let mut feed = Self {
            holder,
            pid,
            controls,
            budget,
            drawn: pool::drawn(),
            handles_cancel,
            ended: false,
            woken: false,
            taken: 0,
            messages: 0,
            completions: 0,
            rare: None,
        };
        if feed.holder.has_control() {
            feed.absorb();
            feed.woken = false;
        }
        feed
    }

    /// Whether the process is to end before it takes another event.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether anything is left for the process.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.woken && self.controls.is_empty() && !self.holder.has_control() && self.holder.is_data_empty()
    }

    /// Whether the data lane is empty.
    pub(crate) fn is_data_empty(&self) -> bool {
        self.holder.is_data_empty()
    }

    /// Whether anything is left for the process in the control lane.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.woken || !self.controls.is_empty() || self.holder.has_control()
    }

    /// Puts what the step left alone with what few steps meet with, and gives that.
    #[inline]
    pub(crate) fn finish(&mut self) -> Option<Box<Rare>> {
        if !self.controls.is_empty() {
            self.rare().left = std::mem::take(&mut self.controls);
        }
        self.rare.take()
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn end(&mut self, reason: ExitReason) {
        self.ended = true;
        self.rare().end = Some(reason);
    }

    /// What the step has taken and sent.
    pub(crate) fn spent(&self) -> u32 {
        self.taken.saturating_add(pool::drawn().wrapping_sub(self.drawn))
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        loop {
            if self.has_control()
                && let Some(event) = self.next_control()
            {
                return Some(event);
            }
            if self.ended || self.spent() >= self.budget {
                return None;
            }
            let letter = self.holder.pop_data()?;
            if letter.generation != self.pid.generation() {
                self.rare().strangers.push(letter);
                continue;
            }
            self.taken += 1;
            if letter.kind == Kind::Stop {
                self.end(ExitReason::Normal);
                return None;
            }
            self.messages += 1;
            let Some(payload) = letter.payload else {
                continue;
            };
            // SAFETY: the word of a message is its caller, or null, and this letter is its only holder.
            let caller = unsafe { Caller::from_word(letter.word) };
            return Some(Event::Message(Package::from_parts(self.pid, payload, caller)));
        }
    }

    /// Takes over what is in the control lane: what the runtime says to itself takes effect, the rest waits for the step.
    #[cold]
    fn absorb(&mut self) {
        let mut taken = self.holder.take_control();
        self.woken |= taken.woken;
        while let Some(mut node) = taken.pop() {
            let letter = node.take();
            if letter.generation != self.pid.generation() {
                pool::recycle(node);
                self.rare().strangers.push(letter);
                continue;
            }
            let control = match letter.payload {
                Some(payload) if letter.kind == Kind::Signal => payload.take::<Control>(),
                payload => {
                    node.put(Letter { payload, ..letter });
                    self.controls.push(node);
                    continue;
                }
            };
            match control {
                Ok(Control::Cancel(reason)) if self.handles_cancel => {
                    let payload = Some(Payload::new(Control::Cancel(reason)));
                    node.put(Letter { payload, ..letter });
                    self.controls.push(node);
                    continue;
                }
                Ok(Control::Cancel(reason)) if self.ended => drop(reason),
                Ok(Control::Cancel(reason)) => self.end(reason),
                Ok(Control::Kill) => self.end(ExitReason::Killed),
                Ok(Control::Join(join)) => self.rare().joins.push(join),
                Err(_) => {}
            }
            pool::recycle(node);
        }
    }

    /// The next event of the control lane.
    fn next_control(&mut self) -> Option<Event> {
        if self.holder.has_control() {
            self.absorb();
        }
        if self.ended {
            return None;
        }
        let mut node = self.controls.pop()?;
        let letter = node.take();
        pool::recycle(node);
        let payload = letter.payload?;
        match letter.kind {
            Kind::Completed => Some(self.completed(letter.word.addr(), Ok(payload))),
            Kind::Failed => {
                let error = match payload.take().unwrap_or(CommandError::Dropped) {
                    CommandError::Call(CallError::Dropped) => CommandError::Dropped,
                    error => error,
                };
                Some(self.completed(letter.word.addr(), Err(error)))
            }
            _ => match payload.take::<Control>() {
                Ok(Control::Cancel(reason)) => {
                    self.taken += 1;
                    Some(Event::Signal(Signal::Cancel(Cancel { reason })))
                }
                _ => None,
            },
        }
    }

    fn completed(&mut self, tag: usize, result: Result<Payload, CommandError>) -> Event {
        self.taken += 1;
        self.completions += 1;
        Event::Completed { tag: tag as u64, result }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("pid", &self.pid).field("taken", &self.taken).finish_non_exhaustive()
    }
}
