//! Creatures that meet at a mall and change their colours.

use std::sync::Arc;
use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::super::finish::finish;
use super::super::tally::{Report, Tally, TallyState};
use super::super::{Peers, nobody, send, start};
use crate::kernel::Colour;
use crate::plan::{Outcome, Plan};

/// A creature that wants to meet another one. From the mall, the creature that the receiver is to meet.
struct Meet {
    creature: usize,
    colour: Colour,
}

struct Mall;

enum Visit {
    Know(Peers<Fate>),
    Meet(Meet),
}

struct MallState {
    creatures: Peers<Fate>,
    left: u64,
    waiting: Option<usize>,
}

impl Actor for Mall {
    type Msg = Visit;
    type State = MallState;
    type Arguments = MallState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Visit>, visit: Visit, state: &mut MallState) -> Result<(), ActorProcessingErr> {
        match visit {
            Visit::Know(creatures) => state.creatures = creatures,
            Visit::Meet(meet) => {
                if state.left == 0 {
                    send(&state.creatures[meet.creature], Fate::Closed);
                } else if let Some(waiting) = state.waiting.take() {
                    state.left -= 1;
                    send(&state.creatures[waiting], Fate::Meet(meet));
                } else {
                    state.waiting = Some(meet.creature);
                }
            }
        }
        Ok(())
    }
}

struct Creature;

enum Fate {
    Know(Peers<Fate>),
    Begin,
    Meet(Meet),
    Change(Colour),
    Closed,
}

struct CreatureState {
    index: usize,
    colour: Colour,
    meetings: u64,
    peers: Peers<Fate>,
    mall: ActorRef<Visit>,
    tally: ActorRef<Report>,
}

impl CreatureState {
    fn go_to_mall(&self) {
        send(&self.mall, Visit::Meet(Meet { creature: self.index, colour: self.colour }));
    }
}

impl Actor for Creature {
    type Msg = Fate;
    type State = CreatureState;
    type Arguments = CreatureState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Fate>, fate: Fate, state: &mut CreatureState) -> Result<(), ActorProcessingErr> {
        match fate {
            Fate::Know(peers) => state.peers = peers,
            Fate::Begin => state.go_to_mall(),
            Fate::Meet(meet) => {
                state.colour = state.colour.complement(meet.colour);
                state.meetings += 1;
                send(&state.peers[meet.creature], Fate::Change(state.colour));
                state.go_to_mall();
            }
            Fate::Change(colour) => {
                state.colour = colour;
                state.meetings += 1;
                state.go_to_mall();
            }
            Fate::Closed => send(&state.tally, Report(state.meetings)),
        }
        Ok(())
    }
}

pub async fn chameneos(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(plan.width, finish)).await;
    let mall = start(Mall, MallState { creatures: nobody(), left: plan.size, waiting: None }).await;
    let mut creatures = Vec::new();
    for index in 0..plan.width as usize {
        let colour = Colour::ALL[index % 3];
        let (mall, tally) = (mall.clone(), tally.clone());
        let creature = CreatureState { index, colour, meetings: 0, peers: nobody(), mall, tally };
        creatures.push(start(Creature, creature).await);
    }
    let creatures = Peers::from(creatures);
    send(&mall, Visit::Know(Arc::clone(&creatures)));
    for creature in creatures.iter() {
        send(creature, Fate::Know(Arc::clone(&creatures)));
    }
    let start = Instant::now();
    for creature in creatures.iter() {
        send(creature, Fate::Begin);
    }
    finished.outcome(start, plan.size).await
}
