use postroom::prelude::*;
use std::rc::Rc;

#[process]
struct Cache {
    pages: Rc<Vec<String>>,
}

#[process]
impl Cache {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&self) -> usize {
        self.pages.len()
    }
}

fn start(runtime: &Runtime) -> Result<Address<Cache>, SpawnError> {
    runtime.spawn(Cache { pages: Rc::default() }).serve()
}

fn main() {}
