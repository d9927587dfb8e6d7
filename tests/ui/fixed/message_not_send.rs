use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn wait(&mut self) {
        let shared = std::sync::Arc::new(1);
        std::future::ready(()).await;
        let _ = shared;
    }
}

fn main() {}
