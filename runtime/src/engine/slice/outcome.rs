//! Decides what follows a step: a pure function of the facts that the step leaves.
//!
//! Steps without rare state do not use this function. For those, [`rests_simply`] decides with fewer checks, and a test
//! verifies that the result is the same.

use crate::process::output::StepStatus;

/// The status that a step has written, without the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusKind {
    Idle,
    Continue,
    Waiting,
    Suspended,
    Over,
    Upgrade,
}

impl From<&StepStatus> for StatusKind {
    #[inline(always)]
    fn from(status: &StepStatus) -> Self {
        match status {
            StepStatus::Idle => Self::Idle,
            StepStatus::Continue => Self::Continue,
            StepStatus::Waiting => Self::Waiting,
            StepStatus::Suspended => Self::Suspended,
            StepStatus::Done(_) | StepStatus::Ended(..) => Self::Over,
            StepStatus::Upgrade(_) => Self::Upgrade,
        }
    }
}

/// The facts that decide what follows a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepFacts {
    pub(super) status: StatusKind,
    /// Whether the step returned an error or panicked.
    pub(super) has_failed: bool,
    /// Whether the process was killed, or was asked to stop and has not taken the request.
    pub(super) is_to_end: bool,
    /// Whether the step was given something and took some of it.
    pub(super) has_taken: bool,
    /// Whether the time slice is over.
    pub(super) is_spent: bool,
    /// Whether there is something in the control lane, or left over from it: a node, or only a wake.
    pub(super) has_control: bool,
    /// Whether there is a node in the control lane, or left over from it.
    pub(super) has_control_node: bool,
    /// Whether there are messages or notices.
    pub(super) has_messages: bool,
    /// Whether completions of the process's yields are outstanding.
    pub(super) has_yields: bool,
}

/// The action that follows a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Another step in this time slice: there is input, and budget.
    Again,
    /// Queue the process behind others.
    Requeue,
    ParkIdle,
    ParkWaiting,
    /// Park until a node arrives in the control lane: the process waits for its yields, so a mere wake is no reason for
    /// another step.
    ParkForYields,
    /// The process becomes the successor that it has requested.
    Upgrade,
    End(EndBy),
}

/// The source of the reason why a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndBy {
    /// The error or the panic of the step.
    Failure,
    /// The status that the step wrote.
    Status,
    /// The request to kill or stop the process.
    Request,
    /// The process waits for its yields, but none is outstanding.
    NoYields,
}

impl StepFacts {
    pub(super) fn outcome(&self) -> StepOutcome {
        let again = if self.has_taken && !self.is_spent { StepOutcome::Again } else { StepOutcome::Requeue };
        match self.status {
            _ if self.has_failed => StepOutcome::End(EndBy::Failure),
            StatusKind::Over => StepOutcome::End(EndBy::Status),
            _ if self.is_to_end => StepOutcome::End(EndBy::Request),
            StatusKind::Upgrade => StepOutcome::Upgrade,
            StatusKind::Continue => StepOutcome::Requeue,
            StatusKind::Idle if self.has_control || self.has_messages => again,
            StatusKind::Idle => StepOutcome::ParkIdle,
            StatusKind::Suspended if self.has_control => again,
            StatusKind::Suspended => StepOutcome::ParkWaiting,
            StatusKind::Waiting if !self.has_yields => StepOutcome::End(EndBy::NoYields),
            StatusKind::Waiting if self.has_control_node => again,
            StatusKind::Waiting => StepOutcome::ParkForYields,
        }
    }
}

