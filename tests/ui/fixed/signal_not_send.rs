use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    async fn on_cancel(&mut self, cancel: Cancel) {
        let _ = cancel;
        let shared = std::sync::Arc::new(1);
        std::future::ready(()).await;
        let _ = shared;
    }
}

fn main() {}
