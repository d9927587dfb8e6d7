#[postroom::test]
struct Adds;

fn main() {}
