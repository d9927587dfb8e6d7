use postroom::prelude::*;

#[process]
struct Desk;

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn note(&mut self) {}
}

fn narrow(desk: Address<Desk>) {
    desk.narrow::<Recipient<DeskNote>>();
}

fn main() {}
