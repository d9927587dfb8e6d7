use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get(&self, key: String) -> usize;
    fn put(&mut self, key: String, value: u32);
}

#[process]
struct Disk;

#[process(protocols(Storage))]
impl Disk {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
