use postroom::prelude::*;

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

pub fn add(job: Address<Job>) {
    let _ = job.add(1);
}

fn main() {}
