use postroom::prelude::*;

#[process(pinned = true)]
struct Window;

#[process]
impl Window {
    #[entry]
    fn open(&mut self) {}
}

fn main() {}
