use postroom::test::Sim;

#[postroom::test]
fn adds(_sim: Sim, _other: Sim) {}

fn main() {}
