use postroom::prelude::*;

type Result<T> = std::result::Result<T, String>;

#[process]
struct Desk;

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn stamp(&mut self) -> Result<()> {
        Err("no ink".to_string())
    }

    #[message]
    fn later(&mut self, reply: Reply<Result<u32>>) {
        reply.send(Ok(1));
    }
}

#[protocol]
trait Stamps {
    fn stamp_all(&mut self) -> Result<u32>;
}

