use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
#[derive(Default)]
struct Shelf {
    items: u32,
    waiting: Vec<Reply<()>>,
}

#[process]
impl Shelf {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn is_empty(&mut self) -> bool {
        self.items == 0
    }
    /// Answers when the next item arrives.
    #[message]
    fn changed(&mut self, reply: Reply<()>) {
        self.waiting.push(reply);
    }
    /// Answers when there is an item.
    #[message]
    fn filled(&mut self, reply: Reply<()>) {
        if self.items > 0 { reply.send(()) } else { self.waiting.push(reply) }
    }
    #[message]
    fn put(&mut self) {
        self.items += 1;
        self.waiting.drain(..).for_each(|reply| reply.send(()));
    }
}

#[process]
struct Clerk {
    shelf: Address<Shelf>,
}

#[process]
impl Clerk {
    #[entry]
    async fn wait_for_items(&mut self, version: Version) -> Result<(), CallError> {
        if version.is_wrong() {
            if self.shelf.is_empty().await? {
                self.shelf.changed().await?;
            }
            Ok(())
        } else {
            self.shelf.filled().await
        }
    }
    #[entry]
    async fn put(&mut self) -> Result<(), CallError> {
        self.shelf.put().await
    }
}

pub fn run(sim: &Sim, version: Version) {
    let shelf = sim.spawn(Shelf::default()).serve().expect("it starts");
    let waits = sim.spawn(Clerk { shelf }).wait_for_items(version).expect("it starts");
    let puts = sim.spawn(Clerk { shelf }).put().expect("it starts");
    puts.wait().expect("it ends");
    waits.wait().expect("it ends");
}
