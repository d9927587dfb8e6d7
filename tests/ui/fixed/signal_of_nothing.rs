use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn on_cancel(&mut self, cancel: Cancel) {
        let _ = cancel;
    }
}

fn main() {}
