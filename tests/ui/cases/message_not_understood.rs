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
}

pub fn aim(job: Address<Job>) {
    let _ = job.narrow::<Recipient<Tock>>();
}

fn main() {}
