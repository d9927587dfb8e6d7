//! The choices of a run: which of several things happens next.
//!
//! A run is determined by its choices. Each choice is a number below the count of alternatives. Zero is always the
//! dullest alternative: continue in the order in which things became ready, or inject no fault. Choices are drawn from
//! a seed by a [strategy](super::strategy), and recorded; a recorded list replays the run. So a schedule is made
//! smaller by setting choices to zero and by truncating the list, no matter what the choices decide (as Hypothesis does
//! with its choice sequence: MacIver and Donaldson, 2020).

use super::explore::{Explorer, Touched};
use super::strategy::TurnOrder;
use crate::env::chance::Random;
use std::time::Duration;

/// The source of a run's choices.
pub(crate) enum ChoiceSource {
    /// Drawn by a strategy.
    Drawn(TurnOrder),
    /// The choices of another run; zero after the last of them.
    Replayed,
    /// Like `Replayed`, but each time slice takes one event, so that its budget is not a choice.
    Exhaustive,
    /// The choices of the next path of a search; each time slice takes one event.
    Explored(Explorer),
}

/// The choices of one run.
pub(crate) struct Choices {
    source: ChoiceSource,
    random: Random,
    made: Vec<u16>,
    /// The choices to replay.
    given: Vec<u16>,
}

impl Choices {
    pub(crate) fn drawn(strategy: TurnOrder, seed: u64) -> Self {
        let random = Random::new(seed, CHOICES);
        Self { source: ChoiceSource::Drawn(strategy), random, made: Vec::new(), given: Vec::new() }
    }

    pub(crate) fn replayed(given: Vec<u16>) -> Self {
        Self::given(ChoiceSource::Replayed, given)
    }

    pub(crate) fn exhaustive(given: Vec<u16>) -> Self {
        Self::given(ChoiceSource::Exhaustive, given)
    }

    pub(crate) fn explored(mut explorer: Explorer) -> Self {
        explorer.begin();
        Self::given(ChoiceSource::Explored(explorer), Vec::new())
    }

    fn given(source: ChoiceSource, given: Vec<u16>) -> Self {
        Self { source, random: Random::new(0, CHOICES), made: Vec::new(), given }
    }

    /// Chooses one of `actors`, which are in the order in which they became ready. `turn` is the number of the turn,
    /// and `touched` is what the previous turn has touched. Returns `None` if everything that follows has been
    /// explored.
    pub(crate) fn actor(&mut self, actors: &[u32], turn: u64, touched: Touched) -> Option<usize> {
        if let ChoiceSource::Explored(explorer) = &mut self.source {
            let chosen = explorer.turn(actors, touched)?;
            if actors.len() > 1 {
                self.record(chosen);
            }
            return Some(chosen);
        }
        Some(self.choose(actors.len(), |strategy, random| strategy.choose(actors, turn, random)))
    }

    /// Chooses one of `count` alternatives: a worker, or a process or thread that is ready but in no worker's queue.
    pub(crate) fn worker(&mut self, count: usize) -> usize {
        self.choose(count, |_, random| random.below(count))
    }

    /// Chooses how many events a time slice may take.
    pub(crate) fn budget(&mut self) -> u32 {
        if let ChoiceSource::Exhaustive | ChoiceSource::Explored(_) = self.source {
            return 1;
        }
        let chosen = self.choose(BUDGETS.len(), |strategy, random| strategy.budget(BUDGETS.len(), random));
        BUDGETS[chosen]
    }

    /// Chooses whether a fault with this probability happens.
    pub(crate) fn fault(&mut self, probability: f64) -> bool {
        self.choose(2, |_, random| usize::from(random.unit() < probability)) == 1
    }

    /// Chooses a part of `time`, from zero to all of it, in steps of 1/255.
    pub(crate) fn part_of(&mut self, time: Duration) -> Duration {
        if time.is_zero() {
            return time;
        }
        time / 255 * self.choose(256, |_, random| random.below(256)) as u32
    }

    fn choose(&mut self, count: usize, draw: impl FnOnce(&mut TurnOrder, &mut Random) -> usize) -> usize {
        if count < 2 {
            return 0;
        }
        let chosen = match &mut self.source {
            ChoiceSource::Drawn(strategy) => draw(strategy, &mut self.random).min(count - 1),
            ChoiceSource::Replayed | ChoiceSource::Exhaustive => {
                self.given.get(self.made.len()).map_or(0, |&given| usize::from(given) % count)
            }
            ChoiceSource::Explored(explorer) => explorer.other(count),
        };
        self.record(chosen);
        chosen
    }

    /// Records a choice. A number above 65,535 is recorded as 65,535, so the list would replay a different run; but no
    /// test that ends has that many alternatives.
    fn record(&mut self, chosen: usize) {
        self.made.push(u16::try_from(chosen).unwrap_or(u16::MAX));
    }

    /// Stops the replay: all further choices are zero.
    pub(crate) fn stop_replaying(&mut self) {
        self.given.truncate(self.made.len());
    }

    /// Returns the choices made so far.
    pub(crate) fn made(&self) -> &[u16] {
        &self.made
    }

    /// Returns the search, for the next run.
    pub(crate) fn into_explorer(self) -> Option<Explorer> {
        match self.source {
            ChoiceSource::Explored(explorer) => Some(explorer),
            _ => None,
        }
    }
}

/// The random stream of a seed from which choices are drawn.
const CHOICES: u64 = 1 << 40;

/// The numbers of events that a time slice may take; the first is the one used in production.
const BUDGETS: [u32; 4] = [crate::process::slice::BUDGET, 1, 2, 8];

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a stopped replay that continues with the choices of another run.
    #[test]
    fn a_replay_that_is_stopped_goes_on_with_the_dullest() {
        let mut choices = Choices::replayed(vec![1; 4]);
        let choose = |choices: &mut Choices| choices.actor(&[7, 8], 0, Touched::default());
        assert_eq!((choose(&mut choices), choose(&mut choices)), (Some(1), Some(1)));
        choices.stop_replaying();
        assert_eq!((choose(&mut choices), choices.fault(1.0)), (Some(0), false));
        assert_eq!(choices.made(), [1, 1, 0, 0]);
    }
}
