use postroom::prelude::*;
use postroom::future::ReplyStream;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>, ticks: ReplyStream<Tick>) {
        ctx.attach(ticks);
    }

    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }

    #[message(Tick)]
    fn tick(&mut self, message: Tick) {
        let _ = message;
    }
}

fn main() {}
