use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn on_cancel(&mut self, cancel: Cancel) -> i64 {
        let _ = cancel;
        panic!()
    }
}

fn main() {}
