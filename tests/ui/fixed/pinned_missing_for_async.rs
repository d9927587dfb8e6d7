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
    async fn title(&mut self) -> String {
        std::future::ready(()).await;
        self.title.to_string()
    }
}

fn main() {}
