//! Explores all schedules of a small test, each once.
//!
//! Turns of two processes commute unless both touch the same process, since processes share nothing else. So among the
//! orders that differ only in turns that commute, it is enough to explore one. A depth-first search with *sleep sets*
//! (Godefroid, 1996) explores just one: when a turn has been explored from a state, the other branches of that state do
//! not take it until after a turn with which it does not commute. "Touches the same receiver" is transitive, which
//! makes the reduction effective for actors (TransDPOR: Tasharofi et al., 2012).
//!
//! A turn touches its process, the processes that it sends to, answers or signals, and *everything* if it spawns, ends,
//! or changes names or groups. Memory that processes share without the runtime is not considered.

use smallvec::SmallVec;

/// What a turn has touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) actors: SmallVec<[u32; 4]>,
    pub(crate) everything: bool,
}

impl Touched {
    fn commutes_with(&self, other: &Self) -> bool {
        let shares = |actor: &u32| other.actors.contains(actor);
        !self.everything && !other.everything && !self.actors.iter().any(shares)
    }
}

/// A state in which there was a choice.
enum Branch {
    /// A choice of which actor goes next.
    Turn {
        actors: SmallVec<[u32; 8]>,
        chosen: usize,
        /// The actors whose turns need not come next, with what they touch.
        asleep: Vec<(u32, Touched)>,
    },
    /// Any other choice, such as whether a fault happens.
    Other { count: usize, chosen: usize },
}

/// The search. It is passed from run to run.
#[derive(Default)]
pub(crate) struct Explorer {
    path: Vec<Branch>,
    /// Number of nodes of the path that this run has passed.
    depth: usize,
    /// The node of the most recent turn in this run.
    last: Option<usize>,
    /// The current sleep set: the turns that need not come next, with what they touch.
    asleep: Vec<(u32, Touched)>,
    /// The actor of the most recent turn.
    actor: Option<u32>,
}

impl Explorer {
    /// Begins a run along the current path of the search.
    pub(crate) fn begin(&mut self) {
        (self.depth, self.last, self.actor) = (0, None, None);
        self.asleep.clear();
    }

    /// Chooses which actor goes next; `touched` is what the previous turn has touched. Returns `None` if all turns that
    /// can come next have been explored.
    pub(crate) fn turn(&mut self, actors: &[u32], touched: Touched) -> Option<usize> {
        self.turn_ended(touched);
        let node = self.depth;
        if node == self.path.len() {
            let chosen = actors.iter().position(|actor| !self.is_asleep(*actor))?;
            let asleep = std::mem::take(&mut self.asleep);
            self.path.push(Branch::Turn { actors: actors.into(), chosen, asleep });
        }
        self.depth += 1;
        let Branch::Turn { chosen, actors: before, asleep } = &self.path[node] else { return None };
        if before.as_slice() != actors {
            // The program is not deterministic.
            return None;
        }
        self.asleep.clone_from(asleep);
        (self.last, self.actor) = (Some(node), Some(actors[*chosen]));
        Some(*chosen)
    }

    /// Chooses one of `count` alternatives that are not turns.
    pub(crate) fn other(&mut self, count: usize) -> usize {
        if self.depth == self.path.len() {
            self.path.push(Branch::Other { count, chosen: 0 });
        }
        self.depth += 1;
        match self.path[self.depth - 1] {
            Branch::Other { chosen, .. } => chosen,
            Branch::Turn { .. } => 0,
        }
    }

    fn is_asleep(&self, actor: u32) -> bool {
        self.asleep.iter().any(|(other, _)| *other == actor)
    }

    /// Removes the turns that do not commute with the ended turn from the sleep set. Also records, for the other
    /// branches of the node of the ended turn, what that turn has touched.
    fn turn_ended(&mut self, mut touched: Touched) {
        let Some(actor) = self.actor.take() else { return };
        touched.actors.push(actor);
        self.asleep.retain(|(_, other)| other.commutes_with(&touched));
        if let Some(last) = self.last.take()
            && last + 1 == self.path.len()
            && let Branch::Turn { asleep, .. } = &mut self.path[last]
            && !asleep.iter().any(|(other, _)| *other == actor)
        {
            asleep.push((actor, touched));
        }
    }

    /// Advances to the next path when a run has ended. `touched` is what the last turn of that run has touched. Returns
    /// false if there is no next path.
    pub(crate) fn advance(&mut self, touched: Touched) -> bool {
        self.turn_ended(touched);
        while let Some(node) = self.path.last_mut() {
            match node {
                Branch::Turn { actors, chosen, asleep } => {
                    let left = |at: &usize| !asleep.iter().any(|(other, _)| *other == actors[*at]);
                    if let Some(next) = (*chosen + 1..actors.len()).find(left) {
                        *chosen = next;
                        return true;
                    }
                }
                Branch::Other { count, chosen } if *chosen + 1 < *count => {
                    *chosen += 1;
                    return true;
                }
                Branch::Other { .. } => {}
            }
            self.path.pop();
        }
        false
    }
}
