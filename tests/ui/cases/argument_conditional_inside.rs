use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self, #[cfg_attr(all(), cfg(any()))] hours: u64) {
        let _ = hours;
    }
}

fn main() {}
