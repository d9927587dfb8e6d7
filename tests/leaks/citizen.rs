//! Processes that are written with the macro, and their upgrades.

use super::books::{Way, add};
use super::messages::{Deed, Dice, Later, Tick};
use super::world::{End, Own, World};
use postroom::ProcessError;
use postroom::prelude::*;
use std::sync::Arc;

/// A process that calls others, runs background tasks, and may be upgraded.
#[process(on_error = "end")]
pub struct Citizen {
    pub world: Arc<World>,
    pub own: Own,
    dice: Dice,
    /// Replies that have not been sent yet.
    kept: Vec<Reply<u64>>,
}

impl Citizen {
    pub fn new(world: &Arc<World>, permanent: bool, dice: Dice) -> Self {
        Self {
            world: world.clone(),
            own: Own { permanent, lasts: permanent, ..Own::default() },
            dice,
            kept: Vec::new(),
        }
    }

    fn act(&mut self, ctx: &mut Context<Self>, left: u32, mut dice: Dice) -> Result<(), ProcessError> {
        let world = self.world.clone();
        if world.is_over() {
            return Ok(());
        }
        let other = world.someone(&mut dice);
        match dice.roll(24) {
            0..2 => ctx.call(world.ask(other, &mut dice)).then(|this, answer, _| this.world.answered(&answer)),
            // A permanent process does not do this. It would keep the timer for the deadline until the timer is due,
            // even if the call were answered.
            2 if !self.own.lasts => {
                ctx.call(world.ask_long(other, &mut dice)).then(|this, answer, _| this.world.answered(&answer))
            }
            3 => ctx.call(world.delay(other, &mut dice)).then(|this, answer, _| this.world.answered(&answer)),
            7 => ctx.call(world.keep(other, &mut dice)).then(|this, answer, _| this.world.answered(&answer)),
            4 => {
                let slept = ctx.sleep(if self.own.lasts { dice.short() } else { dice.perhaps_long() });
                ctx.run(slept).then(|_, (), _| ());
            }
            5 if !self.own.permanent => {
                add(&world.books.upgrades);
                _ = ctx.upgrade(|old: Self| Veteran { world: old.world, own: old.own });
            }
            6 if !self.own.permanent => ctx.trap_exits(dice.roll(2) == 0),
            _ => {}
        }
        end(ctx, world.act(ctx.pid(), &mut self.own, left, &mut dice))
    }
}

fn end<P: postroom::generic::Actor>(ctx: &mut Context<P>, end: Option<End>) -> Result<(), ProcessError> {
    match end {
        None => Ok(()),
        Some(End::Stop) => {
            ctx.stop();
            Ok(())
        }
        Some(End::Fail) => Err(ProcessError::new("as the dice fell")),
        // This panic skips the panic hook.
        Some(End::Panic) => std::panic::resume_unwind(Box::new("as the dice fell")),
    }
}

#[process]
impl Citizen {
    #[entry]
    pub fn serve(&mut self, ctx: &mut Context<Self>) {
        ctx.trap_exits(self.own.permanent);
    }

    #[entry]
    pub fn refuse(&mut self) -> Result<(), String> {
        Err("it does not start".to_string())
    }

    #[message(Deed)]
    fn deed(&mut self, ctx: &mut Context<Self>, deed: Deed) -> Result<(), ProcessError> {
        deed.parcel.handled();
        self.act(ctx, deed.left, deed.dice)
    }

    #[message(Tick)]
    fn tick(&mut self, tick: Tick) {
        tick.0.handled();
    }

    #[message(GroupEvent)]
    fn changed(&mut self, _event: GroupEvent) {}

    #[message]
    pub fn ask(&mut self, ctx: &mut Context<Self>, deed: Deed) -> u64 {
        deed.parcel.handled();
        let _ends_with_the_next = self.act(ctx, 0, deed.dice);
        1
    }

    /// Sends the reply later, or never.
    #[message]
    pub fn keep(&mut self, deed: Deed, reply: Reply<u64>) {
        deed.parcel.handled();
        self.kept.push(reply);
        if self.kept.len() > 3 {
            let first = self.kept.remove(0);
            if self.dice.roll(2) == 0 {
                first.send(1);
            }
        }
    }

    /// Answers after a delay, and after calls to others.
    #[message]
    pub async fn delay(&mut self, ctx: &mut Context<Self>, mut deed: Deed) -> u64 {
        deed.parcel.handled();
        let dice = &mut deed.dice;
        ctx.sleep(dice.short()).await;
        if !self.world.is_over() && dice.roll(4) == 0 {
            // The command is answered late, or only at the end of the round.
            let _answer = ctx.perform(Later).await;
        }
        if !self.world.is_over() {
            let other = self.world.someone(dice);
            let answer = self.world.ask(other, dice).await;
            self.world.answered(&answer);
        }
        1
    }

    /// Gives up all resources.
    #[message]
    pub fn part(&mut self, ctx: &mut Context<Self>) {
        part(&self.world, ctx.pid(), &mut self.own);
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.own.down(&down);
    }

    #[signal]
    fn exit(&mut self, exit: Exit) {
        let _known = (exit, self.dice.roll(2));
    }
}

/// Gives up all names, memberships and bindings of the calling process.
pub fn part(world: &World, me: Pid, own: &mut Own) {
    let names = me.info().map(|info| info.names).unwrap_or_default();
    names.iter().for_each(|name| _ = world.host.unregister_name(name));
    for room in 0..super::world::ROOMS {
        let room = world.host.group(format!("room-{room}"));
        while room.leave(me) {}
        room.unsubscribe(me);
    }
    for topic in 0..super::world::TOPICS {
        world.host.topic::<Tick>(format!("topic-{topic}")).unsubscribe(me);
    }
    world.host.unsubscribe::<Tick>(me);
    own.monitors.drain(..).for_each(|monitor| _ = monitor.demonitor());
    world.permanent.get().into_iter().flatten().for_each(|permanent| _ = permanent.unlink());
}

/// The upgraded form of a citizen. It handles only deeds.
#[process(on_error = "end")]
pub struct Veteran {
    pub world: Arc<World>,
    pub own: Own,
}

#[process]
impl Veteran {
    #[entry]
    fn serve(&mut self) {}

    #[message(Deed)]
    fn deed(&mut self, ctx: &mut Context<Self>, mut deed: Deed) -> Result<(), ProcessError> {
        deed.parcel.handled();
        if !self.world.is_over() {
            let other = self.world.someone(&mut deed.dice);
            self.world.plain(other, Way::Sent, 0, &mut deed.dice).send().unwrap_or_else(|refused| {
                refused.message.parcel.refused();
            });
        }
        end(ctx, self.world.act(ctx.pid(), &mut self.own, deed.left, &mut deed.dice))
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.own.down(&down);
    }
}
