use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, amount: i64, ctx: &mut Context<Self>) {
        let _ = (amount, ctx);
    }
}

fn main() {}
