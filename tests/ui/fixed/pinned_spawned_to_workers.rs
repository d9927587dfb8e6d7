use postroom::prelude::*;

#[process(pinned)]
struct Window;

#[process]
impl Window {
    #[entry]
    fn open(&mut self) {}
}

fn start(runtime: &Runtime) {
    let _ = runtime.spawn_pinned(|| Window).open();
}

fn main() {}
