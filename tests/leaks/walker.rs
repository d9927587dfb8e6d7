//! Processes with an async entry.

use super::books::Way;
use super::citizen::{CitizenAsk, part};
use super::messages::{Deed, Dice, Tick};
use super::world::{End, Own, World};
use postroom::ProcessError;
use postroom::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// A process that waits in every possible way, or serves from its entry.
#[process(on_error = "end")]
pub struct Walker {
    pub world: Arc<World>,
    pub own: Own,
    dice: Dice,
}

impl Walker {
    pub fn new(world: &Arc<World>, permanent: bool, dice: Dice) -> Self {
        Self { world: world.clone(), own: Own { permanent, lasts: permanent, ..Own::default() }, dice }
    }
}

#[process]
impl Walker {
    #[entry]
    pub async fn stay(&mut self, ctx: &mut Context<Self>) {
        ctx.trap_exits(self.own.permanent);
        match ctx.serve(self).await {}
    }

    #[entry]
    pub async fn walk(&mut self, ctx: &mut Context<Self>, rounds: u32) -> Result<u64, ProcessError> {
        let world = self.world.clone();
        for _ in 0..rounds {
            if world.is_over() {
                break;
            }
            let (short, other) = (self.dice.short(), world.someone(&mut self.dice));
            match self.dice.roll(10) {
                0 => ctx.sleep(self.dice.perhaps_long()).await,
                1 => {
                    let mut ticks = ctx.interval(short + Duration::from_micros(10));
                    for _ in 0..3 {
                        ticks.tick().await;
                    }
                }
                2 => {
                    let answer = world.ask_long(other, &mut self.dice).await;
                    world.answered(&answer);
                }
                3 => {
                    let call = world.delay(other, &mut self.dice).timeout(Duration::from_secs(5));
                    let answer = ctx.timeout(short, call.into_future()).await;
                    answer.iter().for_each(|answer| world.answered(answer));
                }
                4 => {
                    if let Some(deed) = ctx.receive_within::<Deed>(short).await {
                        deed.parcel.handled();
                    }
                }
                5 => _ = ctx.serve_next_within(self, short).await,
                6 => _ = ctx.serve_ready(self).await,
                7 => {
                    // A process that exits while it waits for room drops the message.
                    let sent = world.plain(other, Way::Copied, 0, &mut self.dice).send_async().await;
                    sent.unwrap_or_else(|refused| refused.message.parcel.refused());
                }
                _ => {
                    let mut dice = self.dice.next();
                    match world.act(ctx.pid(), &mut self.own, 0, &mut dice) {
                        None => {}
                        Some(End::Stop) => break,
                        Some(End::Fail) => return Err(ProcessError::new("as the dice fell")),
                        Some(End::Panic) => std::panic::resume_unwind(Box::new("as the dice fell")),
                    }
                }
            }
        }
        Ok(1)
    }

    #[message(Deed)]
    fn deed(&mut self, ctx: &mut Context<Self>, mut deed: Deed) -> Result<(), ProcessError> {
        deed.parcel.handled();
        match self.world.clone().act(ctx.pid(), &mut self.own, deed.left, &mut deed.dice) {
            None => Ok(()),
            Some(End::Stop) => {
                ctx.stop();
                Ok(())
            }
            Some(End::Fail) => Err(ProcessError::new("as the dice fell")),
            Some(End::Panic) => std::panic::resume_unwind(Box::new("as the dice fell")),
        }
    }

    #[message(CitizenAsk)]
    fn ask(&mut self, ask: CitizenAsk) -> u64 {
        ask.deed.parcel.handled();
        1
    }

    #[message(Tick)]
    fn tick(&mut self, tick: Tick) {
        tick.0.handled();
    }

    #[message]
    pub fn part(&mut self, ctx: &mut Context<Self>) {
        part(&self.world, ctx.pid(), &mut self.own);
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.own.down(&down);
    }

    #[signal]
    fn exit(&mut self, _exit: Exit) {}
}
