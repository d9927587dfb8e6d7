use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    async fn run(&mut self) {
        let shared = std::sync::Arc::new(1);
        std::future::ready(()).await;
        let _ = shared;
    }
}

fn main() {}
