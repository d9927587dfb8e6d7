use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
struct Database {
    connections: u32,
}

#[process]
impl Database {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn connect(&mut self) {
        self.connections += 1;
    }
    #[message]
    fn disconnect(&mut self) {
        self.connections -= 1;
    }
    #[message]
    fn connections(&mut self) -> u32 {
        self.connections
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stopped,
    Starting,
    Running,
    /// The process was stopped while it was starting.
    Stopping,
}

#[process]
struct Service {
    version: Version,
    database: Address<Database>,
    phase: Phase,
}

#[process]
impl Service {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn start(&mut self, ctx: &mut Context<Self>) {
        self.phase = Phase::Starting;
        ctx.call(self.database.connect()).then(|this, connected, _| {
            connected.expect("the database lives");
            if this.phase == Phase::Stopping {
                this.disconnect();
            } else {
                this.phase = Phase::Running;
            }
        });
    }
    #[message]
    fn stop(&mut self) {
        match self.phase {
            Phase::Running => self.disconnect(),
            Phase::Starting if !self.version.is_wrong() => self.phase = Phase::Stopping,
            // No connection has been opened.
            Phase::Starting | Phase::Stopping | Phase::Stopped => {}
        }
    }
}

impl Service {
    fn disconnect(&mut self) {
        self.phase = Phase::Stopped;
        self.database.disconnect().send().expect("the database lives");
    }
}

pub fn run(sim: &Sim, version: Version) {
    let database = sim.spawn(Database { connections: 0 }).serve().expect("it starts");
    let service = Service { version, database, phase: Phase::Stopped };
    let service = sim.spawn(service).serve().expect("it starts");
    service.start().wait().expect("it lives");
    service.stop().wait().expect("it lives");
    sim.until_idle().expect("the test is no process");
    assert_eq!(database.connections().wait(), Ok(0));
}
