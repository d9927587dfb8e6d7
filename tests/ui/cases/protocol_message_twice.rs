use postroom::prelude::*;

struct Tick;

#[protocol]
trait Storage {
    #[message(Tick)]
    fn one(&mut self, tick: Tick);
    #[message(Tick)]
    fn two(&mut self, tick: Tick);
}

fn main() {}
