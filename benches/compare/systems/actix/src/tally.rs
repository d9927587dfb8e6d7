//! An actor that adds up the reports of the others at the end.

use ::actix::prelude::*;

use super::finish::Finish;

/// An actor that adds up the reports of a number of processes.
pub struct Tally {
    missing: u64,
    sum: u64,
    finish: Option<Finish>,
}

impl Tally {
    /// Returns an actor that waits for `reports` reports.
    pub fn of(reports: u64, finish: Finish) -> Self {
        Self { missing: reports, sum: 0, finish: Some(finish) }
    }
}

impl Actor for Tally {
    type Context = Context<Self>;
}

/// The count of a process.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Report(pub u64);

impl Handler<Report> for Tally {
    type Result = ();

    fn handle(&mut self, Report(count): Report, _: &mut Context<Self>) {
        self.sum += count;
        self.missing -= 1;
        if self.missing == 0 {
            self.finish.take().expect("a tally should finish once").with(self.sum);
        }
    }
}
