//! Faults that a test requests, drawn from its seed.
//!
//! Each fault is *active* in a run with a probability of a quarter, so that most runs have few kinds of faults at once
//! (swarm testing: Groce et al., 2012; FoundationDB's BUGGIFY). An active fault happens with the probability that the
//! test gave.

use super::choices::Choices;
use crate::sync::simulated::Mishap;
use std::any::TypeId;
use std::time::Duration;

/// The probability that a fault is active in a run.
const ACTIVE: f64 = 0.25;

/// A fault that a test requests.
pub(crate) struct Rule {
    /// The type of the process or command.
    pub(crate) of: TypeId,
    pub(crate) mishap: Mishap,
    pub(crate) probability: f64,
    /// Maximum duration of the fault, if it has one.
    pub(crate) most: Duration,
}

/// The faults of one run.
pub(crate) struct Faults {
    /// Whether faults may happen in this run.
    are_wanted: bool,
    active: Vec<Rule>,
    /// Maximum lateness of timers.
    late: Duration,
}

impl Faults {
    pub(crate) fn new(are_wanted: bool) -> Self {
        Self { are_wanted, active: Vec::new(), late: Duration::ZERO }
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    /// Adds a fault, if it is active in this run.
    pub(crate) fn add(&mut self, choices: &mut Choices, rule: Rule) {
        if self.are_wanted && choices.fault(ACTIVE) {
            self.active.push(rule);
        }
    }

    /// Delays timers by up to `late`, if this fault is active in this run.
    pub(crate) fn set_late(&mut self, choices: &mut Choices, late: Duration) {
        self.late = if self.are_wanted && choices.fault(ACTIVE) { late } else { Duration::ZERO };
    }

    /// Returns how long the fault lasts, if it happens now.
    pub(crate) fn happens(&self, choices: &mut Choices, mishap: Mishap, of: TypeId) -> Option<Duration> {
        let asked = self
            .active
            .iter()
            .find(|rule| (rule.of, rule.mishap) == (of, mishap) && choices.fault(rule.probability))?;
        Some(choices.part_of(asked.most))
    }

    /// Returns how late the next timers fire.
    pub(crate) fn lateness(&self, choices: &mut Choices) -> Duration {
        choices.part_of(self.late)
    }
}
