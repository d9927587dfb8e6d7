use postroom::prelude::*;

#[process]
union Job {
    small: u8,
    large: u64,
}

fn main() {}
