use postroom::prelude::*;

#[process]
enum Job {
    Idle,
}

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {
        *self = Job::Idle;
    }
}

fn main() {}
