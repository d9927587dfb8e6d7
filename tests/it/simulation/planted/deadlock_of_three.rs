use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
#[derive(Default)]
struct Fork {
    is_taken: bool,
    waiting: Vec<Reply<()>>,
}

#[process]
impl Fork {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn take(&mut self, reply: Reply<()>) {
        if self.is_taken {
            self.waiting.push(reply);
        } else {
            self.is_taken = true;
            reply.send(());
        }
    }
    #[message]
    fn put_back(&mut self) {
        match self.waiting.pop() {
            Some(next) => next.send(()),
            None => self.is_taken = false,
        }
    }
}

#[process]
struct Philosopher {
    forks: [Address<Fork>; 2],
}

#[process]
impl Philosopher {
    #[entry]
    async fn eat(&mut self) -> Result<(), CallError> {
        for fork in self.forks {
            fork.take().await?;
        }
        for fork in self.forks {
            fork.put_back().await?;
        }
        Ok(())
    }
}

pub fn run(sim: &Sim, version: Version) {
    let forks = [(); 3].map(|()| sim.spawn(Fork::default()).serve().expect("it starts"));
    let mut pairs = [[forks[0], forks[1]], [forks[1], forks[2]], [forks[2], forks[0]]];
    if !version.is_wrong() {
        // All philosophers take shared forks in the same order.
        pairs[2].reverse();
    }
    let philosophers = pairs.map(|forks| sim.spawn(Philosopher { forks }).eat().expect("it starts"));
    for philosopher in philosophers {
        philosopher.wait().expect("it ends");
    }
}
