use postroom::prelude::*;

#[process(skip_abandoned)]
struct Desk;

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
