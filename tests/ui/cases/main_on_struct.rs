#[postroom::main]
struct Job;

fn main() {}
