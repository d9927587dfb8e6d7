use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn rename(&mut self, name: impl Into<String>) {
        let _: String = name.into();
    }
}

fn main() {}
