use postroom::prelude::*;

struct Job;

impl Job {
    #[signal]
    fn on_cancel(&mut self, cancel: Cancel) {
        let _ = cancel;
    }
}

fn main() {}
