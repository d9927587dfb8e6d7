use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    async fn name(&mut self) -> &str {
        panic!()
    }
}

fn main() {}
