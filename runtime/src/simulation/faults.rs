//! Faults that a test asks for, drawn from its seed.
//!
//! Each is *active* in a run with a probability of a quarter, so that most runs show few faults at once (swarm testing:
//! Groce et al., 2012; FoundationDB's BUGGIFY), and then happens with the probability that the test gave.

use super::choices::Choices;
use crate::slots::Slot;
use std::any::TypeId;
use std::time::Duration;

/// The probability that a fault is active in a run.
const ACTIVE: f64 = 0.25;

/// What goes wrong before a time slice of a process.
pub(crate) enum Fault {
    Crash,
    Slow(Duration),
}

struct Rule {
    process: TypeId,
    probability: f64,
    /// How long the process is not run; `None`: it panics.
    slow: Option<Duration>,
    is_active: bool,
}

/// The faults of one run.
pub(crate) struct Faults {
    /// Whether there are any.
    are_wanted: bool,
    rules: Vec<Rule>,
    /// How late timers are at most.
    late: Duration,
}

impl Faults {
    pub(crate) fn new(are_wanted: bool) -> Self {
        Self { are_wanted, rules: Vec::new(), late: Duration::ZERO }
    }

    /// Adds that processes of that type panic, or are not run for up to `slow`.
    pub(crate) fn add(&mut self, choices: &mut Choices, process: TypeId, probability: f64, slow: Option<Duration>) {
        let is_active = self.are_wanted && choices.fault(ACTIVE);
        self.rules.push(Rule { process, probability, slow, is_active });
    }

    pub(crate) fn set_late(&mut self, choices: &mut Choices, late: Duration) {
        self.late = if self.are_wanted && choices.fault(ACTIVE) { late } else { Duration::ZERO };
    }

    /// Returns what goes wrong with the process in that slot now.
    pub(crate) fn before_slice(&self, choices: &mut Choices, slot: &Slot) -> Option<Fault> {
        if self.rules.iter().all(|rule| !rule.is_active) {
            return None;
        }
        let kind = slot.metadata.kind()?.type_id;
        for rule in self.rules.iter().filter(|rule| rule.is_active && rule.process == kind) {
            if choices.fault(rule.probability) {
                return Some(match rule.slow {
                    None => Fault::Crash,
                    Some(most) => Fault::Slow(most.mul_f64(f64::from(choices.part() + 1) / 256.0)),
                });
            }
        }
        None
    }

    /// Returns how late the next timers are.
    pub(crate) fn lateness(&self, choices: &mut Choices) -> Duration {
        if self.late.is_zero() { Duration::ZERO } else { self.late.mul_f64(f64::from(choices.part()) / 256.0) }
    }
}
