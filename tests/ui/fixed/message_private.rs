use postroom::prelude::*;

mod job {
    use postroom::prelude::*;

    #[process]
    pub struct Job;

    #[process]
    impl Job {
        #[entry]
        pub fn serve(&mut self) {}

        #[message]
        pub fn add(&mut self, amount: i64) {
            let _ = amount;
        }
    }
}

pub fn add(job: Address<job::Job>) {
    let _ = job.add(1);
}

fn main() {}
