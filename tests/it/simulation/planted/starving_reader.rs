use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;
use std::collections::VecDeque;

/// A lock for several writers and one reader.
#[process]
struct Lock {
    version: Version,
    is_held: bool,
    /// The waiting users, and whether each of them writes.
    waiting: VecDeque<(bool, Reply<()>)>,
    /// Number of writers that got the lock while the reader waited.
    overtook: u32,
}

#[process]
impl Lock {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn acquire(&mut self, writes: bool, reply: Reply<()>) {
        self.waiting.push_back((writes, reply));
        self.grant();
    }
    #[message]
    fn release(&mut self) {
        self.is_held = false;
        self.grant();
    }
    #[message]
    fn overtook(&mut self) -> u32 {
        self.overtook
    }
}

impl Lock {
    fn grant(&mut self) {
        if self.is_held {
            return;
        }
        let writer = self.waiting.iter().position(|(writes, _)| *writes);
        let next = if self.version.is_wrong() { writer.unwrap_or(0) } else { 0 };
        let Some((writes, reply)) = self.waiting.remove(next) else { return };
        self.overtook += u32::from(writes && self.waiting.iter().take(next).any(|(writes, _)| !writes));
        self.is_held = true;
        reply.send(());
    }
}

#[process]
struct User {
    lock: Address<Lock>,
}

#[process]
impl User {
    #[entry]
    async fn lock(&mut self, writes: bool, times: u32) -> Result<(), ProcessError> {
        for _ in 0..times {
            self.lock.acquire(writes).await?;
            self.lock.release().send()?;
        }
        Ok(())
    }
}

pub fn run(sim: &Sim, version: Version) {
    let lock = Lock { version, is_held: false, waiting: VecDeque::new(), overtook: 0 };
    let lock = sim.spawn(lock).serve().expect("it starts");
    let users = [(true, 6), (true, 6), (false, 1)];
    let users = users.map(|(writes, times)| sim.spawn(User { lock }).lock(writes, times).expect("it starts"));
    for user in users {
        user.wait().expect("it ends");
    }
    let overtook = lock.overtook().wait().expect("it lives");
    assert!(overtook < 5, "{overtook} writers that came later got the lock before the reader");
}
