use postroom::prelude::*;

#[process(pinned)]
struct Window;

#[process]
impl Window {
    #[entry]
    fn open(&mut self) {}
}

fn main() {}
