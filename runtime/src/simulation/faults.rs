//! Faults that a test asks for, drawn from its seed.
//!
//! Each is *active* in a run with a probability of a quarter, so that most runs show few faults at once (swarm testing:
//! Groce et al., 2012; FoundationDB's BUGGIFY), and then happens with the probability that the test gave.

use super::choices::Choices;
use crate::slots::Slot;
use crate::sync::simulated::Mishap;
use std::any::TypeId;
use std::time::Duration;

/// The probability that a fault is active in a run.
const ACTIVE: f64 = 0.25;

/// What goes wrong before a time slice of a process.
pub(crate) enum Fault {
    Crash,
    Slow(Duration),
}

/// What a test asks to go wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Crash,
    /// Not to be run for up to that long.
    Slow(Duration),
    /// What is not about turns; for a command, to be handled late by up to that much, or to fail.
    Other(Mishap, Duration),
}

struct Rule {
    /// The type of process, or of command.
    of: TypeId,
    wish: Wish,
    probability: f64,
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

    /// Adds what a test asks to go wrong with that type.
    pub(crate) fn add(&mut self, choices: &mut Choices, of: TypeId, wish: Wish, probability: f64) {
        let is_active = self.are_wanted && choices.fault(ACTIVE);
        self.rules.push(Rule { of, wish, probability, is_active });
    }

    /// Returns whether that goes wrong now, and how late it is.
    pub(crate) fn mishap(&self, choices: &mut Choices, mishap: Mishap, of: TypeId) -> Option<Duration> {
        for rule in self.rules.iter().filter(|rule| rule.is_active && rule.of == of) {
            if let Wish::Other(other, most) = rule.wish
                && other == mishap
                && choices.fault(rule.probability)
            {
                return Some(most.mul_f64(f64::from(choices.part_of(most)) / 256.0));
            }
        }
        None
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
        for rule in self.rules.iter().filter(|rule| rule.is_active && rule.of == kind) {
            let fault = match rule.wish {
                Wish::Crash => choices.fault(rule.probability).then_some(Fault::Crash),
                Wish::Slow(most) => choices
                    .fault(rule.probability)
                    .then(|| Fault::Slow(most.mul_f64(f64::from(choices.part_of(most) + 1) / 256.0))),
                Wish::Other(..) => None,
            };
            if fault.is_some() {
                return fault;
            }
        }
        None
    }

    /// Returns how late the next timers are.
    pub(crate) fn lateness(&self, choices: &mut Choices) -> Duration {
        if self.late.is_zero() {
            Duration::ZERO
        } else {
            self.late.mul_f64(f64::from(choices.part_of(self.late)) / 256.0)
        }
    }
}
