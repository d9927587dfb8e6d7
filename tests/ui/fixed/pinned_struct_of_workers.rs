use postroom::prelude::*;
use std::rc::Rc;

#[process(pinned)]
struct Window {
    title: Rc<str>,
}

#[process]
impl Window {
    #[entry]
    fn open(&mut self) {}

    #[message]
    fn title(&self) -> String {
        self.title.to_string()
    }
}

fn start(runtime: &Runtime) {
    let _ = runtime.spawn_pinned(|| Window { title: "Log".into() }).open();
}

fn main() {}
