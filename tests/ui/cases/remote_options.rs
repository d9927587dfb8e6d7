use postroom::prelude::*;

#[process]
struct Account;

#[process(remote = true)]
impl Account {
    #[entry(named)]
    fn serve(&mut self) {}

    #[message]
    fn many(&self, replies: Replies<i64>) {
        let _ = replies.send(1);
    }

    #[message(codec = "json")]
    fn codec(&self) {}

    #[message(nam = "bank.name")]
    fn name(&self) {}

    #[message(name = "")]
    fn empty(&self) {}

    #[message(local = true)]
    fn local(&self) {}

    #[message(local, name = "bank.both")]
    fn both(&self) {}
}

#[process]
struct Plain;

#[process]
impl Plain {
    #[entry]
    fn serve(&mut self) {}

    #[message(name = "bank.plain")]
    fn name(&self) {}

    #[message(u32, local)]
    fn local(&self, _number: u32) {}
}

fn main() {}
