use postroom::prelude::*;

trait Storage {
    fn get(&self) -> usize;
}

fn aim(disk: Address<dyn Storage>) {
    let _ = disk;
}

fn main() {}
