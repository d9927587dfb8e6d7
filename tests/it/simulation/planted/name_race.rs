use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
struct Log {
    lines: u32,
}

#[process]
impl Log {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn write(&mut self) -> u32 {
        self.lines += 1;
        self.lines
    }
}

/// The configuration, which a writer reads before it starts the log.
#[process]
struct Configuration;

#[process]
impl Configuration {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn name(&mut self) -> &'static str {
        "log"
    }
}

#[process]
struct Writer {
    configuration: Address<Configuration>,
}

#[process]
impl Writer {
    #[entry]
    async fn write(&mut self, ctx: &mut Context<Self>, version: Version) -> Result<(), ProcessError> {
        let log = if version.is_wrong() {
            match ctx.host().expect("it has one").whereis_as::<Log>("log") {
                Ok(log) => log,
                Err(_) => {
                    let name = self.configuration.name().await?;
                    ctx.spawn(Log { lines: 0 }).named(name).serve()?
                }
            }
        } else {
            let name = self.configuration.name().await?;
            ctx.spawn(Log { lines: 0 }).named(name).or_existing().serve()?
        };
        log.write().await?;
        Ok(())
    }
}

pub fn run(sim: &Sim, version: Version) {
    let configuration = sim.spawn(Configuration).serve().expect("it starts");
    let writers = [(); 2].map(|()| sim.spawn(Writer { configuration }).write(version).expect("it starts"));
    for writer in writers {
        writer.wait().expect("it ends");
    }
}
