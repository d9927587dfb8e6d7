//! One message that is passed around: ping_pong, pairs, ring.

use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::finish::finish;
use super::tally::{Report, Tally, TallyState};
use super::{send, share, start};
use crate::plan::{Outcome, Plan};

/// One of two players that pass a ball.
struct Player<const N: usize>;

struct PlayerState<const N: usize> {
    peer: Option<ActorRef<Pass<N>>>,
    received: u64,
    tally: ActorRef<Report>,
}

enum Pass<const N: usize> {
    Meet(ActorRef<Pass<N>>),
    Ball {
        /// Number of passes that are still to be made after this one.
        left: u64,
        load: [u8; N],
    },
    Over,
}

impl<const N: usize> PlayerState<N> {
    fn peer(&self) -> &ActorRef<Pass<N>> {
        self.peer.as_ref().expect("a player should know its peer before the first ball")
    }
}

impl<const N: usize> Actor for Player<N> {
    type Msg = Pass<N>;
    type State = PlayerState<N>;
    type Arguments = PlayerState<N>;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Pass<N>>,
        pass: Pass<N>,
        state: &mut PlayerState<N>,
    ) -> Result<(), ActorProcessingErr> {
        match pass {
            Pass::Ball { left: 0, .. } => {
                state.received += 1;
                send(state.peer(), Pass::Over);
                send(&state.tally, Report(state.received));
            }
            Pass::Ball { left, load } => {
                state.received += 1;
                send(state.peer(), Pass::Ball { left: left - 1, load });
            }
            Pass::Over => send(&state.tally, Report(state.received)),
            Pass::Meet(peer) => state.peer = Some(peer),
        }
        Ok(())
    }
}

/// Starts two players that know each other. Returns the one that gets the first ball.
async fn pair<const N: usize>(tally: &ActorRef<Report>) -> ActorRef<Pass<N>> {
    let left = start(Player, PlayerState { peer: None, received: 0, tally: tally.clone() }).await;
    let right = start(Player, PlayerState { peer: Some(left.clone()), received: 0, tally: tally.clone() }).await;
    send(&left, Pass::Meet(right));
    left
}

pub async fn ping_pong<const N: usize>(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(2, finish)).await;
    let player = pair(&tally).await;
    let start = Instant::now();
    send(&player, Pass::Ball { left: plan.size - 1, load: [1; N] });
    finished.outcome(start, plan.size).await
}

pub async fn pairs(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(2 * plan.width, finish)).await;
    let mut players = Vec::new();
    for _ in 0..plan.width {
        players.push(pair::<0>(&tally).await);
    }
    let start = Instant::now();
    for (index, player) in (0..).zip(&players) {
        send(player, Pass::Ball { left: share(plan.size, plan.width, index) - 1, load: [] });
    }
    finished.outcome(start, plan.size).await
}

/// A member of a ring.
struct Hop;

struct HopState {
    next: Option<ActorRef<Token>>,
    received: u64,
    tally: ActorRef<Report>,
}

enum Token {
    Close(ActorRef<Token>),
    /// The token, with the number of hops that it still has to make.
    Hop(u64),
    /// Goes around the ring once at the end.
    Over,
}

impl Actor for Hop {
    type Msg = Token;
    type State = HopState;
    type Arguments = HopState;

    state_from_arguments!();

    async fn handle(&self, me: ActorRef<Token>, token: Token, state: &mut HopState) -> Result<(), ActorProcessingErr> {
        match token {
            Token::Hop(0) => {
                state.received += 1;
                send(&me, Token::Over);
            }
            Token::Hop(left) => {
                state.received += 1;
                let next = state.next.as_ref().expect("the ring should be closed before the first token");
                send(next, Token::Hop(left - 1));
            }
            Token::Over => {
                if let Some(next) = state.next.take() {
                    send(&next, Token::Over);
                    send(&state.tally, Report(state.received));
                }
            }
            Token::Close(next) => state.next = Some(next),
        }
        Ok(())
    }
}

pub async fn ring(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(plan.width, finish)).await;
    let last = start(Hop, HopState { next: None, received: 0, tally: tally.clone() }).await;
    let mut first = last.clone();
    for _ in 1..plan.width {
        first = start(Hop, HopState { next: Some(first), received: 0, tally: tally.clone() }).await;
    }
    send(&last, Token::Close(first.clone()));
    let start = Instant::now();
    send(&first, Token::Hop(plan.size - 1));
    finished.outcome(start, plan.size).await
}
