use postroom::prelude::*;

type Outcome<T> = Result<T, String>;

#[process]
struct Desk;

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn stamp(&mut self) -> Outcome<()> {
        Err("no ink".to_string())
    }

    #[message]
    fn later(&mut self, reply: Reply<Outcome<u32>>) {
        reply.send(Ok(1));
    }
}

#[protocol]
trait Stamps {
    fn stamp_all(&mut self) -> Outcome<u32>;
}

fn main() {}
