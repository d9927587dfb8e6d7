use postroom::prelude::*;

#[process]
struct Desk;

#[process(skip_abandoned)]
impl Desk {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
