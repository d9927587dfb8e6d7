use super::Version;
use postroom::error::GroupError;
use postroom::prelude::*;
use postroom::test::Sim;
use std::collections::BTreeSet;

const ROOM: &str = "room";

#[process]
struct Guest;

#[process]
impl Guest {
    #[entry]
    fn enter(&mut self, ctx: &mut Context<Self>) -> Result<(), GroupError> {
        ctx.group(ROOM).join(ctx.pid())?;
        Ok(())
    }
}

#[process]
struct Door;

#[process]
impl Door {
    #[entry]
    async fn let_in(&mut self, ctx: &mut Context<Self>) -> Result<Address<Guest>, SpawnError> {
        ctx.spawn(Guest).enter()
    }
}

/// A process that is sent the number of guests.
#[process]
struct Register;

#[process]
impl Register {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn note(&mut self, _guests: usize) {}
}

#[process]
struct Doorman {
    register: Address<Register>,
    guests: BTreeSet<Pid>,
}

#[process]
impl Doorman {
    #[entry]
    async fn receive(&mut self, ctx: &mut Context<Self>, version: Version) -> Result<(), ProcessError> {
        let room = ctx.group(ROOM);
        if version.is_wrong() {
            self.guests.extend(&*room.members());
            self.register.note(self.guests.len()).await?;
            room.subscribe(ctx.address())?;
        } else {
            self.guests.extend(&*room.subscribe(ctx.address())?);
            self.register.note(self.guests.len()).await?;
        }
        ctx.serve(self).await;
        Ok(())
    }
    #[message(GroupEvent)]
    fn changed(&mut self, event: GroupEvent) {
        if let GroupEvent::Joined { pid, .. } = event {
            self.guests.insert(pid);
        }
    }
    #[message]
    fn count(&mut self) -> usize {
        self.guests.len()
    }
}

pub fn run(sim: &Sim, version: Version) {
    let register = sim.spawn(Register).serve().expect("it starts");
    let host = sim.spawn(Doorman { register, guests: BTreeSet::new() }).receive(version).expect("it starts");
    let door = sim.spawn(Door).let_in().expect("it starts");
    let guest = door.wait().expect("it ends");
    assert_eq!(host.address().count().wait(), Ok(1), "{:?} is in the room", guest.pid());
}
