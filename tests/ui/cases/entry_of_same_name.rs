use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn serve(&mut self, opening: i64) {
        let _ = opening;
    }
}

fn main() {}
