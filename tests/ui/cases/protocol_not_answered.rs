use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get(&self, key: String) -> usize;
    fn put(&mut self, key: String, value: u32);
}

#[process]
struct Disk;

#[process]
impl Disk {
    #[entry]
    fn serve(&mut self) {}
}

fn aim(disk: Address<Disk>) {
    let _ = disk.narrow::<Address<dyn Storage>>();
}

fn main() {}
