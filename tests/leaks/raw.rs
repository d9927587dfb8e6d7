//! Hand-written processes.

use super::books::{Way, add};
use super::citizen::{CitizenAsk, part};
use super::messages::{Deed, Dice, Later, Tick};
use super::world::{End, Own, World};
use postroom::ProcessError;
use postroom::manual::{Event, Events, InitContext, Process, StepOutput};
use postroom::prelude::*;
use std::sync::Arc;

/// A process that calls and waits by yielding.
pub struct Raw {
    world: Arc<World>,
    own: Own,
    me: Option<Pid>,
    dice: Dice,
    asked: u64,
    answers: u64,
}

/// A request to give up all resources.
pub struct Part;

impl Raw {
    pub fn new(world: &Arc<World>, permanent: bool, dice: Dice) -> Self {
        let own = Own { permanent, lasts: permanent, ..Own::default() };
        Self { world: world.clone(), own, me: None, dice, asked: 0, answers: 0 }
    }

    fn deed(&mut self, deed: Deed, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        let (world, mut dice) = (self.world.clone(), deed.dice);
        deed.parcel.handled();
        if world.is_over() {
            return Ok(());
        }
        match dice.roll(8) {
            0 => {
                self.asked += 1;
                add(&world.books.asked);
                let deed = world.deed(Way::Called, 0, &mut dice);
                out.call(world.someone(&mut dice), CitizenAsk { deed }, self.asked);
            }
            1 => {
                self.asked += 1;
                out.after(if self.own.lasts { dice.short() } else { dice.perhaps_long() }, self.asked);
            }
            4 => {
                self.asked += 1;
                out.perform(Later, self.asked);
            }
            2 => out.go_on(),
            3 if !self.own.permanent => out.upgrade(Self { me: self.me, ..Self::new(&world, false, dice.next()) }),
            _ => {}
        }
        match self.me.and_then(|me| world.act(me, &mut self.own, deed.left, &mut dice)) {
            None => Ok(()),
            Some(End::Stop) => {
                out.done();
                Ok(())
            }
            Some(End::Fail) => Err(ProcessError::new("as the dice fell")),
            Some(End::Panic) => std::panic::resume_unwind(Box::new("as the dice fell")),
        }
    }
}

impl Process for Raw {
    fn init(&mut self, ctx: &mut InitContext<'_>, _entry: &str, _input: Payloads) -> Result<(), InitError> {
        self.me = ctx.pid();
        Ok(())
    }

    fn traps_exits(&self) -> bool {
        self.own.permanent
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            match event {
                Event::Message(package) if package.is::<Deed>() => {
                    if let Ok(deed) = package.take::<Deed>() {
                        self.deed(deed, out)?;
                    }
                }
                Event::Message(package) if package.is::<Tick>() => {
                    package.take::<Tick>().into_iter().for_each(|tick| tick.0.handled());
                }
                Event::Message(package) if package.is::<Part>() => {
                    let me = self.me.expect("it runs");
                    let (world, own) = (&self.world, &mut self.own);
                    let _answered = package.answer(|_: Part| part(world, me, own));
                }
                Event::Message(package) => {
                    // If the process does not understand the message, the message is dropped, and so becomes a dead
                    // letter.
                    let _known = package.answer(|ask: CitizenAsk| {
                        ask.deed.parcel.handled();
                        1_u64
                    });
                }
                Event::Completed { result, .. } => {
                    self.answers += 1;
                    if result.is_ok_and(|answer| answer.is::<Result<u64, std::convert::Infallible>>()) {
                        add(&self.world.books.answered);
                    }
                }
                Event::Signal(Signal::Down(down)) => self.own.down(&down),
                Event::Signal(_) => {}
            }
            if out.is_done() {
                break;
            }
        }
        if !out.is_done() && self.asked > self.answers && self.dice.roll(4) == 0 && !self.world.is_over() {
            out.wait();
        }
        Ok(())
    }
}