/// Returns what follows a step that has taken something and left no input, no yields and no rare state; `None` if
/// [`StepFacts::outcome`] must decide. If something has arrived in the meantime, the token cannot be parked, and the
/// time slice continues while its budget lasts.
#[inline(always)]
pub(super) fn rests_simply(status: StatusKind) -> Option<StepOutcome> {
    match status {
        StatusKind::Idle => Some(StepOutcome::ParkIdle),
        StatusKind::Suspended => Some(StepOutcome::ParkWaiting),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUSES: [StatusKind; 6] = [
        StatusKind::Idle,
        StatusKind::Continue,
        StatusKind::Waiting,
        StatusKind::Suspended,
        StatusKind::Over,
        StatusKind::Upgrade,
    ];

    /// Returns all combinations of facts that a step can leave.
    fn all() -> impl Iterator<Item = StepFacts> {
        let bit = |bits: u32, number: u32| bits >> number & 1 == 1;
        STATUSES.into_iter().flat_map(move |status| {
            (0..1 << 8).map(move |bits| StepFacts {
                status,
                has_failed: bit(bits, 0),
                is_to_end: bit(bits, 1),
                has_taken: bit(bits, 2),
                is_spent: bit(bits, 3),
                has_control: bit(bits, 4),
                has_control_node: bit(bits, 4) && bit(bits, 5),
                has_messages: bit(bits, 6),
                has_yields: bit(bits, 7),
            })
        })
    }

    /// Returns the actual effect of an outcome: a process is not parked if it already has input that would wake it.
    fn effect(facts: &StepFacts, outcome: StepOutcome) -> StepOutcome {
        let has_input = match outcome {
            StepOutcome::ParkIdle => facts.has_control || facts.has_messages,
            StepOutcome::ParkWaiting => facts.has_control,
            StepOutcome::ParkForYields => facts.has_control_node,
            _ => false,
        };
        match (has_input, facts.is_spent) {
            (false, _) => outcome,
            (true, false) => StepOutcome::Again,
            (true, true) => StepOutcome::Requeue,
        }
    }

    /// The decision table, in the order in which its rows are checked.
    #[test]
    fn what_follows_a_step() {
        let rests = StepFacts {
            status: StatusKind::Idle,
            has_failed: false,
            is_to_end: false,
            has_taken: true,
            is_spent: false,
            has_control: false,
            has_control_node: false,
            has_messages: false,
            has_yields: false,
        };
        let message = StepFacts { has_messages: true, ..rests };
        let wake = StepFacts { has_control: true, ..rests };
        let node = StepFacts { has_control_node: true, ..wake };
        let status = |status, facts: StepFacts| StepFacts { status, ..facts };
        let table = [
            (StepFacts { has_failed: true, ..rests }, StepOutcome::End(EndBy::Failure)),
            (
                StepFacts { has_failed: true, is_to_end: true, ..status(StatusKind::Over, rests) },
                StepOutcome::End(EndBy::Failure),
            ),
            (status(StatusKind::Over, rests), StepOutcome::End(EndBy::Status)),
            (StepFacts { is_to_end: true, ..status(StatusKind::Over, node) }, StepOutcome::End(EndBy::Status)),
            (StepFacts { is_to_end: true, ..node }, StepOutcome::End(EndBy::Request)),
            (StepFacts { is_to_end: true, ..status(StatusKind::Upgrade, rests) }, StepOutcome::End(EndBy::Request)),
            (status(StatusKind::Upgrade, node), StepOutcome::Upgrade),
            (status(StatusKind::Continue, rests), StepOutcome::Requeue),
            (status(StatusKind::Continue, node), StepOutcome::Requeue),
            (rests, StepOutcome::ParkIdle),
            (message, StepOutcome::Again),
            (wake, StepOutcome::Again),
            (StepFacts { is_spent: true, ..message }, StepOutcome::Requeue),
            // A step that takes none of its input must not run again immediately, over and over.
            (StepFacts { has_taken: false, ..message }, StepOutcome::Requeue),
            (status(StatusKind::Suspended, rests), StepOutcome::ParkWaiting),
            (status(StatusKind::Suspended, message), StepOutcome::ParkWaiting),
            (status(StatusKind::Suspended, wake), StepOutcome::Again),
            (StepFacts { is_spent: true, ..status(StatusKind::Suspended, wake) }, StepOutcome::Requeue),
            (status(StatusKind::Waiting, rests), StepOutcome::End(EndBy::NoYields)),
            (StepFacts { has_yields: true, ..status(StatusKind::Waiting, message) }, StepOutcome::ParkForYields),
            (StepFacts { has_yields: true, ..status(StatusKind::Waiting, wake) }, StepOutcome::ParkForYields),
            (StepFacts { has_yields: true, ..status(StatusKind::Waiting, node) }, StepOutcome::Again),
        ];
        for (facts, outcome) in table {
            assert_eq!(facts.outcome(), outcome, "{facts:?}");
        }
    }

    /// Catches: a shortcut whose effect on the process differs from that of the full decision.
    #[test]
    fn simple_steps_are_followed_by_the_same() {
        let simple = |facts: &StepFacts| facts.has_taken && !facts.has_failed && !facts.is_to_end;
        for facts in all().filter(simple) {
            if let Some(outcome) = rests_simply(facts.status) {
                assert_eq!(effect(&facts, outcome), effect(&facts, facts.outcome()), "{facts:?}");
            }
        }
    }

    /// Catches: a process that is parked although it has input, runs forever on input that it does not take, or ends
    /// without a reason.
    #[test]
    fn what_holds_of_each_outcome() {
        for facts in all() {
            let outcome = facts.outcome();
            assert_eq!(effect(&facts, outcome), outcome, "it is not parked with input: {facts:?}");
            if outcome == StepOutcome::Again {
                assert!(facts.has_taken && !facts.is_spent, "{facts:?}");
            }
            let is_ended = matches!(outcome, StepOutcome::End(_));
            let has_reason = facts.has_failed
                || facts.is_to_end
                || facts.status == StatusKind::Over
                || facts.status == StatusKind::Waiting && !facts.has_yields;
            assert_eq!(is_ended, has_reason, "{facts:?}");
        }
    }
}
