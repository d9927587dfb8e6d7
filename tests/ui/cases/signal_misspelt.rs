use postroom::prelude::*;

struct Cancle;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn on_cancel(&mut self, cancel: Cancle) {
        let _ = cancel;
    }
}

fn main() {}
