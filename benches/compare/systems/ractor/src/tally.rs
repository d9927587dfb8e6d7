//! An actor that adds up the reports of the others at the end.

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::finish::Finish;

/// An actor that adds up the reports of a number of processes.
pub struct Tally;

pub struct TallyState {
    missing: u64,
    sum: u64,
    finish: Option<Finish>,
}

impl TallyState {
    /// Returns the state of an actor that waits for `reports` reports.
    pub fn of(reports: u64, finish: Finish) -> Self {
        Self { missing: reports, sum: 0, finish: Some(finish) }
    }
}

/// The count of a process.
pub struct Report(pub u64);

impl Actor for Tally {
    type Msg = Report;
    type State = TallyState;
    type Arguments = TallyState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Report>,
        Report(count): Report,
        state: &mut TallyState,
    ) -> Result<(), ActorProcessingErr> {
        state.sum += count;
        state.missing -= 1;
        if state.missing == 0 {
            state.finish.take().expect("a tally should finish once").with(state.sum);
        }
        Ok(())
    }
}
