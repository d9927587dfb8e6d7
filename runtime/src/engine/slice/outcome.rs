//! What follows a step: a pure function of what the step has left.
//!
//! Steps that need nothing rare do not ask it: [`rests_simply`] says what follows those, with fewer questions, and a
//! test checks that it is the same.

use crate::process::output::StepStatus;

/// What a step has written, without the values.
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

/// What a step has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepFacts {
    pub(super) status: StatusKind,
    /// It returned an error or panicked.
    pub(super) has_failed: bool,
    /// The process was killed, or asked to stop and has not taken that.
    pub(super) is_to_end: bool,
    /// It was given something, and took some of it.
    pub(super) has_taken: bool,
    /// The time slice is over.
    pub(super) is_spent: bool,
    /// There is something in the control lane, or left from there: a node, or only a wake.
    pub(super) has_control: bool,
    pub(super) has_control_node: bool,
    /// There are messages or notices.
    pub(super) has_messages: bool,
    /// Completions for its yields will come.
    pub(super) has_yields: bool,
}

/// What follows a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Another step in this time slice: there is input, and budget.
    Again,
    /// Others run first.
    Requeue,
    ParkIdle,
    ParkWaiting,
    /// Park; a wake is no reason for another step: the process waits for its yields.
    ParkForYields,
    /// The process becomes the one that it has asked for.
    Upgrade,
    End(EndBy),
}

/// Who says why a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndBy {
    /// The error or the panic of the step.
    Failure,
    /// What the step wrote.
    Status,
    /// Who has killed or stopped it.
    Request,
    /// It waits for yields, and has none.
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

/// What follows a step that has taken something, and left nothing that it was given, no yields and no rare state;
/// `None` if [`StepFacts::outcome`] must say so. Where something has arrived meanwhile, parking the token returns it,
/// and the time slice continues while its budget lasts.
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

    /// All that a step can leave.
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

    /// What becomes of the process: one with input for which it is parked is not parked.
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

    /// The table, in the order in which its rows are looked at.
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
            // A step that takes nothing of what it is given must not run again at once, for ever.
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

    /// Catches: a short cut after which something else becomes of the process.
    #[test]
    fn simple_steps_are_followed_by_the_same() {
        let simple = |facts: &StepFacts| facts.has_taken && !facts.has_failed && !facts.is_to_end;
        for facts in all().filter(simple) {
            if let Some(outcome) = rests_simply(facts.status) {
                assert_eq!(effect(&facts, outcome), effect(&facts, facts.outcome()), "{facts:?}");
            }
        }
    }

    /// Catches: a process that is parked although there is something for it, runs for ever on what it does not take, or
    /// ends without a reason.
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
