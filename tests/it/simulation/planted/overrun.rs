use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

/// Number of entries that the log keeps.
const KEPT: u32 = 24;

#[process]
#[derive(Default)]
struct Ring {
    written: u32,
    /// The reader that waits for the next entry.
    waiting: Option<Reply<u32>>,
}

#[process]
impl Ring {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn write(&mut self) {
        self.written += 1;
        if let Some(reply) = self.waiting.take() {
            reply.send(self.written - 1);
        }
    }
    /// Returns the number of the first remaining entry at or after `from`. Waits until there is one.
    #[message]
    fn read(&mut self, from: u32, reply: Reply<u32>) {
        let first = from.max(self.written.saturating_sub(KEPT));
        if first < self.written { reply.send(first) } else { self.waiting = Some(reply) }
    }
}

#[process]
struct Writer {
    ring: Address<Ring>,
}

#[process]
impl Writer {
    #[entry]
    async fn write(&mut self) -> Result<(), CallError> {
        for _ in 0..2 * KEPT {
            self.ring.write().await?;
        }
        Ok(())
    }
}

#[process]
struct Copier {
    ring: Address<Ring>,
}

#[process]
impl Copier {
    /// Copies one entry after the other. Returns two numbers: the entries that were written, and the entries that this
    /// process has copied or knows to be missing.
    #[entry]
    async fn copy(&mut self, version: Version) -> Result<(u32, u32), CallError> {
        let (mut next, mut copied, mut missing) = (0, 0, 0);
        while next < KEPT {
            let entry = self.ring.read(next).await?;
            if !version.is_wrong() {
                missing += entry - next;
            }
            copied += 1;
            next = entry + 1;
        }
        Ok((next, copied + missing))
    }
}

pub fn run(sim: &Sim, version: Version) {
    let ring = sim.spawn(Ring::default()).serve().expect("it starts");
    let writer = sim.spawn(Writer { ring }).write().expect("it starts");
    let copier = sim.spawn(Copier { ring }).copy(version).expect("it starts");
    writer.wait().expect("it ends");
    let (end, known) = copier.wait().expect("it ends");
    assert_eq!(known, end, "entries are missing, and it is not noticed");
}
