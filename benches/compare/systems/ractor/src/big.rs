//! Savina's *big*: each process keeps a ping in flight to a random other one.

use std::sync::Arc;
use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::finish::finish;
use super::tally::{Report, Tally, TallyState};
use super::{Peers, nobody, send, share, start};
use crate::kernel::Random;
use crate::plan::{Outcome, Plan};

struct Member;

enum Say {
    Meet(Peers<Say>),
    Begin,
    /// A ping, with the number of its sender.
    Ping(usize),
    Pong,
    Over,
}

struct MemberState {
    index: usize,
    peers: Peers<Say>,
    random: Random,
    /// Number of pings that are still to be sent.
    left: u64,
    received: u64,
    crowd: ActorRef<Gather>,
    tally: ActorRef<Report>,
}

impl MemberState {
    fn ping(&mut self) {
        if self.left == 0 {
            return send(&self.crowd, Gather::Ready);
        }
        self.left -= 1;
        let other = self.random.below(self.peers.len() as u64 - 1) as usize;
        let other = if other < self.index { other } else { other + 1 };
        send(&self.peers[other], Say::Ping(self.index));
    }
}

impl Actor for Member {
    type Msg = Say;
    type State = MemberState;
    type Arguments = MemberState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Say>, say: Say, state: &mut MemberState) -> Result<(), ActorProcessingErr> {
        match say {
            Say::Ping(from) => {
                state.received += 1;
                send(&state.peers[from], Say::Pong);
            }
            Say::Pong => {
                state.received += 1;
                state.ping();
            }
            Say::Meet(peers) => state.peers = peers,
            Say::Begin => state.ping(),
            Say::Over => send(&state.tally, Report(state.received)),
        }
        Ok(())
    }
}

/// An actor that waits until all members have received their last pong. Until then, another ping may arrive at any of
/// them.
struct Crowd;

enum Gather {
    Meet(Peers<Say>),
    Ready,
}

struct CrowdState {
    members: Peers<Say>,
    ready: usize,
}

impl Actor for Crowd {
    type Msg = Gather;
    type State = CrowdState;
    type Arguments = CrowdState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Gather>,
        gather: Gather,
        state: &mut CrowdState,
    ) -> Result<(), ActorProcessingErr> {
        match gather {
            Gather::Meet(members) => state.members = members,
            Gather::Ready => {
                state.ready += 1;
                if state.ready == state.members.len() {
                    for member in state.members.iter() {
                        send(member, Say::Over);
                    }
                }
            }
        }
        Ok(())
    }
}

pub async fn big(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(plan.width, finish)).await;
    let crowd = start(Crowd, CrowdState { members: nobody(), ready: 0 }).await;
    let mut members = Vec::new();
    for index in 0..plan.width {
        let member = MemberState {
            index: index as usize,
            peers: nobody(),
            random: Random::seeded(index),
            left: share(plan.size / 2, plan.width, index),
            received: 0,
            crowd: crowd.clone(),
            tally: tally.clone(),
        };
        members.push(start(Member, member).await);
    }
    let members = Peers::from(members);
    send(&crowd, Gather::Meet(Arc::clone(&members)));
    for member in members.iter() {
        send(member, Say::Meet(Arc::clone(&members)));
    }
    let start = Instant::now();
    for member in members.iter() {
        send(member, Say::Begin);
    }
    finished.outcome(start, plan.size).await
}
