use postroom::prelude::*;

struct Tock;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }

    #[message(Tock)]
    fn tock(&mut self, message: Tock) {
        let _ = message;
    }
}

pub fn aim(job: Address<Job>) {
    let _ = job.narrow::<Recipient<Tock>>();
}

fn main() {}
