use postroom::prelude::*;

struct Tick;

#[process(on_eror = "end")]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    const fn rename(self, _name: &str, _: u8) {}

    #[message]
    fn find(&mut self, name: impl Into<String>) -> &str {
        let _: String = name.into();
        panic!()
    }

    #[entry]
    fn linked(&self) {}

    #[signal]
    fn on_tick(&mut self, tick: Tick) -> u8 {
        let _ = tick;
        panic!()
    }
}

pub fn find(job: Address<Job>) {
    let _ = job.find(String::new());
}

fn main() {}
