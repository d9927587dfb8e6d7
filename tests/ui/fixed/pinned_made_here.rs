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
}
fn start(runtime: &Runtime) {
    let _ = runtime.spawn_pinned(|| Window { title: "Log".into() }).open();
}
fn main() {}
