use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    async fn serve(&mut self) -> i64 {
        panic!()
    }
}

fn main() {}
