use postroom::test::Sim;

#[postroom::test]
fn adds<T>(_sim: Sim) {}

fn main() {}
