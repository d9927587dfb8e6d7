use postroom::prelude::*;

#[process(skip_abandoned = "late")]
struct Desk;

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
