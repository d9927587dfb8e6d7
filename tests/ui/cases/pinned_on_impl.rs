use postroom::prelude::*;

#[process]
struct Window;

#[process(pinned)]
impl Window {
    #[entry]
    fn open(&mut self) {}
}

fn main() {}
