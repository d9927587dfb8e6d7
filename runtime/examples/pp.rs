use postroom::prelude::*;
#[process]
struct Player { done: Option<Pid> }
#[process]
impl Player {
    #[entry]
    fn serve(&mut self, done: Option<Pid>) { self.done = done; }
    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, from: Address<Player>, left: u64) {
        match left {
            0 => drop(Recipient::<()>::of(self.done.unwrap()).send(())),
            _ => drop(from.ball(ctx.address(), left - 1).send()),
        }
    }
}
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(200000);
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let mut mailbox = postroom::Mailbox::new().unwrap();
    let one = runtime.spawn(Player { done: None }).serve(Some(mailbox.pid())).unwrap();
    let other = runtime.spawn(Player { done: None }).serve(Some(mailbox.pid())).unwrap();
    let t = std::time::Instant::now();
    one.ball(other, n).send().unwrap();
    drop(mailbox.receive().take::<()>());
    eprintln!("{:.1} ns", t.elapsed().as_nanos() as f64 / n as f64);
}
