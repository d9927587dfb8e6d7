use postroom::prelude::*;

#[process]
enum Job {
    #[process]
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
