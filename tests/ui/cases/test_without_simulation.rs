#[postroom::test]
fn adds() {}

fn main() {}
