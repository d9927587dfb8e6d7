use postroom::prelude::*;

#[process]
struct Job<'a> {
    name: &'a str,
}

#[process]
impl<'a> Job<'a> {
    #[entry]
    fn serve(&mut self) {
        let _ = &self.name;
    }
}

fn main() {}
