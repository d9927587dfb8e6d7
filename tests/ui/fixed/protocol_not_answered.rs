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

#[process]
impl Storage for Disk {
    fn get(&self, key: String) -> usize {
        key.len()
    }

    fn put(&mut self, key: String, value: u32) {
        let _ = (key, value);
    }
}

fn aim(disk: Address<Disk>) {
    let _ = disk.narrow::<Address<dyn Storage>>();
}

fn main() {}
