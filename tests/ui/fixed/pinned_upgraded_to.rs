use postroom::prelude::*;

#[process]
struct Report;

#[process]
impl Report {
    #[entry]
    fn open(&mut self) {}
}

#[process]
struct Window;

#[process]
impl Window {
    #[entry]
    fn open(&mut self) {}
}

fn start(report: Address<Report>) {
    let _ = report.pid().upgrade(|_: Report| Window).wait();
}

fn main() {}
